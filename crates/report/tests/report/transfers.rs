//! The screen after `stream` and `rr`: the answer first, at 80 and 120 columns.

use netcliff_core::Provenance;
use netcliff_core::stream::StreamReport;
use netcliff_report::{Style, terminal};
use netcliff_transfer::rr::{RrRun, Settings};
use serde_json::{Value, json};

const PLAIN: Style = Style { width: 80, colour: false, unicode: true };
/// No line has to be broken.
const UNBROKEN: Style = Style { width: 500, ..PLAIN };

fn provenance() -> Provenance {
    Provenance { version: "0.1.0".to_owned(), started_unix_s: 1.7e9, ..Provenance::default() }
}

fn spread(median: f64) -> Value {
    json!({"median": median, "min": 0.97 * median, "max": 1.02 * median})
}

/// A row whose repeats are these goodputs (Gbit/s), with the half width that they have.
fn row(block_bytes: u64, gbps: &[f64], half_width: f64) -> Value {
    let mean = gbps.iter().sum::<f64>() / gbps.len() as f64;
    let end = |busy: f64, demand: f64| json!({"busy": spread(busy), "us_per_kib": spread(demand), "kernel_share": 0.9});
    json!({
        "path": "write", "block_bytes": block_bytes, "repeats": gbps.len(),
        "samples": gbps.iter().map(|gbps| json!({
            "goodput_bps": gbps * 1e9, "sender_cpu": 0.61, "receiver_cpu": 0.99, "sender_us_per_kib": 0.208,
            "receiver_us_per_kib": 0.337, "system_us_per_kib": 0.61,
        })).collect::<Vec<_>>(),
        "known": {"figure": "goodput_bps", "half_width": half_width, "confidence": 0.95, "repeats": gbps.len()},
        "goodput_bps": spread(mean * 1e9), "sender_bps": spread(mean * 1e9), "receiver_bps": spread(mean * 1e9),
        "limited_by": "the receiver's thread (99 % of its CPU)",
        "sends_per_s": spread(23e3), "bytes_per_receive": spread(65536.0),
        "sender_cpu": end(0.61, 0.208), "receiver_cpu": end(0.99, 0.337),
        "system": [{"cpu": 0, "user": 0.02, "nice": 0.0, "system": 0.6, "irq": 0.0, "softirq": 0.1, "steal": 0.0, "idle": 0.28}],
        "system_us_per_kib": spread(0.61),
        "tcp": {"retransmissions": 12, "rtt_s": spread(45e-6)},
    })
}

fn stream(rows: Value, cpus: &str, warnings: &[&str]) -> StreamReport {
    let report = json!({
        "asked": [["channel", "TCP to 127.0.0.1, 1 flow, this end sends"], ["method", "default, receiver's clock"], ["CPUs", cpus]],
        "in_force": [["congestion", "cubic"]], "clock": "receiver", "rows": rows, "not_had": [], "warnings": warnings,
        "cpu_methods": [["ends", "getrusage of each end's threads"]],
        "fingerprint": netcliff_core::Fingerprint::default(), "provenance": provenance(), "partial": false,
    });
    serde_json::from_value(report).expect("a report")
}

fn streams() -> Vec<(&'static str, StreamReport)> {
    let pinned = "near 0, far 1";
    let limit = "write of 1MiB: the receiver's thread used its CPU to the full: it is what limits the rate";
    let warnings = [
        limit,
        "this is a virtual machine (KVM): interrupts, timers and wake-ups cost what the hypervisor makes them cost",
        "2 CPUs: the sender, the reception, the application and everything else share them, where 4 would keep them apart",
        "the hypervisor took 3.0 % of a CPU",
        "a second",
        "a third",
        "a fourth",
    ];
    let sure = row(1 << 20, &[24.1, 24.6, 24.9, 24.4, 25.0], 0.018);
    let unsure = row(1 << 20, &[14.0, 30.0, 25.0], 0.87);
    let sweep: Vec<Value> = (0..3).map(|step| row(1024 << (5 * step), &[1.0, 1.02 + f64::from(step)], 0.06)).collect();
    let mut lossy = row(1472, &[5.1], 0.0);
    lossy["known"] = Value::Null;
    lossy["tcp"] = Value::Null;
    lossy["limited_by"] = Value::Null;
    // Nothing was fully busy.
    lossy["samples"][0]["receiver_cpu"] = json!(0.66);
    lossy["receiver_cpu"]["busy"] = spread(0.66);
    lossy["datagrams"] =
        json!({"sent": 100_000, "received": 97_000, "lost": 3000, "duplicates": 0, "reordered": 4, "refused": 0});
    let mut cut = stream(json!([sure.clone()]), pinned, &[]);
    cut.partial = true;
    cut.rows[0].cut_short = Some("veth0 is gone".to_owned());
    vec![
        ("sure", stream(json!([sure]), pinned, &warnings)),
        ("unsure", stream(json!([unsure]), "near any, far any", &[])),
        ("sweep", stream(json!(sweep), pinned, &[])),
        ("lossy", stream(json!([lossy]), pinned, &[])),
        ("cut", cut),
        (
            "nothing",
            StreamReport { not_had: vec!["write of 1MiB: refused".to_owned()], ..stream(json!([]), pinned, &[]) },
        ),
    ]
}

fn latency(p50_s: f64) -> Value {
    json!({"count": 45_200, "min_s": 0.8 * p50_s, "mean_s": 1.03 * p50_s, "p50_s": p50_s, "p90_s": 1.3 * p50_s,
        "p99_s": 1.8 * p50_s, "p999_s": 3.0 * p50_s, "max_s": 9.0 * p50_s, "counts_ns": []})
}

/// A configuration with a repeat for each of these rates.
fn configuration(settings: &Settings, rates_per_s: &[f64], half_width: f64, server_cpus: f64) -> Value {
    let threads = |cpus: f64| json!({"cpus": cpus, "us_per_transaction": 13.2});
    let mean = rates_per_s.iter().sum::<f64>() / rates_per_s.len() as f64;
    let repeat = |rate: &f64| json!({"window_s": 1.0, "timeouts": 0, "rate_per_s": rate, "transactions": 45_200, "latency": latency(21.3e-6)});
    let (figure, repeats) = ("rate_per_s", rates_per_s.len());
    json!({
        "kind": "rr", "settings": settings, "path": "netns: client on CPU 0, server on CPU 1, joined by veth, IPv4",
        "window_s": 5.0, "transactions": 226_000, "rate_per_s": mean, "flow_rates_per_s": [mean], "latency": latency(21.3e-6),
        "one_way": {"delays": {"forth": latency(9.9e-6), "back": latency(11.2e-6)}}, "timeouts": 0, "late_answers": 0,
        "cost": {"client_threads": threads(0.6), "server_threads": threads(server_cpus)}, "refused": 0,
        "notes": ["Both ends are on this host: its CPU time is that of both."],
        "system": [], "cpu_methods": [], "repeats": rates_per_s.iter().map(repeat).collect::<Vec<_>>(),
        "known": {"figure": figure, "half_width": half_width, "confidence": 0.95, "repeats": repeats},
        "provenance": provenance(),
    })
}

fn rr(rows: Vec<Value>, not_had: &[&str]) -> RrRun {
    let run = json!({"kind": "rr", "rows": rows, "not_had": not_had, "partial": false});
    serde_json::from_value(run).expect("a run")
}

fn rrs() -> Vec<(&'static str, RrRun)> {
    let closed = Settings::default();
    let deep = Settings { depth: 64, ..Settings::default() };
    let open = Settings { rate_per_s: Some(20e3), ..Settings::default() };
    let rates = [44.9e3, 45.2e3, 45.3e3, 45.1e3, 45.5e3];
    let mut lost = configuration(&open, &[19_990.0], 0.0, 0.3);
    lost["timeouts"] = json!(120);
    lost["unsent"] = json!(7);
    lost["known"]["half_width"] = Value::Null;
    vec![
        ("closed", rr(vec![configuration(&closed, &rates, 0.006, 0.55)], &[])),
        ("limited", rr(vec![configuration(&deep, &rates, 0.31, 0.99)], &[])),
        ("open", rr(vec![lost], &[])),
        (
            "several",
            rr(
                vec![configuration(&closed, &rates, 0.006, 0.55), configuration(&deep, &rates, 0.31, 0.99)],
                &["flows 4, depth 1: refused"],
            ),
        ),
    ]
}

/// The pages at 80 and 120 columns: on a screen of 24 lines, within the width, the answer among the first lines.
fn fits(name: &str, page: impl Fn(Style) -> String, answers: &[&str]) -> String {
    let mut pages = String::new();
    for width in [80, 120] {
        let text = page(Style { width, ..PLAIN });
        assert!(text.lines().count() <= 24, "{name} at {width}: {} lines\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{name} at {width}\n{text}");
        let head: Vec<&str> = text.lines().take(5).collect();
        assert!(head.iter().any(|line| answers.iter().any(|answer| line.contains(answer))), "{name}: {text}");
        pages += &format!("#### {name}, {width} columns\n{text}\n");
    }
    pages
}

#[test]
fn the_brief_page_of_stream_fits_a_screen() {
    let mut pages = String::new();
    for (name, report) in streams() {
        let answers = ["Goodput ", "Highest goodput of 3 configurations, ", "No goodput was measured"];
        pages += &fits(name, |style| terminal::stream_brief(&report, style), &answers);
    }
    insta::assert_snapshot!("stream", pages);
}

#[test]
fn the_brief_page_of_rr_fits_a_screen() {
    let mut pages = String::new();
    for (name, run) in rrs() {
        let answers = ["transactions/s (", "Latency: ", "Highest of 2 configurations, "];
        pages += &fits(name, |style| terminal::rr_brief(&run, style), &answers);
    }
    insta::assert_snapshot!("rr", pages);
}

/// With `-v`, the page begins with the answer of the brief page and contains the rest.
#[test]
fn the_whole_pages_begin_with_the_answer() {
    for (name, report) in streams() {
        let (brief, whole) = (terminal::stream_brief(&report, PLAIN), terminal::stream(&report, PLAIN));
        let answer =
            brief.lines().find(|line| line.contains("oodput") || line.contains("Highest of")).expect("an answer");
        assert!(whole.lines().take(5).any(|line| line == answer), "{name}: {answer}\n{whole}");
    }
    for (name, run) in rrs().into_iter().filter(|(_, run)| run.rows.len() == 1) {
        let (brief, whole) = (terminal::rr_brief(&run, PLAIN), terminal::rr(&run, PLAIN));
        let answer = brief.lines().nth(1).expect("an answer");
        assert!(whole.lines().take(3).any(|line| line == answer), "{name}: {answer}\n{whole}");
    }
}

/// Reasons to doubt the answer are right below it. An answer without doubts has nothing there.
#[test]
fn doubts_stand_below_the_answer() {
    let cautions = |text: &str| text.lines().filter(|line| line.starts_with("Caution:")).count();
    let of = |name: &str| streams().into_iter().find(|(own, _)| *own == name).expect("a variant").1;
    let page = |name: &str| terminal::stream_brief(&of(name), UNBROKEN);
    assert_eq!(cautions(&page("sure")), 0);
    let unsure = page("unsure");
    assert!(
        unsure.contains("the mean goodput may be off by 87 %") && unsure.contains("not pinned (--cpu)"),
        "{unsure}"
    );
    assert!(
        page("lossy").contains("one repeat gives no interval") && page("lossy").contains("3 % of the datagrams lost")
    );
    assert!(page("cut").contains("PARTIAL") && page("cut").contains("veth0 is gone"));
    let rr = |name: &str| {
        let run = rrs().into_iter().find(|(own, _)| *own == name).expect("a variant").1;
        terminal::rr_brief(&run, UNBROKEN)
    };
    assert_eq!(cautions(&rr("closed")), 0);
    assert!(rr("limited").contains("limited by the server's thread (99 % of its CPU)"), "{}", rr("limited"));
    assert!(
        rr("open").contains("120 requests without an answer in time")
            && rr("open").contains("7 requests due but never sent")
    );
}
