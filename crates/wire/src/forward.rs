//! Frames through a forwarding device: sent on schedule at one side, accounted for one by one at the other.
//!
//! Start at [`run::Bench`]: one [`run::Trial`] over one or two [`Direction`]s. Sender and sink share a thread, which
//! reads between sends: on a machine with few CPUs a sink of its own would take the sender's time or the device's.
//!
//! | module | holds |
//! | --- | --- |
//! | [`frame`] | frames that name run, stream, sequence and send time; flows over addresses and ports; sizes |
//! | [`neighbours`] | answers to who-has for the addresses of the ports |
//! | `order` | which of them comes when: sizes in turn, or a capture's |
//! | [`port`] | AF_PACKET and AF_XDP rings, behind two traits |
//! | [`account`] | what became of each frame: lost, duplicated, reordered, corrupted, when it came |
//! | [`stamps`] | times that kernel or hardware put on the tagged frame |
//! | [`run`] | a trial: pacing, the settle time, what makes it void |

pub mod account;
pub mod frame;
pub mod neighbours;
mod order;
pub mod port;
pub mod run;
pub mod stamps;

pub use frame::{Profile, Sweep};
pub use port::{Receiver, Sender};
pub use run::{Direction, Trial, TrialReport};
