//! Sends frames through a forwarding device on schedule at one port, and accounts for each frame at the other port.
//!
//! Start at [`run::Bench`]: it makes [`run::Trial`]s over one or two [`Direction`]s. Sender and sink share a thread,
//! which reads between sends: on a machine with few CPUs a separate sink would take time from the sender or the device.
//!
//! | module | contents |
//! | --- | --- |
//! | [`frame`] | frames with run, stream, sequence number and send time; their flows and sizes, also of a capture |
//! | [`neighbours`] | answers ARP requests and neighbour solicitations for the addresses of the ports |
//! | [`account`] | what happened to each frame: lost, duplicated, reordered, corrupted, arrival time |
//! | [`stamps`] | timestamps that kernel or hardware put on the tagged frame |
//! | [`live`] | a trial by programs in the kernel, for higher loads than a ring reaches |
//! | [`run`] | a trial: pacing, the settle time, conditions that make it void |

pub mod account;
pub mod frame;
pub mod live;
pub mod neighbours;
pub mod run;
pub mod stamps;

pub use frame::{Profile, Sweep};
pub use netcliff_packets::port::{Receiver, Sender};
pub use run::{Direction, Trial, TrialReport};
