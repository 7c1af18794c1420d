//! Steps that the engines support as a scheme: predicted by the model if it has the setting, otherwise simulated.

use netcliff_core::scheme::{Moderation, Napi};
use netcliff_core::{Arrivals, Engine, Figure, FrameSizes, Host, Load, Outcome, Point, Scheme, Traffic};
use netcliff_host::nic::netdev::NapiKey;
use netcliff_host::setting::{Group, Setting};
use netcliff_host::tune::Step;
use netcliff_model::{Fidelity, ModelEngine};
use netcliff_sim::SimEngine;

use super::{FRAME_BYTES, Known, Range, packet_s};

/// Load at which effects are reported, as a share of the load that the CPU could serve without interrupts.
const LOAD_SHARE: f64 = 0.5;
/// Load for steps that change the limits of a softirq, as a share of the load that the CPU could serve. These limits
/// matter only above 1.
const OVERLOAD_SHARE: f64 = 1.2;
/// Speed of the link (bit/s); these schemes do not depend on it.
const LINK_BPS: f64 = 10e9;
/// Seed and number of packets of a simulation. It takes some ten milliseconds, and its intervals are a few per cent
/// wide.
const SIMULATED: (u64, u64) = (1, 40_000);

/// Setting of a driver's interrupt delay, or of the gap between interrupts.
const RX_USECS: &str = "rx-usecs";

/// The schemes before and after a step, and the load at which they are compared.
struct Change {
    old: Scheme,
    new: Scheme,
    pps: f64,
    /// True: more packets arrive than can be served.
    overload: bool,
}

/// The meaning of a setting in a scheme, whatever the setting's name.
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
            Setting::Ethtool { group: Group::Coalesce, key, .. } if key == RX_USECS => Some(Meaning::Delay),
            Setting::Napi { key, .. } => Some(Meaning::Napi(*key)),
            Setting::File { path } => {
                let file = path.file_name()?.to_str()?;
                match file {
                    _ if path.starts_with("/sys/class/net") => NapiKey::of_file(file).map(Meaning::Napi),
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
    /// Returns the change that a step makes. `None` if no scheme has the setting. A deferral consists of two settings
    /// without effect alone, so that both steps are combined.
    fn of(step: &Step, known: &Known<'_>) -> Option<Change> {
        let meaning = Meaning::of(&step.setting)?;
        let usual = |old: Scheme, new: Scheme| Change { old, new, pps: load_pps(known, LOAD_SHARE), overload: false };
        if meaning == Meaning::Delay {
            let (old, new) = (delayed(known, step, &step.proposal.old)?, delayed(known, step, &step.proposal.new)?);
            return Some(usual(old, new));
        }
        let parts: Vec<(Meaning, &Step)> = match meaning {
            Meaning::Napi(NapiKey::DeferHardIrqs | NapiKey::GroFlushTimeout) => deferral(step, known.steps)?,
            _ => vec![(meaning, step)],
        };
        let scheme = |value: fn(&Step) -> &str| -> Option<Scheme> {
            let napi =
                parts.iter().try_fold(of_interface(known, step), |napi, (part, step)| with(napi, *part, value(step)));
            Some(Scheme::Napi(napi?))
        };
        let (old, new) = (scheme(|step| &step.proposal.old)?, scheme(|step| &step.proposal.new)?);
        let change = usual(old, new);
        if matches!(meaning, Meaning::Budget | Meaning::BudgetTime) {
            return Some(Change { pps: load_pps(known, OVERLOAD_SHARE), overload: true, ..change });
        }
        Some(change)
    }
}

/// Returns both steps of a deferral on the interface of one of them. `None` if one of them is not in the plan, because
/// its value is then unknown.
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

/// Returns the scheme with a setting changed to a value. `None` if the scheme does not support this value.
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

/// Returns the scheme of a step's interface, with its moderation. Returns the kernel's defaults if there is no
/// interface, or if no scheme describes its settings.
fn of_interface(known: &Known<'_>, step: &Step) -> Napi {
    let Some(port) = known.port(step) else { return Napi::default() };
    let works = port.nic.napi_scheme(&known.host.host.napi(port.nic.uses_backlog()));
    if works.lacks.is_some() { Napi::default() } else { works.napi }
}

/// Returns NAPI behind a NIC with this value of rx-usecs, as its driver interprets it: as a minimum gap, or as a timer.
fn delayed(known: &Known<'_>, step: &Step, usecs: &str) -> Option<Scheme> {
    let usecs: u32 = usecs.parse().ok()?;
    let moderation = match known.port(step) {
        Some(port) if port.nic.coalesce.contains_key(RX_USECS) => {
            let mut nic = port.nic.clone();
            nic.coalesce.insert(RX_USECS.to_owned(), usecs);
            // Setting a value ends the adaption of the delay to the load.
            nic.coalesce.insert("adaptive-rx".to_owned(), 0);
            nic.napi_moderation().ok()?
        }
        _ => Moderation { absolute_timer_s: (usecs > 0).then(|| f64::from(usecs) / 1e6), ..Moderation::default() },
    };
    let napi = Napi { moderation, ..of_interface(known, step) };
    Some(Scheme::Napi(napi))
}

/// The effect of a step that the engines support as a scheme.
pub(super) fn effect(known: &Known<'_>, step: &Step) -> Option<String> {
    let change = Change::of(step, known)?;
    let pps = change.pps;
    let by = |answer: fn(&Host, &Scheme, f64) -> Option<Outcome>, scheme: &Scheme| {
        known.costs.iter().map(|host| answer(host, scheme, pps)).collect::<Option<Vec<_>>>()
    };
    let by_model = |scheme: &Scheme| by(paper, scheme);
    let simulated = |scheme: &Scheme| by(simulate, scheme);
    // One engine computes both sides, so that its bias affects both in the same way.
    let (how, before, after) = match (by_model(&change.old), by_model(&change.new)) {
        (Some(before), Some(after)) => ("predicted", before, after),
        _ => ("simulated", simulated(&change.old)?, simulated(&change.new)?),
    };
    let mut parts = Vec::new();
    if change.overload {
        parts.push(before_after("delivered", "kpps", 1e-3, &before, &after, |outcome| outcome.throughput_pps)?);
    }
    parts.push(before_after("mean latency", "us", 1e6, &before, &after, |outcome| outcome.latency_s?.mean)?);
    parts.extend(before_after("CPU idle", "%", 100.0, &before, &after, |outcome| outcome.cpu?.available));
    let run = known.run;
    let share = if change.overload { OVERLOAD_SHARE } else { LOAD_SHARE };
    Some(format!(
        "at {:.0} kpps ({share} of what the CPU serves without interrupts), {} ({how}; costs of {run}; the ranges come \
         from their intervals, which change both values alike)",
        pps / 1e3,
        parts.join(", ")
    ))
}

/// Returns `share` times the load that the CPU could serve without interrupts (pps).
pub(super) fn load_pps(known: &Known<'_>, share: f64) -> f64 {
    share / packet_s(&known.costs[0])
}

/// Formats a figure before and after, each with the range from costs and simulation.
fn before_after(
    name: &str,
    unit: &str,
    scale: f64,
    before: &[Outcome],
    after: &[Outcome],
    read: fn(&Outcome) -> Option<Figure>,
) -> Option<String> {
    let side = |outcomes: &[Outcome]| Some(Range::of_outcomes(outcomes, read)?.times(scale));
    Some(format!("{name} {:.1} -> {:.1} {unit}", side(before)?, side(after)?))
}

fn point(host: &Host, scheme: &Scheme, pps: f64) -> Point {
    let traffic = Traffic {
        arrivals: Arrivals::Poisson,
        size: FrameSizes::Fixed(FRAME_BYTES as u32),
        link_bps: LINK_BPS,
        flows: None,
    };
    Point { host: host.clone(), scheme: scheme.clone(), traffic, load: Load::Pps(pps) }
}

fn paper(host: &Host, scheme: &Scheme, pps: f64) -> Option<Outcome> {
    ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(&point(host, scheme, pps)).ok()
}

fn simulate(host: &Host, scheme: &Scheme, pps: f64) -> Option<Outcome> {
    SimEngine::with_packets(SIMULATED.0, SIMULATED.1).evaluate(&point(host, scheme, pps)).ok()
}
