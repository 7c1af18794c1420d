//! MMPP-2 arrivals: the same chains with each state doubled, at the rate of the source's state.

use netcliff_core::note::Note;
use netcliff_core::{Arrivals, Engine, Host, Outcome, Point, Traffic};
use netcliff_model::{Fidelity, ModelEngine};
use proptest::prelude::*;

use super::{Case, Jumps, START, State, Verdict, agree, cases, disable_enable, interrupt, napi, verdict, verdict_of};
use super::{Stage, referee};

/// A source as in the traffic's text: rate of the busy state / mean, share of time in it, mean stay (s).
#[derive(Debug, Clone, Copy)]
struct Source {
    peak: f64,
    busy: f64,
    stay_s: f64,
}

impl Source {
    /// Arrival rates (quiet, busy) for a mean rate.
    fn rates(&self, mean: f64) -> [f64; 2] {
        [mean * (1.0 - self.peak * self.busy).max(0.0) / (1.0 - self.busy), mean * self.peak]
    }

    /// Rates of leaving (quiet, busy), in units of 1/us.
    fn leaving(&self) -> [f64; 2] {
        let stay = self.stay_s * 1e6;
        [self.busy / (stay * (1.0 - self.busy)), 1.0 / stay]
    }
}

/// Sources from nearly Poisson to silent for most of the time.
fn sources() -> impl Strategy<Value = Source> {
    (0.02..0.9_f64, 0.0..1.0_f64, -2.0..7.0_f64).prop_map(|(busy, burst, stay)| Source {
        peak: 1.0 + burst * (1.0 / busy - 1.0),
        busy,
        stay_s: stay.exp() * 1e-6,
    })
}

fn solve(case: &Case, source: Source, scheme: &str, quantiles: bool) -> Outcome {
    let Source { peak, busy, stay_s } = source;
    let traffic = Traffic { arrivals: Arrivals::Mmpp { peak, busy, stay_s }, ..Traffic::default() };
    let point = Point::poisson(case.host_for(scheme), scheme.parse().unwrap(), case.lambda * 1e6);
    let point = Point { traffic, ..point };
    ModelEngine { quantiles, ..ModelEngine::new(Fidelity::Exact) }.evaluate(&point).unwrap()
}

/// The referee's result; its loss is a share of arrivals, not of time.
fn judged<F: Fn(&State) -> Jumps>(case: &Case, source: Source, chain: impl Fn(&Case) -> F) -> Verdict {
    let (rates, leaving) = (source.rates(case.lambda), source.leaving());
    let chains = rates.map(|lambda| chain(&Case { lambda, ..case.clone() }));
    let found = referee::stationary((START, 0_usize), &|(state, source)| {
        let own = chains[*source](state).into_iter().filter(|(_, rate)| *rate > 0.0);
        let mut jumps: Vec<_> = own.map(|(next, rate)| ((next, *source), rate)).collect();
        jumps.push(((*state, 1 - source), leaving[*source]));
        jumps
    });
    let lost =
        found.iter().filter(|((state, _), _)| state.0 == case.places).map(|((_, s), p)| rates[*s] * p).sum::<f64>();
    let chain: Vec<(State, f64)> = found.iter().map(|((state, _), p)| (*state, *p)).collect();
    Verdict { full: lost / case.lambda, ..verdict_of(&chain, case.places) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn ideal(case in cases(1..65), source in sources()) {
        let chain = |case: &Case| {
            let case = case.clone();
            move |&(n, _, _): &State| {
                let mut jumps = Vec::new();
                if n < case.places {
                    jumps.push(((n + 1, Stage::Service, 0), case.lambda));
                }
                if n > 0 {
                    jumps.push((super::after(n - 1, Stage::Service), 1.0));
                }
                jumps
            }
        };
        agree(&solve(&case, source, "ideal", false), &judged(&case, source, chain))?;
    }

    #[test]
    fn interrupts(case in cases(1..65), source in sources(), drops: bool) {
        let outcome = solve(&case, source, &format!("interrupt:drops_interrupt={drops}"), false);
        agree(&outcome, &judged(&case, source, |case| interrupt(case, drops)))?;
    }

    #[test]
    fn two_stage(case in cases(1..65), source in sources()) {
        let outcome = solve(&case, source, "disable-enable:merged=false", false);
        agree(&outcome, &judged(&case, source, |case| disable_enable(case, false)))?;
    }

    #[test]
    fn merged(case in cases(1..65), source in sources()) {
        let chain = judged(&case, source, |case| disable_enable(case, true));
        let serving = 1.0 / (1.0 / case.isr + 1.0);
        let split = Verdict {
            interrupt: chain.interrupt * (1.0 - serving),
            protocol: chain.protocol + chain.interrupt * serving,
            ..chain
        };
        agree(&solve(&case, source, "disable-enable:merged=true", false), &split)?;
    }

    #[test]
    fn napi_polls(case in cases(1..20), source in sources()) {
        let outcome = solve(&case, source, &format!("napi:weight={}", case.weight), false);
        let chain = judged(&case, source, |case| napi(case, None));
        agree(&outcome, &chain)?;
        let polls = outcome.polls_per_s.unwrap().value / 1e6;
        prop_assert!((polls - chain.poll * case.overhead).abs() <= 1e-9 * polls + 1e-13);
    }
}

/// A source with equal rates is Poisson: all figures, including quantiles, must equal the figures of the Poisson chain.
#[test]
fn equal_rates_are_poisson() {
    let case = Case { places: 40, lambda: 0.6, isr: 2.0, overhead: 3.0, unmask: 5.0, weight: 4 };
    let source = Source { peak: 1.0, busy: 0.3, stay_s: 20e-6 };
    for scheme in [
        "ideal",
        "interrupt",
        "disable-enable:merged=true",
        "disable-enable:merged=false",
        "napi:weight=4",
        "napi:weight=300",
    ] {
        let modulated = solve(&case, source, scheme, true);
        let point = Point::poisson(case.host_for(scheme), scheme.parse().unwrap(), 0.6e6);
        let poisson = ModelEngine::new(Fidelity::Exact).evaluate(&point).unwrap();
        let figures = |outcome: &Outcome| {
            let latency = outcome.latency_s.unwrap();
            [
                outcome.throughput_pps,
                outcome.loss_fraction,
                outcome.interrupts_per_s,
                latency.mean,
                latency.p50,
                latency.p90,
                latency.p99,
                latency.p999,
            ]
            .map(|figure| figure.unwrap().value)
        };
        for (nth, (a, b)) in figures(&modulated).iter().zip(figures(&poisson)).enumerate() {
            let near = if nth < 4 { 1e-9 } else { 1e-5 };
            assert!((a - b).abs() <= near * b, "{scheme} figure {nth}: {a} {b}");
        }
    }
}

/// A source with slow states equals two Poisson hosts: figures are averages weighted by time, losses weighted by
/// arrivals.
#[test]
fn slow_sources_are_two_hosts() {
    let case = Case { places: 16, lambda: 0.5, isr: 2.0, overhead: 3.0, unmask: 5.0, weight: 4 };
    let source = Source { peak: 3.0, busy: 0.25, stay_s: 1e3 };
    let modulated = solve(&case, source, "disable-enable:merged=false", false);
    let [quiet, busy] = source
        .rates(case.lambda)
        .map(|lambda| verdict(&disable_enable(&Case { lambda, ..case.clone() }, false), case.places));
    let throughput = 0.75 * quiet.protocol + 0.25 * busy.protocol;
    assert!((modulated.throughput_pps.unwrap().value / 1e6 / throughput - 1.0).abs() < 1e-6);
}

/// The kernel's backlog is two queues: the chain approximates it for all arrivals.
#[test]
fn a_backlog_is_approximate_under_any_arrivals() {
    for (scheme, method) in [("napi:weight=8", "exact"), ("napi:weight=8,backlog=true", "approximate")] {
        for arrivals in ["poisson", "mmpp"] {
            let traffic = Traffic { arrivals: arrivals.parse().unwrap(), ..Traffic::default() };
            let point = Point::poisson(Host::pentium4_2530mhz(), scheme.parse().unwrap(), 1e5);
            let point = Point { traffic, ..point };
            let outcome = ModelEngine::new(Fidelity::Exact).evaluate(&point).unwrap();
            assert_eq!(outcome.cpu_method.as_deref(), Some(method), "{scheme} under {arrivals}");
            assert_eq!(outcome.notes.iter().any(|note| matches!(note, Note::BacklogAsQueue)), method != "exact");
        }
    }
}

/// Points that the model does not support are refused with a reason.
#[test]
fn refusals() {
    let traffic = Traffic { arrivals: "mmpp".parse().unwrap(), ..Traffic::default() };
    let ask = |host: Host, scheme: &str, fidelity: Fidelity| {
        let point = Point { traffic: traffic.clone(), ..Point::poisson(host, scheme.parse().unwrap(), 1e5) };
        ModelEngine::new(fidelity).evaluate(&point).unwrap_err().to_string()
    };
    let host = Host::pentium4_2530mhz();
    let application = Host { application_s: Some(1e-6), ..host.clone() };
    assert!(ask(application, "ideal", Fidelity::Exact).contains("application=none"));
    assert!(ask(host.clone(), "ideal", Fidelity::Paper).contains("fidelity exact"));
    assert!(ask(host.clone(), "napi:weight=100", Fidelity::Exact).contains("weights up to 64"));
    assert!(ask(host, "polling:period=20us,quota=3", Fidelity::Exact).contains("not for polling"));
}
