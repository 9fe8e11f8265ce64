//! MPI ranks placed by the launcher that people already use: our mapping in its own syntax, beside what its command
//! line says ([`Given`]), and what the ranks should then see ([`Expected`]). The files are those of [`crate::export`].

mod compare;
mod given;
mod here;
mod hostfile;
mod launch;

#[cfg(test)]
mod tests;

pub use compare::{Difference, Expected, Seen, differences, threads_elsewhere};
pub use given::{Given, Host};
pub use here::{are_here, keep_allowed};
pub use launch::RankLaunch;
