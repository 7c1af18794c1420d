//! Commands that compute with a disturbed `find` say so, in the words of its page.

use netcliff_core::finding::{Calibration, CliffBounds, CliffSearches, Missing, Setup, SweepPoint, VoidTrials};
use netcliff_core::{EngineKind, Figure, Finding, Host, Outcome};
use netcliff_lab::store::Store;

use crate::common::{Home, number};
use crate::schema::printed;

const WHY: &str = "it is >= 117kpps: in 3 of 3 searches all trials at higher loads were void: the sender fell behind";

/// A `find` with costs in which `void` of 20 trials are void. Without void trials it has a cliff of 150 kpps with 8
/// packets per interrupt.
fn find(void: u32) -> Finding {
    let mut finding = Finding::blank(Setup { socket_buffer_bytes: 4096, ..Setup::default() }, 1e-4);
    finding.provenance.started_unix_s = 1.0;
    finding.calibration = Some(Calibration {
        costs: Vec::new(),
        host: Host { ring: 64, ..Host::pentium4_2530mhz() },
        cpu_method: "none".into(),
        r_squared: None,
        correlated: Vec::new(),
    });
    let bounds = CliffBounds { lower_pps: Some(117e3), ..CliffBounds::default() };
    let why = VoidTrials { why: "the sender fell behind".into(), trials: void };
    finding.searches = Some(CliffSearches { own: bounds.clone(), experienced: bounds, trials: 20, void: vec![why] });
    if void > 0 {
        finding.missing.push(Missing { figure: "cliff_pps.wire".to_owned().into(), why: WHY.into() });
    } else {
        finding.cliff_pps.wire = Some(Figure::between(150e3, 148e3, 152e3, 0.95));
        let outcome = Outcome {
            throughput_pps: Some(150e3.into()),
            interrupts_per_s: Some((150e3 / 8.0).into()),
            ..Outcome::default()
        };
        let point = SweepPoint { engine: EngineKind::Wire, load_pps: 150e3, repeats: 1, sender_kept_up: true, outcome };
        finding.sweep = vec![point];
    }
    finding
}

/// A home whose store contains this finding, and the option `--db` with that store.
fn home(finding: &Finding) -> (Home, [String; 2]) {
    let home = Home::new();
    let path = home.text("records.db");
    let store = Store::open(std::path::Path::new(&path)).expect("a store");
    let run = store.begin("find", "netcliff find", 1.0).expect("a run");
    store.finish(run, false, Some(finding)).expect("kept");
    (home, ["--db".to_owned(), path])
}

#[test]
fn predictions_from_a_disturbed_find_say_so_in_one_line() {
    for (void, cautioned) in [(11, true), (0, false)] {
        let (home, db) = home(&find(void));
        for args in [&["predict", "--rate", "1kpps", "--host", "find:1"][..], &["limits", "--host", "find:1"]] {
            let output = home.netcliff(args.iter().copied().chain(db.iter().map(String::as_str))).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            let lines: Vec<&str> = said.lines().filter(|line| line.contains("aution")).collect();
            let begins =
                format!("netcliff: Caution: find run 1: no cliff was measured: {WHY}; 11 of 20 trials do not count: ");
            match cautioned {
                true => assert!(lines.len() == 1 && lines[0].starts_with(&begins), "{args:?}: {said}"),
                false => assert!(lines.is_empty(), "{args:?}: {said}"),
            }
        }
    }
}

/// Costs that `find --json` wrote are named by their file; a preset has no such line.
#[test]
fn a_file_of_a_disturbed_find_says_so_too() {
    let home = Home::new();
    let file = home.file("find.json", serde_json::to_string(&find(11)).unwrap());
    for (host, cautioned) in [(file.as_str(), true), ("pentium4-2530mhz", false)] {
        let output = home.netcliff(["predict", "--rate", "1kpps", "--host", host]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let begins = format!("netcliff: Caution: {file}: no cliff was measured: {WHY}; 11 of 20");
        assert!(output.status.success() && said.contains(&begins) == cautioned, "{said}");
    }
}

/// Costs of a `find` include its measured frames per interrupt, and the page shows its cliff next to the bounds. Costs
/// without them give a range.
#[test]
fn limits_takes_the_interrupts_that_a_find_measured() {
    let (home, db) = home(&find(0));
    let limits = |more: &[&str]| {
        let args = ["limits", "--host", "find:1", "--sizes", "64B"].iter().copied().chain(more.iter().copied());
        home.stdout(args.chain(db.iter().map(String::as_str)))
    };
    let json = printed(limits(&["--json"]), "");
    assert_eq!(number(&json["frames_per_interrupt"]), Some(8.0));
    assert!(json["rows"][0]["highest"].is_null() && json["highest_by"].is_null(), "{json}");
    let text = limits(&[]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.starts_with("About ") && words.contains("measured cliff: 150kpps (148kpps to 152kpps"), "{text}");
    assert!(words.contains("8.0 packets an interrupt as measured near its cliff"), "{text}");
    let (home, db) = self::home(&find(11));
    let args = ["limits", "--host", "find:1", "--sizes", "64B"];
    let text = home.stdout(args.into_iter().chain(db.iter().map(String::as_str)));
    assert!(text.starts_with("Upper bound ") && text.contains("frames per interrupt not measured"), "{text}");
}
