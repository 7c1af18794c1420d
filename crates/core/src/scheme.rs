//! [`Scheme`]: how the CPU learns of packets that the NIC has written to memory (docs/theory/host.md); one variant per
//! scheme.
//!
//! Text form: `NAME[:key=value,...]`. `Display` writes the keys marked `always` below, and a key marked `changed` if
//! its value is not the default.

mod parameter;
mod text;

use crate::bounds;
use crate::error::{Invalid, ParseError};
use crate::host::Host;
use crate::params::Params;

pub use parameter::{Parameter, Unit};

pub(crate) use text::written;

use parameter::{Count, Flag, Kind, Name, Number, Pairs, Parameters, Rate, Time};

/// Defaults of Salah, El-Badawi and Khalid (2007): T_poll = 20 us, Q = 3.
const PERIOD_S: f64 = 20e-6;
const QUOTA: u64 = 3;

/// An interrupt-handling scheme with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheme {
    /// No costs of interrupts.
    Ideal,
    /// Every arrival raises an interrupt unless the handler (ISR) runs.
    Interrupt {
        /// True: a packet dropped at a full ring also raises an interrupt, as in Salah, El-Badawi and Khalid (2007);
        /// this is the default, and throughput falls towards zero.
        drops_interrupt: bool,
    },
    /// The first packet raises an interrupt; further ones are served with interrupts masked until the ring is empty.
    DisableEnable {
        /// True: mask, handler and first packet are one exponential stage, as in Salah, El-Badawi and Khalid (2007).
        merged: bool,
    },
    /// A timer polls; each cycle takes up to `quota` packets.
    Polling {
        /// T_poll: time between polls (s).
        period_s: f64,
        /// Q: most packets per cycle.
        quota: u64,
    },
    /// NAPI as in Salah, El-Badawi and Khalid (2007): interrupt, mask, poll at once; after a full quota the next poll
    /// waits for a tick.
    Napi2007(Napi2007),
    /// FreeBSD's device polling with its adaptive quota.
    FreebsdPolling(FreebsdPolling),
    /// Polling by soft timers (Aron and Druschel 2000).
    SoftTimers(SoftTimers),
    /// Linux NAPI.
    Napi(Napi),
    /// Interrupts delayed by packet count, timers or a minimum gap.
    Coalesce(Coalesce),
    /// Disable-enable below a packet rate, polling above it.
    Hybrid(Hybrid),
    /// Linux's adaptive interrupt moderation (lib/dim).
    Dim(Dim),
}

parameter::parameters! {
/// NAPI as in figure 5 of Salah, El-Badawi and Khalid (2007).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Napi2007 {
    /// T_poll: time between polls (s).
    pub period_s: f64 = PERIOD_S => Time("period", always),
    /// Q: most packets per poll.
    pub quota: u64 = QUOTA => Count("quota", always),
    /// True: a tick during a poll (or during the interrupt before it) is remembered, and the next poll directly follows
    /// a poll that used its quota. False: that tick is lost, and the next poll waits for the following tick.
    pub remember: bool = false => Flag("remember", changed),
}
}

parameter::parameters! {
/// FreeBSD's device polling (sys/kern/kern_poll.c). A tick costs the poll's overhead and starts a cycle of up to a
/// quota. Afterwards the quota adapts: plus one if the cycle took less of its period than the kernel's share, otherwise
/// minus one; and minus an eighth for each tick that fell into the cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FreebsdPolling {
    /// Time between ticks, 1/hz (s).
    pub period_s: f64 = 1e-3 => Time("period", always),
    /// Most packets per cycle (kern.polling.burst_max).
    pub burst_max: u64 = 150 => Count("burst_max", always),
    /// Share of the CPU reserved for applications, a whole percentage below 100 (kern.polling.user_frac).
    pub user_frac: f64 = 0.5 => Number("user_frac", always),
}
}

parameter::parameters! {
/// Polling by soft timers (Aron and Druschel, ACM TOCS 18(3), 2000). A poll that is due waits until the kernel runs for
/// another reason, and costs a fraction of a timer interrupt. The end of protocol work is one such time; others occur
/// at random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftTimers {
    /// Time from a poll until the next one is due (s).
    pub period_s: f64 = PERIOD_S => Time("period", always),
    /// Q: most packets per poll.
    pub quota: u64 = QUOTA => Count("quota", always),
    /// Mean time from when a poll is due until the kernel runs (system call, interrupt, idle loop) (s).
    pub trigger_s: f64 = 10e-6 => Time("trigger", always),
    /// Time after the last poll at which a hardware timer polls, with the full overhead (s).
    pub backup_s: f64 = 1e-3 => Time("backup", always),
    /// Overhead of a soft poll as a share of the host's `poll`.
    pub cost: f64 = 0.1 => Number("cost", always),
}
}

parameter::parameters! {
/// Linux NAPI (net/core/dev.c and kernel/softirq.c, 6.5 to 6.18). A softirq round polls once and takes up to `weight`
/// packets; a full poll starts the next round, up to ten in a row, then ksoftirqd.
#[derive(Debug, Clone, PartialEq)]
pub struct Napi {
    /// Most packets per poll (dev_weight, 64).
    pub weight: u64 = 64 => Count("weight", always),
    /// Packets after which a round polls no further instance (netdev_budget, 300). With one instance it has almost no
    /// effect.
    pub budget: u64 = 300 => Count("budget", always),
    /// Time after which a round polls no further instance (netdev_budget_usecs) (s). With one instance it has almost no
    /// effect.
    pub budget_time_s: f64 = 2e-3 => Time("budget_time", always),
    /// True: receive by process_backlog, as RPS and plain veth do. The whole input queue moves to the process queue
    /// when that is empty, and only the input queue is limited (netdev_max_backlog).
    pub backlog: bool = false => Flag("backlog", changed),
    /// True: polling always runs in a kernel thread, which shares the CPU with the application.
    pub threaded: bool = false => Flag("threaded", changed),
    /// True: while ksoftirqd is awake, softirqs wait for it, and it takes turns with the application, as in kernels
    /// from 4.9 to 6.4 (`ksoftirqd_running` in kernel/softirq.c, until d15121be7485).
    pub ksoftirqd: bool = false => Flag("ksoftirqd", changed),
    /// Most packets that a device's poll collects before it passes them to the protocols (net.core.gro_normal_batch,
    /// 8). The rest is passed on when the poll completes, after it last looked at the ring (`gro_normal_one`,
    /// `napi_complete_done`). 1: each packet at once.
    pub gro_normal_batch: u64 = 1 => Count("gro_normal_batch", changed),
    /// Number of consecutive empty polls after which interrupts are unmasked (napi_defer_hard_irqs).
    pub defer_hard_irqs: u32 = 0 => Count("defer_hard_irqs", changed),
    /// Delay of the next poll while interrupts are deferred (gro_flush_timeout) (s).
    pub gro_flush_timeout_s: f64 = 0.0 => Time("gro_flush_timeout", changed),
    /// True: the application itself polls the device when its socket is empty.
    pub busy_poll: bool = false => Flag("busy_poll", changed),
    /// How long interrupts stay suspended while the application polls (irq_suspend_timeout) (s).
    pub irq_suspend_timeout_s: f64 = 0.0 => Time("irq_suspend_timeout", changed),
    #[parameters]
    /// Interrupt moderation of the NIC.
    pub moderation: Moderation,
}
}

parameter::parameters! {
/// A NIC's moderation of the receive interrupt that starts NAPI. None or zero turns a value off. Without a count and
/// timers, every packet is a reason to interrupt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moderation {
    /// Packets after which the NIC interrupts (rx-frames).
    pub frames: Option<u64> = None => Count("rx_frames", always),
    /// Time from the first packet since the last interrupt to the interrupt (absolute timer; rx-usecs of some drivers)
    /// (s).
    pub absolute_timer_s: Option<f64> = None => Time("rx_usecs", always),
    /// Time from the last packet to the interrupt (s).
    pub packet_timer_s: Option<f64> = None => Time("packet_timer", always),
    /// Shortest time between two interrupts, counted from the assertion of the first (ITR, EITR; rx-usecs of Intel's
    /// drivers) (s).
    pub min_gap_s: Option<f64> = None => Time("min_gap", always),
    #[unwritten]
    /// Deviations of an emulated NIC from hardware.
    pub quirk: Quirk,
}
}

/// Deviations of an emulated NIC from the hardware it models. The testbed of a guest derives them from the guest's
/// machine type and passes them to the simulator. Users cannot set them, and they are not printed with a scheme. Only
/// records, and messages between agents, contain them ([`Scheme::record`]).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quirk {
    /// How the gap between two interrupts works.
    pub gap: Gap,
    /// With [`Gap::Echo`]: delay of the end of the gap (s), because the emulator's thread that ends the gap also moves
    /// the packets. After an interrupt at the end of a gap, the next one follows at least this delay later.
    pub gap_late_s: Option<f64>,
}

/// How a NIC ensures a gap between two interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gap {
    /// Each interrupt starts a gap.
    #[default]
    Each,
    /// The end of each gap interrupts, whether a packet waits or not and also while masked. This interrupt starts no
    /// gap, so that the next may follow at once. Unmasking also interrupts for packets that came since the last
    /// interrupt's cause and that polls have already taken. QEMU's e1000e with MSI-X up to 10.0 (hw/net/e1000e_core.c:
    /// `e1000e_intrmgr_on_msix_throttling_timer`, whose flag of a waiting interrupt is never cleared, and
    /// `e1000e_msix_notify_one`).
    Direct,
    /// An interrupt that waited for the end of a gap does not start a gap. The end of each gap interrupts, whether a
    /// packet waits or not. The interrupt is not masked while NAPI polls. QEMU's igb from 8.0 to 10.0
    /// (hw/net/igb_core.c, `igb_intrmgr_on_msix_throttling_timer`, `igb_msix_notify`).
    Echo,
    /// Each interrupt starts a gap. A packet that comes after the handler has read the cause is remembered: unmasking
    /// interrupts for it, after the gap, even if a poll has already taken it. QEMU's e1000e without MSI-X
    /// (hw/net/e1000e_core.c, `e1000e_send_msi`: the cause stays in ICR).
    Latched,
    /// No gap. A packet that comes while the interrupt is masked is remembered: unmasking interrupts for it, even if a
    /// poll has already taken it. From that interrupt until the next packet, NAPI's polls leave the interrupt unmasked.
    /// QEMU's vmxnet3 (hw/net/vmxnet3.c, `vmxnet3_trigger_interrupt`, `vmxnet3_on_interrupt_mask_changed`).
    Reopened,
}

impl From<Gap> for Quirk {
    fn from(gap: Gap) -> Self {
        Self { gap, gap_late_s: None }
    }
}

impl Gap {
    /// All kinds of gaps.
    pub const ALL: [Self; 5] = [Self::Each, Self::Direct, Self::Echo, Self::Latched, Self::Reopened];

    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Each => "each",
            Self::Direct => "direct",
            Self::Echo => "echo",
            Self::Latched => "latched",
            Self::Reopened => "reopened",
        }
    }
}

parameter::parameters! {
/// Interrupt coalescing. None or zero turns a value off.
#[derive(Debug, Clone, PartialEq)]
pub struct Coalesce {
    /// tau: frames after which the NIC interrupts.
    pub frames: Option<u64> = None => Count("frames", always),
    /// T_abs: time from the first packet since the last interrupt to the interrupt (s).
    pub absolute_timer_s: Option<f64> = None => Time("usecs", always),
    /// True: the timer of `usecs` runs freely: it ticks every `usecs`, and a tick interrupts if packets came since the
    /// last interrupt. False: the first packet starts the timer.
    pub free_timer: bool = false => Flag("free_timer", changed),
    /// T_pkt: time from the last packet to the interrupt (s).
    pub packet_timer_s: Option<f64> = None => Time("packet_timer", always),
    /// Shortest time between two interrupts (interrupt throttling) (s).
    pub min_gap_s: Option<f64> = None => Time("min_gap", always),
    /// True: no interrupts until the ring is empty; false: interrupts preempt protocol work (as in the paper).
    pub masked: bool = false => Flag("masked", changed),
    /// True: packets dropped at a full ring count and interrupt. False (default): the NIC signals only packets that it
    /// has written to memory.
    pub drops_interrupt: bool = false => Flag("drops_interrupt", changed),
}
}

parameter::parameters! {
/// The hybrid scheme of Salah, El-Badawi and Khalid (2007): disable-enable at low load, polling at high load, with
/// hysteresis.
#[derive(Debug, Clone, PartialEq)]
pub struct Hybrid {
    /// T_poll: time between polls in the polling part (s).
    pub period_s: f64 = PERIOD_S => Time("period", always),
    /// Q: most packets per poll in the polling part.
    pub quota: u64 = QUOTA => Count("quota", always),
    /// Measured rate above which polling starts (pps); None: by eq. (13) of the paper.
    pub up_pps: Option<f64> = None => Rate("up", always),
    /// Measured rate below which disable-enable resumes (pps); None: a tenth below `up_pps`.
    pub down_pps: Option<f64> = None => Rate("down", always),
    /// Weight of a new sample in the moving averages of rate and frame size.
    pub ewma: f64 = 0.1 => Number("ewma", always),
    /// True: mask, handler and first packet are one exponential stage, as in [`Scheme::DisableEnable`].
    pub merged: bool = false => Flag("merged", changed),
}
}

/// Which table of lib/dim is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DimProfile {
    /// Timer from the first event: usecs {1, 8, 64, 128, 256}.
    #[default]
    Eqe,
    /// Timer from the last event: usecs {2, 8, 16, 32, 64}.
    Cqe,
}

parameter::parameters! {
/// Linux's dynamic interrupt moderation (lib/dim).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dim {
    /// Which table of usecs and frames is used.
    pub profile: DimProfile = DimProfile::Eqe => Name("profile", always),
    /// Index in the table at the start, 0 to 4.
    pub start: u32 = 1 => Count("start", always),
}
}

// For the schemes whose parameters are in `Scheme` itself.
parameter::parameters! {
#[derive(Debug)]
struct Interrupt {
    /// True: a packet dropped at a full ring also raises an interrupt (as in the paper, and the default; throughput
    /// falls towards zero).
    pub drops_interrupt: bool = true => Flag("drops_interrupt", always),
}
}
parameter::parameters! {
#[derive(Debug)]
struct DisableEnable {
    /// True: mask, handler and first packet are one exponential stage (the paper's chain).
    pub merged: bool = false => Flag("merged", always),
}
}
parameter::parameters! {
#[derive(Debug)]
struct Polled {
    /// T_poll: time between polls (s).
    pub period_s: f64 = PERIOD_S => Time("period", always),
    /// Q: most packets per poll.
    pub quota: u64 = QUOTA => Count("quota", always),
}
}

/// A scheme's name, and the functions that read and describe it.
struct Named {
    name: &'static str,
    read: fn(&mut Params<'_>) -> Result<Scheme, ParseError>,
    described: fn() -> Vec<Parameter>,
}

/// The row of a scheme: its name, the struct of its parameters, and the variant made of that struct.
macro_rules! named {
    ($name:literal, $own:ty, $variant:expr) => {
        Named { name: $name, read: |params| <$own>::read(params).map($variant), described: <$own>::described }
    };
}

const SCHEMES: [Named; 11] = [
    Named { name: "ideal", read: |_| Ok(Scheme::Ideal), described: Vec::new },
    named!("interrupt", Interrupt, |own| Scheme::Interrupt { drops_interrupt: own.drops_interrupt }),
    named!("disable-enable", DisableEnable, |own| Scheme::DisableEnable { merged: own.merged }),
    named!("polling", Polled, |own| Scheme::Polling { period_s: own.period_s, quota: own.quota }),
    named!("napi-2007", Napi2007, Scheme::Napi2007),
    named!("freebsd-polling", FreebsdPolling, Scheme::FreebsdPolling),
    named!("soft-timers", SoftTimers, Scheme::SoftTimers),
    named!("napi", Napi, Scheme::Napi),
    named!("coalesce", Coalesce, Scheme::Coalesce),
    named!("hybrid", Hybrid, Scheme::Hybrid),
    named!("dim", Dim, Scheme::Dim),
];

/// What a scheme is, besides its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Properties {
    /// Its name on the command line.
    pub name: &'static str,
    /// Period (s) and quota (packets) of polls by a timer; `None` if no timer polls.
    pub polls: Option<(f64, u64)>,
    /// False: the NIC never interrupts.
    pub interrupts: bool,
    /// Why no Linux setting makes a device work by it, as a part of a sentence; `None` if settings do.
    pub not_on_linux: Option<&'static str>,
    /// Why the model has no solution, as a part of a sentence; `None` if it has one.
    pub unsolved: Option<&'static str>,
}

impl Scheme {
    /// What the scheme is: one row each.
    pub fn properties(&self) -> Properties {
        let by = |name| Properties { name, polls: None, interrupts: true, not_on_linux: None, unsolved: None };
        let polled = |name, period_s, quota| Properties {
            polls: Some((period_s, quota)),
            not_on_linux: Some(
                "no driver polls by a timer alone: napi with defer_hard_irqs and gro_flush_timeout comes closest",
            ),
            ..by(name)
        };
        match *self {
            Self::Ideal => Properties {
                interrupts: false,
                not_on_linux: Some("no host works without interrupts that cost time"),
                ..by("ideal")
            },
            Self::Interrupt { .. } => Properties {
                not_on_linux: Some("Linux masks the interrupt while it polls: napi comes closest"),
                ..by("interrupt")
            },
            Self::DisableEnable { .. } => Properties {
                not_on_linux: Some(
                    "no Linux setting makes NAPI work as disable-enable does; the scheme napi comes closest",
                ),
                ..by("disable-enable")
            },
            Self::Polling { period_s, quota } => Properties { interrupts: false, ..polled("polling", period_s, quota) },
            Self::Napi2007(own) => polled("napi-2007", own.period_s, own.quota),
            Self::FreebsdPolling(own) => Properties {
                interrupts: false,
                not_on_linux: Some("it is FreeBSD's (kern.polling): napi comes closest"),
                unsolved: Some("its quota adapts to the time of every cycle"),
                ..polled("freebsd-polling", own.period_s, own.burst_max)
            },
            Self::SoftTimers(own) => Properties {
                interrupts: false,
                unsolved: Some("its polls come at random after they are due"),
                ..polled("soft-timers", own.period_s, own.quota)
            },
            Self::Napi(_) => by("napi"),
            Self::Coalesce(_) => by("coalesce"),
            Self::Hybrid(ref own) => polled("hybrid", own.period_s, own.quota),
            Self::Dim(_) => by("dim"),
        }
    }

    /// The scheme's name on the command line.
    pub fn name(&self) -> &'static str {
        self.properties().name
    }

    /// Its parameters as they are printed.
    fn pairs(&self) -> Pairs {
        match *self {
            Self::Ideal => Pairs::new(),
            Self::Interrupt { drops_interrupt } => Interrupt { drops_interrupt }.pairs(),
            Self::DisableEnable { merged } => DisableEnable { merged }.pairs(),
            Self::Polling { period_s, quota } => Polled { period_s, quota }.pairs(),
            Self::Napi2007(polled) => polled.pairs(),
            Self::FreebsdPolling(polling) => polling.pairs(),
            Self::SoftTimers(soft) => soft.pairs(),
            Self::Napi(ref napi) => napi.pairs(),
            Self::Coalesce(ref coalesce) => coalesce.pairs(),
            Self::Hybrid(ref hybrid) => hybrid.pairs(),
            Self::Dim(dim) => dim.pairs(),
        }
    }

    /// Checks the parameters' ranges, alone and together with `host`.
    pub fn validate(&self, host: &Host) -> Result<(), Invalid> {
        if let Some((period_s, quota)) = self.properties().polls {
            poll_range(host, period_s, quota)?;
        }
        match self {
            Self::Ideal
            | Self::Interrupt { .. }
            | Self::DisableEnable { .. }
            | Self::Polling { .. }
            | Self::Napi2007(_) => Ok(()),
            Self::FreebsdPolling(polling) => polling.validate(),
            Self::SoftTimers(soft) => soft.validate(),
            Self::Napi(napi) => napi.validate(host),
            Self::Coalesce(coalesce) => coalesce.validate(host),
            Self::Hybrid(hybrid) => hybrid.validate(),
            Self::Dim(dim) if dim.start > 4 => {
                Err(Invalid::new("dim start", dim.start, "must be a profile index from 0 to 4"))
            }
            Self::Dim(_) => Ok(()),
        }
    }
}

fn poll_range(host: &Host, period_s: f64, quota: u64) -> Result<(), Invalid> {
    bounds::time("period", period_s)?;
    bounds::count("quota", quota)?;
    if period_s <= host.poll_s {
        return Err(Invalid::new(
            "period",
            crate::units::print_time_s(period_s),
            format!("must be longer than the poll overhead ({})", crate::units::print_short_time_s(host.poll_s)),
        ));
    }
    Ok(())
}

impl FreebsdPolling {
    /// The applications' share of the CPU (whole percent).
    pub fn user_percent(&self) -> u64 {
        (100.0 * self.user_frac).round() as u64
    }

    fn validate(&self) -> Result<(), Invalid> {
        let percent = 100.0 * self.user_frac;
        if !(0.0..=99.0).contains(&percent) || (percent - percent.round()).abs() > 1e-9 {
            let value = crate::units::print_share(self.user_frac);
            return Err(Invalid::new("user_frac", value, "must be a whole percentage from 0 % to 99 %, such as 50%"));
        }
        Ok(())
    }
}

impl SoftTimers {
    fn validate(&self) -> Result<(), Invalid> {
        bounds::time_or_none("trigger", self.trigger_s)?;
        bounds::time("backup", self.backup_s)?;
        if self.backup_s < self.period_s {
            let value = crate::units::print_time_s(self.backup_s);
            return Err(Invalid::new("backup", value, "must not be shorter than period"));
        }
        if !(0.0..=1.0).contains(&self.cost) {
            return Err(Invalid::new("cost", self.cost, "must be a share from 0 to 1 of the host's poll"));
        }
        Ok(())
    }
}

impl Napi {
    fn validate(&self, host: &Host) -> Result<(), Invalid> {
        bounds::count("weight", self.weight)?;
        bounds::count("budget", self.budget)?;
        bounds::time("budget_time", self.budget_time_s)?;
        bounds::count("gro_normal_batch", self.gro_normal_batch)?;
        if self.backlog && self.gro_normal_batch > 1 {
            return Err(Invalid::new(
                "gro_normal_batch",
                self.gro_normal_batch,
                "is of a device's own NAPI, and process_backlog hands on each packet at once: leave it out, or backlog",
            ));
        }
        for (name, seconds) in
            [("gro_flush_timeout", self.gro_flush_timeout_s), ("irq_suspend_timeout", self.irq_suspend_timeout_s)]
        {
            bounds::time_or_none(name, seconds)?;
        }
        if self.defer_hard_irqs > 0 && self.gro_flush_timeout_s == 0.0 {
            return Err(Invalid::new(
                "defer_hard_irqs",
                self.defer_hard_irqs,
                "needs gro_flush_timeout above 0, the delay of the deferred poll",
            ));
        }
        self.moderation.validate(host, self.backlog)
    }
}

impl Moderation {
    /// True if the NIC delays interrupts, or raises more interrupts than its packets need.
    pub fn is_on(&self) -> bool {
        let on = |timer: Option<f64>| timer.is_some_and(|seconds| seconds > 0.0);
        matches!(self.quirk.gap, Gap::Latched | Gap::Reopened)
            || self.frames.is_some_and(|frames| frames > 1)
            || self.has_timer()
            || on(self.min_gap_s)
    }

    /// True if a timer interrupts for packets that do not reach the count.
    fn has_timer(&self) -> bool {
        [self.absolute_timer_s, self.packet_timer_s].into_iter().flatten().any(|seconds| seconds > 0.0)
    }

    fn validate(&self, host: &Host, backlog: bool) -> Result<(), Invalid> {
        let timers = [
            ("rx_usecs", self.absolute_timer_s),
            ("packet_timer", self.packet_timer_s),
            ("min_gap", self.min_gap_s),
            ("gap_late", self.quirk.gap_late_s),
        ];
        for (name, timer) in timers {
            timer.map_or(Ok(()), |seconds| bounds::time_or_none(name, seconds))?;
        }
        let gap = self.quirk.gap;
        if let Some(late_s) = self.quirk.gap_late_s
            && gap != Gap::Echo
        {
            let value = crate::units::print_time_s(late_s);
            return Err(Invalid::new("gap_late", value, "is of gap=echo only: leave it out, or set that"));
        }
        if let Some(frames) = self.frames {
            frames_range("rx_frames", frames, host)?;
            if frames > 1 && !self.has_timer() {
                return Err(Invalid::new(
                    "rx_frames",
                    frames,
                    "needs rx_usecs or packet_timer above 0: without a timer the last packets of a burst are never announced",
                ));
            }
        }
        let named = |why: &str| Err(Invalid::new("gap", gap.name(), why));
        let has_gap = self.min_gap_s.is_some_and(|gap_s| gap_s > 0.0);
        match gap {
            Gap::Direct | Gap::Echo if !has_gap => return named("needs min_gap above 0, the gap that it is about"),
            Gap::Echo | Gap::Reopened if self.has_timer() || self.frames.is_some() => {
                return named("interrupts for each packet: leave out rx_frames, rx_usecs and packet_timer");
            }
            Gap::Reopened if has_gap => return named("keeps no gap: leave out min_gap"),
            Gap::Each | Gap::Direct | Gap::Echo | Gap::Latched | Gap::Reopened => {}
        }
        if backlog && *self != Self::default() {
            return Err(Invalid::new(
                "backlog",
                backlog,
                "has no NIC in front of it, other CPUs put its packets there: leave out rx_usecs, rx_frames, packet_timer, \
                 and min_gap, or backlog",
            ));
        }
        Ok(())
    }
}

fn frames_range(name: &str, frames: u64, host: &Host) -> Result<(), Invalid> {
    bounds::count(name, frames)?;
    if frames > host.ring {
        return Err(Invalid::new(name, frames, format!("must be at most the ring ({} slots)", host.ring)));
    }
    Ok(())
}

impl Coalesce {
    fn validate(&self, host: &Host) -> Result<(), Invalid> {
        if let Some(frames) = self.frames {
            frames_range("frames", frames, host)?;
        }
        for (name, timer) in
            [("usecs", self.absolute_timer_s), ("packet_timer", self.packet_timer_s), ("min_gap", self.min_gap_s)]
        {
            timer.map_or(Ok(()), |seconds| bounds::time_or_none(name, seconds))?;
        }
        if self.free_timer && self.free_period_s().is_none() {
            return Err(Invalid::new("free_timer", true, "needs usecs above 0, the period of the timer"));
        }
        Ok(())
    }

    /// Period of the free-running timer (s). `None` if packets start the timer, or it is off.
    pub fn free_period_s(&self) -> Option<f64> {
        self.absolute_timer_s.filter(|seconds| self.free_timer && *seconds > 0.0)
    }
}

impl Hybrid {
    fn validate(&self) -> Result<(), Invalid> {
        if !(self.ewma > 0.0 && self.ewma <= 1.0) {
            return Err(Invalid::new("ewma", self.ewma, "must be above 0 and at most 1"));
        }
        for (name, pps) in [("up", self.up_pps), ("down", self.down_pps)] {
            pps.map_or(Ok(()), |pps| bounds::rate(name, pps, crate::units::print_pps(pps)))?;
        }
        if let (Some(up), Some(down)) = (self.up_pps, self.down_pps)
            && down > up
        {
            return Err(Invalid::new(
                "down",
                crate::units::print_pps(down),
                format!("must not be above up ({})", crate::units::print_pps(up)),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
