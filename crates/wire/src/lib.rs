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
//!
//! # Transfers
//!
//! `wire::transfer`: an end of a flow has a thread, whose calls block (`end`), or several ends share one
//! (`together`, `turns`): sockets that do not block, epoll, turns of bounded length, a due time a flow where it is
//! paced. Both move bytes by the same `DataPath`s and count by the same `Meter`, whose `Ledger` divides a shared
//! thread's CPU time.
//!
//! Lines while it runs (`-i`): each end or flow stores how far it is in a cell of its own (`transfer::live`,
//! `rr::live`); the thread that opens and closes the windows reads the cells, and a thread of `cli` writes the
//! lines. No measuring thread makes a call for them.
//!
//! `--live`: `cli::live` queues events, at most so many, and a thread of its own writes them; nobody waits for a
//! reader. Messages (`output::say`) and the progress of each command are events.
//!
//! Several agents: `transfer::many` makes one transfer of all their flows. Far ends wait at `start` for a time that
//! the near end's watch tells when all have come (`Watch::gathered`), by each agent's clock (`common_clock`). `rr`
//! asks each agent in a thread of its own, from one time on (`rr::rendezvous`).
//!
//! Own traffic: `wire::replay` has a capture's times, sizes and flows; `frame::Templates` gives the frame of a
//! sequence number, `forward::order` of a forwarding test.
//!
//! Latency under load: `rr::probe` asks an answering end of `rr` beside the transfer, and looks at the queues;
//! `lab::stream::probe` sorts the requests by phase and names the queue that grew.
//!
//! # Two hosts
//!
//! `wire::control` is a session with an agent: tests by kind (`Kind`), and services for the time of the session
//! (`Service`): `wire::device` holds a device by `host::device` and sets it back when the session ends;
//! `wire::fingerprint` tells the far host's facts and those of the device that the data goes through, which
//! `lab::hosts` keeps beside this host's for `compare`. Agents advertise capabilities in their hello (`features`),
//! so that nothing is asked of an older one; the far host's exact meter (`far_meter`) runs beside a test.
//!
//! `find` between two hosts: `wire::source` is where frames come from, a generator here or, behind `wire::load`, one
//! elsewhere. `load::Carrier` carries its orders: a session with an agent (`--from`), or its reverse
//! (`load::reverse`): the agent runs `find` (`lab::find::far`), and its client (`lab::find::of`) takes the orders
//! with the reports and does them. `lab::rig::between` is the link; all after it is as in a testbed. Several
//! generators are one source (`load::Several`), each with a run id, a schedule and a window by its own clock; a sink
//! has a lane for each. Where the load reaches several queues there is a sink for each (`run::run_to`), on the port
//! that its flows go to; `rig::between::probe` finds these flows by what `host::nic::landing` counts. A generator
//! has a lease (`generator::Lease`) that its asker extends, and a limit, both kept by the loop that sends.
//! `host::firewall` walks nft's ruleset for the rule that drops a flow; `lab::account` sums up what generators and
//! device did.
//!
//! A data connection proves its test's token by a MAC that is good for one connection (`control::key`). Connections
//! that have not yet proved themselves are in one table by kind of port (`pending`, `control::connections`): when
//! there are too many, the source with most of them loses its oldest. All that a request may make an agent hold is
//! counted before it begins (`Kind::memory_bytes`, `control::memory`).

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
pub mod verdict;

pub use error::WireError;
pub use far_meter::FarCpu;
