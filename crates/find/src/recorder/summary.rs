//! Summary of a run's trials: disturbances from outside, the machine's speed, and its drift.

use std::collections::BTreeMap;

use netcliff_core::Figure;
use netcliff_core::finding::{ClockJump, Disturbance, Drift, MOST_TASKS, Pauses, Speed, SpeedAt, TaskTime};
use netcliff_packets::generator::STALL_NS;

use super::{Recorder, Seen, Stage, lengths_s};
use crate::calibrate::{FEWEST, FULL_LOSS};
use netcliff_stats as stats;
use netcliff_trial::bench::{Counts, Visit};

/// Accepted relative difference between the rate of the CPU's time stamp counter in a trial and its median over the
/// run. In a trial of 0.1 s the rate is known to 1e-5.
const STEADY_RATE: f64 = 1e-4;
/// Shortest time (s) that counts as a suspension of the machine: the clocks are read microseconds apart.
const LEAST_SUSPEND_S: f64 = 1e-3;
/// Fewest trials with a speed from which drift is computed.
const FEWEST_SPEEDS: usize = FEWEST;

impl Recorder<'_> {
    /// Disturbances from outside; `left_out`: share of the searches' time slots that the evaluation for the host's own
    /// cliff excludes. `None` before the first trial.
    pub fn disturbance(&self, left_out: f64) -> Option<Disturbance> {
        if self.seen.is_empty() {
            return None;
        }
        // Trials in the other idle mode are excluded: they show other pauses.
        let trials: Vec<&Seen> = self.seen.iter().filter(|seen| seen.stage != Stage::Idle).collect();
        let shortest_s = trials.iter().find_map(|seen| seen.outside.shortest_pause_s).unwrap_or(0.0);
        let host = pauses(&trials, shortest_s, |seen| Some((lengths_s(seen.host.as_ref()?.iter()), seen.steal_share)));
        let sender = pauses(&trials, shortest_s, |seen| Some((seen.sender.clone()?, seen.outside.sender_steal_share)));
        let visits = pauses(&trials, shortest_s, |seen| {
            Some((lengths_s(seen.visits.as_ref()?.iter().map(|visit| &visit.at)), 0.0))
        });
        let stalls = pauses(&trials, STALL_NS as f64 * 1e-9, |seen| Some((seen.stalls.clone(), 0.0)));
        Some(Disturbance {
            measured_s: trials.iter().map(|seen| seen.spec.shape.seconds).sum(),
            trials: trials.len() as u32,
            host,
            sender,
            other_tasks: visits.map(|visits| Pauses { steal_share: None, ..visits }),
            tasks: tasks(trials.iter().filter_map(|seen| seen.visits.as_ref()).flatten()),
            sender_stalls: stalls.map(|stalls| Pauses { steal_share: None, ..stalls }),
            left_out,
            clock_jumps: clock_jumps(&self.seen),
        })
    }

    /// Speed of the CPU in the run's trials; `None` if no trial measured it.
    pub fn speed(&self) -> Option<Speed> {
        let at = |seen: &Seen| SpeedAt {
            at_s: seen.at_s,
            stage: seen.stage.name().to_owned(),
            load_pps: seen.spec.rate_pps,
            turns_per_s: seen.outside.turns_per_s,
            packet_s: seen.packet_s,
            slowness: self.slowness_of(seen),
        };
        let has_speed = |seen: &&Seen| seen.outside.turns_per_s.is_some() || seen.packet_s.is_some();
        let trials: Vec<SpeedAt> = self.seen.iter().filter(has_speed).map(at).collect();
        (!trials.is_empty()).then(|| Speed {
            turns_per_s: self.median_of(Stage::Search, |seen| seen.outside.turns_per_s),
            packet_s: self.median_of(Stage::Search, |seen| seen.packet_s),
            slowness: self.median_of(Stage::Search, |seen| self.slowness_of(seen)),
            demand_s: self.median_of(Stage::Search, |seen| seen.counts.as_ref()?.demand_s()),
            demand_empty_s: stats::median(&demands_s(&self.at_present().empty)),
            demand_full_s: self
                .median_of(Stage::Search, |seen| seen.counts.as_ref().filter(|_| seen.loss > FULL_LOSS)?.demand_s()),
            trials,
        })
    }

    fn median_of(&self, stage: Stage, of: impl Fn(&Seen) -> Option<f64>) -> Option<Figure> {
        let values: Vec<f64> = self.seen.iter().filter(|seen| seen.stage == stage).filter_map(of).collect();
        stats::median(&values)
    }

    fn median_of_enough(&self, stage: Stage, of: impl Fn(&Seen) -> Option<f64>) -> Option<f64> {
        let enough = self.seen.iter().filter(|seen| seen.stage == stage && of(seen).is_some()).count() >= FEWEST_SPEEDS;
        self.median_of(stage, of).filter(|_| enough).map(|figure| figure.value)
    }

    /// Drift of the speed; `None` with too few trials that measured it.
    pub fn drift(&self) -> Option<Drift> {
        let by_costs = |seen: &Seen| self.slowness_of(seen).map(f64::recip);
        let by_turns = |seen: &Seen| seen.outside.turns_per_s;
        self.drift_of(by_costs).or_else(|| self.drift_of(by_turns))
    }

    fn drift_of(&self, speed: impl Fn(&Seen) -> Option<f64>) -> Option<Drift> {
        let of = |seen: &Seen| Some((seen.at_s, speed(seen).filter(|_| seen.stage != Stage::Idle)?));
        let speeds: Vec<(f64, f64)> = self.seen.iter().filter_map(of).collect();
        let (share, scatter) = line(&speeds)?;
        let [search, calibration] =
            [Stage::Search, Stage::Calibration].map(|stage| self.median_of_enough(stage, &speed));
        let search_over_calibration = search.zip(calibration).map(|(search, calibration)| search / calibration - 1.0);
        Some(Drift { share, scatter, search_over_calibration })
    }
}

/// CPU time of each task, longest first, at most [`MOST_TASKS`] tasks.
fn tasks<'a>(visits: impl Iterator<Item = &'a Visit>) -> Vec<TaskTime> {
    let mut by_name: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
    for visit in visits {
        let (count, total_s) = by_name.entry(&visit.task).or_default();
        *count += 1;
        *total_s += visit.at.length_s;
    }
    let time_of = |(task, (count, total_s)): (&str, (u64, f64))| TaskTime { task: task.to_owned(), count, total_s };
    let mut tasks: Vec<TaskTime> = by_name.into_iter().map(time_of).collect();
    tasks.sort_by(|a, b| b.total_s.total_cmp(&a.total_s));
    tasks.truncate(MOST_TASKS);
    tasks
}

fn demands_s(trials: &[Counts]) -> Vec<f64> {
    trials.iter().filter_map(Counts::demand_s).collect()
}

/// Pauses over the trials that measured them; `None` if none did.
fn pauses<'a>(
    trials: &[&'a Seen],
    shortest_s: f64,
    of: impl Fn(&'a Seen) -> Option<(Vec<f64>, f64)>,
) -> Option<Pauses> {
    let (mut lengths, mut measured_s, mut stolen_s, mut any) = (Vec::new(), 0.0, 0.0, false);
    for seen in trials {
        let Some((own, steal_share)) = of(seen) else { continue };
        any = true;
        lengths.extend(own);
        measured_s += seen.spec.shape.seconds;
        stolen_s += steal_share * seen.spec.shape.seconds;
    }
    let steal_share = if measured_s > 0.0 { stolen_s / measured_s } else { 0.0 };
    any.then(|| Pauses { steal_share: Some(steal_share), ..Pauses::of(&lengths, measured_s, shortest_s) })
}

fn clock_jumps(seen: &[Seen]) -> Vec<ClockJump> {
    let rates: Vec<f64> = seen.iter().filter_map(|seen| seen.outside.ns_per_tick).collect();
    let usual = stats::median(&rates).map(|figure| figure.value);
    let jump = |seen: &Seen| {
        let jump = |what| Some(ClockJump { at_s: seen.at_s, what });
        if seen.outside.suspended_s > LEAST_SUSPEND_S {
            return jump(format!("the machine slept for {:.3} s", seen.outside.suspended_s));
        }
        let off = seen.outside.ns_per_tick? / usual? - 1.0;
        if off.abs() <= STEADY_RATE {
            return None;
        }
        jump(format!(
            "the CPU's counter ran {:.0} ppm {} against the kernel's clock than in the median of the run: the clock was set, or the \
             virtual machine was moved",
            1e6 * off.abs(),
            if off < 0.0 { "faster" } else { "slower" }
        ))
    };
    seen.iter().filter_map(jump).collect()
}

/// (change from the first time to the last, scatter) of a least squares line through (time, value), both relative to
/// the mean.
fn line(points: &[(f64, f64)]) -> Option<(Figure, f64)> {
    if points.len() < FEWEST_SPEEDS {
        return None;
    }
    let count = points.len() as f64;
    let middle = points.iter().map(|(t, _)| t).sum::<f64>() / count;
    let rows: Vec<Vec<f64>> = points.iter().map(|(t, _)| vec![1.0, t - middle]).collect();
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    // A least squares line passes through (mean time, mean value).
    let line = stats::least_squares(&rows, &values)?;
    let (mean, slope) = (line.coefficients[0], line.coefficients[1]);
    let squares: f64 = rows.iter().zip(&values).map(|(row, v)| (v - mean - slope * row[1]).powi(2)).sum();
    let variance = squares / (count - 2.0);
    let length = points.last()?.0 - points.first()?.0;
    let half = stats::student(points.len() - 2) * (variance * line.variances[1]).sqrt() * length / mean;
    (mean > 0.0).then(|| (Figure::sampled(slope * length / mean, half, stats::CONFIDENCE), variance.sqrt() / mean))
}
