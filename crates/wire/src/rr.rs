//! Request/response between two ends: latency, rate and cost of a transaction.
//!
//! The near end ([`near::run`]) sends requests, a [`server::Server`] answers. The server runs in this process (in
//! another network namespace or on loopback) or in an agent ([`server::RrKind`]). In a closed loop, each flow always
//! has `depth` requests under way. In an open loop, requests leave on a schedule and latency counts from the time each
//! was due, so that a slow answer also shows in the requests that it delayed.
//!
//! | module | holds |
//! | --- | --- |
//! | [`settings`] | the settings of a test, and their checks |
//! | [`near`] | the requesting end: flows, the measured window, its results |
//! | [`server`] | the answering end |
//! | `live` | interim reports: the transactions of each interval |
//! | [`probe`] | single requests during other traffic, and the queues on their path |
//! | [`report`] | the results |

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

/// Smallest response with timestamps: sequence number, arrival time of the request, and departure time of the response
/// (8 bytes each, little-endian, ns).
pub const STAMPED_BYTES: usize = 24;
