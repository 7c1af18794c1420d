//! This machine: what it is, what it counts, and how it is changed without leaving a trace.
//!
//! Where to start:
//!
//! - [`inventory::Inventory`]: CPU, kernel, memory, sysctls and load, read from procfs and sysfs, and
//!   [`inventory::Inventory::limits`]: what limits the meaning of measurements on this machine.
//! - [`inspect`]: the path of a packet through this host, and the rules that find problems on it.
//! - [`nic`]: links, qdiscs, offloads, rings, coalescing and queues, read from the kernel by netlink.
//! - [`fingerprint`]: all of the above as one flat, ordered map, to compare two runs.
//! - [`cpu`]: where the time of a CPU goes, measured in three ways.
//! - [`softnet`]: what the receive path counted (softnet_stat, UDP drops, interrupts, softirqs).
//! - [`drops`]: what the host drops, by reason and place, and the ledger of a trial.
//! - [`perf`]: counters of perf_event_open(2).
//! - [`schedule`]: scheduling policies of threads.
//! - [`setting`]: one thing that can be set, read, written and set back.
//! - [`device`]: a device's offloads, coalescing and MTU, changed for a while.
//! - [`files`]: files that others may have written, read up to a limit.
//! - [`tune`]: which settings serve an objective, applied through the journal.
//! - [`ground`]: changes of devices, addresses and CPUs during a measurement.
//! - [`mod@watch`]: the host between two readings.
//! - [`testbed`]: sender and host under test as two network namespaces joined by a veth pair.
//! - [`xdp`]: programs on a port that hand its frames to sockets.
//! - [`journal`]: every change to the machine is written down before it is made, so that it can be
//!   undone by the next start even after `kill -9`.

// Names of Linux that another system lacks, each refused there.
#[cfg(not(target_os = "linux"))]
extern crate netcliff_bsd as libc;
#[cfg(not(target_os = "linux"))]
extern crate netcliff_bsd as netlink_socket2;
#[cfg(not(target_os = "linux"))]
extern crate netcliff_bsd as nix;

#[cfg(have_bpf)]
mod bpf;
pub mod cpu;
pub mod device;
pub mod disturbance;
pub mod drops;
pub mod files;
pub mod fingerprint;
pub mod firewall;
pub mod ground;
pub mod idle;
pub mod inspect;
pub mod inventory;
pub mod journal;
pub mod memory;
pub mod nic;
pub mod perf;
pub mod process;
mod procfs;
mod rtnl;
#[cfg_attr(not(target_os = "linux"), path = "not_linux/schedule.rs")]
pub mod schedule;
pub mod setting;
mod sockets;
pub mod softnet;
pub mod spaces;
pub mod testbed;
pub mod tune;
pub mod watch;
pub mod xdp;
