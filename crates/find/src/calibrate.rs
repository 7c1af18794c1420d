//! Calibration: the costs of this host's packets, from CPU time at loads well below the cliff.
//!
//! Every trial has thousands of polls of 1, 2, 3, ... packets, so that even one trial separates the cost of a packet
//! from the cost of a poll. Results are means over the trials, and their intervals include the machine's drift:
//!
//! poll time = poll + protocol x packets + wakeup if the CPU was idle;
//! application time - hidden x interrupts that hit it = application x packets + context switch x wake-ups.
//!
//! The hidden part of an interrupt (leaving and entering a virtual machine, cold caches afterwards) is charged to
//! whatever the interrupt interrupts. It is measured with an application that works 1 ms per packet while its socket
//! overflows: the time of the application beyond its known work, divided by the number of interrupts during the work.
//! It is added to the measured time of handlers. The part charged to an interrupted poll, which happens only with NICs
//! that do not mask interrupts while polling, is the difference between polls that were interrupted before their first
//! packet and polls that were not.
//!
//! With a NIC, interrupts of the timer and of other CPUs, other softirqs and other tasks are assumed to lengthen what
//! they interrupt ([`Counts::by_the_clock`]).
//!
//! The interrupt's latency L follows from the number of packets per poll: let s be the cost of an interrupt, o that of
//! a poll, t the protocol time of a packet, and lambda the load. The first packet is served L + s + o after it caused
//! the interrupt; 1 + lambda (L + s + o) packets wait by then. The poll serves until the queue is empty, so it takes n
//! = (1 + lambda (L + s + o)) / (1 - lambda t) packets. This does not hold with a NIC, whose moderation lets packets
//! wait, too: calibration then assumes L = 0, and if the moderation is known, trials near the cliff give L
//! (find/delivery.rs).

mod describe;
mod fit;
mod present;
mod reading;
mod resample;
mod variation;

use netcliff_core::finding::Calibration;
use netcliff_core::{Host, Service};

use netcliff_core::verdict::VoidClass;

use fit::Fits;
pub use fit::poll_line;
use netcliff_stats as stats;
use netcliff_trial::bench::{Bench, Counts, Observation};
use netcliff_trial::trial::{TrialError, TrialShape};
pub(crate) use present::FEWEST;
pub use present::{Resampled, Trials};

/// Loads of the regression, as shares of the rough cliff. Not lower, because an almost idle host has cold caches that a
/// loaded one does not have (`netcliff find --json` shows how the cost of packets falls with the load).
pub const SHARES: [f64; 5] = [0.15, 0.3, 0.45, 0.6, 0.75];
/// Index in [`SHARES`] of the load that is repeated with larger frames, immediately after, so that nothing else differs
/// within the pair.
const SIZE_PLACE: usize = 2;
/// Size of the larger frames [bytes, FCS included].
pub const LARGE_FRAME_BYTES: u32 = 1518;
/// Additional work per packet (s) of an application that reads almost nothing: its socket stays full, nearly all
/// packets are dropped there, and each piece of work is interrupted about a hundred times.
const BLOCKED_WORK_S: f64 = 1e-3;
/// Load that keeps the socket full while some packets are read, as a share of the rough cliff. The socket is filled by
/// load, not by extra work of the application: with extra work, interrupts would take so much of the application's time
/// that the cost of reading cold packets (packets that have left the CPU's caches), a tenth of this time, could not be
/// separated from the cost of interrupts.
const FULL_SHARE: f64 = 1.4;
/// Load of the trials in which all packets are dropped at the socket, as a share of the rough cliff, if packets come
/// through the backlog. It is not higher, because where most packets are dropped, the sender's and the host's CPU
/// contend for the backlog queue.
const BLOCKED_SHARE: f64 = 1.5;
/// As [`BLOCKED_SHARE`], for a NIC: beyond the cliff its NAPI polls all the time, and other CPU time would be charged
/// to the few remaining interrupts.
const BLOCKED_SHARE_OF_A_NIC: f64 = 0.3;
/// Loss above which a trial counts as one whose socket stayed full.
pub const FULL_LOSS: f64 = 0.1;
/// Loss up to which a trial counts as having lost almost nothing. If a trial at [`FULL_SHARE`] lost no more than this,
/// the rough cliff was too low.
const NONE_LOST: f64 = 0.01;
/// Factor by which a rough cliff that was too low is raised: 0.75 of the new value is about the load that the host
/// carried at [`FULL_SHARE`].
const RISE: f64 = 2.0;
/// Share of a trial's packets that must be delivered for the trial to count as one whose socket did not overflow.
const ALL_DELIVERED: f64 = 0.9;
/// Share of a trial's packets that must be delivered for the trial to count as one in which no packet met a full
/// socket. It is below 1 because at the start and at the end of a trial a few percent of the packets wait in the
/// socket.
const ALL_TAKEN: f64 = 0.95;
/// Smallest number of trials with warm packets ([`is_warm`]) for a fit to these trials alone: two rounds of three
/// loads.
const FEWEST_WARM: usize = 6;
/// Shortest trials of the calibration (s). Longer trials would not help: the machine's speed changes more from one
/// trial to the next than a longer trial averages out.
pub const LEAST_TRIAL_S: f64 = 0.4;
/// Packets wanted per trial, if the length of the run's other trials allows it.
const PACKETS: f64 = 10e3;
/// Number of trials per round.
pub const TRIALS_A_ROUND: usize = SHARES.len() + 3;

/// Number and loads of a calibration's trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Rounds over all loads, interleaved so that drift affects all loads equally.
    pub rounds: u32,
    /// Rough cliff, to which the loads are relative (pps).
    pub rough_pps: f64,
    /// True: packets come through a CPU's backlog; false: from a NIC with its own NAPI.
    pub backlog: bool,
}

/// Why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// A trial failed or was stopped.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The meter does not separate protocol processing from the application.
    #[error("costs cannot be calibrated without a meter that tells softirq from application time: {0}")]
    NoMeter(String),
    /// The counts do not determine the costs.
    #[error("{what}: {trials} trials do not determine the costs; lengthen the run")]
    Undetermined {
        /// The cost that is undetermined.
        what: &'static str,
        /// Number of usable trials.
        trials: usize,
    },
}

/// Result of the fit, for the report and for the engines.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// The calibration for the report.
    pub calibration: Calibration,
    /// Application time per byte of the frame (s): additional time for reading longer frames.
    pub application_per_byte_s: f64,
    /// Fitted costs, which predict the CPU time of a trial.
    pub costs: Costs,
    /// Frame size of the regression (bytes).
    pub frame_bytes: u32,
    /// Coefficient of variation with which the engines draw the times of packets, polls and interrupts: measured for a
    /// packet's time, or with a NIC for a poll's time. `None`: too few polls.
    pub variation: Option<f64>,
    /// Bootstrap replicates of the host: the fit to resampled trials.
    pub resampled: Vec<Resampled>,
    /// The calibration's trials with the configured application that lost almost nothing, without the times of their
    /// polls.
    pub quiet: Vec<Counts>,
}

/// Costs (s) of the events that are counted in a trial, for the calibrated frame and work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Protocol processing of a packet.
    pub protocol_s: f64,
    /// A poll.
    pub poll_s: f64,
    /// Waking the application.
    pub wakeup_s: f64,
    /// Context switch to the application.
    pub context_switch_s: f64,
    /// Application time of a packet.
    pub application_s: f64,
    /// Cost of an interrupt to the application that it interrupts.
    pub hidden_s: f64,
    /// Cost of an interrupt to the poll that it interrupts.
    pub hidden_polling_s: f64,
    /// Protocol time of a packet dropped at a full socket, relative to the protocol time of a delivered packet.
    pub socket_drop_cost: f64,
    /// Additional protocol time of a packet if the socket is full.
    pub cold_protocol_s: f64,
    /// Additional application time of a packet if the socket is full.
    pub cold_application_s: f64,
    /// True: packets come from a CPU's backlog, and the interrupt's latency follows from the packets per poll. False:
    /// from a NIC, whose moderation also lets packets wait.
    pub backlog: bool,
}

impl Costs {
    /// Returns the trial's CPU time in softirqs and application, divided by the time that these costs predict; `None`
    /// if they predict no time. If `loss` exceeds a tenth, the prediction includes the additional costs of a full
    /// socket.
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

    /// Packets that softirqs took; each dropped packet counts as [`Self::socket_drop_cost`] of a packet.
    fn whole(&self, counts: &Counts) -> f64 {
        let dropped = (counts.packets - counts.delivered).max(0.0);
        counts.delivered.min(counts.packets) + self.socket_drop_cost * dropped
    }

    /// Protocol time of a delivered packet (s), assuming that polls and wake-ups took `times` times their calibrated
    /// time.
    fn protocol_of_s(&self, counts: &Counts, times: f64) -> f64 {
        let besides_s = self.poll_s * counts.polls + self.wakeup_s * counts.wakeups;
        (counts.own_protocol_s(times * self.hidden_polling_s) - times * besides_s) / self.whole(counts)
    }

    /// Application time of a packet (s), assuming that context switches and interrupts took `times` times their
    /// calibrated time.
    fn application_of_s(&self, counts: &Counts, times: f64) -> f64 {
        let besides_s = self.context_switch_s * counts.wakeups + self.hidden_s * counts.busy_interrupts;
        (counts.application_s - times * besides_s) / counts.delivered
    }

    /// Time in softirqs predicted for these counts, without the time that interrupts took from them (s).
    fn softirq_time_s(&self, counts: &Counts) -> f64 {
        self.protocol_s * self.whole(counts) + self.poll_s * counts.polls + self.wakeup_s * counts.wakeups
    }

    /// Application time predicted for these counts, without the time that interrupts took from it (s).
    fn application_time_s(&self, counts: &Counts) -> f64 {
        self.application_s * counts.delivered
            + self.context_switch_s * counts.wakeups
            + self.hidden_s * counts.busy_interrupts
    }
}

impl Calibrated {
    /// Returns the host for frames of `frame_bytes`, with `extra_work_s` more application time per packet than
    /// calibrated.
    pub fn host_for(&self, frame_bytes: u32, extra_work_s: f64) -> Host {
        let mut host = self.calibration.host.clone();
        let more_bytes = f64::from(frame_bytes) - f64::from(self.frame_bytes);
        host.application_s =
            host.application_s.map(|own| own + extra_work_s + self.application_per_byte_s * more_bytes);
        host
    }

    /// Distribution of the times of packets, polls and interrupts, all with the same variation
    /// ([`Calibrated::variation`]); exponential if it was not measured.
    pub fn times(&self) -> Service {
        self.variation.map_or(Service::Exponential, variation::times)
    }
}

/// Distribution of the times of packets, polls and interrupts with which `find` simulates a host of this calibration,
/// whose packets pass the `backlog` of a CPU or else a NIC's ring; `None` if the variation was not measured.
pub fn measured_times(calibration: &Calibration, backlog: bool) -> Option<Service> {
    let cost = calibration.costs.iter().find(|cost| cost.key == describe::VARIATION)?;
    let host = &calibration.host;
    Some(variation::times(variation::of_all(cost.figure.value, backlog, (host.protocol_s, host.poll_s))))
}

/// All observations of a calibration.
#[derive(Debug, Default)]
struct Seen {
    /// Trials with the configured application.
    plain: Vec<Counts>,
    /// Trials in `plain` that lost almost nothing, without the times of their polls.
    quiet: Vec<Counts>,
    /// (base frames, large frames) at the same load.
    sizes: Vec<(Counts, Counts)>,
    /// Pairs of (trial at the highest load, trial that kept the socket full), one right after the other, so that the
    /// two differ by the full socket and not by the machine's speed.
    full: Vec<(Counts, Counts)>,
    /// Trials with a socket that is hardly read, because of the extra work [`BLOCKED_WORK_S`].
    blocked: Vec<Counts>,
    /// Packets that the socket holds; `None`: not measured.
    capacity: Option<f64>,
    /// Slots of the backlog, or of the NIC's ring; `None`: unknown.
    ring: Option<u64>,
    /// True: packets come through a CPU's backlog.
    backlog: bool,
}

impl Seen {
    /// Trials whose application got nearly all packets that softirqs took: trials with the configured application below
    /// the cliff, and trials in which the ring overflowed but not the socket, whose polls are longest. With a NIC only
    /// trials with warm packets ([`is_warm`]), if there are enough: in an emulated guest softirqs take three times as
    /// long for a packet if the socket is filled.
    fn delivering(&self) -> Vec<&Counts> {
        let past = self.full.iter().map(|(_, full)| full);
        let past = past.filter(|full| full.delivered >= ALL_DELIVERED * full.packets);
        let warm: Vec<&Counts> = self.plain.iter().filter(|_| !self.backlog).filter(|trial| is_warm(trial)).collect();
        if warm.len() >= FEWEST_WARM { warm } else { self.plain.iter().chain(past).collect() }
    }

    /// Trials whose CPU time the costs must explain: with a backlog all of `plain`, with a NIC the trials that the
    /// costs are fitted to.
    fn explained(&self) -> Vec<&Counts> {
        if self.backlog { self.plain.iter().collect() } else { self.delivering() }
    }
}

/// True if the trial's packets were still in the CPU's caches when they were read ("warm"), because none waited behind
/// the packets of more than a few polls: none was dropped at the socket, and ksoftirqd, during whose turns the socket
/// fills, did not poll.
pub(crate) fn is_warm(trial: &Counts) -> bool {
    trial.delivered >= ALL_TAKEN * trial.packets && trial.packets <= fit::LARGEST_POLL * trial.polls
}

/// Mean time of an interrupt handler in each trial, divided by the median over the trials. It shows the CPU's speed,
/// because handlers run the same code some thousand times per trial, whatever the load. `None` if one of the trials has
/// no interrupts.
fn slowness_of_handlers(trials: &[&Counts]) -> Option<Vec<f64>> {
    let each: Vec<f64> =
        trials.iter().map(|c| c.handler_s().filter(|handler_s| *handler_s > 0.0)).collect::<Option<_>>()?;
    let median = stats::median(&each)?.value;
    Some(each.into_iter().map(|handler_s| handler_s / median).collect())
}

/// Runs the regression `fit` twice, over the unchanged trials and over trials scaled to the speed that their handlers
/// show, and returns the fit that explains more variance: an emulated CPU may be half as fast in one trial as in the
/// next. With a backlog only the unchanged trials are used.
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
pub fn calibrate(bench: &mut dyn Bench, base: &TrialShape, plan: Plan) -> Result<Calibrated, CalibrationError> {
    let method = bench.cpu_method().map_err(CalibrationError::NoMeter)?;
    let seen = observe(bench, base, plan)?;
    let fits = Fits::of(&seen, base)?;
    let mut calibration = describe::calibration(&fits, &seen, base, &method);
    let resampled = resample::hosts(&seen, base, &calibration.host);
    calibration.correlated = resample::correlated(&resampled);
    let application_per_byte_s = fits.application_per_byte_s();
    let costs = fits.costs();
    let frame_bytes = base.frame_bytes;
    let times_s = (costs.protocol_s, costs.poll_s);
    let variation = fits.variation.map(|figure| variation::of_all(figure.value, seen.backlog, times_s));
    let quiet = seen.quiet;
    Ok(Calibrated { calibration, application_per_byte_s, costs, frame_bytes, variation, resampled, quiet })
}

/// Interrupt latency (s) from the packets per poll. Protocol work takes `service_s` per packet and begins `before_s`
/// after the interrupt. `None` without polls.
fn latency_s(counts: &Counts, service_s: f64, before_s: f64) -> Option<f64> {
    if counts.polls <= 0.0 || counts.elapsed_s <= 0.0 {
        return None;
    }
    let lambda = counts.packets / counts.elapsed_s;
    let started = counts.packets / counts.polls * (1.0 - lambda * service_s);
    Some((started - 1.0) / lambda - before_s)
}

/// Length of each trial (s) for a host with the rough cliff `rough_pps`; at most `longest_s`.
fn trial_s(rough_pps: f64, longest_s: f64) -> f64 {
    (PACKETS / (SHARES[0] * rough_pps)).max(LEAST_TRIAL_S).min(longest_s)
}

fn observe(bench: &mut dyn Bench, base: &TrialShape, plan: Plan) -> Result<Seen, TrialError> {
    let base = &TrialShape { seconds: trial_s(plan.rough_pps, base.seconds), ..base.clone() };
    let mut seen = Seen { backlog: plan.backlog, ..Seen::default() };
    let mut rough_pps = plan.rough_pps;
    for round in 0..plan.rounds {
        let seed = base.seed + u64::from(round) * 101;
        let of_pps = rough_pps;
        let mut at = |share: f64, number: u64, change: &dyn Fn(&mut TrialShape)| {
            let mut shape = TrialShape { seed: seed + number, ..base.clone() };
            change(&mut shape);
            bench.observe(&shape.at(share * of_pps), true)
        };
        for (place, share) in SHARES.iter().enumerate() {
            let plain = at(*share, place as u64, &|_| ())?;
            let lost_little = plain.loss() <= NONE_LOST;
            let plain = usable(plain);
            seen.quiet.extend(plain.clone().filter(|_| lost_little).map(|c| Counts { poll_times: Vec::new(), ..c }));
            if place + 1 == SHARES.len() {
                let full = at(FULL_SHARE, 60, &|_| ())?;
                let reached = full.void().is_none_or(|void| void.why.class() != VoidClass::Sender);
                if reached && full.loss() <= NONE_LOST {
                    // Polls at low loads find few packets and show little about polls with many packets, so the
                    // remaining rounds use higher loads.
                    rough_pps *= RISE;
                    seen.plain.extend(usable(full));
                } else if full.loss() > FULL_LOSS {
                    // Only a trial with heavy loss shows a full socket.
                    seen.full.extend(plain.clone().zip(usable(full)));
                }
            }
            if place == SIZE_PLACE {
                let large = usable(at(*share, 40, &|shape| shape.frame_bytes = LARGE_FRAME_BYTES)?);
                seen.sizes.extend(plain.clone().zip(large));
            }
            seen.plain.extend(plain);
        }
        let share = if plan.backlog { BLOCKED_SHARE } else { BLOCKED_SHARE_OF_A_NIC };
        let blocked = at(share, 20, &|shape| {
            shape.work_s += BLOCKED_WORK_S;
            // With a buffer for a few packets the socket is full from the start, and its packets are still in the CPU's
            // caches.
            shape.receive_buffer_bytes = 4096;
        })?;
        seen.blocked.extend(usable(blocked));
    }
    seen.capacity = bench.socket_capacity(base)?;
    seen.ring = bench.ring_slots();
    Ok(seen)
}

/// Returns the trial's counts, corrected for interrupts of the timer ([`Counts::by_the_clock`]). `None` if the trial
/// was not metered, softirqs processed no packet, or the application received none.
fn usable(observation: Observation) -> Option<Counts> {
    let some = |counts: &Counts| counts.packets > 0.0 && counts.delivered > 0.0 && counts.protocol_s > 0.0;
    observation.counts.filter(some).map(|counts| counts.by_the_clock())
}

#[cfg(test)]
pub(crate) mod tests;
