//! Two hosts: the channel to an agent, and what an agent does for its client.
//!
//! | module | holds |
//! | --- | --- |
//! | [`control`] | the channel between two hosts: a client has an agent run the far end of a test |
//! | [`device`] | changes to an agent's device for a client, if the agent's owner allows it |
//! | [`fingerprint`] | facts of an agent's host that explain differences between runs |
//! | [`common_clock`] | how an agent's clock differs from this host's |
//! | [`load`] | load from generators on other hosts |
//! | [`ground`] | changes of an agent's CPUs and network device during a test |
//! | [`far_meter`] | the exact CPU meter of an agent's host |
//! | [`pending`] | connections that have not yet proved themselves |
//! | [`scrape`] | a port that answers requests of a monitoring system, and nothing else |
//!
//! # Two hosts
//!
//! `remote::control` is a session with an agent: tests by kind (`Kind`), and services for the duration of the session
//! (`Service`). `remote::device` changes a device by `host::device` and restores it when the session ends.
//! `remote::fingerprint` reports the facts of the far host and of the device that carries the data; `transfer::hosts`
//! stores them together with this host's facts for `compare`. Agents advertise capabilities in their hello
//! (`features`), so that the client requests nothing that an older agent lacks. The exact CPU meter of the far host
//! (`far_meter`) runs during a test.
//!
//! `find` between two hosts: the frames come from a `packets::source`: a generator in this process or, through
//! `remote::load`, a generator on another host. `load::Carrier` carries the requests to a generator on another host:
//! either a session with an agent (`--from`), or the reverse (`load::reverse`), in which the agent runs `find`
//! (`find::far`), and its client (`find::of`) fetches the agent's commands with the reports and sends the load.
//! `trial::rig::between` is the link; all later steps are the same as on a testbed. Several generators form one source
//! (`load::Several`), each with a run id, a schedule and a window by its own clock; a sink keeps separate counts for
//! each generator. If the load reaches several queues, each queue has its own sink (`run::run_to`), on the port of the
//! queue's flows; `rig::between::probe` finds these flows by the counters of `host::nic::landing`. A generator has a
//! rate limit, and a lease (`generator::Lease`) that the requesting end extends; the loop that sends enforces both.
//! `host::firewall` walks nft's ruleset for the rule that drops a flow; `trial::account` sums up the counters of
//! generators and device.
//!
//! A data connection proves its test's token by a MAC that is valid for one connection (`control::key`). Connections
//! that have not yet proved themselves wait in one table for each kind of port (`pending`, `control::connections`): if
//! there are too many, the source address that has the most of them loses its oldest connection. The memory that a
//! request makes an agent use is reserved before the request starts (`Kind::memory_bytes`, `control::memory`).

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
