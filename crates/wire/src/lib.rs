//! Real packets: the two ends of an open-loop packet-load measurement.
//!
//! Start at [`run`](run::run): it drives one [`generator`] against one [`sink`] over a measured
//! window and accounts for every packet. Underneath, from the wire upwards:
//!
//! | module | holds |
//! | --- | --- |
//! | [`frame`] | Ethernet + IPv4 + UDP frames whose 18-byte payload header names run, sequence and intended send time |
//! | [`schedule`] | when each packet should leave, as offsets; no clock inside |
//! | [`transmit`] | three ways of handing frames to the kernel, behind one trait |
//! | [`generator`] | the pinned thread that sends on schedule and reports how well it did; its ceiling |
//! | [`source`], [`load`] | frames from a generator here, or from one in an agent |
//! | [`tracker`] | loss, duplication and reordering by sequence number |
//! | [`sink`] | the pinned application thread that reads, times and spends work on packets |
//! | [`forward`] | frames through a forwarding device, accounted for one by one |
//! | [`control`] | the channel between two hosts: a client has an agent run the far end of a test |
//! | [`device`] | an agent's device, changed for a client where its owner allows it |
//! | [`fingerprint`] | facts of an agent's host that explain a difference to another run |
//! | [`replay`] | times, sizes and flows of a capture |
//! | [`common_clock`] | how an agent's clock differs from this host's |
//! | [`rr`] | request/response: latency, rate and cost of a transaction |
//! | [`scrape`] | a port that answers a monitoring system, and no other question |
//! | [`transfer`] | a bulk transfer between two threads (TCP, Unix socket, pipe), bytes and CPU at both ends |
//! | [`clock`], [`thread`] | clocks both ends share; CPU pinning, namespaces, CPU accounting |
//!
//! Intended send times are nanoseconds of the sender's `CLOCK_MONOTONIC`: times from one end to the other are measured where both ends
//! share that clock.

// Names of Linux that another system lacks, each refused there.
#[cfg(not(target_os = "linux"))]
extern crate netcliff_bsd as libc;
#[cfg(not(target_os = "linux"))]
extern crate netcliff_bsd as nix;

pub mod clock;
pub mod common_clock;
pub mod control;
pub mod device;
pub mod error;
mod far_meter;
pub mod fingerprint;
pub mod forward;
pub mod frame;
pub mod generator;
pub mod ground;
pub mod latency;
pub mod load;
#[cfg_attr(not(target_os = "linux"), path = "not_linux/messages.rs")]
mod messages;
pub mod pending;
pub mod replay;
pub mod rr;
pub mod run;
pub mod schedule;
pub mod scrape;
pub mod sink;
mod sockopt;
pub mod source;
pub mod thread;
mod ticks;
pub mod tracker;
pub mod transfer;
pub mod transmit;
pub mod void;

pub use error::WireError;
pub use far_meter::FarCpu;
