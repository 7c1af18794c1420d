//! How near this host is to its cliff, where its limits are, and what tuning changes.
//!
//! | module | contents |
//! | --- | --- |
//! | [`adapt`] | switches a device between interrupts and polling by its load |
//! | [`mod@headroom`] | how near this host is to its calibrated cliff now |
//! | [`limits`] | the roofline |
//! | [`monitor`] | counters and headroom for a monitoring system |
//! | [`tuning`] | the predicted effects of a tuning plan, and measurements with and without it in turn |

pub mod adapt;
pub mod headroom;
pub mod limits;
pub mod monitor;
pub mod tuning;
