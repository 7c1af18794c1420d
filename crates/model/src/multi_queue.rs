//! [`Split`]: a host with several receive queues, each with a core and a scheme of its own, under a split of the load.
//!
//! RSS deals flows to queues. A Poisson stream whose packets are dealt by chance is a set of independent Poisson streams,
//! so that each queue is a host of its own at its share of the load: exact for many flows, and for few as long as the
//! shares are theirs. Skewed shares put the cliff where the busiest queue has its own: total cliff = cliff / largest share.

use netcliff_core::{
    CpuShares, Engine, EngineFailure, EngineKind, Figure, Invalid, Latency, Load, Loss, Outcome, Point, Traffic,
    Unsupported,
};

/// An engine that answers for a host with one queue, and the shares of the load (1) that each queue gets.
///
/// As an [`Engine`] it gives the [`total`] of the queues, so that [`cliff`](crate::cliff()),
/// [`livelock_index`](crate::livelock_index) and [`sensitivities`](crate::sensitivities) work on the whole host.
#[derive(Debug, Clone, PartialEq)]
pub struct Split<E> {
    engine: E,
    shares: Vec<f64>,
}

/// One queue's part.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueOutcome {
    /// Share of the offered packets (1).
    pub share: f64,
    /// What its core does; None for a queue that gets nothing.
    pub outcome: Option<Outcome>,
}

/// Shares are taken as they are if their sum is this near 1.
const ROUNDING: f64 = 1e-9;

impl<E: Engine> Split<E> {
    /// `shares` of each queue, together 1.
    pub fn new(engine: E, shares: Vec<f64>) -> Result<Self, Invalid> {
        if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(Invalid::new("queue share", share, "must be from 0 to 1"));
        }
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > ROUNDING {
            return Err(Invalid::new("sum of the queue shares", sum, "must be 1"));
        }
        Ok(Self { engine, shares })
    }

    /// `queues` alike; at least 1.
    pub fn even(engine: E, queues: usize) -> Result<Self, Invalid> {
        if queues == 0 {
            return Err(Invalid::new("queues", queues, "must be at least 1"));
        }
        Self::new(engine, vec![1.0 / queues as f64; queues])
    }

    fn part(&self, point: &Point, share: f64) -> Result<Point, Unsupported> {
        let traffic = &point.traffic;
        let pps = traffic
            .rate_pps()
            .ok_or_else(|| Unsupported::new(self.engine.kind(), "the offered rate is not known: give it in pps"))?;
        let traffic = Traffic { rate: Load::Pps(pps * share), ..traffic.clone() };
        Ok(Point { traffic, ..point.clone() })
    }

    /// Every queue's part of `point`'s load. Queues with the same share are worked out once.
    pub fn queues(&self, point: &Point) -> Result<Vec<QueueOutcome>, EngineFailure> {
        let mut found: Vec<QueueOutcome> = Vec::new();
        for share in &self.shares {
            let known = found.iter().find(|queue| queue.share == *share).map(|queue| queue.outcome.clone());
            let outcome = match known {
                Some(outcome) => outcome,
                None if *share == 0.0 => None,
                None => Some(self.engine.evaluate(&self.part(point, *share)?)?),
            };
            found.push(QueueOutcome { share: *share, outcome });
        }
        Ok(found)
    }
}

impl<E: Engine> Engine for Split<E> {
    fn kind(&self) -> EngineKind {
        self.engine.kind()
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        let busiest = self.shares.iter().copied().fold(0.0, f64::max);
        self.engine.supports(&self.part(point, busiest)?)
    }

    fn evaluate(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        Ok(total(&self.queues(point)?))
    }
}

/// The host's outcome: sums of what is counted a second; loss weighted by the offered share; latency over the packets
/// delivered; CPU as the mean share over all cores (that of a queue without load is all available). Quantiles of the
/// mixture are interpolated between the queues' own, in the logarithm of the tail, unless all queues are alike.
pub fn total(queues: &[QueueOutcome]) -> Outcome {
    let busy: Vec<(f64, &Outcome)> =
        queues.iter().filter_map(|queue| Some((queue.share, queue.outcome.as_ref()?))).collect();
    let sum = |pick: &dyn Fn(&Outcome) -> Option<Figure>| {
        busy.iter().map(|(_, outcome)| pick(outcome).map(|figure| figure.value)).sum::<Option<f64>>().map(Figure::exact)
    };
    let by_share = |pick: &dyn Fn(&Outcome) -> Option<Figure>| {
        let weighted = |(share, outcome): &(f64, &Outcome)| pick(outcome).map(|figure| share * figure.value);
        busy.iter().map(weighted).sum::<Option<f64>>().map(Figure::exact)
    };
    let loss = |pick: fn(&Loss) -> Option<Figure>| by_share(&|outcome| outcome.loss.as_ref().and_then(pick));
    let cores = queues.len() as f64;
    let cpu = |pick: fn(&CpuShares) -> Option<Figure>, idle: f64| {
        let busy = sum(&|outcome| outcome.cpu.as_ref().and_then(pick))?.value;
        Some(Figure::exact((busy + idle) / cores))
    };
    let polls_per_s = sum(&|o| o.polls_per_s);
    let mut outcome = Outcome {
        throughput_pps: sum(&|o| o.throughput_pps),
        goodput_bps: sum(&|o| o.goodput_bps),
        loss_fraction: by_share(&|o| o.loss_fraction),
        loss: Some(Loss { ring: loss(|l| l.ring), socket: loss(|l| l.socket), sender: loss(|l| l.sender) }),
        latency_s: Some(latency(&busy)),
        latency_to: busy.first().and_then(|(_, outcome)| outcome.latency_to.clone()),
        cpu: Some(CpuShares {
            interrupt: cpu(|c| c.interrupt, 0.0),
            poll: cpu(|c| c.poll, 0.0),
            protocol: cpu(|c| c.protocol, 0.0),
            application: cpu(|c| c.application, 0.0),
            available: cpu(|c| c.available, cores - busy.len() as f64),
        }),
        cpu_method: busy.first().and_then(|(_, outcome)| outcome.cpu_method.clone()),
        interrupts_per_s: sum(&|o| o.interrupts_per_s),
        polls_per_s,
        packets_in_system: sum(&|o| o.packets_in_system),
        ..Outcome::default()
    };
    outcome.packets_per_poll = outcome
        .throughput_pps
        .zip(polls_per_s.filter(|polls| polls.value > 0.0))
        .map(|(throughput, polls)| Figure::exact(throughput.value / polls.value));
    for note in busy.iter().flat_map(|(_, outcome)| &outcome.notes) {
        if !outcome.notes.contains(note) {
            outcome.notes.push(note.clone());
        }
    }
    outcome
        .notes
        .push(format!("{} queues, each with a core of its own; CPU shares are means over the cores", queues.len()));
    if busy.iter().any(|(share, _)| *share != busy[0].0) {
        outcome.notes.push("latency quantiles over all queues are interpolated between those of the queues".to_owned());
    }
    outcome
}

fn latency(busy: &[(f64, &Outcome)]) -> Latency {
    let parts: Option<Vec<(f64, Latency)>> =
        busy.iter().map(|(_, outcome)| Some((outcome.throughput_pps?.value, outcome.latency_s?))).collect();
    let Some(parts) = parts.filter(|parts| !parts.is_empty()) else { return Latency::default() };
    let delivered: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let mean = parts.iter().map(|(weight, part)| Some(weight / delivered * part.mean?.value)).sum::<Option<f64>>();
    let tails: Option<Vec<(f64, Tail)>> =
        parts.iter().map(|(weight, part)| Some((weight / delivered, Tail::of(part)?))).collect();
    let at = |share: f64| tails.as_ref().map(|tails| Figure::exact(quantile(tails, share)));
    Latency { mean: mean.map(Figure::exact), p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: None }
}

/// A tail through four quantiles: straight in ln P(T > t) from one to the next.
struct Tail {
    /// (time (s), ln P(T > time)), ascending in time.
    knots: [(f64, f64); 5],
}

impl Tail {
    fn of(latency: &Latency) -> Option<Self> {
        let knot = |figure: Option<Figure>, share: f64| Some((figure?.value, (1.0 - share).ln()));
        Some(Self {
            knots: [
                (0.0, 0.0),
                knot(latency.p50, 0.5)?,
                knot(latency.p90, 0.9)?,
                knot(latency.p99, 0.99)?,
                knot(latency.p999, 0.999)?,
            ],
        })
    }

    /// P(T > t); beyond the last quantile as steep as before it.
    fn above(&self, t: f64) -> f64 {
        let after = self.knots[1..4].iter().position(|(time, _)| *time >= t).unwrap_or(3);
        let ((t0, y0), (t1, y1)) = (self.knots[after], self.knots[after + 1]);
        let slope = if t1 > t0 { (y1 - y0) / (t1 - t0) } else { f64::NEG_INFINITY };
        let rise = if t == t0 { 0.0 } else { slope * (t - t0) };
        (y0 + rise).exp()
    }
}

/// Where the mixture's tail is 1 - `share`; between the smallest and the largest of the parts' quantiles.
fn quantile(tails: &[(f64, Tail)], share: f64) -> f64 {
    let of = |tail: &Tail| {
        let place = tail.knots.iter().position(|(_, y)| (y - (1.0 - share).ln()).abs() < 1e-12).unwrap_or(4);
        tail.knots[place].0
    };
    let mut low = tails.iter().map(|(_, tail)| of(tail)).fold(f64::INFINITY, f64::min);
    let mut high = tails.iter().map(|(_, tail)| of(tail)).fold(0.0, f64::max);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        let above: f64 = tails.iter().map(|(weight, tail)| weight * tail.above(middle)).sum();
        if above > 1.0 - share {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-12 * high {
            break;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelEngine;
    use netcliff_core::Host;

    fn point(pps: f64) -> Point {
        Point {
            host: Host { ring: 256, ..Host::pentium4_2530mhz() },
            scheme: "disable-enable".parse().unwrap(),
            traffic: Traffic::poisson(pps),
        }
    }

    fn value(figure: Option<Figure>) -> f64 {
        figure.unwrap().value
    }

    #[test]
    fn alike_queues_are_one_host_several_times() {
        let engine = ModelEngine::default();
        let one = engine.evaluate(&point(100e3)).unwrap();
        let four = Split::even(engine, 4).unwrap().evaluate(&point(400e3)).unwrap();
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        near(value(four.throughput_pps), 4.0 * value(one.throughput_pps));
        near(value(four.interrupts_per_s), 4.0 * value(one.interrupts_per_s));
        let (a, b) = (four.latency_s.unwrap(), one.latency_s.unwrap());
        near(value(a.mean), value(b.mean));
        near(value(a.p99), value(b.p99));
        near(value(four.cpu.unwrap().available), value(one.cpu.unwrap().available));
    }

    /// The busiest queue's cliff is the host's, up to what the others' packets dilute the loss.
    #[test]
    fn a_skewed_split_moves_the_cliff_to_the_busiest_queue() {
        let engine = ModelEngine::default().without_quantiles();
        let point = point(1.0);
        let cliff = |engine: &dyn Engine, loss: f64| {
            crate::cliff(engine, &point.host, &point.scheme, &point.traffic, loss).unwrap().pps
        };
        let split = Split::new(engine, vec![0.5, 0.3, 0.2, 0.0]).unwrap();
        assert!((cliff(&split, 1e-4) * 0.5 / cliff(&engine, 2e-4) - 1.0).abs() < 1e-4);
        let even = Split::even(engine, 4).unwrap();
        assert!((cliff(&even, 1e-4) / 4.0 / cliff(&engine, 1e-4) - 1.0).abs() < 1e-4);
        let skewed = split.evaluate(&Point { traffic: Traffic::poisson(200e3), ..point }).unwrap();
        let cpu = skewed.cpu.unwrap();
        let shares = [cpu.interrupt, cpu.poll, cpu.protocol, cpu.available];
        assert!((shares.into_iter().map(value).sum::<f64>() - 1.0).abs() < 1e-12);
    }

    /// Exponential parts: the interpolation is exact where the tails are straight.
    #[test]
    fn a_mixture_of_exponentials() {
        let tail = |mean: f64| Tail {
            knots: [0.0, 0.5, 0.9, 0.99, 0.999].map(|share: f64| (-mean * (1.0 - share).ln(), (1.0 - share).ln())),
        };
        let found = quantile(&[(0.3, tail(1.0)), (0.7, tail(4.0))], 0.99);
        let above = 0.3 * (-found).exp() + 0.7 * (-found / 4.0).exp();
        assert!((above - 0.01).abs() < 1e-10, "{found} {above}");
    }

    #[test]
    fn shares_that_cannot_be() {
        let engine = ModelEngine::default();
        for (shares, part) in
            [(vec![0.5, 0.6], "sum of the queue shares = 1.1"), (vec![1.5, -0.5], "queue share = 1.5")]
        {
            let error = Split::new(engine, shares).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(Split::even(engine, 0).unwrap_err().to_string().contains("queues = 0: must be at least 1"));
    }
}
