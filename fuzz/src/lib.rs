//! What the fuzz targets do with an input: a module each, apart from libFuzzer, so that other programs can give them inputs.

pub mod bytes;
pub mod captures;
pub mod command_lines;
pub mod orders;
pub mod pages;
pub mod plans;
pub mod records;

pub use bytes::Bytes;
