use std::collections::BTreeMap;

use netcliff_core::finding::SweepPoint;
use netcliff_core::note::Note;
use netcliff_core::{Napi, Scheme};
use netcliff_host::nic::Nic;

use super::super::fake::{Fake, Random, Through};
use super::super::recorder::Recorder;
use super::super::tests::whole;
use super::one::one;
use super::*;
use crate::calibrate::tests::{Exact, base as exact_base};
use crate::calibrate::{self};

fn setup(text: &str) -> CheckSetup {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// An interface of this driver with these values of coalescing and a ring of 512 slots.
fn nic(driver: &str, coalesce: &[(&str, u32)]) -> Nic {
    let owned = |values: &[(&str, u32)]| -> BTreeMap<String, u32> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    let (coalesce, rings) = (owned(coalesce), owned(&[("rx", 512)]));
    Nic { name: "eth0".to_owned(), driver: Some(driver.to_owned()), coalesce, rings, ..Nic::default() }
}

fn basis() -> Basis {
    let plan = calibrate::Plan { rounds: 2, rough_pps: 400e3, backlog: true };
    let calibrated = calibrate::calibrate(&mut Exact::default(), &exact_base(), plan).expect("it has a meter");
    Basis { calibrated, capacity_pps: 600e3, timing: Default::default() }
}

/// A finding of a host behind a device's own NAPI, or (`backlog`) behind the per-CPU backlog.
fn finding(backlog: bool) -> Finding {
    let mut finding = whole::finding();
    finding.setup.scheme = Scheme::Napi(Napi { backlog, ..Napi::default() });
    finding
}

/// The NAPI scheme without the keys that are always printed.
fn beside_the_usual(scheme: &Scheme) -> String {
    scheme
        .to_string()
        .replace("weight=64,budget=300,budget_time=2ms,", "")
        .replace(":weight=64,budget=300,budget_time=2ms", "")
}

/// Returns the inputs of the prediction (scheme and ring), its notes, and the reason if nothing is predicted.
fn predicted(text: &str, nic: &Nic, backlog: bool) -> (String, Vec<String>, Option<String>) {
    let (options, basis) = (whole::options(), basis());
    let device = Device { nic, backlog, ring: Some(if backlog { 1000 } else { 512 }) };
    let plan = Plan::new(&options);
    let told = setup(text).predicted(&options, &plan, &basis.calibrated, &finding(backlog), Some(&device));
    (
        format!("{} ring {}", beside_the_usual(&told.computed.scheme), told.computed.host.ring),
        told.notes,
        told.unpredicted,
    )
}

/// Makes a check of this device on a fake host; also returns the engines that have no cliff, with their reasons.
fn checked(
    text: &str,
    (options, searches): (&FindOptions, u32),
    nic: &Nic,
    known: &Finding,
    host: &mut dyn Bench,
) -> Result<(SetupCheck, Vec<(EngineKind, String)>), String> {
    let (basis, stop) = (basis(), AtomicBool::new(false));
    let plan = Plan { sim_packets: 20_000, searches, ..Plan::new(options) };
    let asked = Asked { options, plan: &plan, basis: &basis, stop: &stop };
    let device = Device { nic, backlog: false, ring: Some(512) };
    one(&setup(text), &asked, &mut Recorder::new(host), Some(&device), known)
}

#[test]
fn settings_are_read_and_refused_with_the_accepted_form() {
    let read = setup("rx-frames=32,size=512B,rx-usecs=50");
    assert_eq!(read.name(), "rx-frames=32,size=512B,rx-usecs=50");
    assert_eq!(
        read.settings().iter().map(|one| (one.key.name(), one.value)).collect::<Vec<_>>(),
        [("rx-frames", 32), ("rx-usecs", 50)]
    );
    assert_eq!(read.rig(&whole::options()).settings, read.settings());
    for (text, words) in [
        ("tx-usecs=100", &["tx-usecs=100", "size=512B", "rx-usecs=100", "gro_flush_timeout"][..]),
        ("rx-usecs", &["size=512B", "rx-usecs=100"]),
        ("rx-usecs=fast", &["--check rx-usecs", "fast", "microseconds"]),
        ("gro=maybe", &["--check gro", "maybe", "on or off"]),
        ("rx-usecs=1,rx-usecs=2", &["expected rx-usecs once"]),
        ("adaptive-rx=on,rx-frames=8", &["expected rx-frames or adaptive-rx=on", "by itself"]),
    ] {
        let error = text.parse::<CheckSetup>().expect_err(text).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
}

/// The value in effect counts, not the requested one: here the driver chose 102 instead of 100.
#[test]
fn moderation_is_what_the_driver_made_of_it() {
    let timer = nic("mlx5_core", &[("rx-usecs", 102), ("rx-frames", 32)]);
    let (scheme, notes, why) = predicted("rx-usecs=100", &timer, false);
    assert_eq!((scheme.as_str(), notes.len(), why), ("napi:rx_frames=32,rx_usecs=102us ring 512", 0, None));
    let gap = nic("ice", &[("rx-usecs", 50)]);
    assert_eq!(predicted("rx-usecs=50", &gap, false).0, "napi:min_gap=50us ring 512");
    assert_eq!(predicted("rx=512", &gap, false).0, "napi ring 512", "what a check does not name stays as calibrated");
    let word = Nic { speed_mbps: Some(1000), ..nic("igb", &[("rx-usecs", 3)]) };
    for (text, bytes, usecs) in [("size=1518B", 1518, 192), ("size=64B", 64, 49)] {
        let (scheme, _, why) = predicted(text, &word.under(bytes), false);
        assert!(scheme.contains(&format!("min_gap={usecs}")) && why.is_none(), "{scheme}");
    }
    let by_load = Nic { driver: Some("e1000e".to_owned()), ..word };
    let (scheme, notes, why) = predicted("size=1518B", &by_load.under(1518), false);
    assert!(scheme == "napi ring 512" && notes[0].contains("of the calibrated frames") && why.is_none(), "{notes:?}");
    let polls = predicted("gro_flush_timeout=20us,napi_defer_hard_irqs=2,threaded=on", &gap, false).0;
    assert_eq!(polls, "napi:threaded=true,defer_hard_irqs=2,gro_flush_timeout=20us ring 512");
}

#[test]
fn what_is_in_no_engine_is_said() {
    let usual = nic("ice", &[("rx-usecs", 50)]);
    let (scheme, notes, why) = predicted("rx-usecs=100,backlog=200", &usual, true);
    assert_eq!((scheme.as_str(), why), ("napi:backlog=true ring 200", None));
    assert!(notes[0].contains("rx-usecs is not in the prediction"), "{notes:?}");
    let (scheme, notes, _) = predicted("gro=off,backlog=200", &usual, false);
    assert_eq!(scheme, "napi ring 512", "the backlog is no ring of a NIC's own NAPI");
    assert!(notes[0].contains("gro is in neither"), "{notes:?}");
    let adaptive = nic("mlx5_core", &[("rx-usecs", 8), ("adaptive-rx", 1)]);
    let why = predicted("adaptive-rx=on", &adaptive, false).2.expect("it is not predicted");
    assert!(why.contains("the delay follows the load"), "{why}");
    let untimed = nic("mlx5_core", &[("rx-usecs", 0), ("rx-frames", 32)]);
    let why = predicted("rx-usecs=0", &untimed, false).2.expect("no engine takes it");
    assert!(why.contains("rx-frames 32 without rx-usecs"), "{why}");
}

/// A whole check on a fake host: moderated NAPI is predicted, simulated and measured.
#[test]
fn a_check_of_moderation_is_predicted_simulated_and_measured() {
    let timer = nic("mlx5_core", &[("rx-usecs", 100)]);
    let mut known = finding(false);
    known.cliff_pps.wire = Some(Figure::exact(200e3));
    let run = |text: &str, nic: &Nic| {
        checked(text, (&whole::options(), 2), nic, &known, &mut Fake::new(200e3, 5)).expect("it is measured")
    };
    let (check, why) = run("rx-usecs=100", &timer);
    assert!(why.is_empty(), "{why:?}");
    // With a million packets the simulator gives 532 kpps; the few packets of this test do not fill a socket of 5041
    // packets.
    let model = check.cliff_pps.model.expect("a cliff").value;
    assert!((0.85..1.15).contains(&(model / 532e3)), "{model}");
    assert!(check.cliff_pps.sim.is_some_and(|cliff| cliff.value > 50e3), "{:?}", check.cliff_pps);
    assert!(check.cliff_pps.wire.is_some_and(|cliff| (cliff.value / 200e3 - 1.0).abs() < 0.1), "{:?}", check.cliff_pps);
    assert_eq!(beside_the_usual(&check.scheme), "napi:rx_usecs=100us");
    let loads = |engine| check.below.iter().filter(move |point| point.engine == engine).map(|point| point.load_pps);
    let cliff = check.cliff_pps.wire.expect("it was measured").value;
    for engine in [EngineKind::Sim, EngineKind::Wire] {
        assert_eq!(loads(engine).collect::<Vec<_>>(), crate::plan::BELOW_SHARES.map(|share| share * cliff), "{engine}");
    }
    let interrupts = |point: &SweepPoint| point.outcome.interrupts_per_s.map_or(0.0, |figure| figure.value);
    let simulated = check.below.iter().filter(|point| point.engine == EngineKind::Sim);
    assert!(simulated.clone().all(|point| interrupts(point) > 100.0), "{:?}", check.below);
    // Adaptive moderation is only measured, and the reason why nothing is predicted is reported.
    let adaptive = nic("mlx5_core", &[("rx-usecs", 8), ("adaptive-rx", 1)]);
    let (check, why) = run("adaptive-rx=on", &adaptive);
    assert_eq!((check.cliff_pps.model, check.cliff_pps.sim, check.delivered_at_2_pps.sim), (None, None, None));
    assert!(check.cliff_pps.wire.is_some() && why.len() == 2);
}

/// The host becomes slower from trial to trial: each load is computed at the speed of its own trials, and a note says
/// so.
#[test]
fn loads_below_the_cliff_are_computed_at_their_own_speed() {
    let timer = nic("mlx5_core", &[("rx-usecs", 100)]);
    let mut known = finding(false);
    known.cliff_pps.wire = Some(Figure::exact(200e3));
    let mut fake = Fake { costs: Some(basis().calibrated.costs), drift: -0.5, ..Fake::new(200e3, 5) };
    let asked = (&whole::options(), 1);
    let (check, _) = checked("rx-usecs=100", asked, &timer, &known, &mut fake).expect("it is measured");
    let simulated: Vec<&SweepPoint> = check.below.iter().filter(|point| point.engine == EngineKind::Sim).collect();
    let slower: Vec<f64> = simulated
        .iter()
        .map(|point| {
            let note = point.outcome.notes.iter().find_map(|note| match note {
                Note::AtSpeed(factor) => Some(*factor),
                _ => None,
            });
            let factor = note.expect("a note");
            let protocol = point.outcome.cpu.and_then(|cpu| cpu.protocol).expect("a share").value;
            let packet_s = protocol / point.outcome.throughput_pps.expect("a throughput").value;
            // Packets that wake the application take longer.
            let own_s = factor * check.host.protocol_s;
            assert!((0.97..1.5).contains(&(packet_s / own_s)), "{packet_s:e}: {factor}");
            factor
        })
        .collect();
    assert!(slower.len() == 3 && slower[0] > 1.01 && slower.is_sorted(), "{slower:?}");
}

/// The sender does not reach the cliff: the requested loads are measured nevertheless.
#[test]
fn loads_that_are_given_need_no_cliff() {
    let mut given = whole::options();
    given.settings.check_loads_pps = vec![20e3, 50e3];
    let timer = nic("mlx5_core", &[("rx-usecs", 100)]);
    let run = |options: &FindOptions| {
        let mut fake = Fake { ceiling_pps: 60e3, ..Fake::new(200e3, 5) };
        checked("rx-usecs=100", (options, 1), &timer, &finding(false), &mut fake)
    };
    let (check, why) = run(&given).expect("two loads are measured");
    assert_eq!((check.cliff_pps.wire, check.cliff_experienced_pps.wire), (None, None));
    assert!(why.iter().any(|(engine, _)| *engine == EngineKind::Wire), "{why:?}");
    for engine in [EngineKind::Sim, EngineKind::Wire] {
        let loads = check.below.iter().filter(|point| point.engine == engine).map(|point| point.load_pps);
        assert_eq!(loads.collect::<Vec<_>>(), given.settings.check_loads_pps, "{engine}");
    }
    assert!(check.delivered_at_2_pps.sim.is_none() && check.delivered_at_2_pps.wire.is_none());
    // Without requested loads, shares of the expected cliff are used, which this sender does not reach.
    let (check, why) = run(&whole::options()).expect("it is computed");
    assert!(why.iter().any(|(engine, _)| *engine == EngineKind::Wire), "{why:?}");
    let of = |engine| check.below.iter().filter(|point| point.engine == engine).count();
    assert_eq!((of(EngineKind::Sim), of(EngineKind::Wire)), (3, 0), "{:?}", check.below);
}

#[test]
fn a_loss_below_the_cliff_is_told() {
    let point = |engine, load_pps, loss: f64| SweepPoint {
        engine,
        load_pps,
        repeats: 3,
        sender_kept_up: true,
        outcome: Outcome { loss_fraction: Some(Figure::exact(loss)), ..Outcome::default() },
    };
    let wire = |load_pps, loss| point(EngineKind::Wire, load_pps, loss);
    let points =
        [wire(10e3, 0.0), wire(22e3, 0.086), wire(30e3, 0.02), wire(50e3, 0.3), point(EngineKind::Sim, 20e3, 0.9)];
    let told = below::losing(&points, 45e3, 1e-3).expect("22 kpps lost");
    assert!(told.starts_with("8.6 % were lost at 22.0 kpps, below the cliff"), "{told}");
    assert_eq!(below::losing(&points[..1], 45e3, 1e-3), None);
    assert_eq!(below::losing(&points[3..], 45e3, 1e-3), None, "above the cliff, or of an engine");
}

/// A host that delivers half of the packets at loads in the band `band_pps`, and all packets at loads above the band up
/// to its capacity.
fn passes_over(host: Fake, band_pps: std::ops::Range<f64>) -> impl Bench {
    let observe = move |host: &mut Fake, spec: &TrialSpec, metered| {
        let capacity_pps = host.capacity_pps;
        if band_pps.contains(&spec.rate_pps) {
            host.capacity_pps = 0.5 * spec.rate_pps;
        }
        let seen = host.observe(spec, metered);
        host.capacity_pps = capacity_pps;
        seen
    };
    Through { host, observe }
}

/// The cliff is the lowest load with loss: a search that started near the higher cliff would not find the band.
#[test]
fn of_a_device_with_two_cliffs_the_lower_one_counts() {
    let gap = nic("ice", &[("rx-usecs", 100)]);
    let check = |band_pps| {
        let mut host = passes_over(Fake { buffer: 10.0, ..Fake::new(200e3, 5) }, band_pps);
        let asked = (&whole::options(), 1);
        checked("rx-usecs=100", asked, &gap, &finding(false), &mut host).expect("it is measured").0
    };
    let cliff = |check: &SetupCheck| check.cliff_pps.wire.expect("a cliff").value;
    let usual = check(0.0..0.0);
    assert!((cliff(&usual) / 200e3 - 1.0).abs() < 0.05, "{usual:?}");
    let lower = check(100e3..130e3);
    assert!((cliff(&lower) / 100e3 - 1.0).abs() < 0.05, "{lower:?}");
    let measured = lower.below.iter().filter(|point| point.engine == EngineKind::Wire);
    assert!(measured.clone().count() == 3 && measured.clone().all(|point| point.load_pps < 100e3), "{lower:?}");
    assert!(usual.notes.is_empty() && lower.notes.is_empty(), "{:?} {:?}", usual.notes, lower.notes);
}

/// A host whose CPU is paused in most time slots has only a cliff including disturbances; the report has the reason why
/// the host's own cliff is missing.
#[test]
fn a_check_without_a_cliff_of_its_own_has_the_one_as_experienced() {
    let gap = nic("ice", &[("rx-usecs", 100)]);
    let mut known = finding(false);
    known.cliff_experienced_pps.wire = Some(Figure::exact(150e3));
    let pauses = Some(Random { every_s: 8e-3, mean_s: 1e-3 });
    let mut fake = Fake { pauses, ..Fake::new(200e3, 5) };
    let asked = (&whole::options(), 2);
    let (check, why) = checked("rx-usecs=100", asked, &gap, &known, &mut fake).expect("it is measured");
    assert_eq!(check.cliff_pps.wire, None);
    assert!(check.cliff_experienced_pps.wire.is_some_and(|cliff| cliff.value < 200e3), "{check:?}");
    assert!(why.iter().any(|(engine, why)| *engine == EngineKind::Wire && why.contains("pauses")), "{why:?}");
    assert!(check.below.iter().any(|point| point.engine == EngineKind::Wire));
}

#[test]
fn a_testbed_without_a_device_refuses_settings_before_anything_runs() {
    let options = FindOptions { checks: vec![setup("size=512B"), setup("gro=off")], ..whole::options() };
    let error = super::super::check(&options).expect_err("it has no interface").to_string();
    for word in ["--check gro=off", "a setting of an interface", "--if IF --from HOST"] {
        assert!(error.contains(word), "{error}");
    }
}
