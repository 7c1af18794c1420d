//! Artificial reports of forwarding, and a comparison of two of them.

use netcliff_core::Figure;
use netcliff_core::experiment::Experiment;
use netcliff_lab::compare::{Comparison, Measured, compare};
use netcliff_report::drawing::Drawing;
use netcliff_rfc2544::forwarding::{ForwardingReport, ForwardingRow};

const FILE: &str = "kind = \"forwarding\"\ntitle = \"A router\"\nsizes = [\"64B\", \"1518B\"]\n[[set-up]]\nname = \"plain\"\n\
                    [[set-up]]\nname = \"tuned\"\ntune = \"throughput\"\n";

/// Two set-ups, two sizes, two rounds. The first set-up shares a CPU; the tester limits the second one at the large
/// size.
pub fn report() -> ForwardingReport {
    let sample = |round: u32, pps: f64, bound: &str| {
        serde_json::json!({
            "round": round, "throughput_pps": pps, "upper_pps": pps * 1.05, "bound": bound, "sender_pps": 1.2e6, "trials": 60,
            "trial_time_s": 3.0,
            "predicted": {"load_pps": pps / 2.0, "frame_s": 1e-6, "poll_s": 2e-6, "server_pps": 9.7e5, "simulated_pps": 9.6e5}
        })
    };
    let row = |frame: &str, set_up: &str, pps: f64, bound: &str, line_pps: f64| {
        serde_json::json!({
            "frame": frame, "set_up": set_up, "bound": bound, "throughput_pps": {"value": pps, "low": 0.9 * pps,
            "high": 1.1 * pps, "confidence": 0.95}, "samples": [sample(1, pps, bound), sample(2, pps, bound)],
            "line_shares": [{"line_bps": 1e9, "line_pps": line_pps, "share": pps / line_pps}]
        })
    };
    let about = serde_json::json!({
        "device": "this kernel", "tester": "an AF_PACKET ring", "router_cpus": [1], "shared": false,
        "settings": [{"name": "rps_cpus", "before": "0", "after": "2"}], "notes": ["no rings"]
    });
    let mut report: ForwardingReport = serde_json::from_value(serde_json::json!({
        "kind": "forwarding", "title": "A router", "rounds": 2, "asked": [["rounds", "2"]],
        "set_ups": [
            {"name": "plain", "forwarding": "netfilter"},
            {"name": "tuned", "forwarding": "netfilter", "tune": "throughput", "about": about}
        ],
        "rows": [
            row("64B", "plain", 4e5, "shared-cpu", 1_488_095.0), row("64B", "tuned", 8e5, "router", 1_488_095.0),
            row("1518B", "plain", 3e5, "shared-cpu", 81_274.0), row("1518B", "tuned", 7e5, "tester", 81_274.0)
        ],
        "not_had": ["xdp: this kernel may lack it"], "warnings": [], "fingerprint": {},
        "provenance": {"version": "0.1.0", "command": "netcliff run f.toml", "started_unix_s": 1_795_257_623.0}, "partial": false
    }))
    .expect("a report");
    let tuned = |row: &&mut ForwardingRow| row.set_up == "tuned";
    report.rows.iter_mut().filter(tuned).for_each(|row| {
        row.gain = Some(Figure::between(1.0, 0.8, 1.2, 0.95));
        row.simulated_pps = Some(Figure::exact(9.6e5));
    });
    report
}

pub fn drawing(report: &ForwardingReport) -> Drawing {
    let experiment = Experiment::from_toml("f.toml", FILE).expect("it can be read");
    Drawing {
        title: report.title.clone(),
        axes: experiment.axes().expect("axes"),
        marks: Vec::new(),
        curves: report.curves(),
        not_had: Vec::new(),
        limits: Vec::new(),
        judged: Default::default(),
        missing: Vec::new(),
        asked: Vec::new(),
        source: FILE.to_owned(),
        provenance: report.provenance.clone(),
        partial: false,
    }
}

/// Compares two runs. The throughputs of the second run are the throughputs of the report times `factors`, round by
/// round.
pub fn compared(factors: [f64; 2], fail_if_slower: Option<f64>) -> Comparison {
    let run = |name: &str, factors: [f64; 2]| {
        let mut report: ForwardingReport = report();
        for row in &mut report.rows {
            // Each throughput is limited by the router itself, so that each can be tested.
            row.bound = None;
            for (sample, factor) in row.samples.iter_mut().zip(factors) {
                sample.throughput_pps = sample.throughput_pps.map(|pps| pps * factor);
            }
        }
        let json = serde_json::to_string(&report).expect("plain data");
        Measured::of_json(name, &json).expect("as --json prints it")
    };
    compare(&run("before.json", [0.999, 1.001]), &run("after.json", factors), fail_if_slower).expect("the same kind")
}

/// Without `--fail-if-slower`, the page of a comparison has the terminal's answer.
#[test]
fn the_page_of_a_comparison_has_its_answer() {
    let worse = netcliff_report::html::compare(&compared([0.799, 0.801], None));
    assert!(worse.contains("B is worse in "), "{worse}");
    let with_bar = netcliff_report::html::compare(&compared([0.799, 0.801], Some(0.05)));
    assert!(with_bar.contains("Slower by more than ") && !with_bar.contains("B is worse in "), "{with_bar}");
}
