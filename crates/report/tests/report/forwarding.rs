//! The page of an experiment of forwarding.

use netcliff_core::Figure;
use netcliff_core::experiment::Experiment;
use netcliff_lab::forwarding::{ForwardingReport, ForwardingRow, GainLimit};
use netcliff_report::drawing::Drawing;
use netcliff_report::{Style, csv, html, terminal};

const FILE: &str = "kind = \"forwarding\"\ntitle = \"A router\"\nsizes = [\"64B\", \"1518B\"]\n[[set-up]]\nname = \"plain\"\n\
                    [[set-up]]\nname = \"tuned\"\ntune = \"throughput\"\n";

/// Two set-ups, two sizes, two rounds: the first shares a CPU, the second is bound by the tester at the large size.
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

fn drawing(report: &ForwardingReport) -> Drawing {
    let experiment = Experiment::from_toml("f.toml", FILE).expect("it can be read");
    Drawing {
        title: report.title.clone(),
        axes: experiment.axes().expect("axes"),
        marks: Vec::new(),
        curves: report.curves(),
        not_had: Vec::new(),
        asked: Vec::new(),
        source: FILE.to_owned(),
        provenance: report.provenance.clone(),
        partial: false,
    }
}

#[test]
fn the_terminal_says_what_bounds_each_figure_and_what_was_set() {
    let page = terminal::forwarding(&report(), Style { width: 80, ..Style::default() });
    for part in [
        "A router",
        ">= 700",
        "shared CPU",
        "960 kpps",
        "AGAINST PLAIN",
        "+100 %",
        "netfilter: not measured",
        "rps_cpus 0 -> 2",
        "xdp: this kernel may lack it",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn gains_of_lower_limits_are_marked() {
    let mut report = report();
    for (limit, marked) in
        [(GainLimit::AtLeast, ">= +100 %"), (GainLimit::AtMost, "<= +100 %"), (GainLimit::Open, "open")]
    {
        report.rows[3].gain_limit = Some(limit);
        let page = terminal::forwarding(&report, Style { width: 80, ..Style::default() });
        let mut against = page.lines().skip_while(|line| !line.starts_with("AGAINST"));
        let row = against.find(|line| line.trim().starts_with("1518B")).expect("a row");
        assert!(row.contains(marked), "{page}");
        assert_eq!(page.contains("the tester limits both"), limit == GainLimit::Open, "{page}");
        assert!(html::forwarding(&report, &drawing(&report)).contains(&marked.replace(['<', '>'], "")[..4]));
    }
}

#[test]
fn the_page_has_a_picture_of_each_line() {
    let report = report();
    let page = html::forwarding(&report, &drawing(&report));
    assert_eq!(page.matches("<figure").count(), 4, "frame rates, and shares of three lines");
    for part in ["as figure 11 of the guide", "as figure 12 of the guide", "25.0 Gbit/s", "shared CPU"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn csv_has_a_row_a_search() {
    let text = csv::forwarding(&report());
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 9, "{text}");
    assert!(rows[0].starts_with("frame_bytes,set_up,round,throughput_pps"), "{text}");
    assert_eq!(rows[3], "64.0,tuned,1,800000.0,840000.0,router,1200000.0,960000.0,970000.0,1e-6,2e-6,60,3.0");
    assert_eq!(rows[0].split(',').count(), rows[3].split(',').count());
}
