//! Request/response between two ends: how long a transaction takes, how many a second, and what one costs.
//!
//! The near end ([`near::run`]) sends requests, a [`server::Server`] answers; it runs in this process (in another network
//! namespace or on loopback) or in an agent ([`server::RrKind`]). Closed loop: each flow keeps `depth` requests under way.
//! Open loop: requests leave on a schedule and latency counts from the time each was due, so that a slow answer is not
//! hidden by the requests it held up.
//!
//! | module | holds |
//! | --- | --- |
//! | [`settings`] | what to do, checked |
//! | [`near`] | the requesting end: flows, the measured window, its results |
//! | [`server`] | the answering end |
//! | `live` | transactions of each interval while it runs |
//! | [`probe`] | single requests beside other traffic, and the queues on its way |
//! | [`report`] | what was measured |

mod closed;
mod connect;
mod flow;
mod live;
pub mod near;
mod open;
pub mod probe;
mod rendezvous;
pub mod report;
pub mod server;
pub mod settings;
mod socket;
#[cfg(test)]
mod tests;

pub use live::{Interval, Intervals};
pub use near::{Far, Near, OTHER_GAVE_UP, Target};
pub use rendezvous::Rendezvous;
pub use report::{AgentShare, Report, ServerCount, Together};
pub use server::{RrKind, Server};
pub use settings::{MOST_RATE_PER_S, Receive, Settings, Transport};

/// A response of at least this size holds the sequence number and the times of its request's arrival and its own
/// departure (8 bytes each, little-endian, ns).
pub const STAMPED_BYTES: usize = 24;
