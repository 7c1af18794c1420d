//! A page of every kind, from artificial results, for the browser tests.

use netcliff_core::experiment::{Answerer, Axes, Axis, Curve, Dot, Mark, Scale};
use netcliff_core::{Dimension, EngineKind, Fidelity, Figure, Provenance};
use netcliff_report::drawing::{Drawing, NotHad};
use netcliff_report::html;
use netcliff_rfc2544::report::Rfc2544Report;
use netcliff_transfer::experiments::TransferReport;

use crate::{fixture, routers};

/// Name and page of each kind.
pub fn pages() -> Vec<(&'static str, String)> {
    let transfers = transfers();
    let blocks = blocks(&transfers);
    vec![
        ("find", html::finding(&fixture::livelocking())),
        ("experiment", html::experiment(&schemes())),
        ("limits", html::experiment(&limits())),
        ("rfc2544", html::rfc2544(&rfc2544())),
        ("transfers", html::transfers(&transfers, &blocks)),
        ("forwarding", html::forwarding(&routers::report(), &routers::drawing(&routers::report()))),
        ("compare", html::compare(&routers::compared([0.799, 0.801], Some(0.05)))),
    ]
}

fn provenance(command: &str) -> Provenance {
    Provenance {
        version: "0.1.0".to_owned(),
        command: command.to_owned(),
        started_unix_s: 1_790_000_000.0,
        ..Provenance::default()
    }
}

fn drawing(title: &str, command: &str, axes: Axes, curves: Vec<Curve>) -> Drawing {
    Drawing {
        title: title.to_owned(),
        axes,
        curves,
        marks: Vec::new(),
        not_had: Vec::new(),
        limits: Vec::new(),
        judged: Default::default(),
        missing: Vec::new(),
        asked: vec![("host".to_owned(), "pentium4-2530mhz".to_owned()), ("frames".to_owned(), "64B".to_owned())],
        source: "title = \"a file\"\n[host]\npreset = \"pentium4-2530mhz\"\n".to_owned(),
        provenance: provenance(command),
        partial: false,
    }
}

fn axis(name: &str, dimension: Dimension, scale: Scale) -> Axis {
    Axis { name: name.to_owned(), dimension, scale, range: None }
}

/// Five schemes, two engines, four stated numbers; one curve coincides with another.
pub fn schemes() -> Drawing {
    let model = Answerer { engine: EngineKind::Model, fidelity: Some(Fidelity::Exact) };
    let sim = Answerer { engine: EngineKind::Sim, fidelity: None };
    let curve = |name: &str, answerer: Answerer, limit: f64, past: f64| {
        let dot = |n: u32| {
            let x = f64::from(n) * 15e3;
            let value = if x < limit { x } else { (limit - past * (x - limit)).max(0.0) };
            let y = if answerer == sim { Figure::sampled(value, 0.03 * value, 0.95) } else { Figure::exact(value) };
            Dot { x, y }
        };
        Curve { name: name.to_owned(), answerer: Some(answerer), dots: (1..=22).map(dot).collect() }
    };
    let all = [
        ("ideal", 187e3, 0.0),
        ("interrupt", 120e3, 1.2),
        ("polling", 150e3, 0.1),
        ("NAPI polling", 165e3, 0.05),
        ("disable-enable", 187e3, 0.0),
    ];
    let curves = all
        .into_iter()
        .flat_map(|(name, limit, past)| [curve(name, model, limit, past), curve(name, sim, 0.985 * limit, past)]);
    let mark = |x: Option<f64>, y: Option<f64>, label: &str, on: Option<&str>| Mark {
        x,
        y,
        label: label.to_owned(),
        source: "section 4, figure 7a, read off the printed curve".to_owned(),
        on: on.map(|name| (name.to_owned(), Some(0.01))),
        ..Mark::default()
    };
    let axes = Axes {
        x: axis("offered load", Dimension::Pps, Scale::Linear),
        y: axis("throughput", Dimension::Pps, Scale::Linear),
    };
    let marks = vec![
        mark(None, Some(187e3), "highest throughput", Some("ideal")),
        mark(Some(120e3), Some(120e3), "cliff", Some("interrupt")),
        mark(Some(130e3), None, "switching point", None),
        mark(Some(210e3), Some(170e3), "elsewhere", Some("NAPI polling")),
    ];
    let not_had = vec![NotHad {
        curve: "NAPI polling".to_owned(),
        answerer: model,
        points: 15,
        why: "no chain".to_owned(),
        other_fidelity: false,
    }];
    let drawing = drawing("Throughput of five schemes by load", "netcliff run fig-7a", axes, curves.collect());
    Drawing { marks, not_had, ..drawing }
}

/// Bounds by frame size on two logarithmic axes. The curve of the lowest bound coincides with another one.
pub fn limits() -> Drawing {
    let curve = |name: &str, bps: fn(f64) -> f64| {
        let sizes = [64.0, 128.0, 256.0, 512.0, 1024.0, 1518.0, 9018.0];
        let dots = sizes.map(|x| Dot { x, y: Figure::exact(bps(x)) });
        Curve { name: name.to_owned(), answerer: None, dots: dots.to_vec() }
    };
    let cpu = |x: f64| 8.0 * x * 684e3;
    let axes = Axes {
        x: axis("frame size", Dimension::Bytes, Scale::Log),
        y: axis("upper bound of frame bits", Dimension::Bps, Scale::Log),
    };
    let curves = vec![curve("CPU", cpu), curve("memory", |x| 9e10 * x / (x + 300.0)), curve("lowest", cpu)];
    drawing("Upper bounds of the rate, by frame size", "netcliff limits --this-host", axes, curves)
}

/// Block sizes of a transfer, with wide intervals.
fn blocks(report: &TransferReport) -> Drawing {
    let curve = |name: &str, most: f64| {
        let dot = |n: u32| {
            let x = 4096.0 * f64::from(1 << n);
            let value = most * x / (x + 3e4);
            Dot { x, y: Figure::sampled(value, 0.15 * value, 0.95) }
        };
        let answerer = Some(Answerer { engine: EngineKind::Wire, fidelity: None });
        Curve { name: name.to_owned(), answerer, dots: (0..=8).map(dot).collect() }
    };
    let axes =
        Axes { x: axis("block", Dimension::Bytes, Scale::Log), y: axis("goodput", Dimension::Bps, Scale::Linear) };
    let curves = vec![curve("splice", 31e9), curve("read and write", 22e9)];
    Drawing { asked: report.asked.clone(), ..drawing(&report.title, "netcliff run block-sweep", axes, curves) }
}

/// A design of three settings with their effects on two figures.
fn transfers() -> TransferReport {
    let effect = |factor: &str, from: &str, to: &str, figure: &str, change: f64, half: f64, p: f64| {
        serde_json::json!({"factor": factor, "from": from, "to": to, "figure": figure, "from_mean": if figure == "system_cpus" { 1.4 } else { 2e10 },
            "to_mean": if figure == "system_cpus" { 1.4 } else { 2e10 } * (1.0 + change), "p_corrected": p,
            "change": {"value": change, "low": change - half, "high": change + half, "confidence": 0.95}})
    };
    let effects = vec![
        effect("block", "4KiB", "64KiB", "goodput_bps", 0.84, 0.09, 1e-6),
        effect("tso", "on", "off", "goodput_bps", -0.37, 0.08, 2e-4),
        effect("congestion", "cubic", "reno", "goodput_bps", 0.02, 0.11, 0.81),
        effect("block", "4KiB", "64KiB", "system_cpus", -0.21, 0.05, 1e-4),
        effect("tso", "on", "off", "system_cpus", 0.12, 0.14, 0.3),
        effect("congestion", "cubic", "reno", "system_cpus", 0.01, 0.05, 0.9),
    ];
    let text = serde_json::json!({"kind": "transfer", "title": "What each setting does to a transfer", "design": "full",
        "repeats": 5, "asked": [["repeats", "5"], ["time", "3 s"]],
        "factors": [{"key": "block", "levels": ["4KiB", "64KiB"]}, {"key": "tso", "levels": ["on", "off"]}],
        "y": "goodput_bps", "rows": [{"levels": ["4KiB", "on"], "samples": []}, {"levels": ["64KiB", "off"], "samples": []}],
        "effects": effects, "not_had": [], "warnings": ["2 CPUs: the sender, the reception and everything else share them"],
        "fingerprint": {}, "provenance": provenance("netcliff run feature-matrix"), "partial": false});
    serde_json::from_value(text).expect("the documented form")
}

/// Forwarding of six sizes by a device faster than the tester for the largest.
pub fn rfc2544() -> Rfc2544Report {
    let size = |bytes: f64, pps: f64, end: &str, limit: &str| {
        let trial = |load: f64, lost: f64| serde_json::json!({"load_pps": load, "duration_s": 1.0, "sent": load as u64, "lost": (load * lost) as u64});
        let median = |time_s: f64| serde_json::json!({"median": time_s, "min": time_s, "max": time_s});
        serde_json::json!({"frame": format!("{bytes}B"), "mean_bytes": bytes, "sender_pps": 9e5, "max_pps": 8.7e5,
            "throughput": {"found": [{"lower_pps": pps, "end": end}], "trials": [], "void_trials": 0, "trial_time_s": 9.0},
            "limit": limit, "latency": {"load_pps": pps, "trial_s": 1.0, "repeats": [], "mean_s": 2e-5 + 1e-8 * bytes,
                "typical_s": median(1.5e-5 + 1e-8 * bytes), "worst_s": median(9e-5)},
            "loss": {"trials": [trial(8.7e5, 0.4), trial(7e5, 0.3), trial(5e5, 0.05), trial(3e5, 0.0)], "clean": true},
            "seen": {"trials": 11, "void_trials": 0, "sent": 1000, "duplicates": 0, "reordered": 0, "corrupt": 0}})
    };
    let text = serde_json::json!({"kind": "rfc2544", "device": "this kernel in a namespace on CPU 1, between veth pairs: IP routing",
        "tester": "sent by AF_XDP (copy), taken in by AF_PACKET ring, on CPU 0", "line_bps": 1e10,
        "asked": {"tests": {"throughput": true, "latency": true, "loss": true, "back_to_back": false}, "frames": ["64B"],
            "ipv6": false, "both_ways": false, "flows": 4, "search": "mlr", "trial_s": 1.0, "loss_ratio": 0.0, "width": 0.005,
            "settle_s": 2.0, "rest_s": 5.0, "loss_step": 0.1, "latency_repeats": 20, "burst_repeats": 50},
        "sizes": [size(64.0, 4.23e5, "regular", "device"), size(256.0, 4.1e5, "regular", "device"),
            size(512.0, 3.9e5, "above-sender", "tester"), size(1024.0, 3.7e5, "above-sender", "tester"),
            size(1518.0, 3.6e5, "above-sender", "tester")],
        "limits": ["two CPUs"], "notes": ["the wait for residual frames ends when none is missing"],
        "provenance": provenance("netcliff rfc2544 all")});
    serde_json::from_value(text).expect("the documented form")
}
