//! How near this host is to its cliff now, where its limits are, and what tuning it changes.
//!
//! | module | holds |
//! | --- | --- |
//! | [`adapt`] | a device between interrupts and polling by its load |
//! | [`mod@headroom`] | how near this host is to its calibrated cliff now |
//! | [`limits`] | the roofline |
//! | [`monitor`] | counters and headroom for a monitoring system |
//! | [`tuning`] | what a tuning plan is expected to change, and the host measured with and without it in turns |

pub mod adapt;
pub mod headroom;
pub mod limits;
pub mod monitor;
pub mod tuning;
