//! What the fuzz targets do with an input: a module each, so that a test of the workspace (`crates/cli/tests/corpora.rs`) can give
//! it the kept inputs without libFuzzer.

pub mod bytes;
pub mod captures;
pub mod command_lines;
pub mod orders;
pub mod plans;
pub mod records;

pub use bytes::Bytes;
