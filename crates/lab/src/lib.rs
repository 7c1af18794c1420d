//! The laboratory: calibrates the host, searches its cliff on three engines, keeps the records.
pub mod search;
pub mod stats;
pub mod store;
