//! Two hosts: the channel to an agent, and what an agent does for its client.
//!
//! | module | holds |
//! | --- | --- |
//! | [`control`] | the channel between two hosts: a client has an agent run the far end of a test |
//! | [`device`] | changes to an agent's device for a client, if the agent's owner allows it |
//! | [`fingerprint`] | facts of an agent's host that explain differences between runs |
//! | [`common_clock`] | how an agent's clock differs from this host's |
//! | [`load`] | load from generators on other hosts |
//! | [`ground`] | what else runs on an agent's CPUs |
//! | [`far_meter`] | the exact CPU meter of an agent's host |
//! | [`pending`] | connections that have not yet proved themselves |
//! | [`scrape`] | a port that answers requests of a monitoring system, and nothing else |//!
//! # Two hosts
//!
//! `remote::control` is a session with an agent: tests by kind (`Kind`), and services for the duration of the session
//! (`Service`). `remote::device` changes a device by `host::device` and restores it when the session ends.
//! `remote::fingerprint` reports the facts of the far host and of the device that carries the data; `transfer::hosts` stores
//! them with this host's for `compare`. Agents advertise capabilities in their hello (`features`), so that the client
//! requests nothing that an older agent lacks. The exact CPU meter of the far host (`far_meter`) runs during a test.
//!
//! `find` between two hosts: `packets::source` is where frames come from: a generator in this process or, behind
//! `remote::load`, one on another host. `load::Carrier` carries the requests to it: a session with an agent (`--from`),
//! or its reverse (`load::reverse`): the agent runs `find` (`find::far`), and its client (`find::of`) fetches
//! the commands with the reports and carries them out. `trial::rig::between` is the link; all later steps are those of a
//! testbed. Several generators are one source (`load::Several`), each with a run id, a schedule and a window by its own
//! clock; a sink has a lane for each. If the load reaches several queues there is a sink for each (`run::run_to`), on
//! the port of the queue's flows; `rig::between::probe` finds these flows by the counters of `host::nic::landing`. A
//! generator has a lease (`generator::Lease`) that the requesting end extends, and a rate limit; the loop that sends
//! enforces both. `host::firewall` walks nft's ruleset for the rule that drops a flow; `trial::account` sums up the
//! counters of generators and device.
//!
//! A data connection proves its test's token by a MAC that is valid for one connection (`control::key`). Connections
//! that have not yet proved themselves wait in one table for each kind of port (`pending`, `control::connections`):
//! when there are too many, the source with most of them loses its oldest. The memory that a request makes an agent use
//! is reserved before the request starts (`Kind::memory_bytes`, `control::memory`).

pub mod common_clock;
pub mod control;
pub mod device;
pub mod far_meter;
pub mod fingerprint;
pub mod ground;
pub mod load;
pub mod pending;
pub mod scrape;

pub use far_meter::FarCpu;
