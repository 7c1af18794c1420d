//! [`Scheme`]: how a packet in memory gets the CPU's attention (docs/theory/host.md), one variant a scheme.
//!
//! Written `NAME[:key=value,...]`, printed in the same form with every key that matters.

mod parameter;
mod text;

use crate::bounds;
use crate::error::Invalid;
use crate::host::Host;

pub use parameter::{Parameter, Unit};

pub(crate) use text::written;

use parameter::{Count, Flag, Kind, Name, Number, Rate, Time};

/// Defaults of the paper where a parameter is left out: T_poll = 20 us, Q = 3.
const PERIOD_S: f64 = 20e-6;
const QUOTA: u64 = 3;

/// One interrupt-handling scheme with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheme {
    /// No interrupt cost.
    Ideal,
    /// Every arrival interrupts unless an ISR runs.
    Interrupt {
        /// True: a packet dropped at a full ring still interrupts (the paper's, and the default; throughput falls towards zero).
        drops_interrupt: bool,
    },
    /// The first packet interrupts, the rest is served with interrupts masked until the ring is empty.
    DisableEnable {
        /// True: mask, ISR and first packet are one exponential stage (the paper's chain).
        merged: bool,
    },
    /// A timer polls, up to `quota` packets a cycle.
    Polling {
        /// T_poll (s).
        period_s: f64,
        /// Q: at most this many packets a cycle.
        quota: u64,
    },
    /// The paper's NAPI: interrupt, mask, poll at once; over quota the next poll waits for a tick.
    Napi2007(Napi2007),
    /// FreeBSD's polling, whose quota adapts.
    FreebsdPolling(FreebsdPolling),
    /// Polling by soft timers.
    SoftTimers(SoftTimers),
    /// Linux NAPI.
    Napi(Napi),
    /// Interrupts moderated by count, timers or a minimum gap.
    Coalesce(Coalesce),
    /// Disable-enable below a switching rate, polling above it.
    Hybrid(Hybrid),
    /// Linux's adaptive moderation, lib/dim.
    Dim(Dim),
}

parameter::parameters! {
/// The paper's NAPI (its figure 5).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Napi2007 {
    /// T_poll: time between polls (s).
    pub period_s: f64 = PERIOD_S => Time("period", always),
    /// Q: at most this many packets a poll.
    pub quota: u64 = QUOTA => Count("quota", always),
    /// True: a tick that falls into the poll under way (or into the interrupt before it) is remembered, and the next poll follows directly on a
    /// poll that used its quota. False: that tick is lost, and the next poll waits for the tick after it.
    pub remember: bool = false => Flag("remember", changed),
}
}

parameter::parameters! {
/// FreeBSD's device polling (sys/kern/kern_poll.c): a tick costs the poll's overhead and has a cycle of up to the quota, which adapts after it: one
/// more if the cycle took less of its period than the kernel may have, else one less, and an eighth less for each tick that fell into it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FreebsdPolling {
    /// Time between ticks, 1/hz (s).
    pub period_s: f64 = 1e-3 => Time("period", always),
    /// Most packets a cycle (kern.polling.burst_max).
    pub burst_max: u64 = 150 => Count("burst_max", always),
    /// Share of the CPU meant for applications, a whole percentage below 100 (kern.polling.user_frac).
    pub user_frac: f64 = 0.5 => Number("user_frac", always),
}
}

parameter::parameters! {
/// Polling by soft timers (Aron and Druschel, ACM TOCS 18(3), 2000): a poll that is due waits for the next state in which the kernel runs anyway, at a
/// fraction of a timer interrupt's cost; the end of protocol work is one, others come at random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoftTimers {
    /// From one poll until the next is due (s).
    pub period_s: f64 = PERIOD_S => Time("period", always),
    /// Q: at most this many packets a poll.
    pub quota: u64 = QUOTA => Count("quota", always),
    /// Mean time from when a poll is due to the next state of the kernel (system call, interrupt, idle loop) (s).
    pub trigger_s: f64 = 10e-6 => Time("trigger", always),
    /// Hardware timer that polls so long after the last poll, at the poll's whole overhead (s).
    pub backup_s: f64 = 1e-3 => Time("backup", always),
    /// Overhead of a soft poll as a share of the host's `poll`.
    pub cost: f64 = 0.1 => Number("cost", always),
}
}

parameter::parameters! {
/// Linux NAPI (net/core/dev.c and kernel/softirq.c, 6.5 to 6.18): a round of softirqs polls once, up to `weight`; a full poll raises the
/// next round, up to ten of them, then ksoftirqd.
#[derive(Debug, Clone, PartialEq)]
pub struct Napi {
    /// Largest number of packets a poll takes (dev_weight, 64).
    pub weight: u64 = 64 => Count("weight", always),
    /// Packets after which a round takes no further instance (netdev_budget, 300). With one instance next to nothing depends on it.
    pub budget: u64 = 300 => Count("budget", always),
    /// Time after which a round takes no further instance (netdev_budget_usecs) (s). As `budget`.
    pub budget_time_s: f64 = 2e-3 => Time("budget_time", always),
    /// True: process_backlog: the input queue moves whole to the process queue once that is empty, and only
    /// the input queue is bounded (netdev_max_backlog), as RPS and plain veth do.
    pub backlog: bool = false => Flag("backlog", changed),
    /// True: polling always runs in a thread that shares the CPU with the application.
    pub threaded: bool = false => Flag("threaded", changed),
    /// True: softirqs wait for ksoftirqd while that is awake, and so for its turn beside the application, as in kernels from 4.9 to 6.4
    /// (`ksoftirqd_running` in kernel/softirq.c, until d15121be7485).
    pub ksoftirqd: bool = false => Flag("ksoftirqd", changed),
    /// Packets that a device's poll gathers before the protocols have them, at the most (net.core.gro_normal_batch, 8): what is left is
    /// handed on when the poll completes, after its last look at the ring (`gro_normal_one`, `napi_complete_done`). 1: each at once.
    pub gro_normal_batch: u64 = 1 => Count("gro_normal_batch", changed),
    /// Empty polls in a row after which interrupts are unmasked again (napi_defer_hard_irqs).
    pub defer_hard_irqs: u32 = 0 => Count("defer_hard_irqs", changed),
    /// Delay of the next poll while deferring (gro_flush_timeout) (s).
    pub gro_flush_timeout_s: f64 = 0.0 => Time("gro_flush_timeout", changed),
    /// True: the application polls the device itself when it finds its socket empty.
    pub busy_poll: bool = false => Flag("busy_poll", changed),
    /// How long interrupts stay suspended while the application polls (irq_suspend_timeout) (s).
    pub irq_suspend_timeout_s: f64 = 0.0 => Time("irq_suspend_timeout", changed),
    #[parameters]
    /// What the NIC does before it interrupts.
    pub moderation: Moderation,
}
}

parameter::parameters! {
/// A NIC's moderation of the receive interrupt that starts NAPI; what is None or zero is off, and with no count or timer each packet
/// is a reason to interrupt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moderation {
    /// An interrupt when so many packets are counted (rx-frames).
    pub frames: Option<u64> = None => Count("rx_frames", always),
    /// An interrupt so long after the first packet that is not announced (an absolute timer; rx-usecs where it is one) (s).
    pub absolute_timer_s: Option<f64> = None => Time("rx_usecs", always),
    /// An interrupt so long after the last packet (s).
    pub packet_timer_s: Option<f64> = None => Time("packet_timer", always),
    /// At most one interrupt in so long, counted from its assertion (ITR, EITR; rx-usecs of Intel's drivers) (s).
    pub min_gap_s: Option<f64> = None => Time("min_gap", always),
    #[unwritten]
    /// What an emulated NIC does otherwise.
    pub quirk: Quirk,
}
}

/// How an emulated NIC departs from the hardware that it is modelled on. The testbed of a guest reads it from the name of the guest's machine and hands
/// it to the simulator; no user writes it, and no scheme is printed with it. Records, and agents among themselves, have it in a scheme's text
/// ([`Scheme::record`]).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quirk {
    /// How the gap between two interrupts is kept.
    pub gap: Gap,
    /// How late the end of the gap comes, and the least from there to the next interrupt, where who keeps it also moves the packets
    /// ([`Gap::Echo`]) (s).
    pub gap_late_s: Option<f64>,
}

/// How a NIC keeps the gap between two interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gap {
    /// Each interrupt starts one.
    #[default]
    Each,
    /// The end of each gap interrupts, packet or not, masked or not, and starts none, so that the next may follow at once; unmasking
    /// interrupts also for packets that came since the last cause and that polls have taken. QEMU's e1000e with MSI-X up to 10.0
    /// (hw/net/e1000e_core.c, `e1000e_intrmgr_on_msix_throttling_timer`, whose flag of a waiting interrupt is never cleared, and
    /// `e1000e_msix_notify_one`).
    Direct,
    /// An interrupt that waited starts none; the end of each gap interrupts, packet or not; the interrupt is not masked while NAPI polls.
    /// QEMU's igb from 8.0 to 10.0 (hw/net/igb_core.c, `igb_intrmgr_on_msix_throttling_timer`, `igb_msix_notify`).
    Echo,
    /// Each interrupt starts one. A packet that comes after the handler has read its cause is remembered: unmasking interrupts for it, after the gap, also where a
    /// poll has taken it. QEMU's e1000e without MSI-X (hw/net/e1000e_core.c, `e1000e_send_msi`: the cause stays in ICR).
    Latched,
    /// It keeps none. A packet that comes while the interrupt is masked is remembered as with [`Gap::Latched`], and the interrupt for it leaves it unmasked until the
    /// next packet. QEMU's vmxnet3 (hw/net/vmxnet3.c, `vmxnet3_trigger_interrupt`, `vmxnet3_on_interrupt_mask_changed`).
    Reopened,
}

impl From<Gap> for Quirk {
    fn from(gap: Gap) -> Self {
        Self { gap, gap_late_s: None }
    }
}

impl Gap {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Each, Self::Direct, Self::Echo, Self::Latched, Self::Reopened];

    /// As records write it.
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
/// Interrupt coalescing; what is None or zero is off.
#[derive(Debug, Clone, PartialEq)]
pub struct Coalesce {
    /// tau: an interrupt when so many frames are counted.
    pub frames: Option<u64> = None => Count("frames", always),
    /// T_abs: an interrupt so long after the first packet since the last interrupt (s).
    pub absolute_timer_s: Option<f64> = None => Time("usecs", always),
    /// True: the timer of `usecs` runs free: it ticks every `usecs` whatever comes, and a tick interrupts if packets came since the last
    /// interrupt. False: the first packet starts it.
    pub free_timer: bool = false => Flag("free_timer", changed),
    /// T_pkt: an interrupt so long after the last packet (s).
    pub packet_timer_s: Option<f64> = None => Time("packet_timer", always),
    /// At most one interrupt in so long (interrupt throttle) (s).
    pub min_gap_s: Option<f64> = None => Time("min_gap", always),
    /// True: no interrupt until the ring is empty; false: interrupts preempt protocol work (the paper's).
    pub masked: bool = false => Flag("masked", changed),
    /// True: packets dropped at a full ring count and interrupt. False, the default: a NIC announces what it has written to memory.
    pub drops_interrupt: bool = false => Flag("drops_interrupt", changed),
}
}

parameter::parameters! {
/// The paper's proposal: disable-enable at low load, polling at high load, with hysteresis.
#[derive(Debug, Clone, PartialEq)]
pub struct Hybrid {
    /// T_poll of the polling part (s).
    pub period_s: f64 = PERIOD_S => Time("period", always),
    /// Q of the polling part.
    pub quota: u64 = QUOTA => Count("quota", always),
    /// Measured rate above which polling starts (pps); None: from eq. (13).
    pub up_pps: Option<f64> = None => Rate("up", always),
    /// Measured rate below which disable-enable resumes (pps); None: a tenth below `up_pps`.
    pub down_pps: Option<f64> = None => Rate("down", always),
    /// Weight of a new sample in the moving average of rate and frame size.
    pub ewma: f64 = 0.1 => Number("ewma", always),
    /// As for [`Scheme::DisableEnable`].
    pub merged: bool = false => Flag("merged", changed),
}
}

/// Which of lib/dim's tables is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DimProfile {
    /// Timer from the first event: usecs {1, 8, 64, 128, 256}.
    #[default]
    Eqe,
    /// Timer from the last event: usecs {2, 8, 16, 32, 64}.
    Cqe,
}

parameter::parameters! {
/// Linux's dynamic interrupt moderation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dim {
    /// Table of usecs and frames.
    pub profile: DimProfile = DimProfile::Eqe => Name("profile", always),
    /// Index at the start, 0 to 4.
    pub start: u32 = 1 => Count("start", always),
}
}

impl Scheme {
    /// The scheme's name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ideal => "ideal",
            Self::Interrupt { .. } => "interrupt",
            Self::DisableEnable { .. } => "disable-enable",
            Self::Polling { .. } => "polling",
            Self::Napi2007(_) => "napi-2007",
            Self::FreebsdPolling(_) => "freebsd-polling",
            Self::SoftTimers(_) => "soft-timers",
            Self::Napi(_) => "napi",
            Self::Coalesce(_) => "coalesce",
            Self::Hybrid(_) => "hybrid",
            Self::Dim(_) => "dim",
        }
    }

    /// Checks the parameters against their ranges and against `host`.
    pub fn validate(&self, host: &Host) -> Result<(), Invalid> {
        match self {
            Self::Ideal | Self::Interrupt { .. } | Self::DisableEnable { .. } => Ok(()),
            Self::Polling { period_s, quota } => poll_range(host, *period_s, *quota),
            Self::Napi2007(polled) => poll_range(host, polled.period_s, polled.quota),
            Self::FreebsdPolling(polling) => polling.validate(host),
            Self::SoftTimers(soft) => soft.validate(host),
            Self::Napi(napi) => napi.validate(host),
            Self::Coalesce(coalesce) => coalesce.validate(host),
            Self::Hybrid(hybrid) => hybrid.validate(host),
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
    /// The applications' share (whole percent).
    pub fn user_percent(&self) -> u64 {
        (100.0 * self.user_frac).round() as u64
    }

    fn validate(&self, host: &Host) -> Result<(), Invalid> {
        poll_range(host, self.period_s, self.burst_max)?;
        let percent = 100.0 * self.user_frac;
        if !(0.0..=99.0).contains(&percent) || (percent - percent.round()).abs() > 1e-9 {
            let value = crate::units::print_share(self.user_frac);
            return Err(Invalid::new("user_frac", value, "must be a whole percentage from 0 % to 99 %, such as 50%"));
        }
        Ok(())
    }
}

impl SoftTimers {
    fn validate(&self, host: &Host) -> Result<(), Invalid> {
        poll_range(host, self.period_s, self.quota)?;
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
    /// True if the NIC holds interrupts back at all, or interrupts more often than for the packets that it has.
    pub fn is_on(&self) -> bool {
        let on = |timer: Option<f64>| timer.is_some_and(|seconds| seconds > 0.0);
        matches!(self.quirk.gap, Gap::Latched | Gap::Reopened)
            || self.frames.is_some_and(|frames| frames > 1)
            || self.has_timer()
            || on(self.min_gap_s)
    }

    /// True if a timer announces what the count does not.
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

    /// Period of the timer that runs free (s). `None` if packets start the timer, or it is off.
    pub fn free_period_s(&self) -> Option<f64> {
        self.absolute_timer_s.filter(|seconds| self.free_timer && *seconds > 0.0)
    }
}

impl Hybrid {
    fn validate(&self, host: &Host) -> Result<(), Invalid> {
        poll_range(host, self.period_s, self.quota)?;
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
