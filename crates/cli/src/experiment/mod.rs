//! The papers' experiments: cells run and kept, a file each, and joined to tables and a page.

pub mod document;
pub mod figures;
pub mod files;
pub mod inputs;
pub mod page;
pub mod runner;
pub mod tables;
