//! Real packets: the two ends of an open-loop packet-load measurement.
//!
//! Start at [`run`](run::run): it makes one measurement with a [`generator`] and a [`sink`] over a measured window, and
//! accounts for every packet. The modules, from the wire upwards:
//!
//! | module | contents |
//! | --- | --- |
//! | [`frame`] | Ethernet + IPv4 + UDP frames whose 18-byte payload header has run, sequence number and intended send time |
//! | [`schedule`] | when each packet should leave, as offsets; reads no clock |
//! | [`interface`] | address and carrier of an interface, packet sockets on it |
//! | [`transmit`] | four methods of passing frames to the kernel, behind one trait |
//! | [`port`] | AF_PACKET and AF_XDP rings for frames of several flows and sizes, behind two traits |
//! | [`generator`] | the pinned thread that sends on schedule and reports its lateness and its highest rate |
//! | [`source`] | sources of frames: a generator in this process, or one on another host |
//! | [`tracker`] | loss, duplication and reordering by sequence number |
//! | [`sink`] | the pinned application thread that reads packets, measures their latency and works on them |
//! | [`replay`] | times, sizes and flows of a capture |
//! | [`clock`], [`thread`] | clocks that both ends share; CPU pinning, namespaces, CPU accounting |
//! | [`mod@error`] | errors here and on the channel to another host |
//!
//! Intended send times are nanoseconds of the sender's `CLOCK_MONOTONIC`. Times from one end to the other are measured
//! only if both ends share that clock.

pub mod clock;
pub mod error;
pub mod frame;
pub mod generator;
pub mod interface;
pub mod latency;
pub mod port;
pub mod replay;
pub mod run;
pub mod schedule;
pub mod sink;
pub mod sockopt;
pub mod source;
pub mod thread;
pub mod ticks;
pub mod tracker;
pub mod transmit;

pub use error::WireError;
