//! Calibration: what this host's packets cost, from CPU time at loads well below the cliff.
//!
//! Every trial gives thousands of polls of 1, 2, 3, ... packets, so that one trial alone separates the cost of a packet
//! from that of a poll; the figures are means over the trials, and their intervals include the machine's drift:
//!
//! poll time = poll + protocol x packets + wakeup if the CPU was idle;
//! application time - hidden x interrupts that hit it = application x packets + context switch x wake-ups.
//!
//! The hidden part of an interrupt (leaving and entering a virtual machine, cold caches afterwards) is charged to
//! whatever it interrupts. An application that works 1 ms a packet while the socket overflows measures it: the excess
//! over its known work, divided by the interrupts that hit it. It is added to the measured time of handlers. What one takes from a poll that it hits, as only
//! NICs do that do not mask, is told by polls that were hit before their first packet, against those that were not.
//!
//! Behind a NIC the interrupts of the timer and of other CPUs, other softirqs and other tasks are taken to lengthen what they interrupt
//! ([`Counts::by_the_clock`]).
//!
//! The interrupt's latency follows from how many packets a poll finds: a poll that begins L + s + o after the packet
//! that caused it starts with 1 + lambda (L + s + o) packets and, serving until the queue is empty, takes
//! n = (1 + lambda (L + s + o)) / (1 - lambda t) of them, t being the protocol time of a packet. Not so behind a NIC, whose moderation
//! lets packets wait, too: there calibration takes it for zero, and the trials near the cliff tell it where that moderation is known
//! (find/delivery.rs).

mod describe;
mod fit;
mod present;
mod reading;
mod resample;
mod variation;

use netcliff_core::finding::Calibration;
use netcliff_core::{Host, Service};

use netcliff_core::verdict::Void;

use fit::Fits;
pub use fit::poll_line;
use netcliff_stats as stats;
use netcliff_trial::bench::{Bench, Counts, Observation};
use netcliff_trial::trial::{TrialError, TrialSpec};
pub(crate) use present::FEWEST;
pub use present::{Resampled, Trials};

/// Loads of the regression as shares of the rough cliff. Not lower: an almost idle host pays for cold caches that a
/// loaded one does not (`netcliff find --json` shows the packets' cost falling with the load).
pub const SHARES: [f64; 5] = [0.15, 0.3, 0.45, 0.6, 0.75];
/// Index in [`SHARES`] of the load that is also offered in larger frames, right after, so that the pair differs in nothing else.
const SIZE_PLACE: usize = 2;
/// The larger frame [bytes, FCS included].
pub const LARGE_FRAME_BYTES: u32 = 1518;
/// Work that all but keeps the application from reading (s): its socket stays full, nearly every packet is dropped there,
/// and each piece of work is interrupted some hundred times.
const BLOCKED_WORK_S: f64 = 1e-3;
/// Load that keeps the socket full while some packets are read, as a share of the rough cliff. By load, not by work: an application that works
/// beside reading is interrupted so often that the cold reading, a tenth of its time, drowns in what interrupts cost it.
const FULL_SHARE: f64 = 1.4;
/// Load of the trials whose packets are all dropped at the socket, as a share of the rough cliff, where packets come through the backlog:
/// where most are dropped, the queue between the CPUs is as contended as there.
const BLOCKED_SHARE: f64 = 1.5;
/// The same for a NIC: past its cliff its NAPI polls all the time, and what else takes CPU time would be charged to the few interrupts left.
const BLOCKED_SHARE_OF_A_NIC: f64 = 0.3;
/// Loss above which a trial is taken to have kept the socket full.
pub const FULL_LOSS: f64 = 0.1;
/// Loss up to which such a trial is taken to have lost next to nothing: the rough cliff was too low.
const NONE_LOST: f64 = 0.01;
/// What the rough cliff rises by then: three quarters of it are about what the host took.
const RISE: f64 = 2.0;
/// Share of a trial's packets from which on its socket is taken to have held all.
const ALL_DELIVERED: f64 = 0.9;
/// And from which on none of them found it full: what waits there at both ends of a trial is a few percent of its packets.
const ALL_TAKEN: f64 = 0.95;
/// Fewest trials with warm packets that tell the costs of these alone: two rounds of three loads.
const FEWEST_WARM: usize = 6;
/// Least length of its trials (s). Between two of them the machine changes more than a longer one would average out.
pub const LEAST_TRIAL_S: f64 = 0.4;
/// Packets that each is to have, as far as the length of the run's other trials allows.
const PACKETS: f64 = 10e3;
/// Trials of a round.
pub const TRIALS_A_ROUND: usize = SHARES.len() + 3;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Rounds over all loads, interleaved so that drift hits all alike.
    pub rounds: u32,
    /// Rough cliff, of which the loads are shares (pps).
    pub rough_pps: f64,
    /// Packets come through a CPU's backlog, not from a NIC of its own NAPI.
    pub backlog: bool,
}

/// Why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// A trial failed or was stopped.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The meter does not distinguish protocol processing from the application.
    #[error("costs cannot be calibrated without a meter that tells softirq from application time: {0}")]
    NoMeter(String),
    /// The counts do not determine the costs.
    #[error("{what}: {trials} trials do not determine the costs; lengthen the run")]
    Undetermined {
        /// Which cost.
        what: &'static str,
        /// Trials that were usable.
        trials: usize,
    },
}

/// Result of the fit, for the page and for the engines.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// For the page.
    pub calibration: Calibration,
    /// Application time a byte of frame (s): what a longer frame adds to reading it.
    pub application_per_byte_s: f64,
    /// Fitted costs, to predict the CPU time of a trial.
    pub costs: Costs,
    /// Frame size of the regression (bytes).
    pub frame_bytes: u32,
    /// Standard deviation over the mean of the times that the engines draw: a packet's, behind a NIC a poll's; None: too few polls to tell it.
    pub variation: Option<f64>,
    /// Bootstrap replicates of the host: the fit to resampled trials.
    pub resampled: Vec<Resampled>,
    /// The trials of it with the configured application that lost next to nothing, without the times of their polls.
    pub quiet: Vec<Counts>,
}

/// Costs (s) of what is counted in a trial of the calibrated frame and work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// A packet in protocol processing.
    pub protocol_s: f64,
    /// A poll.
    pub poll_s: f64,
    /// Waking the application.
    pub wakeup_s: f64,
    /// The switch to it.
    pub context_switch_s: f64,
    /// A packet in the application.
    pub application_s: f64,
    /// What an interrupt adds to the application it hits.
    pub hidden_s: f64,
    /// What one adds to the poll that it hits.
    pub hidden_polling_s: f64,
    /// Protocol time of a packet that a full socket drops, as a share of a delivered one's.
    pub socket_drop_cost: f64,
    /// What a full socket adds to a packet's protocol and application time.
    pub cold_protocol_s: f64,
    /// See `cold_protocol_s`.
    pub cold_application_s: f64,
    /// Packets come from a CPU's backlog: the interrupt's latency follows from what polls find. Behind a NIC moderation lets packets wait, too.
    pub backlog: bool,
}

impl Costs {
    /// CPU time of softirqs and application over what these costs predict for a trial that lost this share; None if they predict no time.
    /// A trial that lost more than a tenth kept the socket full, as in calibration; one that lost less is taken to have been warm.
    pub fn slowness(&self, counts: &Counts, loss: f64) -> Option<f64> {
        let (cold_protocol_s, cold_application_s) =
            if loss > FULL_LOSS { (self.cold_protocol_s, self.cold_application_s) } else { (0.0, 0.0) };
        let expected_s = self.softirq_time_s(counts)
            + self.hidden_polling_s * counts.softirq_interrupts
            + self.application_time_s(counts)
            + cold_protocol_s * self.whole(counts)
            + cold_application_s * counts.delivered;
        (expected_s > 0.0).then(|| (counts.protocol_s + counts.application_s) / expected_s)
    }

    /// Packets that softirqs took, a dropped one at the share that it costs.
    fn whole(&self, counts: &Counts) -> f64 {
        let dropped = (counts.packets - counts.delivered).max(0.0);
        counts.delivered.min(counts.packets) + self.socket_drop_cost * dropped
    }

    /// What a whole packet took in protocol processing, where polls and wake-ups took `times` as long as these costs (s).
    fn protocol_of_s(&self, counts: &Counts, times: f64) -> f64 {
        let besides_s = self.poll_s * counts.polls + self.wakeup_s * counts.wakeups;
        (counts.own_protocol_s(times * self.hidden_polling_s) - times * besides_s) / self.whole(counts)
    }

    /// What a packet took in the application, where switches and interrupts took `times` as long (s).
    fn application_of_s(&self, counts: &Counts, times: f64) -> f64 {
        let besides_s = self.context_switch_s * counts.wakeups + self.hidden_s * counts.busy_interrupts;
        (counts.application_s - times * besides_s) / counts.delivered
    }

    /// Time in softirqs that these costs give for what was counted, without what interrupts took from them (s).
    fn softirq_time_s(&self, counts: &Counts) -> f64 {
        self.protocol_s * self.whole(counts) + self.poll_s * counts.polls + self.wakeup_s * counts.wakeups
    }

    /// The application's, likewise.
    fn application_time_s(&self, counts: &Counts) -> f64 {
        self.application_s * counts.delivered
            + self.context_switch_s * counts.wakeups
            + self.hidden_s * counts.busy_interrupts
    }
}

impl Calibrated {
    /// The host as frames of `frame_bytes` meet it, with `extra_work_s` more application time a packet than calibrated.
    pub fn host_for(&self, frame_bytes: u32, extra_work_s: f64) -> Host {
        let mut host = self.calibration.host.clone();
        let more_bytes = f64::from(frame_bytes) - f64::from(self.frame_bytes);
        host.application_s =
            host.application_s.map(|own| own + extra_work_s + self.application_per_byte_s * more_bytes);
        host
    }

    /// The times of packets, polls and interrupts, all with one variation ([`Calibrated::variation`]); exponential if it was not measured.
    pub fn times(&self) -> Service {
        self.variation.map_or(Service::Exponential, variation::times)
    }
}

/// Everything that was observed.
#[derive(Debug, Default)]
struct Seen {
    /// Trials with the configured application.
    plain: Vec<Counts>,
    /// Those of them that lost next to nothing, without the times of their polls.
    quiet: Vec<Counts>,
    /// (Base frames, large frames) at the same load.
    sizes: Vec<(Counts, Counts)>,
    /// (The highest load, a socket kept full), one right after the other: what they differ in is the full socket, not the machine's speed.
    full: Vec<(Counts, Counts)>,
    /// A socket that is hardly read, extra work [`BLOCKED_WORK_S`].
    blocked: Vec<Counts>,
    /// Packets such a socket holds.
    capacity: Option<f64>,
    /// Slots of the backlog, or of the NIC's ring.
    ring: Option<u64>,
    /// Packets come through a CPU's backlog.
    backlog: bool,
}

impl Seen {
    /// Trials whose application got nearly all that softirqs took: those with the configured one below the cliff, and those past the cliff of a
    /// ring, where polls are as long as they get. Behind a NIC those whose packets were warm, where they are enough: in an emulated guest a packet of a filled socket
    /// takes softirqs three times as long.
    fn delivering(&self) -> Vec<&Counts> {
        let past = self.full.iter().map(|(_, full)| full);
        let past = past.filter(|full| full.delivered >= ALL_DELIVERED * full.packets);
        let warm: Vec<&Counts> = self.plain.iter().filter(|_| !self.backlog).filter(|trial| is_warm(trial)).collect();
        if warm.len() >= FEWEST_WARM { warm } else { self.plain.iter().chain(past).collect() }
    }

    /// Those that the costs have to explain: all plain ones of a backlog, behind a NIC those they are fitted to.
    fn explained(&self) -> Vec<&Counts> {
        if self.backlog { self.plain.iter().collect() } else { self.delivering() }
    }
}

/// No packet waited behind more than some polls' worth of them: none was dropped at the socket, and ksoftirqd, whose turns fill it, did not poll.
pub(crate) fn is_warm(trial: &Counts) -> bool {
    trial.delivered >= ALL_TAKEN * trial.packets && trial.packets <= fit::LARGEST_POLL * trial.polls
}

/// How many times as long as in the median of them the handler of an interrupt takes in each of these trials: the same code, some thousand times a trial, whatever the load.
/// None where one of them has no interrupts.
fn slowness_of_handlers(trials: &[&Counts]) -> Option<Vec<f64>> {
    let each: Vec<f64> =
        trials.iter().map(|c| c.handler_s().filter(|handler_s| *handler_s > 0.0)).collect::<Option<_>>()?;
    let median = stats::median(&each)?.value;
    Some(each.into_iter().map(|handler_s| handler_s / median).collect())
}

/// The regression by `fit` of trials as they are, or each at the speed that its handlers show, whichever explains more: an emulated CPU is half as fast in one trial as
/// in the next.
fn by_speed(seen: &Seen, trials: &[&Counts], fit: impl Fn(&[f64]) -> Option<stats::Fit>) -> Option<stats::Fit> {
    let as_they_are = fit(&vec![1.0; trials.len()]);
    let slowness = slowness_of_handlers(trials).filter(|_| !seen.backlog);
    let at_speed = slowness.and_then(|slowness| fit(&slowness));
    match (as_they_are, at_speed) {
        (Some(one), Some(other)) => Some(if other.r_squared > one.r_squared { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// Calibrates with `base` as the trial (its frame size and work; the rate is set here).
///
/// # Errors
/// See [`CalibrationError`].
pub fn calibrate(bench: &mut dyn Bench, base: &TrialSpec, plan: Plan) -> Result<Calibrated, CalibrationError> {
    let method = bench.cpu_method().map_err(CalibrationError::NoMeter)?;
    let seen = observe(bench, base, plan)?;
    let fits = Fits::of(&seen, base)?;
    let mut calibration = describe::calibration(&fits, &seen, base, &method);
    let resampled = resample::hosts(&seen, base, &calibration.host);
    calibration.correlated = resample::correlated(&resampled);
    let application_per_byte_s = fits.application_per_byte_s();
    let costs = fits.costs();
    let frame_bytes = base.frame_bytes;
    // Behind a NIC a poll is mostly what it takes beside its packets.
    let of_all = |own: f64| if seen.backlog { own } else { variation::of_polls(own, costs.protocol_s, costs.poll_s) };
    let variation = fits.variation.map(|figure| of_all(figure.value));
    let quiet = seen.quiet;
    Ok(Calibrated { calibration, application_per_byte_s, costs, frame_bytes, variation, resampled, quiet })
}

/// Interrupt latency (s), from the packets that a poll finds; protocol work takes `service_s` a packet and begins `before_s` after the
/// interrupt. None without polls.
fn latency_s(counts: &Counts, service_s: f64, before_s: f64) -> Option<f64> {
    if counts.polls <= 0.0 || counts.elapsed_s <= 0.0 {
        return None;
    }
    let lambda = counts.packets / counts.elapsed_s;
    let started = counts.packets / counts.polls * (1.0 - lambda * service_s);
    Some((started - 1.0) / lambda - before_s)
}

/// Length of each trial (s), of a host whose rough cliff is at `rough_pps`: at most `longest_s`.
fn trial_s(rough_pps: f64, longest_s: f64) -> f64 {
    (PACKETS / (SHARES[0] * rough_pps)).max(LEAST_TRIAL_S).min(longest_s)
}

fn observe(bench: &mut dyn Bench, base: &TrialSpec, plan: Plan) -> Result<Seen, TrialError> {
    let base = &TrialSpec { seconds: trial_s(plan.rough_pps, base.seconds), ..base.clone() };
    let mut seen = Seen { backlog: plan.backlog, ..Seen::default() };
    let mut rough_pps = plan.rough_pps;
    for round in 0..plan.rounds {
        let seed = base.seed + u64::from(round) * 101;
        let of_pps = rough_pps;
        let mut at = |share: f64, number: u64, change: &dyn Fn(&mut TrialSpec)| {
            let mut spec = TrialSpec { rate_pps: share * of_pps, seed: seed + number, ..base.clone() };
            change(&mut spec);
            bench.observe(&spec, true)
        };
        for (place, share) in SHARES.iter().enumerate() {
            let plain = at(*share, place as u64, &|_| ())?;
            let lost_little = plain.loss() <= NONE_LOST;
            let plain = usable(plain);
            seen.quiet.extend(plain.clone().filter(|_| lost_little).map(|c| Counts { poll_times: Vec::new(), ..c }));
            if place + 1 == SHARES.len() {
                let full = at(FULL_SHARE, 60, &|_| ())?;
                let reached = !matches!(full.void(), Some(Void::SenderTooSlow { .. }));
                if reached && full.loss() <= NONE_LOST {
                    // Small loads have small polls and say little of large ones: the rounds to come go higher.
                    rough_pps *= RISE;
                    seen.plain.extend(usable(full));
                } else if full.loss() > FULL_LOSS {
                    // Only a trial that overflowed its socket kept it full.
                    seen.full.extend(plain.clone().zip(usable(full)));
                }
            }
            if place == SIZE_PLACE {
                let large = usable(at(*share, 40, &|spec| spec.frame_bytes = LARGE_FRAME_BYTES)?);
                seen.sizes.extend(plain.clone().zip(large));
            }
            seen.plain.extend(plain);
        }
        let share = if plan.backlog { BLOCKED_SHARE } else { BLOCKED_SHARE_OF_A_NIC };
        let blocked = at(share, 20, &|spec| {
            spec.work_s += BLOCKED_WORK_S;
            // A buffer of a few packets is full from the start, and its packets are not cold.
            spec.receive_buffer_bytes = 4096;
        })?;
        seen.blocked.extend(usable(blocked));
    }
    seen.capacity = bench.socket_capacity(base)?;
    seen.ring = bench.ring_slots();
    Ok(seen)
}

/// The counts of a trial that took, delivered and processed packets, by the clock; None for others.
fn usable(observation: Observation) -> Option<Counts> {
    let some = |counts: &Counts| counts.packets > 0.0 && counts.delivered > 0.0 && counts.protocol_s > 0.0;
    observation.counts.filter(some).map(|counts| counts.by_the_clock())
}

#[cfg(test)]
pub(crate) mod tests;
