//! What the fuzz targets do with an input: a module each, apart from libFuzzer, so that other programs can give them inputs.

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

/// What a target does with one input.
pub type Target = fn(&[u8]);

/// Every target by its name, which is that of its corpus, too.
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
