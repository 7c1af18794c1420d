//! Real packets: the two ends of an open-loop packet-load measurement.
//!
//! Start at [`run`](run::run): it drives one [`generator`] against one [`sink`] over a measured
//! window and accounts for every packet. Underneath, from the wire upwards:
//!
//! | module | holds |
//! | --- | --- |
//! | [`frame`] | Ethernet + IPv4 + UDP frames whose 18-byte payload header names run, sequence and intended send time |
//! | [`schedule`] | when each packet should leave, as offsets; no clock inside |
//! | [`transmit`] | four ways of handing frames to the kernel, behind one trait |
//! | [`generator`] | the pinned thread that sends on schedule and reports how well it did; its ceiling |
//! | [`source`], [`load`] | frames from a generator in this process, or from one in an agent |
//! | [`tracker`] | loss, duplication and reordering by sequence number |
//! | [`sink`] | the pinned application thread that reads, times and spends work on packets |
//! | [`forward`] | frames through a forwarding device, accounted for one by one |
//! | [`control`] | the channel between two hosts: a client has an agent run the far end of a test |
//! | [`device`] | changes to an agent's device for a client, if the agent's owner allows it |
//! | [`fingerprint`] | facts of an agent's host that explain differences between runs |
//! | [`replay`] | times, sizes and flows of a capture |
//! | [`common_clock`] | how an agent's clock differs from this host's |
//! | [`rr`] | request/response: latency, rate and cost of a transaction |
//! | [`scrape`] | a port that answers requests of a monitoring system, and nothing else |
//! | [`transfer`] | a bulk transfer between two threads (TCP, Unix socket, pipe), bytes and CPU at both ends |
//! | [`clock`], [`thread`] | clocks that both ends share; CPU pinning, namespaces, CPU accounting |
//!
//! Intended send times are nanoseconds of the sender's `CLOCK_MONOTONIC`. Times from one end to the other are measured
//! only if both ends share that clock.
//!
//! # Transfers
//!
//! `wire::transfer`: an end of a flow has its own thread with blocking calls (`end`), or several ends share a thread
//! (`together`, `turns`): non-blocking sockets, epoll, turns of bounded length, and a due time for each paced flow.
//! Both variants move bytes by the same `DataPath`s and count by the same `Meter`. The `Ledger` of the meter divides
//! the CPU time of a shared thread.
//!
//! Interim reports (`-i`): each end or flow stores its counts in a cell of its own (`transfer::live`, `rr::live`). The
//! thread that opens and closes the windows reads the cells, and a thread of `cli` writes the lines. The measuring
//! threads make no system call for them.
//!
//! `--live`: `cli::live` queues a bounded number of events, and a thread of its own writes them, so that nothing waits
//! for a slow reader. Messages (`output::say`) and the progress of each command are events.
//!
//! Several agents: `transfer::many` runs one transfer over the flows of all agents. Far ends wait at `start` for a
//! start time. The near end sends it once all have connected (`Watch::gathered`), in each agent's clock
//! (`common_clock`). `rr` queries each agent in a thread of its own, from a common start time on (`rr::rendezvous`).
//!
//! Replayed traffic: `wire::replay` holds the times, sizes and flows of a capture. `frame::Templates` gives the frame
//! of a sequence number, and `forward::order` does so in a forwarding test.
//!
//! Latency under load: `rr::probe` sends requests to an answering end of `rr` during a transfer, and reads the queue
//! lengths. `lab::stream::probe` sorts the requests by phase and names the queue that grew.
//!
//! # Two hosts
//!
//! `wire::control` is a session with an agent: tests by kind (`Kind`), and services for the duration of the session
//! (`Service`). `wire::device` changes a device by `host::device` and restores it when the session ends.
//! `wire::fingerprint` reports the facts of the far host and of the device that carries the data; `lab::hosts` stores
//! them with this host's for `compare`. Agents advertise capabilities in their hello (`features`), so that the client
//! requests nothing that an older agent lacks. The exact CPU meter of the far host (`far_meter`) runs during a test.
//!
//! `find` between two hosts: `wire::source` is where frames come from: a generator in this process or, behind
//! `wire::load`, one on another host. `load::Carrier` carries the requests to it: a session with an agent (`--from`),
//! or its reverse (`load::reverse`): the agent runs `find` (`lab::find::far`), and its client (`lab::find::of`) fetches
//! the commands with the reports and carries them out. `lab::rig::between` is the link; all later steps are those of a
//! testbed. Several generators are one source (`load::Several`), each with a run id, a schedule and a window by its own
//! clock; a sink has a lane for each. If the load reaches several queues there is a sink for each (`run::run_to`), on
//! the port of the queue's flows; `rig::between::probe` finds these flows by the counters of `host::nic::landing`. A
//! generator has a lease (`generator::Lease`) that the requesting end extends, and a rate limit; the loop that sends
//! enforces both. `host::firewall` walks nft's ruleset for the rule that drops a flow; `lab::account` sums up the
//! counters of generators and device.
//! device did.
//! A data connection proves its test's token by a MAC that is valid for one connection (`control::key`). Connections
//! that have not yet proved themselves wait in one table for each kind of port (`pending`, `control::connections`):
//! when there are too many, the source with most of them loses its oldest. The memory that a request makes an agent use
//! is reserved before the request starts (`Kind::memory_bytes`, `control::memory`).
//! counted before it begins (`Kind::memory_bytes`, `control::memory`).

// Supplies the Linux names that another system lacks; each call is refused there.
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
pub mod verdict;

pub use error::WireError;
pub use far_meter::FarCpu;
