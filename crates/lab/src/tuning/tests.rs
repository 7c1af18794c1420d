use netcliff_core::finding::Cost;
use netcliff_core::inspection::Objective;
use netcliff_host::tune::Step;

use super::*;

fn calibration() -> Calibration {
    let host = crate::inputs::host("pentium4-2530mhz").unwrap();
    let figure = Figure::sampled(host.protocol_s, 0.1 * host.protocol_s, 0.95);
    let cost = Cost { key: "protocol".into(), figure, unit: "s".into(), how: "a test".into() };
    Calibration { costs: vec![cost], host, cpu_method: "none".into(), r_squared: None }
}

fn plan(old: &str, new: &str) -> Plan {
    let setting = |key: &str| Setting::Ethtool { interface: "eth0".into(), group: Group::Coalesce, key: key.into() };
    let steps = vec![
        Step::new(setting("rx-usecs"), old, new, "a test", "none"),
        Step::new(setting("adaptive-rx"), "1", "0", "a test", "none"),
    ];
    Plan { objective: Objective::Cpu, machine: Default::default(), steps, notes: Vec::new() }
}

/// Waiting longer for the interrupt costs latency and leaves CPU: the sign is theory's, the figures the model's.
#[test]
fn effects_of_a_longer_delay() {
    let mut plan = plan("0", "100");
    effects(&mut plan, &calibration(), "find run 3");
    let told = plan.steps[0].proposal.effect.clone().unwrap();
    assert!(told.contains("find run 3") && told.contains(" to "), "{told}");
    let numbers: Vec<f64> = told.split([' ', '(']).filter_map(|word| word.parse().ok()).collect();
    // kpps; wait before (low to high) -> after (low to high); CPU likewise.
    let [_, wait, wait_low, ..] = numbers[..] else { panic!("{told}") };
    assert!(wait_low < wait, "{told}");
    let sides: Vec<&str> = told.split("->").collect();
    let first = |text: &str| text.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    assert!(first(sides[1]) > wait, "{told}");
    assert_eq!(plan.steps[1].proposal.effect, None, "the model does not know it");
}

#[test]
fn rounds_alternate_and_drift_cancels() {
    let mut clock = 0.0;
    let mut order = Vec::new();
    let trial = rounds(8, true, |tuned| {
        clock += 1.0;
        order.push(tuned);
        // Drifts upwards by 1 a measurement; tuning takes 5 off, give or take.
        Ok::<f64, String>(100.0 + clock - if tuned { 5.0 } else { 0.0 } + 0.01 * (clock % 3.0))
    });
    let trial = trial.unwrap();
    assert_eq!(order[..4], [false, true, true, false]);
    assert!(trial.difference.covers(-5.0), "{trial:?}");
    assert_eq!(trial.verdict, Verdict::Better);
    let same = rounds(6, true, |_| Ok::<f64, String>(1.0)).unwrap();
    assert_eq!(same.verdict, Verdict::NotDecided);
    let higher = rounds(4, false, |tuned| Ok::<f64, String>(if tuned { 1.0 } else { 2.0 })).unwrap();
    assert_eq!(higher.verdict, Verdict::Worse);
    assert_eq!(rounds(4, true, |_| Err::<f64, _>("gone")), Err("gone"));
}

#[test]
fn figures_of_a_command() {
    assert_eq!(figure("took 12 ms, 3.5\n", None), Ok(3.5));
    assert_eq!(figure("noise\n{\"a\": {\"p99_s\": 2e-5}}\n", Some("/a/p99_s")), Ok(2e-5));
    assert_eq!(figure("{\"a\": {\"value\": 7, \"low\": 6}}", Some("/a")), Ok(7.0));
    assert!(figure("none here", None).unwrap_err().contains("--metric"));
    assert!(figure("{}", Some("/x")).unwrap_err().contains("/x"));
    assert!(figure("NaN", None).is_err());
}
