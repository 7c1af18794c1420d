//! Finds facts of a host that limit the meaning of its measurements.

use super::Inventory;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Number of other runnable tasks from which a run is called disturbed: a third of a CPU, because the two busiest
/// threads of a run need one CPU each. `cat /proc/loadavg` shows it.
const LOAD_LIMIT: f64 = 0.33;
/// Share of stolen CPU time from which it is reported: effects of one percent are of interest.
const STEAL_LIMIT: f64 = 0.01;
/// One CPU each for the sender, reception, the application and everything else.
const ENOUGH_CPUS: usize = 4;

/// Parts of the sentences of [`Limitation::VirtualMachine`], [`Limitation::FewCores`] and
/// [`Limitation::NoPerfCounters`], by which [`lasting`] recognises them.
const VIRTUAL: &str = "this is a virtual machine (";
const FEW: &str = ": the sender, the reception, the application and everything else share them";
const UNCOUNTED: &str = "no hardware performance counters";

/// The common name of the hypervisor whose signature CPUID or the device tree gives.
fn hypervisor(signature: &str) -> &str {
    match signature {
        "KVMKVMKVM" => "KVM",
        "XenVMMXenVMM" => "Xen",
        "VMwareVMware" => "VMware",
        "Microsoft Hv" => "Hyper-V",
        "TCGTCGTCGTCG" => "QEMU's TCG",
        "bhyve bhyve" => "bhyve",
        other => other,
    }
}

/// A short form of a warning that applies to the host in every run; `None` if the warning concerns this run only.
pub fn lasting(warning: &str) -> Option<String> {
    if let Some(kind) = warning.strip_prefix(VIRTUAL) {
        return Some(format!("a virtual machine ({})", kind.split_once(')')?.0));
    }
    if let Some((cpus, _)) = warning.split_once(FEW) {
        return Some(cpus.to_owned());
    }
    warning.starts_with(UNCOUNTED).then(|| UNCOUNTED.to_owned())
}

/// First words of the sentence of [`Limitation::OtherLoad`], now and in stored runs of earlier versions.
const OTHER_LOAD: &str = "load average ";
const OTHER_LOAD_BEFORE: &str = "other programs use the CPUs (load average ";

/// Whether a warning is [`Limitation::OtherLoad`]. During a run, the run's own load causes this warning, too.
pub fn tells_load(warning: &str) -> bool {
    warning.starts_with(OTHER_LOAD) || warning.starts_with(OTHER_LOAD_BEFORE)
}

/// A property of this host or of a run that limits what its measurements mean. `Display` gives a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "limit", rename_all = "snake_case")]
pub enum Limitation {
    /// The host is a virtual machine.
    VirtualMachine {
        /// The hypervisor's name.
        kind: String,
    },
    /// The process does not run as the host's root.
    NotRoot,
    /// The host has fewer CPUs than a run has roles.
    FewCores {
        /// Online CPUs.
        n: usize,
    },
    /// The CPU has no hardware performance counters that can be read.
    NoPerfCounters,
    /// irqbalance runs and may move interrupts during a measurement.
    IrqbalanceRunning {
        /// Process id of irqbalance.
        pid: u32,
    },
    /// Other programs use the CPUs.
    OtherLoad {
        /// Load average over the last minute (runnable tasks).
        load_average: f64,
    },
    /// The hypervisor gave CPU time to other guests.
    StolenTime {
        /// Share since boot (0..1).
        share: f64,
    },
    /// The CPU frequency follows the load.
    FrequencyScaling {
        /// The governor.
        governor: String,
    },
    /// A read of the clock takes long.
    SlowClock {
        /// The clock source.
        clocksource: String,
    },
    /// Hyperthreads of one core slow each other.
    SmtActive,
    /// Sender and receiver use 127.0.0.1.
    Loopback,
    /// RPS or the NAPI thread could not be assigned to a CPU.
    ReceptionNotSteered {
        /// The reason.
        reason: String,
    },
    /// A forwarding XDP program runs in generic mode because native mode was refused.
    XdpGeneric {
        /// The reason.
        reason: String,
    },
    /// In this reception mode the sender's softirq does the reception.
    ReceptionOnSenderCpu,
    /// The sender's veth has TCP segmentation, with which the receiver's NAPI polls none of its packets.
    NapiUnused,
}

impl fmt::Display for Limitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limitation::VirtualMachine { kind } => write!(
                f,
                "{VIRTUAL}{}): interrupts, timers and wake-ups cost what the \
                 hypervisor makes them cost, and other guests can slow it unseen",
                hypervisor(kind)
            ),
            Limitation::NotRoot => {
                f.write_str("not the host's root: host-wide sysctls, kernel threads and eBPF are out of reach")
            }
            Limitation::FewCores { n } => {
                write!(f, "{n} CPU{}{FEW}, where {ENOUGH_CPUS} would keep them apart", if *n == 1 { "" } else { "s" })
            }
            Limitation::NoPerfCounters => {
                write!(f, "{UNCOUNTED}: costs are known in time, not in cycles, instructions or cache misses")
            }
            Limitation::IrqbalanceRunning { pid } => {
                write!(f, "irqbalance (pid {pid}) may move interrupts to another CPU in the middle of a run")
            }
            Limitation::OtherLoad { load_average } => {
                write!(
                    f,
                    "{OTHER_LOAD}{load_average:.2} over the last minute, programs that ended in it included: if top shows busy programs now, end \
                     them and repeat"
                )
            }
            Limitation::StolenTime { share } => {
                write!(f, "the hypervisor gave {:.1} % of the CPU time since boot to others", 100.0 * share)
            }
            Limitation::FrequencyScaling { governor } => {
                write!(f, "the CPU frequency follows the load (governor {governor}), so costs at low load look higher")
            }
            Limitation::SlowClock { clocksource } => {
                write!(f, "the clock source is {clocksource}, whose reading is slow enough to disturb what it times")
            }
            Limitation::SmtActive => f.write_str("CPUs share cores (SMT is on): work on one slows its sibling"),
            Limitation::Loopback => f.write_str(
                "measured on loopback: the sender's own CPU does the reception, there is no driver, no ring and \
                 no separate sender, so the figure is the capacity of send and receive together, not a \
                 receiver's cliff",
            ),
            Limitation::ReceptionNotSteered { reason } => write!(
                f,
                "the reception could not be placed on a CPU of its own ({reason}): the kernel puts it, in general, on the \
                 sender's CPU, and sender and receiver slow each other"
            ),
            Limitation::XdpGeneric { reason } => write!(
                f,
                "the XDP program forwards in generic mode, after the kernel made a packet of each frame: native mode was refused \
                 ({reason})"
            ),
            Limitation::ReceptionOnSenderCpu => f.write_str(
                "in this reception mode veth receives on the CPU that sends, so sender and receiver slow each \
                 other",
            ),
            Limitation::NapiUnused => f.write_str(
                "the sender's veth has TCP segmentation: with it the receiver's NAPI polls no packet, and the CPU that sends \
                 receives; give --offloads off",
            ),
        }
    }
}

pub(super) fn of(host: &Inventory) -> Vec<Limitation> {
    let n = host.cpu.online.len();
    let scaling = host.cpu.governors.iter().find(|governor| *governor != "performance");
    let slow_clock = host.kernel.clocksource.as_ref().filter(|name| {
        // User space reads these clocks without a system call; all others cost a system call or a device access.
        !matches!(name.as_str(), "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")
    });
    let candidates = [
        host.hypervisor.clone().map(|kind| Limitation::VirtualMachine { kind }),
        (!host.root).then_some(Limitation::NotRoot),
        (n < ENOUGH_CPUS).then_some(Limitation::FewCores { n }),
        (!host.perf_counters).then_some(Limitation::NoPerfCounters),
        host.load.irqbalance_pid.map(|pid| Limitation::IrqbalanceRunning { pid }),
        host.load
            .average
            .filter(|[minute, ..]| *minute > LOAD_LIMIT)
            .map(|[load_average, ..]| Limitation::OtherLoad { load_average }),
        host.load.steal_share.filter(|share| *share > STEAL_LIMIT).map(|share| Limitation::StolenTime { share }),
        scaling.cloned().map(|governor| Limitation::FrequencyScaling { governor }),
        slow_clock.cloned().map(|clocksource| Limitation::SlowClock { clocksource }),
        (!host.cpu.smt_siblings.is_empty()).then_some(Limitation::SmtActive),
    ];
    candidates.into_iter().flatten().collect()
}
