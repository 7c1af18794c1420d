use netcliff_core::finding::{Calibration, Cost};
use netcliff_core::inspection::Objective;
use netcliff_host::inspect::Inspection;
use netcliff_host::tune::Step;

use netcliff_host::setting::{Group, Setting};
use netcliff_host::tune::Plan;

use super::*;
use netcliff_lab::costs::Found;

fn calibration() -> Calibration {
    let host = netcliff_lab::inputs::host("pentium4-2530mhz").unwrap();
    let figure = Figure::sampled(host.protocol_s, 0.1 * host.protocol_s, 0.95);
    let cost = Cost { key: "protocol".into(), figure, unit: "s".into(), how: "a test".into() };
    Calibration { costs: vec![cost], host, cpu_method: "none".into(), r_squared: None, correlated: Vec::new() }
}

fn found() -> Found {
    Found::bare(3, calibration())
}

fn plan(old: &str, new: &str) -> Plan {
    let setting = |key: &str| Setting::Ethtool { interface: "eth0".into(), group: Group::Coalesce, key: key.into() };
    let steps = vec![
        Step::new(setting("rx-usecs"), old, new, "a test", "none"),
        Step::new(setting("adaptive-rx"), "1", "0", "a test", "none"),
    ];
    Plan { objective: Objective::Cpu, machine: Default::default(), steps, notes: Vec::new() }
}

/// A longer interrupt delay increases latency and leaves more CPU: the sign of the effect follows from theory, the
/// values from the model.
#[test]
fn effects_of_a_longer_delay() {
    let mut plan = plan("0", "100");
    effects(&mut plan, &Inspection::default(), &found());
    let shown = plan.steps[0].proposal.effect.clone().unwrap();
    assert!(shown.contains("find run 3") && shown.contains(" to "), "{shown}");
    let numbers: Vec<f64> = shown.split([' ', '(']).filter_map(|word| word.parse().ok()).collect();
    // The numbers in the text: kpps, its share, the latency before (with low and high) and after (with low and high), then the CPU
    // before and after.
    let [_, _, wait, wait_low, ..] = numbers[..] else { panic!("{shown}") };
    assert!(wait_low < wait, "{shown}");
    let sides: Vec<&str> = shown.split("->").collect();
    let first = |text: &str| text.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    assert!(first(sides[1]) > wait, "{shown}");
    let adaptive = plan.steps[1].proposal.effect.clone().unwrap();
    assert!(adaptive.starts_with("not predicted"), "neither engine knows it: {adaptive}");
}

/// Returns the first number after a figure's name, before and after the step.
fn sides(shown: &str, name: &str) -> (f64, f64) {
    let text = shown.split(name).nth(1).unwrap_or_else(|| panic!("{name} is not in {shown}"));
    let first = |text: &str| text.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    let (before, after) = text.split_once("->").unwrap();
    (first(before), first(after))
}

/// Steps that the model does not support are simulated. The signs of the effects follow from theory.
#[test]
fn effects_that_are_simulated() {
    let file = |name: &str| Setting::file(format!("/sys/class/net/eth0/{name}"));
    let steps = vec![
        Step::new(file("napi_defer_hard_irqs"), "0", "2", "a test", "none"),
        Step::new(file("gro_flush_timeout"), "0", "50000", "a test", "none"),
        Step::new(Setting::sysctl("net.core.netdev_budget"), "300", "600", "a test", "none"),
        Step::new(file("threaded"), "1", "0", "a test", "none"),
        Step::new(Setting::sysctl("net.core.rmem_max"), "1", "2", "a test", "none"),
    ];
    let mut plan = Plan { objective: Objective::Cpu, machine: Default::default(), steps, notes: Vec::new() };
    effects(&mut plan, &Inspection::default(), &found());
    let shown: Vec<String> = plan.steps.iter().map(|step| step.proposal.effect.clone().unwrap()).collect();
    // A timer instead of one interrupt per packet: longer waits, more CPU idle. Both steps report the effect of the
    // pair.
    assert_eq!(shown[0], shown[1]);
    let (before, after) = sides(&shown[0], "mean latency");
    assert!(after > before && shown[0].contains("simulated"), "{shown:#?}");
    let (before, after) = sides(&shown[0], "CPU idle");
    assert!(after > before, "{shown:#?}");
    assert!(shown[2].contains("delivered"), "{shown:#?}");
    assert!(shown[3].contains("mean latency"), "{shown:#?}");
    assert!(shown[4].starts_with("not predicted"), "{shown:#?}");
    // One step of the pair alone has no effect.
    plan.steps.truncate(1);
    plan.steps[0].proposal.effect = None;
    effects(&mut plan, &Inspection::default(), &found());
    assert!(plan.steps[0].proposal.effect.as_ref().unwrap().starts_with("not predicted"));
}

/// A queue with half of the table's entries is fully loaded at twice the load of one with all entries. The report
/// includes the uncertainty of the costs.
#[test]
fn effects_of_dealing_anew() {
    let steps = |setting: Setting, old: &str, new: &str| {
        let mut plan = Plan {
            objective: Objective::Throughput,
            machine: Default::default(),
            steps: vec![Step::new(setting, old, new, "a test", "none")],
            notes: Vec::new(),
        };
        effects(&mut plan, &Inspection::default(), &found());
        plan.steps[0].proposal.effect.clone().unwrap()
    };
    let table = || Setting::RssTable { interface: "eth0".into() };
    let channels = |key: &str| Setting::Ethtool { interface: "eth0".into(), group: Group::Channels, key: key.into() };
    let full_kpps = |shown: &str| -> Vec<f64> {
        let tail = shown.split("full at ").nth(1).unwrap();
        tail.split([' ', '(', ')']).filter_map(|word| word.parse().ok()).collect()
    };
    let shown = steps(table(), "0,0,0,0", "0,1,0,1");
    assert!(shown.contains("100.0 % of the packets -> 50.0 %"), "{shown}");
    let [before, low, high, after, ..] = full_kpps(&shown)[..] else { panic!("{shown}") };
    assert!((after / before - 2.0).abs() < 0.02 && low < before && before < high, "{shown}");
    let shown = steps(channels("combined"), "1", "4");
    assert!(shown.contains("100.0 % of the packets -> 25.0 %"), "{shown}");
    for (setting, old, new) in [(table(), "0,1", "default"), (channels("tx"), "1", "4"), (channels("rx"), "0", "4")] {
        assert!(steps(setting, old, new).contains("not predicted"), "{old} -> {new}");
    }
}

fn lower(figure: &str) -> Yardstick {
    Yardstick { figure: figure.to_owned(), higher_is_better: false }
}

fn higher(figure: &str) -> Yardstick {
    Yardstick { higher_is_better: true, ..lower(figure) }
}

#[test]
fn rounds_alternate_and_drift_cancels() {
    let mut clock = 0.0;
    let mut order = Vec::new();
    let trials = rounds(8, &[lower("")], |tuned| {
        clock += 1.0;
        order.push(tuned);
        // The values drift upwards by 1 per measurement; the tuning lowers them by about 5.
        Ok::<_, String>(vec![100.0 + clock - if tuned { 5.0 } else { 0.0 } + 0.01 * (clock % 3.0)])
    });
    let trials = trials.unwrap();
    assert_eq!((trials.len(), &order[..4]), (1, &[false, true, true, false][..]));
    assert!(trials[0].difference.covers(-5.0), "{trials:?}");
    assert_eq!(trials[0].verdict, Verdict::Better);
    let same = rounds(6, &[lower("")], |_| Ok::<_, String>(vec![1.0])).unwrap();
    assert_eq!(same[0].verdict, Verdict::NotDecided);
    let worse = rounds(4, &[higher("")], |tuned| Ok::<_, String>(vec![if tuned { 1.0 } else { 2.0 }])).unwrap();
    assert_eq!(worse[0].verdict, Verdict::Worse);
    assert_eq!(rounds(4, &[lower("")], |_| Err::<Vec<f64>, _>("gone")), Err("gone"));
}

/// With several figures at once, the intervals are wider. The verdict is mixed if one figure is better and another
/// worse.
#[test]
fn figures_are_decided_together() {
    let noise = [0.3, -0.4, 0.1, 0.2, -0.3, 0.4, -0.1, -0.2, 0.0, 0.1];
    let measure = |yardsticks: &[Yardstick], shifts: &[f64]| {
        let mut turn = 0;
        let trials = rounds(5, yardsticks, |tuned| {
            turn += 1;
            let value = |shift: &f64| 10.0 + noise[turn - 1] + if tuned { *shift } else { 0.0 };
            Ok::<_, String>(shifts.iter().map(value).collect())
        });
        trials.unwrap()
    };
    let (one, two) = ([higher("a")], [higher("a"), higher("b")]);
    let width = |trials: Vec<Trial>| trials[0].difference.interval.map_or(0.0, |ends| ends.high - ends.low);
    let three = [higher("a"), higher("b"), higher("c")];
    assert!(width(measure(&three, &[0.6, 0.0, 0.0])) > 1.3 * width(measure(&one, &[0.6])));
    assert_eq!(Verdict::of_all(&measure(&two, &[5.0, 0.0])), Verdict::Better);
    assert_eq!(Verdict::of_all(&measure(&two, &[-5.0, 0.0])), Verdict::Worse);
    assert_eq!(Verdict::of_all(&measure(&two, &[5.0, -5.0])), Verdict::Mixed);
    assert_eq!(Verdict::of_all(&measure(&two, &[0.0, 0.0])), Verdict::NotDecided);
    // Each figure has its own better direction.
    assert_eq!(Verdict::of_all(&measure(&[higher("a"), lower("b")], &[5.0, -5.0])), Verdict::Better);
}

#[test]
fn figures_of_a_command() {
    assert_eq!(figure("took 12 ms, 3.5\n", None), Ok(3.5));
    assert_eq!(figure("noise\n{\"a\": {\"p99_s\": 2e-5}}\n", Some("/a/p99_s")), Ok(2e-5));
    assert_eq!(figure("{\"a\": {\"value\": 7, \"low\": 6}}", Some("/a")), Ok(7.0));
    assert!(figure("none here", None).unwrap_err().contains("--metric"));
    assert!(figure("{}", Some("/x")).unwrap_err().contains("/x"));
    assert!(figure("NaN", None).is_err());
    assert!(figure("noise", Some("/x")).unwrap_err().contains("no JSON"));
    let json = serde_json::json!({
        "a/b": 1, "count": {"value": 3, "low": 2}, "latency": {"p50_s": 1e-5, "p99_s": 2e-5}, "rows": [{"x": 1}, {"x": 2}],
    });
    let names = |pointer: &str| figure(&json.to_string(), Some(pointer)).unwrap_err();
    let all = "for example, /latency/p50_s, /a~1b, /count, /latency/p99_s, /rows/0/x";
    assert!(names("/p50_s").contains("no number at /p50_s") && names("/p50_s").ends_with(all), "{}", names("/p50_s"));
    assert!(names("/p99_us").contains("for example, /latency/p99_s, /a~1b"), "{}", names("/p99_us"));
}
