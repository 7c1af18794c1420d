//! Results as text, HTML, SVG and CSV: pure functions from data to strings, which use no file, clock or terminal.
//!
//! Start with [`terminal::finding`], the output of `netcliff find -v`. It and [`html::finding`] render the same table,
//! which [`sheet`] computes. The figures of the HTML page are those of [`svg`], each drawn for wide screens and for
//! phones.
//!
//! | module | turns |
//! | --- | --- |
//! | [`terminal`] | a finding into the summary of `netcliff find`; experiments, rooflines and advice into their pages |
//! | [`html`] | a finding into one self-contained page |
//! | [`svg`] | findings, experiments and effects into pictures |
//! | [`table`] | records into terminal tables, for `results`, `predict` and `simulate` |
//! | [`mod@detail`] | output of a simulation besides its figures: queues, busy periods, series, differences |
//! | [`builds`] | a comparison into formats of build servers: JUnit, github-action-benchmark |
//! | [`claims`] | an experiment's marks into rows of the table of claims |
//! | [`metrics`] | counters and headroom into the text that a monitoring system scrapes |
//! | [`csv`] | records into CSV, a column a figure |
//! | [`sheet`] | a finding into rows of model / sim / measured, and figures that were not measured |
//! | [`drawing`] | an experiment and its answers: the figure that [`svg`], [`terminal`] and [`html`] draw |
//! | [`mod@format`] | numbers into three significant digits, units and intervals |

pub mod builds;
pub mod claims;
pub mod csv;
pub mod detail;
pub mod drawing;
pub mod format;
pub mod html;
pub mod metrics;
mod plot;
pub mod sheet;
pub mod svg;
pub mod table;
pub mod terminal;

pub use terminal::Style;
