//! Files: profiles as `.npz` ([`npz`]), and the matrices of other tools ([`import`]).

pub mod import;
pub mod npz;
