//! [`Outcome::check`]: checks every figure against its range before an outcome leaves its engine.

use super::{ApplicationOutcome, CpuShares, Figure, Latency, Loss, Outcome, Transmitted};
use crate::queues::QueueOutcome;

/// An impossible figure of an outcome. It is a defect of the engine, not of the input.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{figure} = {value}, which must be {range}")]
pub struct Unsound {
    /// The figure's path in JSON: `latency_s.p99`.
    pub figure: String,
    /// The value, in the figure's unit.
    pub value: f64,
    /// The range it must be in, as a clause.
    pub range: &'static str,
}

/// Accepted rounding error of shares and fractions.
const ROUNDING: f64 = 1e-9;
/// Accepted rounding error of the sum of CPU shares, to which each replication of a simulation contributes.
const SUM_ROUNDING: f64 = 1e-6;

/// Range of a figure.
#[derive(Clone, Copy)]
enum Range {
    /// Finite and not negative.
    Amount,
    /// From 0 to 1.
    Share,
}

impl Range {
    fn of(self, value: f64) -> Option<&'static str> {
        match self {
            _ if !value.is_finite() => Some("finite"),
            _ if value < -ROUNDING => Some("at least 0"),
            Self::Share if value > 1.0 + ROUNDING => Some("at most 1"),
            _ => None,
        }
    }
}

/// Checks figures one by one and remembers the first that is impossible.
struct Checker {
    found: Option<Unsound>,
}

impl Checker {
    fn value(&mut self, name: &str, value: f64, range: Range) {
        if let (None, Some(range)) = (&self.found, range.of(value)) {
            self.found = Some(Unsound { figure: name.to_owned(), value, range });
        }
    }

    fn figure(&mut self, name: &str, figure: Option<Figure>, range: Range) {
        let Some(Figure { value, interval }) = figure else { return };
        self.value(name, value, range);
        if let Some(ends) = interval {
            // The ends of an interval may exceed the figure's range, but must be finite.
            let ends = [ends.low, ends.high].into_iter().filter(|end| !end.is_finite());
            ends.for_each(|end| self.value(&format!("{name}'s interval"), end, Range::Amount));
        }
    }

    fn latency(&mut self, prefix: &str, latency: Latency) {
        // Here and below each field is named, so that a new field does not compile until it is checked.
        let Latency { mean, p50, p90, p99, p999, max, done_mean } = latency;
        let quantiles = [("p50", p50), ("p90", p90), ("p99", p99), ("p999", p999), ("max", max)];
        for (name, figure) in [("mean", mean), ("done_mean", done_mean)].into_iter().chain(quantiles) {
            self.figure(&format!("{prefix}latency_s.{name}"), figure, Range::Amount);
        }
    }

    fn loss(&mut self, prefix: &str, loss: Loss) {
        let Loss { ring, socket, sender } = loss;
        for (name, figure) in [("ring", ring), ("socket", socket), ("sender", sender)] {
            self.figure(&format!("{prefix}loss.{name}"), figure, Range::Share);
        }
    }

    fn cpu(&mut self, prefix: &str, cpu: CpuShares) {
        let CpuShares { interrupt, poll, protocol, application, paused, available } = cpu;
        let shares = [
            ("interrupt", interrupt),
            ("poll", poll),
            ("protocol", protocol),
            ("application", application),
            ("paused", paused),
            ("available", available),
        ];
        for (name, figure) in shares {
            self.figure(&format!("{prefix}cpu.{name}"), figure, Range::Share);
        }
        if let (Some(interrupt), Some(poll), Some(protocol), Some(available)) = (interrupt, poll, protocol, available) {
            let used = [Some(interrupt), Some(poll), Some(protocol), application, paused, Some(available)];
            let sum: f64 = used.into_iter().flatten().map(|share| share.value).sum();
            // If several queues share a core, the CPU shares of one queue sum to less than 1.
            let (wrong, range) = match prefix.is_empty() {
                true => ((sum - 1.0).abs() > SUM_ROUNDING, "1"),
                false => (sum - 1.0 > SUM_ROUNDING, "at most 1"),
            };
            if self.found.is_none() && wrong {
                let figure = format!("sum of {prefix}cpu");
                self.found = Some(Unsound { figure, value: sum, range });
            }
        }
    }

    fn transmitted(&mut self, prefix: &str, transmitted: Transmitted) {
        let Transmitted { completed_pps, refused_fraction, waiting_s } = transmitted;
        self.figure(&format!("{prefix}transmitted.completed_pps"), completed_pps, Range::Amount);
        self.figure(&format!("{prefix}transmitted.refused_fraction"), refused_fraction, Range::Share);
        self.figure(&format!("{prefix}transmitted.waiting_s"), waiting_s, Range::Amount);
    }

    fn application(&mut self, prefix: &str, one: &ApplicationOutcome) {
        let ApplicationOutcome { application, offered_pps, throughput_pps, goodput_bps, loss, mean_latency_s, cpu } =
            one;
        let prefix = format!("{prefix}applications[{application}].");
        for (name, figure) in [
            ("offered_pps", offered_pps),
            ("throughput_pps", throughput_pps),
            ("goodput_bps", goodput_bps),
            ("mean_latency_s", mean_latency_s),
        ] {
            self.figure(&format!("{prefix}{name}"), *figure, Range::Amount);
        }
        self.loss(&prefix, loss.unwrap_or_default());
        self.figure(&format!("{prefix}cpu"), *cpu, Range::Share);
    }

    fn outcome(&mut self, prefix: &str, outcome: &Outcome) {
        let Outcome {
            offered_pps,
            throughput_pps,
            goodput_bps,
            loss_fraction,
            loss,
            latency_s,
            latency_to: _,
            cpu,
            cpu_method: _,
            interrupts_per_s,
            polls_per_s,
            packets_per_poll,
            packets_in_system,
            transmitted,
            precision: _,
            applications,
            queues,
            notes: _,
        } = outcome;
        for (name, figure) in [
            ("offered_pps", offered_pps),
            ("throughput_pps", throughput_pps),
            ("goodput_bps", goodput_bps),
            ("interrupts_per_s", interrupts_per_s),
            ("polls_per_s", polls_per_s),
            ("packets_per_poll", packets_per_poll),
            ("packets_in_system", packets_in_system),
        ] {
            self.figure(&format!("{prefix}{name}"), *figure, Range::Amount);
        }
        self.figure(&format!("{prefix}loss_fraction"), *loss_fraction, Range::Share);
        self.loss(prefix, loss.unwrap_or_default());
        self.latency(prefix, latency_s.unwrap_or_default());
        self.cpu(prefix, cpu.unwrap_or_default());
        self.transmitted(prefix, transmitted.unwrap_or_default());
        applications.iter().for_each(|one| self.application(prefix, one));
        for QueueOutcome { queue, role: _, core: _, share, outcome } in queues {
            let prefix = format!("{prefix}queues[{queue}].");
            self.value(&format!("{prefix}share"), *share, Range::Share);
            if let Some(outcome) = outcome {
                self.outcome(&prefix, outcome);
            }
        }
    }
}

impl Outcome {
    /// Checks that every figure is finite, not negative, at most 1 if it is a share or fraction, and that CPU shares
    /// sum to 1. The error names the first figure that is wrong.
    pub fn check(&self) -> Result<(), Unsound> {
        let mut checker = Checker { found: None };
        checker.outcome("", self);
        checker.found.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::Role;

    fn sound() -> Outcome {
        let share = |value: f64| Some(Figure::exact(value));
        Outcome {
            throughput_pps: share(1e5),
            loss_fraction: share(0.25),
            cpu: Some(CpuShares {
                interrupt: share(0.25),
                poll: share(0.0),
                protocol: share(0.5),
                application: None,
                paused: None,
                available: share(0.25),
            }),
            ..Outcome::default()
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(sound().check(), Ok(()));
        assert_eq!(Outcome::default().check(), Ok(()));
        let latency = |value: f64| Some(Latency { p99: Some(Figure::exact(value)), ..Latency::default() });
        let cpu = CpuShares { poll: Some(Figure::exact(0.125)), ..sound().cpu.unwrap() };
        let part = |outcome| QueueOutcome { queue: 3, role: Role::Receive, core: 0, share: 0.5, outcome };
        let bad = Outcome { latency_s: latency(f64::NAN), ..sound() };
        for (outcome, said) in [
            (bad.clone(), "latency_s.p99 = NaN, which must be finite"),
            (Outcome { latency_s: latency(f64::INFINITY), ..sound() }, "latency_s.p99 = inf, which must be finite"),
            (Outcome { loss_fraction: Some(1.5.into()), ..sound() }, "loss_fraction = 1.5, which must be at most 1"),
            (
                Outcome { throughput_pps: Some((-2.0).into()), ..sound() },
                "throughput_pps = -2, which must be at least 0",
            ),
            (Outcome { cpu: Some(cpu), ..sound() }, "sum of cpu = 1.125, which must be 1"),
            (
                Outcome { queues: vec![part(Some(bad))], ..sound() },
                "queues[3].latency_s.p99 = NaN, which must be finite",
            ),
            (
                Outcome { throughput_pps: Some(Figure::between(1.0, 0.5, f64::INFINITY, 0.95)), ..sound() },
                "throughput_pps's interval = inf, which must be finite",
            ),
        ] {
            assert_eq!(outcome.check().unwrap_err().to_string(), said);
        }
    }
}
