//! The advised setting, tried on a driver in a guest: its effect as predicted and as measured.

use std::fmt::Write as _;

use netcliff_core::finding::FigurePath;
use netcliff_core::outcome::{MEASURES, Measure};
use netcliff_core::{Advice, EngineKind, Figure, Finding, Moderation, Napi, Outcome, Scheme, units};
use netcliff_find::of::find_of;
use netcliff_find::{CheckSetup, Observer};
use netcliff_host::testbed::vm::Model;
use netcliff_report as report;
use serde::Serialize;

use crate::args::AdviseArgs;
use crate::commands::far::{Guest, Loaded};
use crate::commands::{now_unix_s, stop_on_signal};
use crate::output;

/// The setting for comparison: the driver's own delay, and polls in softirqs.
const AS_FOUND: &str = "threaded=off";
/// Figures that are shown in addition to that of the goal.
const BESIDE: [&str; 5] = ["throughput_pps", "latency_p99_s", "interrupts_per_s", "packets_per_poll", "cpu_available"];

/// A trial at one load.
#[derive(Debug, Serialize)]
pub struct Trial {
    /// Testbed of the trial, such as `vm:e1000e`.
    testbed: String,
    /// Offered load (pps).
    load_pps: f64,
    /// The advised setting, as `find --check` takes it.
    setting: String,
    /// Figures with the driver's original setting and with the advised one.
    figures: Vec<Effect>,
    /// What could not be measured or predicted, with the reason.
    missing: Vec<String>,
}

/// A figure without and with the setting.
#[derive(Debug, Serialize)]
struct Effect {
    figure: &'static str,
    advised: Option<f64>,
    simulated: Sides,
    measured: Sides,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Sides {
    as_found: Option<f64>,
    with_setting: Option<f64>,
}

/// An advice with its trial, as `--json` prints it.
#[derive(Serialize)]
pub struct WithTrial<'a> {
    /// The advice.
    #[serde(flatten)]
    pub advice: &'a Advice,
    /// Trial of the advised setting.
    pub tried: &'a Trial,
}

/// Minimum gaps between interrupts (us), as candidates for drivers of guests. The grid of all schemes has no gaps,
/// because only some drivers offer them.
const GAPS_US: [u32; 6] = [10, 20, 50, 100, 250, 500];

/// NAPI schemes, one for each of these gaps between interrupts.
pub fn gaps() -> impl Iterator<Item = Scheme> {
    GAPS_US.into_iter().map(|us| {
        let moderation = Moderation { min_gap_s: Some(f64::from(us) / 1e6), ..Moderation::default() };
        Scheme::Napi(Napi { moderation, ..Napi::default() })
    })
}

/// The setting that configures a guest's driver for a scheme, in the form of `find --check`.
///
/// # Errors
/// Why this is not possible, as a part of a sentence.
pub fn setting(scheme: &Scheme, model: Model) -> Result<String, String> {
    let usual = Napi::default();
    let Scheme::Napi(napi) = scheme else {
        return Err(format!("{} is no setting of NAPI behind {model}", scheme.name()));
    };
    if napi.backlog || napi.busy_poll || napi.weight != usual.weight || napi.budget != usual.budget {
        return Err("weight, budget, backlog and busy polling are no settings of a device".to_owned());
    }
    let nic = napi.moderation;
    if nic.packet_timer_s.is_some_and(|timer_s| timer_s > 0.0) {
        return Err("ethtool has no timer that starts anew with each packet".to_owned());
    }
    let whole_us = |time_s: f64| (time_s * 1e6).round() as u64;
    let mut words = Vec::new();
    match (model, nic.absolute_timer_s, nic.frames, nic.min_gap_s) {
        (_, None, None, None) if matches!(model, Model::E1000 | Model::VirtioNet) => {}
        (Model::E1000, ..) => return Err("e1000 of QEMU has its delay by a module parameter only".to_owned()),
        (Model::VirtioNet, ..) => return Err("virtio-net of QEMU takes no delay".to_owned()),
        (Model::E1000e | Model::Igb, None, None, gap_s) => {
            words.push(format!("rx-usecs={}", gap_s.map_or(0, whole_us)));
        }
        (Model::Vmxnet3, None, None, Some(gap_s)) => words.push(format!("rx-usecs={}", whole_us(gap_s))),
        _ => return Err(format!("rx-usecs of {model} is the smallest gap (min_gap), no timer or count")),
    }
    if napi.defer_hard_irqs > 0 {
        words.push(format!("gro_flush_timeout={}", units::print_time_s(napi.gro_flush_timeout_s)));
        words.push(format!("napi_defer_hard_irqs={}", napi.defer_hard_irqs));
    }
    words.push(format!("threaded={}", if napi.threaded { "on" } else { "off" }));
    let text = words.join(",");
    // Drivers refuse some delays, such as those below 10 us of Intel's.
    match text.parse::<CheckSetup>() {
        Ok(_) if matches!(nic.min_gap_s.map(whole_us), Some(1..=9)) => {
            Err(format!("{model} takes no delay below 10 us"))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}

/// Tries the first of the advised settings at the load of the advice.
pub fn of(advice: &Advice, args: &AdviseArgs, model: Model) -> anyhow::Result<Trial> {
    let testbed = format!("vm:{model}");
    let load_pps = advice.traffic.rate_pps().ok_or_else(|| output::usage("--try: the load has no packets a second"))?;
    let scheme = advice.advised.first().ok_or_else(|| anyhow::anyhow!("nothing is advised that could be tried"))?;
    let setting = setting(scheme, model).map_err(|why| output::usage(format!("--try {testbed}: {scheme}: {why}")))?;
    output::say(format!("netcliff: trying {setting} in a guest, {testbed}"));
    let stop = stop_on_signal()?;
    let mut guest = Guest::boot(&args.guest.of(model))?;
    guest.limits.iter().for_each(|limit| output::say(format!("netcliff: {limit}")));
    let mut checks: Vec<CheckSetup> = vec![AS_FOUND.parse()?];
    if setting != AS_FOUND {
        checks.push(setting.parse()?);
    }
    let mut provenance = advice.provenance.clone();
    provenance.started_unix_s = now_unix_s();
    let asked = Loaded {
        checks,
        loads_pps: vec![load_pps],
        traffic: &advice.traffic.clone().shape(),
        seed: args.seed,
        provenance: &provenance,
    };
    let near = guest.near_end();
    let found = find_of(&mut guest.session, &asked.options()?, &near, &stop, &mut Stages);
    let finding = found.map_err(|error| guest.of_run(error))?;
    let predicted = advice.candidate(scheme);
    let mut keys = vec![advice.goal.measure.key];
    keys.extend(BESIDE.iter().filter(|key| **key != advice.goal.measure.key));
    let figures = keys.iter().filter_map(|key| MEASURES.iter().find(|measure| measure.key == *key));
    let figures = figures.map(|measure| Effect {
        figure: measure.key,
        advised: predicted.and_then(|candidate| candidate.figure(*measure)).map(|figure| figure.value),
        simulated: sides(&finding, EngineKind::Sim, &setting, measure),
        measured: sides(&finding, EngineKind::Wire, &setting, measure),
    });
    let concerns = |figure: &FigurePath| matches!(figure, FigurePath::Check(..) | FigurePath::Engine(EngineKind::Wire));
    let missing = finding.missing.iter().filter(|missing| concerns(&missing.figure));
    Ok(Trial {
        testbed,
        load_pps,
        figures: figures.collect(),
        missing: missing.map(|missing| format!("{}: {}", missing.figure, missing.why)).collect(),
        setting,
    })
}

fn sides(finding: &Finding, engine: EngineKind, setting: &str, measure: &Measure) -> Sides {
    let of = |name: &str| -> Option<Figure> {
        let check = finding.checks.iter().find(|check| check.name == name)?;
        let outcome: &Outcome = &check.below.iter().find(|point| point.engine == engine)?.outcome;
        measure.of(outcome)
    };
    Sides { as_found: of(AS_FOUND).map(|f| f.value), with_setting: of(setting).map(|f| f.value) }
}

impl Trial {
    /// The trial as text for people.
    pub fn page(&self) -> String {
        let mut page = format!(
            "\nTRIAL at {} on {}: {} against the driver as found ({AS_FOUND})\n",
            units::print_pps(self.load_pps),
            self.testbed,
            self.setting
        );
        let _ = writeln!(
            page,
            "  {:26}{:>14}{:>14}{:>14}{:>14}{:>14}",
            "", "advised", "sim, found", "sim, set", "found", "set"
        );
        for effect in &self.figures {
            let Some(measure) = MEASURES.iter().find(|measure| measure.key == effect.figure) else { continue };
            let unit = report::format::Unit::of(measure.dimension);
            let cell = |value: Option<f64>| {
                value.map_or_else(|| "-".to_owned(), |value| report::format::quantity(value, unit))
            };
            let (sim, wire) = (effect.simulated, effect.measured);
            let _ = writeln!(
                page,
                "  {:26}{:>14}{:>14}{:>14}{:>14}{:>14}",
                measure.name,
                cell(effect.advised),
                cell(sim.as_found),
                cell(sim.with_setting),
                cell(wire.as_found),
                cell(wire.with_setting)
            );
        }
        page += "  advised: predicted with the costs of --host; sim: simulated with the guest's costs; found, set: measured without and with it\n";
        self.missing.iter().for_each(|missing| page += &format!("  not measured: {missing}\n"));
        page
    }
}

/// Prints the stages of the run.
struct Stages;

impl Observer for Stages {
    fn stage(&mut self, name: &str) {
        output::say(format!("netcliff: {name}"));
    }

    fn trial(&mut self, _load_pps: f64, _elapsed_s: f64, _planned_s: f64) {}

    fn record(&mut self, _record: &netcliff_core::Record) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_become_settings_of_the_driver() {
        let of = |scheme: &str, model: Model| setting(&scheme.parse().expect("a scheme"), model);
        assert_eq!(of("napi", Model::E1000e).as_deref(), Ok("rx-usecs=0,threaded=off"));
        assert_eq!(of("napi:min_gap=50us,threaded", Model::Igb).as_deref(), Ok("rx-usecs=50,threaded=on"));
        let deferred = of("napi:defer_hard_irqs=2,gro_flush_timeout=20us", Model::VirtioNet);
        assert_eq!(deferred.as_deref(), Ok("gro_flush_timeout=20us,napi_defer_hard_irqs=2,threaded=off"));
        for (scheme, model) in [
            ("napi:min_gap=5us", Model::E1000e),
            ("napi:rx_usecs=50us", Model::Igb),
            ("napi:min_gap=50us", Model::VirtioNet),
            ("napi:weight=16", Model::E1000e),
            ("interrupt", Model::E1000e),
        ] {
            assert!(of(scheme, model).is_err(), "{scheme} {model}");
        }
    }
}
