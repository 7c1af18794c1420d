//! The fuzz targets, one module each. A target is a function that tests the program with one input (any bytes). The
//! targets do not depend on libFuzzer, so that other programs can run them with inputs too.

pub mod bytes;
pub mod captures;
pub mod command_lines;
pub mod control;
pub mod model;
pub mod orders;
pub mod pages;
pub mod plans;
pub mod points;
pub mod records;
pub mod sim;

/// Tests the program with one input. It panics if the program is at fault.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also the name of its corpus (`fuzz/corpus/NAME`).
pub const TARGETS: [(&str, Target); 9] = [
    ("captures", captures::run),
    ("command_lines", command_lines::run),
    ("control", control::run),
    ("model", model::run),
    ("orders", orders::run),
    ("pages", pages::run),
    ("plans", plans::run),
    ("records", records::run),
    ("sim", sim::run),
];
