//! Frames through a forwarding device: sent on schedule at one port, accounted for one by one at the other.
//!
//! Start at [`run::Bench`]: one [`run::Trial`] over one or two [`Direction`]s. Sender and sink share a thread, which
//! reads between sends: on a machine with few CPUs a separate sink would take time from the sender or the device.
//!
//! | module | holds |
//! | --- | --- |
//! | [`frame`] | frames that name run, stream, sequence and send time; their flows and sizes, also those of a capture |
//! | [`neighbours`] | answers ARP requests for the addresses of the ports |
//! | [`account`] | what happened to each frame: lost, duplicated, reordered, corrupted, arrival time |
//! | [`stamps`] | timestamps that kernel or hardware put on the tagged frame |
//! | [`live`] | a trial by programs in the kernel, for loads beyond a ring's |
//! | [`run`] | a trial: pacing, the settle time, what makes it void |

pub mod account;
pub mod frame;
pub mod live;
pub mod neighbours;
pub mod run;
pub mod stamps;

pub use frame::{Profile, Sweep};
pub use netcliff_packets::port::{Receiver, Sender};
pub use run::{Direction, Trial, TrialReport};
