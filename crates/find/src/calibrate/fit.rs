//! The regressions of the calibration.

use netcliff_core::Figure;
use netcliff_core::host::MOST_DROP_COST;

use super::reading::{self, Reading};
use super::{CalibrationError, Costs, LARGE_FRAME_BYTES, Seen, latency_s, variation};
use netcliff_stats as stats;
use netcliff_trial::bench::{Counts, taken_from_polls_s};
use netcliff_trial::trial::TrialShape;

/// Smallest number of polls with equal numbers of packets for their mean time to enter the fit.
const FEWEST_POLLS: f64 = 20.0;
/// Largest number of packets of a poll that enters the fit: polls with more packets are mostly delayed ones.
pub(super) const LARGEST_POLL: f64 = 32.0;

/// Results of the regressions (s).
pub struct Fits {
    /// Protocol processing of a packet.
    pub protocol: Figure,
    /// Coefficient of variation of a packet's protocol time; `None`: too few polls.
    pub variation: Option<Figure>,
    /// A poll, including what follows it in the softirq.
    pub poll: Figure,
    /// Waking the application.
    pub wakeup: Figure,
    /// An interrupt including its hidden part; `None`: the trials had no interrupts.
    pub interrupt: Option<Figure>,
    /// An interrupt's handler, without the hidden part; `None`: the trials had no interrupts.
    pub handled: Option<Figure>,
    /// Cost of an interrupt to the poll it interrupts, beyond its handler (s): measured from interrupted polls, or
    /// assumed equal to `hidden` if there were none.
    pub hidden_polling_s: f64,
    /// Cost of an interrupt to the application it interrupts, beyond its handler; included in `interrupt`.
    pub hidden: Option<Figure>,
    /// Time of a poll after it has looked into the ring for the first time, at most the cost of an interrupt; included
    /// in `poll` and, for masking, in `interrupt`. `None`: unknown.
    pub mask: Option<Figure>,
    /// Time from an interrupt's cause to its handler.
    pub latency: Option<Figure>,
    /// Application time of a packet.
    pub application: Figure,
    /// Context switch to the application.
    pub context_switch: Figure,
    /// Time per byte in protocol processing and in the application together.
    pub per_byte: Option<Figure>,
    application_per_byte: Option<Figure>,
    /// Additional protocol time of a packet if the socket is full.
    pub cold_protocol: Option<Figure>,
    /// Additional application time of a packet if the socket is full.
    pub cold_application: Option<Figure>,
    /// Protocol time of a dropped packet, relative to the protocol time of a delivered packet.
    pub socket_drop_cost: Option<f64>,
    /// Share of the variance of softirq time over the trials that the costs of packets, polls and wake-ups explain.
    pub r_squared: f64,
    /// True: `protocol`, `poll` and `wakeup` are fitted to the trials' total softirq time; false: to poll durations by
    /// packets per poll.
    pub by_totals: bool,
    /// See [`Costs::backlog`].
    backlog: bool,
}

impl Fits {
    /// Fits all costs to the observations.
    pub fn of(seen: &Seen, base: &TrialShape) -> Result<Self, CalibrationError> {
        let hidden = reading::hidden(seen, base)?;
        let hidden_s = hidden.map_or(0.0, |figure| figure.value);
        let interrupted: Vec<Counts> = seen.plain.iter().chain(&seen.blocked).cloned().collect();
        let hidden_polling_s = taken_from_polls_s(&interrupted).unwrap_or(hidden_s);
        let softirq = Softirq::of(seen, hidden_polling_s)?;
        let Reading { application, context_switch } = Reading::of(seen, hidden_s, softirq.by_totals)?;
        let handlers: Vec<f64> = seen.explained().into_iter().filter_map(Counts::handler_s).collect();
        let handled = stats::median(&handlers);
        let interrupt = handled.map(|figure| hidden.map_or(figure, |hidden| sum(figure, hidden)));
        let mut fits = Self {
            protocol: softirq.protocol,
            variation: variation::of(&seen.plain, softirq.protocol.value),
            poll: softirq.poll,
            wakeup: softirq.wakeup,
            interrupt,
            handled,
            hidden_polling_s,
            hidden,
            mask: None,
            latency: None,
            application,
            context_switch,
            per_byte: None,
            application_per_byte: None,
            cold_protocol: None,
            cold_application: None,
            socket_drop_cost: None,
            r_squared: 1.0 - softirq.unexplained(&seen.plain.iter().collect::<Vec<_>>(), hidden_polling_s),
            by_totals: softirq.by_totals,
            backlog: seen.backlog,
        };
        fits.mask = fits.masking(&seen.plain);
        fits.latency = fits.delivery_latency(&seen.plain);
        fits.socket_drop_cost = fits.drop_cost(&seen.blocked);
        fits.per_byte = slope(&seen.sizes, base, &|c| fits.softirq_left(c) / c.packets);
        fits.application_per_byte = slope(&seen.sizes, base, &|c| fits.application_left(c, hidden_s) / c.delivered);
        (fits.cold_protocol, fits.cold_application) = fits.cold(&seen.full);
        Ok(fits)
    }

    /// The fitted costs for the calibrated frame and work.
    pub fn costs(&self) -> Costs {
        Costs {
            protocol_s: self.protocol.value,
            poll_s: self.poll.value,
            wakeup_s: self.wakeup.value,
            context_switch_s: self.context_switch.value,
            application_s: self.application.value,
            hidden_s: self.hidden.map_or(0.0, |figure| figure.value),
            hidden_polling_s: self.hidden_polling_s,
            socket_drop_cost: self.socket_drop_cost.unwrap_or(1.0),
            cold_protocol_s: self.cold_protocol.map_or(0.0, |figure| figure.value),
            cold_application_s: self.cold_application.map_or(0.0, |figure| figure.value),
            backlog: self.backlog,
        }
    }

    /// Application time per byte (s).
    pub fn application_per_byte_s(&self) -> f64 {
        self.application_per_byte.map_or(0.0, |figure| figure.value)
    }

    /// Softirq time not explained by polls, packets, wake-ups and interrupts (s).
    fn softirq_left(&self, c: &Counts) -> f64 {
        c.own_protocol_s(self.hidden_polling_s)
            - self.protocol.value * c.packets
            - self.poll.value * c.polls
            - self.wakeup.value * c.wakeups
    }

    /// Application time not explained by packets, wake-ups and interrupts (s).
    fn application_left(&self, c: &Counts, hidden_s: f64) -> f64 {
        c.application_s
            - self.application.value * c.delivered
            - self.context_switch.value * c.wakeups
            - hidden_s * c.busy_interrupts
    }

    /// Time of a poll after it has looked into the ring for the first time (s): completing the poll and unmasking the
    /// NIC's interrupt; at most an interrupt's cost. Masking is assumed to take the same time. `None` if it was not
    /// measured or is not above zero.
    fn masking(&self, all: &[Counts]) -> Option<Figure> {
        let each: Vec<f64> = all.iter().filter_map(Counts::own_look_s).collect();
        let look = stats::median(&each)?;
        let most_s = self.interrupt.map_or(0.0, |figure| figure.value);
        let mask = self.poll.mapped(|poll_s| (poll_s - look.value).clamp(0.0, most_s));
        (mask.value > 0.0).then_some(mask)
    }

    /// Interrupt latency L from the packets per poll, median over the trials (s); `None` if it is not above zero, or
    /// with a NIC, where moderation also lets packets wait.
    fn delivery_latency(&self, all: &[Counts]) -> Option<Figure> {
        if !self.backlog {
            return None;
        }
        let interrupt_s = self.interrupt.map_or(0.0, |figure| figure.value);
        let latency = |c: &Counts| {
            let service_s = self.protocol.value + self.wakeup.value * c.wakeups / c.packets;
            latency_s(c, service_s, interrupt_s + self.poll.value)
        };
        let latencies: Vec<f64> = all.iter().filter_map(latency).collect();
        stats::median(&latencies).filter(|figure| figure.value > 0.0)
    }

    fn drop_cost(&self, blocked: &[Counts]) -> Option<f64> {
        let share = |c: &Counts| {
            (c.own_protocol_s(self.hidden_polling_s) - self.poll.value * c.polls) / c.packets / self.protocol.value
        };
        let shares: Vec<f64> = blocked.iter().map(share).collect();
        stats::median(&shares).map(|figure| figure.value.clamp(0.0, MOST_DROP_COST))
    }

    /// Additional (protocol, application) time of a packet with a full socket, median over `pairs` of trials. With a
    /// NIC the comparison is with the fitted costs, because at the highest load packets are often cold even without a
    /// full socket.
    fn cold(&self, pairs: &[(Counts, Counts)]) -> (Option<Figure>, Option<Figure>) {
        let costs = self.costs();
        let figure = |of: &dyn Fn(&Counts) -> f64, warm_s: f64| {
            let more_s = |(plain, full): &(Counts, Counts)| of(full) - if self.backlog { of(plain) } else { warm_s };
            let values: Vec<f64> = pairs.iter().map(more_s).collect();
            stats::median(&values).filter(|figure| figure.value > 0.0)
        };
        (
            figure(&|c| costs.protocol_of_s(c, 1.0), costs.protocol_s),
            figure(&|c| costs.application_of_s(c, 1.0), costs.application_s),
        )
    }
}

/// Additional cost of large frames per byte, median over the pairs (s/B); at least zero. `left_s` returns the time of a
/// trial that polls, wake-ups and interrupts do not explain: their numbers may differ within a pair. `None` if there
/// are no pairs, or the base frames are not smaller than the large ones.
fn slope(pairs: &[(Counts, Counts)], base: &TrialShape, left_s: &dyn Fn(&Counts) -> f64) -> Option<Figure> {
    let more_bytes = f64::from(LARGE_FRAME_BYTES.checked_sub(base.frame_bytes).filter(|more| *more > 0)?);
    let slopes: Vec<f64> = pairs.iter().map(|(plain, large)| (left_s(large) - left_s(plain)) / more_bytes).collect();
    stats::median(&slopes).map(|figure| Figure { value: figure.value.max(0.0), ..figure })
}

/// Costs within a softirq.
struct Softirq {
    protocol: Figure,
    poll: Figure,
    wakeup: Figure,
    by_totals: bool,
}

impl Softirq {
    /// Fits the costs to the durations of polls by packets per poll. Falls back to the total softirq time per trial if
    /// the fit to polls explains less of the variance than the fit to totals and (with a backlog) than the trials'
    /// mean. `taken_s`: time that an interrupt takes from the poll it interrupts (s), which is subtracted.
    fn of(seen: &Seen, taken_s: f64) -> Result<Self, CalibrationError> {
        let trials = seen.plain.as_slice();
        let undetermined =
            || CalibrationError::Undetermined { what: "protocol, poll and wake-up cost", trials: trials.len() };
        let asked = seen.explained();
        let unexplained = |of: &Self| of.unexplained(&asked, taken_s);
        // With a NIC, interrupts lengthen polls, and hit long polls more often: the fit to polls must not explain less
        // than the total-time fit.
        let least = if seen.backlog { 1.0 } else { 0.0 };
        match (Self::by_polls(trials), Self::by_totals(seen, taken_s)) {
            (Some(polls), Some(totals)) if unexplained(&polls) > unexplained(&totals).max(least) => Ok(totals),
            (Some(polls), _) => Ok(polls),
            (None, totals) => totals.ok_or_else(undetermined),
        }
    }

    /// Regression of the trials' softirq time on their packets, polls and wake-ups. A delayed poll also takes the
    /// packets that come during the delay. On a host whose packets take very different times, such as an emulated
    /// guest, the polls of many packets are therefore the delayed ones, and the fit to polls overestimates the cost of
    /// a packet. Over whole trials the load alone determines the number of packets.
    fn by_totals(seen: &Seen, taken_s: f64) -> Option<Self> {
        let trials = seen.delivering();
        let rows: Vec<Vec<f64>> = trials.iter().map(|c| vec![c.packets, c.polls, c.wakeups]).collect();
        let fit = super::by_speed(seen, &trials, |slowness| {
            let own_s = |(c, slow): (&&Counts, &f64)| c.own_protocol_s(slow * taken_s) / slow;
            let y: Vec<f64> = trials.iter().zip(slowness).map(own_s).collect();
            // The uncertainty of a trial's time is proportional to it.
            let weight: Vec<f64> =
                trials.iter().zip(slowness).map(|(c, slow)| (c.protocol_s / slow).powi(-2)).collect();
            // A packet always takes some time.
            stats::fit_non_negative_robust(&rows, &y, &weight).filter(|fit| fit.coefficients[0].value > 0.0)
        })?;
        let [protocol, poll, wakeup] = fit.coefficients.try_into().ok()?;
        Some(Self { protocol, poll, wakeup, by_totals: true })
    }

    /// Fits each trial by its polls; returns the means over the trials.
    fn by_polls(trials: &[Counts]) -> Option<Self> {
        let fits: Vec<[f64; 3]> = trials.iter().filter_map(poll_fit).collect();
        let mean = |which: usize| {
            let values: Vec<f64> = fits.iter().map(|fit| fit[which]).collect();
            stats::mean(&values)
        };
        Some(Self { protocol: mean(0)?, poll: mean(1)?, wakeup: mean(2)?, by_totals: false })
    }

    /// Residual sum of squares of softirq time per second, divided by the total sum of squares.
    fn unexplained(&self, trials: &[&Counts], taken_s: f64) -> f64 {
        let share = |c: &Counts| c.own_protocol_s(taken_s) / c.elapsed_s;
        let predicted = |c: &Counts| {
            (self.protocol.value * c.packets + self.poll.value * c.polls + self.wakeup.value * c.wakeups) / c.elapsed_s
        };
        let mean = trials.iter().map(|c| share(c)).sum::<f64>() / trials.len() as f64;
        let total: f64 = trials.iter().map(|c| (share(c) - mean).powi(2)).sum();
        let residual: f64 = trials.iter().map(|c| (share(c) - predicted(c)).powi(2)).sum();
        if total > 0.0 { residual / total } else { 0.0 }
    }
}

/// [packet, poll, wake-up] of one trial (s): a fit to the mean times of polls by packets, weighted by the inverse of
/// their variance. The time in softirqs after the last poll is added to the cost of a poll.
fn poll_fit(trial: &Counts) -> Option<[f64; 3]> {
    poll_line(&trial.poll_times, trial.polls, trial.tail_s)
}

/// [packet, poll, wake-up] (s) from the times of `polls` polls, and from the time (s) in softirqs after their last
/// poll. `None` if there are too few polls, or their numbers of packets differ too little.
pub fn poll_line(times: &[netcliff_trial::bench::PollTime], polls: f64, tail_s: f64) -> Option<[f64; 3]> {
    let cells: Vec<_> =
        times.iter().filter(|cell| cell.polls >= FEWEST_POLLS && cell.packets <= LARGEST_POLL).collect();
    let woken = cells.iter().any(|cell| cell.from_idle) && cells.iter().any(|cell| !cell.from_idle);
    let row = |cell: &&&netcliff_trial::bench::PollTime| {
        let mut row = vec![cell.packets, 1.0];
        // If all polls are of one kind, waking cannot be separated from polling.
        if woken {
            row.push(f64::from(u8::from(cell.from_idle)));
        }
        row
    };
    let rows: Vec<Vec<f64>> = cells.iter().map(|cell| row(&cell)).collect();
    let y: Vec<f64> = cells.iter().map(|cell| cell.mean_s).collect();
    // The variance is taken as at least (a tenth of the mean)^2, so that no single cell decides the fit.
    let weight: Vec<f64> =
        cells.iter().map(|cell| cell.polls / cell.variance_s2.max((0.1 * cell.mean_s).powi(2))).collect();
    let fit = stats::fit_non_negative(&rows, &y, &weight)?;
    let value = |which: usize| fit.coefficients.get(which).map_or(0.0, |figure| figure.value);
    let tail_s = if polls > 0.0 { tail_s / polls } else { 0.0 };
    Some([value(0), value(1) + tail_s, value(2)])
}

/// Sum of two independent figures: the square of its half width is the sum of the squares of theirs.
fn sum(a: Figure, b: Figure) -> Figure {
    let half = |figure: Figure| figure.interval.map_or(0.0, |interval| (interval.high - interval.low) / 2.0);
    let confidence = a.interval.or(b.interval).map_or(stats::CONFIDENCE, |interval| interval.confidence);
    Figure::sampled(a.value + b.value, half(a).hypot(half(b)), confidence)
}
