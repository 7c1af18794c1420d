use netcliff_core::finding::{Setup, SweepPoint};
use netcliff_core::{FrameSizes, Outcome, Scheme};

use super::*;

const HERE: &str = "2 x Test CPU";

/// A finding of a machine: a cliff of 200 kpps, with 4 packets per interrupt below it, 9 above it, and 1 far from it.
fn finding(cpu: &str, protocol_s: f64) -> Finding {
    let setup = Setup { scheme: "napi".parse::<Scheme>().unwrap(), ..Setup::default() };
    let mut finding = Finding::blank(setup, 1e-4);
    finding.host.cpu = cpu.to_owned();
    let host = Host { protocol_s, ..Host::pentium4_2530mhz() };
    finding.calibration = Some(Calibration {
        costs: Vec::new(),
        host,
        cpu_method: "none".into(),
        r_squared: None,
        correlated: Vec::new(),
    });
    finding.cliff_pps.wire = Some(Figure::exact(200e3));
    finding.sweep = [(0.5, 1.0), (0.9, 4.0), (1.1, 9.0)]
        .map(|(multiple, packets)| {
            let load_pps = multiple * 200e3;
            let outcome = Outcome {
                throughput_pps: Some(load_pps.into()),
                interrupts_per_s: Some((load_pps / packets).into()),
                ..Outcome::default()
            };
            SweepPoint { engine: EngineKind::Wire, load_pps, repeats: 1, sender_kept_up: true, outcome }
        })
        .to_vec();
    finding
}

/// A store with a run without a finding, two findings of this machine and one of another.
fn store(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("records.db");
    let store = Store::open(&path).unwrap();
    store.begin("stream", "netcliff stream", 1.0).unwrap();
    for (cpu, protocol_s) in [(HERE, 1e-6), (HERE, 2e-6), ("64 x Another CPU", 3e-6)] {
        let run = store.begin("find", "netcliff find", 1.0).unwrap();
        store.finish(run, false, Some(&finding(cpu, protocol_s))).unwrap();
    }
    path
}

#[test]
fn the_newest_of_this_machine_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = store(dir.path());
    let found = newest_of(&path, Some(HERE)).unwrap();
    assert_eq!((found.run, found.calibration.host.protocol_s), (Some(3), 2e-6));
    assert_eq!((found.packets_per_interrupt, found.packets_per_interrupt()), (Some((4.0, 9.0)), Some(6.0)));
    assert_eq!(Origin::Found(Box::new(found)).to_string(), "find run 3, whose measured cliff is 200 kpps");
    assert!(newest_of(&path, Some("1 x Third CPU")).unwrap_err().contains("this machine"));
    assert!(newest_of(&dir.path().join("none.db"), Some(HERE)).unwrap_err().contains("no store"));
}

#[test]
fn a_run_is_a_host_by_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let path = store(dir.path());
    let at = |name: &str| named(Some(name), || Ok(path.clone()));
    assert_eq!(at("find:4").unwrap().host.protocol_s, 3e-6);
    for (name, says) in [
        ("find:1", "is a `stream`, not a `find`"),
        ("find:9", "there is no run 9"),
        ("find:x", "give find:3 or last-find"),
        ("last-find", "no `netcliff find` of this machine"),
        ("pentium5", "last-find"),
    ] {
        let error = at(name).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(says), "{error}");
    }
}

#[test]
fn a_finding_in_a_file_is_a_host() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("find.json");
    std::fs::write(&path, serde_json::to_string(&finding(HERE, 2e-6)).unwrap()).unwrap();
    let costs = named(path.to_str(), || Err("no store is asked".to_owned())).unwrap();
    assert_eq!(costs.host.protocol_s, 2e-6);
    // The scheme is known, as it is for a run of the store.
    assert_eq!(costs.origin.run().map(|found| &found.finding.setup.scheme), Some(&finding(HERE, 2e-6).setup.scheme));
}

#[test]
fn without_a_find_the_preset_says_its_year() {
    let costs = named(None, || Err("no home".to_owned())).unwrap();
    assert_eq!(costs.host, Host::pentium4_2530mhz());
    assert!(costs.origin.to_string().starts_with("preset pentium4-2530mhz (2003)"), "{}", costs.origin);
}

/// Stores a finding of this machine. Returns its run.
fn keep(store: &Store, change: impl Fn(&mut Finding)) -> i64 {
    let mut one = finding(HERE, 1e-6);
    change(&mut one);
    let run = store.begin("find", "netcliff find", 1.0).unwrap();
    store.finish(run, false, Some(&one)).unwrap();
    run
}

/// What-if runs, runs without a measured cliff, and runs with mostly void trials are not used as the calibration unless
/// named. A run of another machine in a shared store is not mentioned.
#[test]
fn only_runs_to_rely_on_calibrate_a_host() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.db");
    let store = Store::open(&path).unwrap();
    type Change = fn(&mut Finding);
    let unfit: [(Change, &str); 4] = [
        (|one| one.setup.application_work_s = 7e-6, "a what-if (--work 7us)"),
        (|one| one.cliff_pps.wire = None, "it measured no cliff"),
        (|one| one.partial = true, "stopped early"),
        (
            |one| {
                let void = vec![netcliff_core::finding::VoidTrials { why: "late".into(), trials: 159 }];
                let (own, experienced) = Default::default();
                one.searches = Some(netcliff_core::finding::CliffSearches { own, experienced, trials: 160, void });
            },
            "159 of its 160 trials",
        ),
    ];
    let runs = unfit.map(|(change, _)| keep(&store, change));
    let why = String::from(choice::choose(&path, HERE).unwrap_err());
    assert!(unfit.iter().all(|(_, says)| why.contains(says)) && why.contains("results calibrate N"), "{why}");
    let (good, larger) = (keep(&store, |_| ()), keep(&store, |one| one.setup.traffic.size = FrameSizes::Fixed(512)));
    keep(&store, |one| one.host.cpu = "64 x Another CPU".into());
    let found = choice::choose(&path, HERE).unwrap();
    assert_eq!(found.run, Some(good));
    assert_eq!(found.why.as_deref(), Some(format!("run {larger} is not used: it was made with --size 512B").as_str()));
    // A run with another frame size is used if there is no better one.
    store.remove(&[good]).unwrap();
    let found = choice::choose(&path, HERE).unwrap();
    assert!(found.run == Some(larger) && found.why.unwrap().contains("no run has standard settings"));
    // The run that the user names is used, with its doubt. If it is removed, netcliff chooses again.
    store.calibrate(Some(runs[0])).unwrap();
    let found = choice::choose(&path, HERE).unwrap();
    let why = found.why.unwrap();
    assert!(found.run == Some(runs[0]) && why.contains("named it") && why.contains("--work 7us"), "{why}");
    store.remove(&[runs[0]]).unwrap();
    let found = choice::choose(&path, HERE).unwrap();
    assert!(found.run == Some(larger) && found.why.unwrap().contains("is gone"));
    store.calibrate(None).unwrap();
    assert_eq!(store.calibration().unwrap(), None);
}

/// A page shows this host's calibration first; without one, this machine's newest run, with the reason; otherwise
/// another machine's.
#[test]
fn a_page_opens_on_a_run_of_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records.db");
    assert!(opening_of(&path, HERE).unwrap_err().contains("no store"));
    let store = Store::open(&path).unwrap();
    assert!(opening_of(&path, HERE).unwrap_err().contains("has costs"));
    let of_far = |one: &mut Finding| one.host.at = Some("10.0.0.2:9000".into());
    keep(&store, |one| one.host.cpu = "64 x Another CPU".into());
    let far = keep(&store, of_far);
    let (found, here) = opening_of(&path, HERE).unwrap();
    assert_eq!((found.run, here), (Some(far), false));
    assert!(found.why.unwrap().contains("of this machine"));
    let what_if = keep(&store, |one| one.setup.application_work_s = 7e-6);
    keep(&store, of_far);
    let (found, here) = opening_of(&path, HERE).unwrap();
    assert_eq!((found.run, here), (Some(what_if), true));
    assert!(found.why.unwrap().contains("--work 7us"));
    let good = keep(&store, |_| ());
    keep(&store, |one| one.host.cpu = "64 x Another CPU".into());
    let (found, here) = opening_of(&path, HERE).unwrap();
    assert_eq!((found.run, found.why, here), (Some(good), None, true));
    store.calibrate(Some(far)).unwrap();
    let (found, here) = opening_of(&path, HERE).unwrap();
    assert_eq!((found.run, here), (Some(far), false), "what the user names wins");
}

/// Given costs have the model's cliff; a file of a run has that run's cliff.
#[test]
fn any_host_has_a_cliff() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("find.json");
    std::fs::write(&path, serde_json::to_string(&finding(HERE, 2e-6)).unwrap()).unwrap();
    let none = || Err("no store is asked".to_owned());
    let of_file = cliff_of(path.to_str(), none).unwrap();
    assert_eq!((of_file.run, of_file.cliff_pps.map(|cliff| cliff.value)), (None, Some(200e3)));
    let given = cliff_of(Some(PRESET.0), none).unwrap();
    assert!(given.cliff_pps.is_none() && given.finding.cliff_pps.model.is_some_and(|cliff| cliff.value > 1e3));
    assert!(cliff_of(Some("pentium5"), none).unwrap_err().contains("pentium5"));
}
