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
//! - [`system`]: the calls that differ between Linux and BSD.
//! - [`serving`]: the programs that read the packets of a port: their threads, and how full their sockets are.
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
//!
//! # The testbeds
//!
//! `host::testbed::netns` makes two network namespaces joined by veth. The sender's packets enter the kernel by
//! AF_PACKET; RPS steers reception to the CPU under test: interrupt (IPI) > softirq (`process_backlog`) >
//! application, the three priorities of the theory. Every change to the host is journalled and synced before it is
//! made; the next start undoes what a killed run left. `host::cpu` accounts for CPU time by eBPF, procfs or a soaker
//! thread and always says which.
//!
//! `host::testbed::vm` boots a guest of QEMU with a NIC that a real driver drives; this program is its only one and
//! serves as `netcliff agent --stdio` by a virtio port (`cli::commands::guest`), and `find::of` drives it as
//! any other host. The NIC's wire is a tap in an anonymous namespace. QEMU gets its initramfs, tap and sockets as
//! descriptors and dies with the thread that started it, so that no name stays. Experiments with `[[device]]`
//! (`cli::commands::run::device`) and `advise --try` ask such a guest for settings and loads as checks of one `find`
//! (`FindOptions::check_loads_pps`). What QEMU's NICs do otherwise than Intel's is `scheme::Gap`
//! (`sim::schemes::linux::gaps`; the naive referee has no part in it); which of it a guest's NIC has,
//! `host::nic::scheme` decides by the version in the name of QEMU's machine.
//!
//! # Drops
//!
//! `host::drops` counts at the kernel's tracepoint skb:kfree_skb (`bpf/drops.bpf.c`), names reasons from the
//! kernel's BTF and places from its symbols, and has the rules of what to do. A filter (`core::filter`, tcpdump's
//! language, pure) is compiled to steps that the programs walk over the words of a header (`bpf/skb.h`; `core` has
//! the same walk for tests). `host::drops::ledger` puts reasons, counters and what the ends know together as a
//! `core::ledger::Ledger`; `trial::ledger` makes the trial that has it, for `find` (`wire_bench::ledger`), `rfc2544`
//! (`rfc2544::kernel::ledger`; the tester's namespaces count as far as the tap of a device, where the sink takes
//! frames) and datagrams of `stream` (`stream::ledger`). In addition a ledger reads perf's count of the same
//! tracepoint (`drops::witness`, `perf`): what a kernel does not show to programs is named.
//!
//! # Changes during a measurement
//!
//! `host::ground` hears from the kernel (rtnetlink, device events) when a device, an address or a CPU changes;
//! `trial::stand` asks it after each transfer, test and trial, together with the threads that were moved off their CPU
//! (`packets::thread::astray`). A change makes the result partial and is named. In the end the devices and addresses
//! are also read as they are, under the kernel's lock of all devices, so that a change is not missed because the
//! kernel had not reported it yet. An agent watches its own host for its client (`remote::ground`, a service that an
//! older one does not offer: the report then says that the far end was not watched).

#[cfg(have_bpf)]
mod bpf;
mod cgroup;
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
pub mod live;
pub mod memory;
pub mod nic;
pub mod perf;
pub mod process;
mod procfs;
mod rtnl;
pub mod schedule;
pub mod serving;
pub mod setting;
mod sockets;
pub mod softnet;
pub mod spaces;
pub mod system;
pub mod testbed;
pub mod tune;
pub mod watch;
pub mod xdp;
