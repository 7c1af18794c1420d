//! The files in experiments/: each can be read and run, and its curves lie where the papers state numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use netcliff_core::experiment::{Curve, Dot, Experiment, Grid, Mark, Task, checks, is_called};
use netcliff_core::{EngineKind, Outcome, Provenance};
use netcliff_lab::run::{Answer, Changes, Plan};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

/// Every file: name, text, experiment.
fn files() -> Vec<(String, String, Experiment)> {
    let entries = std::fs::read_dir(directory()).expect("experiments/");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a text");
        let experiment = Experiment::from_toml(&name, &text).unwrap_or_else(|error| panic!("{error}"));
        (name, text, experiment)
    };
    paths.into_iter().map(read).collect()
}

fn plan(name: &str, text: &str, grid: &Grid, packets: u64) -> Plan {
    let changes = Changes { packets: Some(packets), ..Changes::default() };
    Plan::new(name, text, grid, &changes).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_figure_of_the_papers_has_its_file() {
    let names: Vec<String> = files().into_iter().map(|(name, ..)| name).collect();
    for figure in ["7a", "7b", "7c", "7d", "10a", "10b", "10c", "10d"] {
        assert!(names.contains(&format!("fig-{figure}.toml")), "{figure}: {names:?}");
    }
    for letter in "abcdefghi".chars() {
        assert!(names.contains(&format!("fig-11{letter}.toml")), "11{letter}: {names:?}");
    }
}

/// The first and the last point of each curve, from each engine: an answer, or a reason.
#[test]
fn the_ends_of_every_curve_are_answered_or_declined_with_a_reason() {
    for (name, text, experiment) in files() {
        assert!(!experiment.title().is_empty(), "{name} has no title");
        let Experiment::Grid(grid) = &experiment else { continue };
        let plan = plan(&name, &text, grid, 2_000);
        let same = |a: &Task, b: &Task| a.curve == b.curve && a.answerer == b.answerer;
        let mut answered = 0;
        for curve in plan.tasks.chunk_by(same) {
            for task in [&curve[0], &curve[curve.len() - 1]] {
                match plan.answer(task, &Provenance::default()) {
                    Answer::Had(record) => {
                        assert!(grid.figure.y.of(&record.outcome).is_some(), "{name}: {} has no figure", task.curve);
                        answered += 1;
                    }
                    Answer::Declined(why) => assert!(why.len() > 20, "{name}: {}: {why}", task.curve),
                    Answer::Failed(why) => panic!("{name}: {}: {why}", task.curve),
                }
            }
        }
        assert!(answered > 0, "{name}: nobody answers anything");
    }
}

/// Arrivals for a simulated point near a mark: the tolerances are 1 % and more, the half width of a throughput under
/// Poisson traffic is then near 0.4 %.
const PACKETS: u64 = 100_000;

/// The tasks for a mark: both neighbours of its places, or whole curves if a place is searched for on them.
fn near<'a>(plan: &'a Plan, mark: &Mark) -> Vec<&'a Task> {
    let names: BTreeSet<&str> = plan.tasks.iter().map(|task| task.curve.as_str()).collect();
    let is = |task: &Task, name: &str| task.curve == name || !names.contains(name) && is_called(&task.curve, name);
    let wanted: Vec<(Option<&str>, Option<f64>)> = match (&mark.on, &mark.than) {
        _ if mark.y.is_none() && mark.interval.is_none() && mark.than.is_none() => {
            mark.curves().map(|curve| (Some(curve), None)).collect()
        }
        (Some((on, _)), Some(than)) => vec![(Some(on.as_str()), mark.x), (Some(than.curve.as_str()), than.x)],
        (on, _) => vec![(on.as_ref().map(|(on, _)| on.as_str()), mark.x)],
    };
    let mut found = Vec::new();
    for (name, x) in wanted {
        let tasks: Vec<&Task> = plan.tasks.iter().filter(|task| name.is_none_or(|name| is(task, name))).collect();
        for curve in tasks.chunk_by(|a, b| (&a.curve, a.answerer) == (&b.curve, b.answerer)) {
            let mut curve = curve.to_vec();
            curve.sort_by(|a, b| a.x.total_cmp(&b.x));
            let Some(x) = x else {
                found.extend(curve);
                continue;
            };
            let after = curve.iter().position(|task| task.x >= x).unwrap_or(curve.len() - 1);
            let exact = curve[after].x == x;
            found.extend(&curve[if exact { after } else { after.saturating_sub(1) }..=after]);
        }
    }
    found
}

/// The curves with which a mark of computed points is compared.
fn computed(plan: &Plan, mark: &Mark, answers: &mut BTreeMap<usize, Outcome>) -> Vec<Curve> {
    for task in near(plan, mark) {
        if answers.contains_key(&task.index) {
            continue;
        }
        if let Answer::Had(record) = plan.answer(task, &Provenance::default()) {
            answers.insert(task.index, record.outcome);
        }
    }
    let measure = mark.of.as_ref().map_or(plan.grid.figure.y, |of| of.key.parse().expect("a measure"));
    Grid::curves_of(measure, &plan.tasks, |task| answers.get(&task.index))
}

/// Every claim about computed curves holds, or its file says why it does not. Changed curves break the claim.
#[test]
fn computed_claims_hold_or_say_why_and_changed_curves_break_them() {
    let mut stated = Vec::new();
    for (name, text, experiment) in files() {
        let marks = experiment.marks().unwrap();
        let mut answers: BTreeMap<usize, Outcome> = BTreeMap::new();
        let (plan, curves) = match &experiment {
            Experiment::Grid(grid) if grid.devices.is_empty() => (Some(plan(&name, &text, grid, PACKETS)), Vec::new()),
            Experiment::Mlfrr(mlfrr) => (None, netcliff_lab::run::mlfrr(mlfrr).unwrap()),
            Experiment::Roofline(roofline) => (None, netcliff_lab::run::roofline(roofline).unwrap()),
            _ => continue,
        };
        for mark in marks {
            stated.extend(mark.x.into_iter().chain(mark.y));
            let curves = plan.as_ref().map_or_else(|| curves.clone(), |plan| computed(plan, &mark, &mut answers));
            let found = checks(&mark, &curves);
            assert!(!found.is_empty(), "{name}: {}: no curve reaches it", mark.label);
            assert!(found.iter().all(|check| check.within.is_some()), "{name}: {}: no verdict: {found:?}", mark.label);
            let held = found.iter().all(|check| check.within == Some(true));
            // Heavy tails need more packets than a test has. docs/claims.md has the results for Table 1.
            let is_heavy = mark.interval.is_some() && text.contains("onoff:");
            assert!(is_heavy || held == mark.differs.is_none(), "{name}: {}: {found:?}", mark.label);
            let breaks = |change: &dyn Fn(&Curve) -> Curve| {
                let on = |curve: &Curve| {
                    mark.on.as_ref().is_none_or(|(on, _)| *on == curve.name || is_called(&curve.name, on))
                };
                let changed = curves.iter().map(|curve| if on(curve) { change(curve) } else { curve.clone() });
                checks(&mark, &changed.collect::<Vec<_>>()).iter().any(|check| check.within == Some(false))
            };
            // The last change is for values near 0.
            let stated = mark.interval.map(|(_, high)| high).filter(|high| high.is_finite()).or(mark.y).unwrap_or(0.0);
            let broken = [
                breaks(&|curve| scaled(curve, 1e-3, 0.0)),
                breaks(&|curve| scaled(curve, 0.0, 1.0)),
                breaks(&tilted),
                breaks(&|curve| scaled(curve, 4.0, 0.5)),
                breaks(&moved),
                breaks(&|curve| raised(curve, 1.0 + 2.0 * stated)),
            ];
            assert!(broken.contains(&true), "{name}: {}: no change of its curve breaks it", mark.label);
        }
    }
    for kpps in [187e3, 127e3, 116e3, 167e3, 120e3, 110e3] {
        assert!(stated.contains(&kpps), "{kpps} is marked nowhere");
    }
}

/// The curve with its values multiplied by `factor`, and raised by `up` times the highest value.
fn scaled(curve: &Curve, factor: f64, up: f64) -> Curve {
    let most = curve.highest().filter(|most| *most > 0.0).unwrap_or(1.0);
    let dots = curve.dots.iter().map(|dot| Dot { y: (factor * dot.y.value + up * most).into(), ..*dot }).collect();
    Curve { dots, ..curve.clone() }
}

/// The curve with each value multiplied by its x.
fn tilted(curve: &Curve) -> Curve {
    let dots = curve.dots.iter().map(|dot| Dot { y: (dot.y.value * dot.x).into(), ..*dot }).collect();
    Curve { dots, ..curve.clone() }
}

fn raised(curve: &Curve, by: f64) -> Curve {
    let dots = curve.dots.iter().map(|dot| Dot { y: (dot.y.value + by).into(), ..*dot }).collect();
    Curve { dots, ..curve.clone() }
}

/// The curve with each x doubled, and with a constant value before.
fn moved(curve: &Curve) -> Curve {
    let mut dots: Vec<Dot> = curve.dots.iter().map(|dot| Dot { x: 2.0 * dot.x, ..*dot }).collect();
    if let Some(first) = dots.first().copied() {
        dots.insert(0, Dot { x: first.x / 2.0, ..first });
    }
    Curve { dots, ..curve.clone() }
}

/// A curve of two points that have `value`, at a mark's place.
fn level(name: &str, x: Option<f64>, value: f64) -> Curve {
    let x = x.unwrap_or(1.0);
    let dots = [x / 2.0, x, 2.0 * x].map(|x| Dot { x, y: value.into() }).to_vec();
    Curve { name: name.to_owned(), answerer: None, dots }
}

/// A value inside a range, and a value outside each end that the range has.
fn in_and_out((low, high): (f64, f64)) -> (f64, Vec<f64>) {
    let (below, above) = (low - 0.01 - 0.01 * low.abs(), high + 0.01 + 0.01 * high.abs());
    match (low.is_finite(), high.is_finite()) {
        (true, true) => ((low + high) / 2.0, vec![below, above]),
        (true, false) => (low + 0.01 + 0.01 * low.abs(), vec![below]),
        (false, true) => (high - 0.01 * high.abs() - 1e-9, vec![above]),
        (false, false) => panic!("no range"),
    }
}

/// Artificial curves for which a mark holds, and curves for which it must not hold.
fn made(mark: &Mark) -> (Vec<Curve>, Vec<Vec<Curve>>) {
    let (on, tolerance) = mark.on.clone().unwrap_or(("alone".to_owned(), None));
    if let Some(than) = &mark.than {
        let (inside, outside) = in_and_out(than.range);
        let base = 0.5;
        let pair = |by: f64| {
            let value = if than.is_ratio { base * by } else { base + by };
            let dot = |x: Option<f64>, y: f64| Dot { x: x.unwrap_or(1.0), y: y.into() };
            if than.curve == on {
                let mut dots = vec![dot(mark.x, value), dot(than.x, base)];
                dots.sort_by(|a, b| a.x.total_cmp(&b.x));
                return vec![Curve { name: on.clone(), answerer: None, dots }];
            }
            vec![level(&on, mark.x, value), level(&than.curve, than.x, base)]
        };
        return (pair(inside), outside.into_iter().map(pair).collect());
    }
    if mark.bound {
        let (inside, outside) = in_and_out(mark.of_bound.expect("a range"));
        let of = |share: f64| vec![level(&on, mark.x, mark.y.expect("stated") / share)];
        return (of(inside), outside.into_iter().map(of).collect());
    }
    let range = match (mark.y, tolerance, mark.interval) {
        (Some(0.0), Some(tolerance), _) => Some((-tolerance, tolerance)),
        (Some(y), Some(tolerance), _) => Some((y * (1.0 - tolerance), y * (1.0 + tolerance))),
        (_, _, interval) => interval,
    };
    if let Some(range) = range {
        let (inside, outside) = in_and_out(range);
        return (vec![level(&on, mark.x, inside)], outside.into_iter().map(|y| vec![level(&on, mark.x, y)]).collect());
    }
    // A mark of a place along x: the curve steps down there and so leaves the other curve, which stays level.
    let x = mark.x.expect("a place");
    let stepping = |at: f64| {
        let places = [0.1, 0.2, 0.98, 1.0, 1.02, 2.0, 2.04, 4.0];
        let dots = places.map(|place| Dot { x: place * x, y: if place * x < at { 1.0 } else { 0.2 }.into() }).to_vec();
        let mut curves = vec![Curve { name: on.clone(), answerer: None, dots }];
        curves.extend(mark.leaves.iter().map(|other| {
            let dots = places.map(|place| Dot { x: place * x, y: 1.0.into() }).to_vec();
            Curve { name: other.clone(), answerer: None, dots }
        }));
        curves
    };
    (stepping(x), vec![stepping(2.0 * x)])
}

/// Each mark of each file holds for data made for it, and does not hold for changed data.
#[test]
fn changed_data_break_every_mark() {
    let mut broken = 0;
    for (name, _, experiment) in files() {
        let marks = experiment.marks().unwrap();
        assert!(!marks.is_empty(), "{name}: no mark says what it is to show");
        for mark in marks {
            let verdicts =
                |curves: &[Curve]| checks(&mark, curves).iter().map(|check| check.within).collect::<Vec<_>>();
            let (good, bad) = made(&mark);
            assert_eq!(verdicts(&good), [Some(true)], "{name}: {}", mark.label);
            assert!(!bad.is_empty(), "{name}: {}", mark.label);
            for curves in bad {
                assert_eq!(verdicts(&curves), [Some(false)], "{name}: {}: {curves:?}", mark.label);
                broken += 1;
            }
        }
    }
    assert!(broken > 100, "{broken}");
}

/// The documents' page of claims has each mark of each file, a reason for each claim that does not hold, and readable
/// cells.
#[test]
fn the_docs_have_every_claim() {
    let page = std::fs::read_to_string(directory().join("../docs/claims.md")).expect("docs/claims.md");
    for (name, _, experiment) in files() {
        let heading = format!("\n## `{}`\n", name.trim_end_matches(".toml"));
        let section = page.split_once(&heading).unwrap_or_else(|| panic!("no section {heading}")).1;
        let section = section.split("\n## ").next().unwrap_or(section);
        for mark in experiment.marks().unwrap() {
            let claim = format!("| {} (", mark.label.replace('|', "\\|"));
            let row = section.lines().find(|line| line.starts_with(&claim)).unwrap_or_else(|| panic!("no row {claim}"));
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!(cells.len(), 3, "{row}");
        }
    }
    let longest = page.lines().flat_map(|line| line.split(" | ")).map(str::len).max();
    assert!(longest < Some(600), "a cell of {longest:?} characters");
    assert!(!page.contains("no reason is known"), "a claim that does not hold has no reason");
}

/// The interrupt curve (eq. (1)) bends at the rate from the formula, and the polling curves never fall. Figure 1 of the
/// paper on the NIC prototype shows these two shapes.
#[test]
fn the_mlfrr_curves_bend_at_the_formulas() {
    let (.., experiment) = files().into_iter().find(|(name, ..)| name == "mlfrr.toml").expect("mlfrr.toml");
    let Experiment::Mlfrr(mlfrr) = &experiment else { panic!("not of its kind") };
    let curves = netcliff_lab::run::mlfrr(mlfrr).unwrap();
    let (_, host) = &mlfrr.hosts().unwrap()[0];
    let bend_pps =
        1.0 / (2.0 * host.interrupt_s + host.service_s(64.0) + host.context_switch_s + host.application_s.unwrap());
    let interrupts = curves.iter().find(|curve| curve.name.starts_with("interrupts")).unwrap();
    let highest = interrupts.highest().unwrap();
    assert!(highest <= bend_pps && highest > 0.97 * bend_pps, "{highest} against {bend_pps}");
    let last = interrupts.dots.last().unwrap().y.value;
    assert_eq!(last, 0.0, "receive livelock");
    for polled in curves.iter().filter(|curve| curve.name.starts_with("polled")) {
        assert!(polled.dots.windows(2).all(|pair| pair[1].y.value >= pair[0].y.value), "{}", polled.name);
        assert!(polled.highest().unwrap() > 0.0);
    }
}

/// Figures of papers are computed. They are never measured on the wire, because its host would be this machine.
#[test]
fn the_papers_figures_are_computed() {
    for (name, _, experiment) in files() {
        let Experiment::Grid(grid) = &experiment else { continue };
        assert!(grid.engines.contains(&EngineKind::Wire) != grid.devices.is_empty(), "{name}");
    }
}
