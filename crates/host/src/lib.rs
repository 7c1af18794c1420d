//! This machine: its hardware and settings, its counters, and how it is changed and restored.
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
//! - [`drops`]: what the host drops, by reason and place, and the packet ledger of a trial (where each sent packet
//!   ended).
//! - [`perf`]: counters of perf_event_open(2).
//! - [`schedule`]: scheduling policies of threads.
//! - [`system`]: the calls that differ between Linux and BSD.
//! - [`serving`]: the programs that read the packets of a port: their threads, and how full their sockets are.
//! - [`setting`]: one setting of this machine: how it is read, written and restored.
//! - [`device`]: a device's offloads, coalescing and MTU, changed for the time of a measurement.
//! - [`files`]: files that others may have written, read up to a limit.
//! - [`tune`]: which settings serve an objective, applied through the journal.
//! - [`ground`]: changes of devices, addresses and CPUs during a measurement.
//! - [`mod@watch`]: what the host did between two snapshots of its counters.
//! - [`testbed`]: sender and host under test as two network namespaces joined by a veth pair.
//! - [`xdp`]: programs on a port that hand its frames to sockets.
//! - [`journal`]: a record of every change to the machine, written before the change, so that the next start can undo
//!   it even after `kill -9`.
//!
//! # The testbeds
//!
//! `host::testbed::netns` makes two network namespaces joined by veth. The sender's packets enter the kernel by
//! AF_PACKET; RPS steers reception to the CPU under test. That CPU then works at the three priorities of the model:
//! interrupt (the IPI), softirq (`process_backlog`) and, lowest, the application. Every change to the host is
//! journalled and synced before it is made; the next start undoes what a killed run left. `host::cpu` accounts for CPU
//! time by eBPF, procfs or a soaker thread, and always names the method.
//!
//! `host::testbed::vm` boots a guest of QEMU with a NIC that a real driver drives. netcliff is the guest's only program
//! and serves as `netcliff agent --stdio` by a virtio port (`cli::commands::guest`); `find::of` measures it like any
//! other host. The NIC's wire is a tap in an anonymous namespace. QEMU gets its initramfs, tap and sockets as
//! descriptors and dies with the thread that started it, so no file, interface or namespace with a name remains.
//! Experiments with `[[device]]` (`cli::commands::run::device`) and `advise --try` send such a guest settings, and
//! loads that one run of `find` then measures (`Settings::check_loads_pps`). `scheme::Gap` describes where QEMU's
//! NICs differ from Intel's (`sim::schemes::linux::gaps`; the slow reference simulator, `sim::referee`, does not model
//! it); `host::nic::scheme` decides which of these differences a guest's NIC has, by the version in the name of QEMU's
//! machine.
//!
//! # Drops
//!
//! `host::drops` counts drops at the kernel's tracepoint skb:kfree_skb (`bpf/drops.bpf.c`). It takes the names of
//! reasons from the kernel's BTF, the names of places from the kernel's symbols, and has rules for what to do about a
//! drop. A filter (`core::filter`, in tcpdump's language) is compiled to steps that the eBPF programs apply to the
//! words of a packet's header (`bpf/skb.h`; `core` has the same interpreter for tests). `host::drops::ledger` combines
//! reasons, counters and the counts of sender and receiver into a `core::ledger::Ledger`; `trial::ledger` runs the
//! trial that the ledger describes, for `find` (`wire_bench::ledger`), `rfc2544` (`rfc2544::kernel::ledger`; the
//! tester's namespaces count up to the tap of a device, where the sink takes frames) and datagrams of `stream`
//! (`stream::ledger`). A ledger also reads perf's count of the same tracepoint (`drops::witness`, `perf`) and reports
//! drops that the kernel does not show to eBPF programs.
//!
//! # Changes during a measurement
//!
//! `host::ground` receives the kernel's notices (rtnetlink, device events) of changes of a device, an address or a CPU;
//! `trial::stand` reads it after each transfer, test and trial, together with the threads that were moved off their CPU
//! (`packets::thread::astray`). A change makes the result partial and is named. At the end the devices and addresses
//! are also read directly, under the kernel's lock of all devices, so that a change is not missed because the kernel
//! had not reported it yet. An agent watches its own host for its client (`remote::ground`; older agents do not offer
//! this service, and the report then says that the far end was not watched).

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
