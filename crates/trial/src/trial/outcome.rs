//! Converts a trial to an outcome, and to the counts for calibration's regression.

use netcliff_core::note::Note;
use netcliff_core::verdict::{LATE_NS, TesterCounts, VoidClass};
use netcliff_core::{CpuShares, Figure, Latency, Loss, Outcome};
use netcliff_host::cpu::heartbeat::{self, Pause};
use netcliff_host::cpu::{self, CpuSplit, PollCell, PollKind, PollTable, Reception};
use netcliff_host::nic::losses::Cause;
use netcliff_packets::generator::{SLOT_NS, SentSlot};
use netcliff_packets::run::WireRun;

use super::Trial;
use crate::bench::{Counts, Handlers, Observation, PollTime, Slot, Slots, Span, Visit};
use crate::rig::before_the_stack;

impl Trial {
    /// The trial in the form for calibration and search.
    pub fn observation(&self) -> Observation {
        Observation {
            spec: self.spec.clone(),
            outcome: self.outcome(),
            sides: self.sides(),
            sent: self.wire.accounting.offered,
            slots: self.slots(),
            lateness_p99_s: self.wire.sender.lateness.quantile_s(0.99),
            steal_share: self.steal_share,
            outside: self.outside,
            counts: self.counts(),
        }
    }

    /// Counts that decide whether the trial is void. Frames refused by the sender's own limits do not count as offered.
    fn sides(&self) -> TesterCounts {
        let sender = &self.wire.sender;
        let frames = &self.wire.accounting;
        let accepted = if frames.offered == 0 { 0.0 } else { 1.0 - frames.sender as f64 / frames.offered as f64 };
        let on_time = match (sender.achieved_pps, sender.intended_pps) {
            // As in `rfc2544`: frames that left within a grace period after the end count as offered; frames that left
            // late count as late.
            _ if sender.sent_all => 1.0,
            (Some(achieved), Some(intended)) if intended > 0.0 => (achieved / intended).min(1.0),
            _ => 0.0,
        };
        TesterCounts {
            offered_share: on_time * accepted,
            reached_pps: sender.achieved_pps.unwrap_or(0.0) * accepted,
            lost: frames.offered - frames.delivered.min(frames.offered),
            late: sender.lateness.histogram().count_between(LATE_NS, u64::MAX),
            missed: 0,
        }
    }

    fn slots(&self) -> Slots {
        let Some(window) = self.wire.sink.window else { return Slots::default() };
        let delivered = |place: usize| self.wire.sink.slots.get(place).copied().unwrap_or(0);
        let slot = |(place, sent): (usize, &SentSlot)| Slot {
            sent: sent.sent,
            lost: sent.sent.saturating_sub(delivered(place)),
            late: sent.late,
        };
        let span = |from_ns: u64, to_ns: u64| Span {
            from_s: (from_ns as f64 - window.from_ns as f64) * 1e-9,
            length_s: to_ns.saturating_sub(from_ns) as f64 * 1e-9,
        };
        let visit = |visit: &heartbeat::Visit| Visit {
            at: span(visit.time.from_ns, visit.time.to_ns),
            task: visit.task.clone(),
        };
        let paused = |pauses: &Vec<Pause>| pauses.iter().map(|pause| span(pause.from_ns, pause.to_ns)).collect();
        Slots {
            each_s: SLOT_NS as f64 * 1e-9,
            slots: self.wire.sender.slots.iter().enumerate().map(slot).collect(),
            sender_stalls: self.wire.sender.stalls.iter().map(|gap| span(gap.from_ns, gap.to_ns)).collect(),
            host_pauses: self.host_pauses.as_ref().map(paused),
            sender_pauses: self.sender_pauses.as_ref().map(paused),
            visits: self.visits.as_ref().map(|visits| visits.iter().map(visit).collect()),
        }
    }

    /// Times and events for the regression; `None` unless the meter separates softirq and application time.
    fn counts(&self) -> Option<Counts> {
        let split = self.cpu.as_ref().filter(|split| split.method == cpu::Method::Ebpf)?;
        let time_s = |share: Option<f64>| share.map(|share| share * split.elapsed_s);
        let delivered = self.metered_delivered as f64;
        let elsewhere =
            [&split.shares.transmit, &split.shares.softirq_other, &split.shares.ksoftirqd, &split.shares.other];
        let in_window = self.wire.sink.window_delivered.max(1) as f64;
        let reception = split.counters.reception()?;
        let table = split.polls.as_ref();
        let raised = self.own_interrupts_per_s().map(|per_s| per_s * split.elapsed_s);
        let (busy_interrupts, softirq_interrupts) = match (table, &raised) {
            (Some(table), Some(_)) => (table.hit_application as f64, table.hit_softirqs as f64),
            // For a CPU's backlog, only interrupts that begin a softirq are counted.
            (table, _) => (table.map_or(0.0, begun_from_busy), 0.0),
        };
        let handlers = || {
            let (time_s, count) = (time_s(split.shares.device_interrupt)?, split.counters.device_interrupts? as f64);
            Some(Handlers { time_s, count })
        };
        Some(Counts {
            elapsed_s: split.elapsed_s,
            protocol_s: time_s(split.shares.protocol)?,
            interrupt_s: time_s(split.shares.interrupt)?,
            devices: raised.and_then(|_| handlers()),
            application_s: time_s(split.shares.application)?,
            idle_s: time_s(split.shares.idle)?,
            other_s: elsewhere.into_iter().filter_map(|share| time_s(*share)).sum(),
            meter_s: time_s(split.overhead_share),
            packets: reception.packets as f64,
            polls: reception.polls as f64,
            interrupts: reception.interrupts as f64,
            raised,
            delivered,
            undisturbed_work_s: self.wire.sink.undisturbed_work_s,
            // Counted over the window by the sink; the meter's interval differs by a few milliseconds.
            wakeups: self.wire.sink.wakeups().unwrap_or(0) as f64 * delivered / in_window,
            busy_interrupts,
            softirq_interrupts,
            poll_times: table.map(|table| table.cells.iter().filter_map(poll_time).collect()).unwrap_or_default(),
            tail_s: table.map_or(0.0, |table| table.tail_s),
            looks: table.map_or(0.0, |table| table.looks as f64),
            look_s: table.map_or(0.0, |table| table.look_s),
            hit_looks: table.map_or(0.0, |table| table.hit_looks as f64),
            hit_look_s: table.map_or(0.0, |table| table.hit_look_s),
            look_hits: table.map_or(0.0, |table| table.look_hits as f64),
        })
    }

    /// The trial as an outcome.
    pub fn outcome(&self) -> Outcome {
        let accounting = &self.wire.accounting;
        let missed = self.missed();
        let share =
            |count: u64| (accounting.offered > 0).then(|| Figure::exact(count as f64 / accounting.offered as f64));
        let delivered_pps = self.wire.delivered_pps();
        let frame_bits = 8.0 * f64::from(self.spec.shape.frame_bytes);
        let cpu = self.cpu.as_ref();
        let count = |pick: fn(&cpu::Counters) -> Option<u64>| {
            cpu.and_then(|split| pick(&split.counters).map(|n| Figure::exact(n as f64 / split.elapsed_s)))
        };
        Outcome {
            offered_pps: self.wire.offered_pps().map(Figure::exact),
            throughput_pps: delivered_pps.map(Figure::exact),
            goodput_bps: delivered_pps.map(|pps| Figure::exact(pps * frame_bits)),
            loss_fraction: self.wire.loss_fraction().map(Figure::exact),
            loss: Some(Loss {
                ring: share(accounting.refused + missed),
                socket: share(accounting.elsewhere - missed),
                sender: share(accounting.sender),
            }),
            latency_s: latency(&self.wire),
            latency_to: Some("application".to_owned()),
            cpu: cpu.map(shares),
            cpu_method: cpu.map(|split| split.method.to_string()),
            interrupts_per_s: self
                .own_interrupts_per_s()
                .map(Figure::exact)
                .or_else(|| count(|c| Some(c.ipis? + c.device_interrupts.unwrap_or(0)))),
            polls_per_s: count(|c| Some(c.reception()?.polls)),
            packets_per_poll: cpu.and_then(|split| {
                let Reception { polls, packets, .. } = split.counters.reception()?;
                (polls > 0).then(|| Figure::exact(packets as f64 / polls as f64))
            }),
            transmitted: None,
            packets_in_system: None,
            precision: None,
            applications: Vec::new(),
            queues: Vec::new(),
            notes: self.notes(),
        }
    }

    /// Packets of the window that the interface dropped for lack of space or by an XDP program, estimated from the
    /// counters of the whole run. At most the number of packets whose place of loss is not known otherwise.
    fn missed(&self) -> u64 {
        let known = self.received.map_or(0, |received| received.missed);
        let missed = known.max(before_the_stack(&self.losses)) as f64;
        let in_window = self.wire.accounting.offered as f64 / self.wire.sender.frames.total().max(1) as f64;
        ((missed * in_window).round() as u64).min(self.wire.accounting.elsewhere)
    }

    /// NIC interrupts per second in the window. The NIC counts the whole run, so this is (interrupts per frame over the
    /// run) x (frames/s in the window). `None` in a namespace testbed, where other CPUs interrupt, and if the device's
    /// interrupts are not listed.
    fn own_interrupts_per_s(&self) -> Option<f64> {
        let counted: u64 = self.vectors.values().sum();
        let frames = self.wire.sender.frames.total();
        if counted == 0 || frames == 0 {
            return None;
        }
        Some(counted as f64 / frames as f64 * self.wire.offered_pps()?)
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let void = self.sides().void(self.counts().is_some_and(|counts| counts.is_saturated()));
        notes.extend(void.map(|void| match void.why.class() {
            VoidClass::Sender => Note::BelowSchedule,
            VoidClass::Sink | VoidClass::Delay => Note::SentLate,
        }));
        notes.extend(self.losses.each().filter_map(|(name, cause, packets)| match cause {
            Cause::NoRoom | Cause::Waited | Cause::Other => None,
            Cause::Xdp => Some(Note::LostToXdp(name.to_string(), packets)),
            Cause::Allowance => Some(Note::LostToAllowance(name.to_string(), packets)),
        }));
        notes.extend((self.steal_share > 0.01).then_some(Note::Stolen(self.steal_share)));
        notes
    }
}

/// Number of polls that began a softirq which interrupted or followed a task.
fn begun_from_busy(table: &PollTable) -> f64 {
    table.cells.iter().filter(|cell| cell.kind == PollKind::FirstFromBusy).map(|cell| cell.polls as f64).sum()
}

/// Converts a cell of the poll table for the regression. `None` if the cell is empty or spans several numbers of
/// packets, and for second and later polls of a softirq, which are few.
pub fn poll_time(cell: &PollCell) -> Option<PollTime> {
    let single = cell.work_high == Some(cell.work_low) && cell.polls > 0;
    let first = matches!(cell.kind, PollKind::FirstFromIdle | PollKind::FirstFromBusy);
    let polls = cell.polls as f64;
    let mean_s = cell.total_s / polls;
    (single && first).then(|| PollTime {
        packets: f64::from(cell.work_low),
        polls,
        mean_s,
        variance_s2: (cell.total_squared_s2 / polls - mean_s * mean_s).max(0.0),
        from_idle: cell.kind == PollKind::FirstFromIdle,
    })
}

/// Time from the kernel's receive timestamp to the application's read. With a backlog the timestamp is taken before the
/// backlog, as in model and simulation; with a NIC it is taken in the poll, when the packet has left the ring. Without
/// such timestamps, the time from the intended send time to the read is used. `None` if neither was measured.
fn latency(wire: &WireRun) -> Option<Latency> {
    let summary = wire.sink.kernel_to_read.summary().or_else(|| wire.sink.end_to_end.summary())?;
    Some(Latency {
        mean: Some(summary.mean_s.into()),
        p50: Some(summary.p50_s.into()),
        p90: Some(summary.p90_s.into()),
        p99: Some(summary.p99_s.into()),
        p999: Some(summary.p999_s.into()),
        max: Some(summary.max_s.into()),
        done_mean: None,
    })
}

/// Converts the meter's classes to CPU shares: time outside interrupts, protocol processing and application counts as
/// available, because another task could have used it.
fn shares(split: &CpuSplit) -> CpuShares {
    let shares = &split.shares;
    let figure = |share: Option<f64>| share.map(Figure::exact);
    let available = shares.available.or_else(|| {
        let rest = [shares.idle, shares.other, shares.unaccounted];
        rest.iter().any(Option::is_some).then(|| rest.iter().flatten().sum())
    });
    CpuShares {
        interrupt: figure(shares.interrupt),
        poll: figure(
            shares.ksoftirqd.map(|own| own + shares.softirq_other.unwrap_or(0.0) + shares.transmit.unwrap_or(0.0)),
        ),
        protocol: figure(shares.protocol),
        application: figure(shares.application),
        paused: None,
        available: figure(available),
    }
}
