//! [`effects`]: what each step of a plan is expected to change.

mod spread;

use netcliff_core::finding::Calibration;
use netcliff_core::scheme::Napi;
use netcliff_core::{Arrivals, Engine, Figure, FrameSizes, Host, Load, Outcome, Point, Scheme, Traffic};
use netcliff_host::nic::netdev::NapiKey;
use netcliff_host::setting::{Group, Setting};
use netcliff_host::tune::{Plan, Step};
use netcliff_model::{Fidelity, ModelEngine};
use netcliff_sim::SimEngine;

/// Share of what the CPU could serve without any interrupts at which effects are told.
const LOAD_SHARE: f64 = 0.5;
/// The same for the limits of a softirq, which bind only when more comes than can be served.
const OVERLOAD_SHARE: f64 = 1.2;
/// Speed of the link, which the schemes at hand do not depend on (bit/s).
const LINK_BPS: f64 = 10e9;
/// Seed and packets of a simulated answer: intervals of a few per cent in some ten milliseconds.
const SIMULATED: (u64, u64) = (1, 40_000);
/// What is said of a setting that neither engine has.
const NOT_PREDICTED: &str = "not predicted: neither model nor simulator has this setting";

/// Fills in what each step is expected to change: on paper where the model has the setting, else simulated, else plainly not
/// predicted. What the plan says itself stays. `run` names where the costs come from.
pub fn effects(plan: &mut Plan, calibration: &Calibration, run: &str) {
    let told: Vec<String> = plan
        .steps
        .iter()
        .map(|step| {
            let change = Change::of(step, &plan.steps);
            let told = change.and_then(|change| effect(calibration, &change, run));
            told.or_else(|| spread::effect(calibration, step, run)).unwrap_or_else(|| NOT_PREDICTED.to_owned())
        })
        .collect();
    for (step, told) in plan.steps.iter_mut().zip(told) {
        step.proposal.effect.get_or_insert(told);
    }
}

/// A step as schemes.
struct Change {
    old: Scheme,
    new: Scheme,
    load_share: f64,
}

/// What a setting is to a scheme, whichever way it is set.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    Delay,
    Napi(NapiKey),
    Budget,
    BudgetTime,
    BusyPoll,
}

impl Meaning {
    fn of(setting: &Setting) -> Option<Meaning> {
        match setting {
            Setting::Ethtool { group: Group::Coalesce, key, .. } if key == "rx-usecs" => Some(Meaning::Delay),
            Setting::Napi { key, .. } => Some(Meaning::Napi(*key)),
            Setting::File { path } => {
                let of_interface = path.starts_with("/sys/class/net");
                match path.file_name()?.to_str()? {
                    "napi_defer_hard_irqs" if of_interface => Some(Meaning::Napi(NapiKey::DeferHardIrqs)),
                    "gro_flush_timeout" if of_interface => Some(Meaning::Napi(NapiKey::GroFlushTimeout)),
                    "threaded" if of_interface => Some(Meaning::Napi(NapiKey::Threaded)),
                    "netdev_budget" => Some(Meaning::Budget),
                    "netdev_budget_usecs" => Some(Meaning::BudgetTime),
                    "busy_read" => Some(Meaning::BusyPoll),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl Change {
    /// None: no scheme has the setting. Deferral is two settings that mean nothing alone, so both steps are taken together.
    fn of(step: &Step, all: &[Step]) -> Option<Change> {
        let meaning = Meaning::of(&step.setting)?;
        if meaning == Meaning::Delay {
            let (old, new) = (delayed(&step.proposal.old)?, delayed(&step.proposal.new)?);
            return Some(Change { old, new, load_share: LOAD_SHARE });
        }
        let parts: Vec<(Meaning, &Step)> = match meaning {
            Meaning::Napi(NapiKey::DeferHardIrqs | NapiKey::GroFlushTimeout) => deferral(step, all)?,
            _ => vec![(meaning, step)],
        };
        let scheme = |value: fn(&Step) -> &str| -> Option<Scheme> {
            let napi = parts.iter().try_fold(Napi::default(), |napi, (part, step)| with(napi, *part, value(step)));
            Some(Scheme::Napi(napi?))
        };
        let load_share =
            if matches!(meaning, Meaning::Budget | Meaning::BudgetTime) { OVERLOAD_SHARE } else { LOAD_SHARE };
        Some(Change { old: scheme(|step| &step.proposal.old)?, new: scheme(|step| &step.proposal.new)?, load_share })
    }
}

/// Both steps of a deferral on the interface of one of them; None where one is not in the plan: then its value is not known here.
fn deferral<'a>(step: &Step, all: &'a [Step]) -> Option<Vec<(Meaning, &'a Step)>> {
    let both = [NapiKey::DeferHardIrqs, NapiKey::GroFlushTimeout].map(|key| {
        let meaning = Meaning::Napi(key);
        let of = all.iter().find(|other| {
            other.setting.interface() == step.setting.interface() && Meaning::of(&other.setting) == Some(meaning)
        });
        of.map(|step| (meaning, step))
    });
    both.into_iter().collect()
}

/// The scheme with a setting at a value; None: it says what no scheme has.
fn with(napi: Napi, meaning: Meaning, value: &str) -> Option<Napi> {
    let number: u32 = value.parse().ok()?;
    Some(match meaning {
        Meaning::Napi(NapiKey::DeferHardIrqs) => Napi { defer_hard_irqs: number, ..napi },
        Meaning::Napi(NapiKey::GroFlushTimeout) => Napi { gro_flush_timeout_s: f64::from(number) * 1e-9, ..napi },
        Meaning::Napi(NapiKey::Threaded) if number < 2 => Napi { threaded: number == 1, ..napi },
        Meaning::Budget => Napi { budget: u64::from(number), ..napi },
        Meaning::BudgetTime => Napi { budget_time_s: f64::from(number) * 1e-6, ..napi },
        Meaning::BusyPoll => Napi { busy_poll: number > 0, ..napi },
        _ => return None,
    })
}

/// The scheme of a driver that delays its interrupt by so many microseconds and masks it while polling.
fn delayed(usecs: &str) -> Option<Scheme> {
    match usecs.parse::<u32>().ok()? {
        0 => "disable-enable".parse().ok(),
        usecs => format!("coalesce:usecs={usecs}us,masked=true").parse().ok(),
    }
}

fn effect(calibration: &Calibration, change: &Change, run: &str) -> Option<String> {
    let hosts = hosts(calibration);
    let pps = change.load_share / (calibration.host.protocol_s + calibration.host.application_s.unwrap_or(0.0));
    let on_paper =
        |scheme: &Scheme| hosts.iter().map(|host| paper(host, scheme, pps)).collect::<Option<Vec<Outcome>>>();
    let simulated =
        |scheme: &Scheme| hosts.iter().map(|host| simulate(host, scheme, pps)).collect::<Option<Vec<Outcome>>>();
    // Both sides by one engine, so that its bias is in both.
    let (how, before, after) = match (on_paper(&change.old), on_paper(&change.new)) {
        (Some(before), Some(after)) => ("on paper", before, after),
        _ => ("simulated", simulated(&change.old)?, simulated(&change.new)?),
    };
    let mut parts = vec![told("mean wait", "us", 1e6, &before, &after, |outcome| outcome.latency_s?.mean)?];
    if change.load_share > 1.0 {
        parts.insert(0, told("delivered", "kpps", 1e-3, &before, &after, |outcome| outcome.throughput_pps)?);
    }
    parts.extend(told("CPU left", "%", 100.0, &before, &after, |outcome| outcome.cpu?.available));
    Some(format!("at {:.0} kpps, {} ({how}; costs of {run}, ranges from their intervals)", pps / 1e3, parts.join(", ")))
}

/// A figure before and after, each with the range that costs and simulation leave.
fn told(
    name: &str,
    unit: &str,
    scale: f64,
    before: &[Outcome],
    after: &[Outcome],
    read: fn(&Outcome) -> Option<Figure>,
) -> Option<String> {
    let side = |outcomes: &[Outcome]| -> Option<String> {
        let figures: Vec<Figure> = outcomes.iter().map(read).collect::<Option<_>>()?;
        let ends = figures.iter().flat_map(|figure| {
            let interval = figure.interval.map(|interval| [interval.low, interval.high]);
            [figure.value].into_iter().chain(interval.into_iter().flatten())
        });
        let (low, high) = ends.fold((f64::MAX, f64::MIN), |(low, high), end| (low.min(end), high.max(end)));
        let (value, low, high) = (figures[0].value * scale, low * scale, high * scale);
        Some(if high - low < 0.05 { format!("{value:.1}") } else { format!("{value:.1} ({low:.1} to {high:.1})") })
    };
    Some(format!("{name} {} -> {} {unit}", side(before)?, side(after)?))
}

/// The calibrated host, and the same with every cost at the low and at the high end of its interval.
fn hosts(calibration: &Calibration) -> Vec<Host> {
    let end = |pick: fn(&netcliff_core::Interval) -> f64| {
        let mut host = calibration.host.clone();
        for cost in calibration.costs.iter().filter(|cost| cost.unit == "s") {
            if let Some(interval) = &cost.figure.interval {
                // What is no key of a host (a cost shown for itself) changes nothing.
                let _ = host.set(&format!("{}={}s", cost.key, pick(interval).max(0.0)));
            }
        }
        host
    };
    vec![calibration.host.clone(), end(|interval| interval.low), end(|interval| interval.high)]
}

fn point(host: &Host, scheme: &Scheme, pps: f64) -> Point {
    let traffic = Traffic {
        arrivals: Arrivals::Poisson,
        size: FrameSizes::Fixed(64),
        rate: Load::Pps(pps),
        link_bps: LINK_BPS,
        flows: None,
    };
    Point { host: host.clone(), scheme: scheme.clone(), traffic }
}

fn paper(host: &Host, scheme: &Scheme, pps: f64) -> Option<Outcome> {
    ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(&point(host, scheme, pps)).ok()
}

fn simulate(host: &Host, scheme: &Scheme, pps: f64) -> Option<Outcome> {
    SimEngine::with_packets(SIMULATED.0, SIMULATED.1).evaluate(&point(host, scheme, pps)).ok()
}
