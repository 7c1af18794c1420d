//! Findings and records as text people read: pure functions from data to strings, no file, clock or terminal.
//!
//! Start with [`terminal::finding`], what `netcliff find` prints. It and [`html::finding`] are two renderings of one
//! table, computed once in [`sheet`]; the pictures of the page are those of [`svg`], drawn once for wide screens and
//! once for phones.
//!
//! | module | turns |
//! | --- | --- |
//! | [`terminal`] | a finding into the summary of `netcliff find`; experiments, rooflines and advice into their pages |
//! | [`html`] | a finding into one self-contained page |
//! | [`svg`] | findings, experiments and effects into pictures |
//! | [`table`] | records into terminal tables, for `results`, `predict` and `simulate` |
//! | [`mod@detail`] | what a simulation shows besides its figures: queues, busy periods, series, differences |
//! | [`builds`] | a comparison into what build servers read: JUnit, github-action-benchmark |
//! | [`claims`] | an experiment's marks into rows of the table of claims |
//! | [`metrics`] | counters and headroom into the text that a monitoring system scrapes |
//! | [`csv`] | records into CSV, a column a figure |
//! | [`sheet`] | a finding into rows of model / sim / measured, and what was not measured |
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
