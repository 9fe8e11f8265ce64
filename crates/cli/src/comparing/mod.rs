//! What `cohabit compare` and `cohabit tune` share: a program run in several ways, over and over, and what is said of
//! that.
//!
//! [`arms`] are the ways ([`candidates`] those that are worth trying), [`runner`] runs one of them once (by `cohabit
//! run`, as anybody would), [`session`] runs them block by block and keeps every run in a file ([`results`], [`kept`]),
//! [`cells`] are blocks that others run, [`outcome`] says what follows, and [`table`] and [`files`] write it down. The
//! statistics are `cohabit_evaluate::compare`'s.

pub mod args;
pub mod arms;
pub mod candidates;
pub mod cells;
pub mod files;
pub mod folder;
pub mod kept;
pub mod outcome;
pub mod results;
pub mod runner;
pub mod session;
pub mod table;
pub mod without;
