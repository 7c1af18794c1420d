use std::sync::atomic::Ordering;

use netcliff_core::experiment::Experiment;

use super::*;
use crate::conduct::{Burst, Device, Measured};
use crate::cost::Predicted;
use crate::report::Seen;
use netcliff_mlrsearch::simulated::{Bench, Device as Simulated};
use netcliff_mlrsearch::trial::Request;

const FILE: &str = "kind = \"forwarding\"\ntitle = \"t\"\nrounds = 3\nsizes = [\"64B\", \"1518B\"]\nwidth = \"2%\"\n\
                    [[set-up]]\nname = \"plain\"\n[[set-up]]\nname = \"tuned\"\ntune = \"throughput\"\n[[set-up]]\nname = \"xdp\"\n\
                    forwarding = \"xdp\"\ntune = \"throughput\"\n";

/// A router of known capacity behind a sender of 1 Mpps.
struct Fake {
    bench: Bench,
    capacity_pps: f64,
    shared: bool,
    fails_at: Option<FrameSize>,
    /// Flag that ends the run.
    stop: Option<Arc<AtomicBool>>,
}

impl Fake {
    /// A tuned router forwards twice as much as the plain one. An XDP router forwards more than the sender reaches.
    fn of(set_up: &SetUp) -> Self {
        let capacity_pps = match (set_up.forwarding, set_up.tune) {
            (Way::Xdp, _) => 5e6,
            (_, Some(_)) => 600e3,
            _ => 300e3,
        };
        let bench = Bench::new(Simulated::Sharp { capacity_pps }, 1).with_sender(1e6);
        Self { bench, capacity_pps, shared: set_up.tune.is_none(), fails_at: None, stop: None }
    }
}

impl Device for Fake {
    type Error = String;

    fn frames(&mut self, frame: FrameSize) -> Result<(), String> {
        let stopped = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        match self.fails_at == Some(frame) {
            _ if stopped => Err("it was stopped".to_owned()),
            true => Err("the sink went down".to_owned()),
            false => Ok(()),
        }
    }

    fn sender_pps(&mut self) -> Result<f64, String> {
        Ok(1e6)
    }

    fn trial(&mut self, request: Request) -> Result<Measured, String> {
        let answer = self.bench.trial_until(Request { most_lost: None, ..request });
        Ok(Measured {
            answer,
            seen: Seen { trials: 1, ..Seen::default() },
            pacing: None,
            latency: None,
            tagged: crate::conduct::Tagged::default(),
        })
    }

    fn burst(&mut self, _: u64) -> Result<Burst, String> {
        Err("not asked for".to_owned())
    }

    fn predict(&mut self, throughput_pps: f64) -> Result<Option<Predicted>, String> {
        let frame_s = 1.0 / self.capacity_pps;
        let load_pps = throughput_pps / 2.0;
        let simulated_pps = Some(self.capacity_pps).filter(|_| !self.shared);
        Ok(Some(Predicted { load_pps, frame_s, poll_s: 0.0, server_pps: self.capacity_pps, simulated_pps }))
    }
}

impl Router for Fake {
    fn about(&self) -> About {
        About { device: "a fake".to_owned(), shared: self.shared, router_cpus: vec![1], ..About::default() }
    }
}

fn experiment() -> experiment::Forwarding {
    match Experiment::from_toml("f.toml", FILE) {
        Ok(Experiment::Forwarding(experiment)) => *experiment,
        other => panic!("{other:?}"),
    }
}

/// Records turns and frame sizes in their order, and the number of samples after each turn. Stops the run after
/// `stops_after` sizes.
#[derive(Default)]
struct Heard {
    turns: Vec<String>,
    sizes: usize,
    samples_after_turns: Vec<usize>,
    stops_after: Option<usize>,
    stop: Arc<AtomicBool>,
}

impl Turns for Heard {
    fn stage(&mut self, stage: Stage<'_>) {
        match stage {
            Stage::Turn { round, set_up, .. } => self.turns.push(format!("{round} {set_up}")),
            Stage::Step(Step::Size(_)) => {
                if self.stops_after == Some(self.sizes) {
                    self.stop.store(true, Ordering::Relaxed);
                }
                self.sizes += 1;
            }
            Stage::Step(Step::Search { .. } | Step::Trial { .. }) => {}
        }
    }

    fn had(&mut self, found: &Found) {
        self.samples_after_turns.push(found.rows().iter().map(|row| row.samples.len()).sum());
    }
}

/// The report of a run on fakes. It continues the run `before`, if there is one.
fn report_of(
    before: Option<ForwardingReport>,
    heard: &mut Heard,
    mut build: impl FnMut(&SetUp) -> Result<Fake, String>,
) -> (ForwardingReport, Option<String>) {
    let experiment = experiment();
    let settings = settings(&experiment).unwrap_or_else(|_| panic!("it cannot be"));
    let mut found = Found::new(&set_ups(&experiment).unwrap_or_else(|_| panic!("they cannot be")), &settings);
    before.into_iter().for_each(|before| found.take_up(before));
    let stop = Arc::clone(&heard.stop);
    let failure = measure(&mut found, &settings, experiment.rounds, &mut build, &stop, heard);
    (found.report(&experiment, &settings, Default::default(), &Provenance::default()), failure)
}

fn report(build: impl FnMut(&SetUp) -> Result<Fake, String>) -> (ForwardingReport, Option<String>, Vec<String>) {
    let mut heard = Heard::default();
    let (report, failure) = report_of(None, &mut heard, build);
    (report, failure, heard.turns)
}

#[test]
fn every_set_up_takes_its_turn_and_is_compared_with_the_first() {
    let (report, failure, turns) = report(|set_up| Ok(Fake::of(set_up)));
    assert_eq!((failure, report.partial), (None, false));
    assert_eq!(
        turns,
        ["1 plain", "1 tuned", "1 xdp", "2 xdp", "2 tuned", "2 plain", "3 plain", "3 tuned", "3 xdp"]
            .map(str::to_owned)
    );
    assert_eq!(report.rows.len(), 6);
    for (row, (set_up, pps, bound)) in report.rows[..3].iter().zip([
        ("plain", 300e3, Bound::Router),
        ("tuned", 600e3, Bound::Router),
        // The sender cannot offer more.
        ("xdp", 970e3, Bound::Tester),
    ]) {
        let found = row.throughput_pps.unwrap().value;
        assert_eq!((row.set_up.as_str(), row.frame, row.samples.len()), (set_up, FrameSize::Fixed(64), 3));
        assert!((found / pps - 1.0).abs() < 0.021, "{set_up}: {found}");
        assert_eq!(row.bound, Some(bound), "{set_up}");
        assert!(row.line_shares.is_empty(), "a veth has no line");
    }
    assert_eq!(report.rows[0].gain, None);
    let gain = report.rows[1].gain.unwrap();
    assert!((gain.value - 1.0).abs() < 0.05 && gain.interval.is_some(), "{gain:?}");
    assert_eq!(report.rows[1].simulated_pps.unwrap().value, 600e3);
    assert_eq!(report.rows[0].modelled_pps.unwrap().value, 300e3);
    assert!(report.rows[1..3].iter().all(|row| row.modelled_pps.is_none()));
}

#[test]
fn a_run_that_was_stopped_goes_on_and_measures_nothing_twice() {
    let build = |stop: &Arc<AtomicBool>, set_up: &SetUp| Fake { stop: Some(Arc::clone(stop)), ..Fake::of(set_up) };
    let stop = Arc::<AtomicBool>::default();
    // The run stops in the second turn, between the turn's two sizes.
    let mut heard = Heard { stops_after: Some(3), stop: Arc::clone(&stop), ..Heard::default() };
    let (half, _) = report_of(None, &mut heard, |set_up| Ok(build(&stop, set_up)));
    assert!(half.partial && half.not_had.is_empty(), "{:?}", half.not_had);
    assert_eq!((heard.turns, heard.samples_after_turns), (vec!["1 plain".to_owned(), "1 tuned".to_owned()], vec![2]));
    let had = |report: &ForwardingReport| -> Vec<(String, String, Vec<u32>)> {
        let rounds = |row: &ForwardingRow| row.samples.iter().map(|sample| sample.round).collect();
        report.rows.iter().map(|row| (row.frame.to_string(), row.set_up.clone(), rounds(row))).collect()
    };
    let of = |frame: &str, set_up: &str, rounds: &[u32]| (frame.to_owned(), set_up.to_owned(), rounds.to_vec());
    assert_eq!(had(&half)[..2], [of("64B", "plain", &[1]), of("64B", "tuned", &[1])]);
    assert_eq!(had(&half)[3..5], [of("1518B", "plain", &[1]), of("1518B", "tuned", &[])]);
    let mut heard = Heard::default();
    let (whole, failure) = report_of(Some(half.clone()), &mut heard, |set_up| Ok(Fake::of(set_up)));
    assert_eq!((failure, whole.partial), (None, false));
    let turns = ["1 tuned", "1 xdp", "2 xdp", "2 tuned", "2 plain", "3 plain", "3 tuned", "3 xdp"];
    assert_eq!(
        (heard.turns, heard.sizes),
        (turns.map(str::to_owned).to_vec(), 15),
        "one size was measured in the first turn"
    );
    assert!(had(&whole).iter().all(|(.., rounds)| *rounds == [1, 2, 3]), "{:?}", had(&whole));
    assert_eq!(whole.rows[0].samples[0], half.rows[0].samples[0], "it is that of the run before");
    assert_eq!(heard.samples_after_turns.last(), Some(&18));
}

#[test]
fn a_tester_that_forwards_itself_is_said() {
    let fast =
        |set_up: &SetUp| Fake { bench: Bench::new(Simulated::Sharp { capacity_pps: 5e6 }, 1), ..Fake::of(set_up) };
    let (report, ..) = report(|set_up| Ok(fast(set_up)));
    let bounds: Vec<Option<Bound>> = report.rows[..3].iter().map(|row| row.bound).collect();
    assert_eq!(bounds, [Some(Bound::SharedCpu), Some(Bound::Tester), Some(Bound::Tester)]);
    assert!(report.warnings.iter().any(|line| line.starts_with("plain: not simulated")), "{:?}", report.warnings);
}

#[test]
fn what_cannot_be_had_is_left_out_with_the_reason() {
    let build = |set_up: &SetUp| match set_up.forwarding {
        Way::Xdp => Err("this kernel may lack it".to_owned()),
        _ => Ok(Fake { fails_at: set_up.tune.map(|_| FrameSize::Fixed(1518)), ..Fake::of(set_up) }),
    };
    let (report, failure, turns) = report(build);
    assert!(report.partial);
    assert_eq!(failure.as_deref(), Some("the sink went down"));
    assert_eq!(report.not_had, ["tuned: the sink went down", "xdp: this kernel may lack it"]);
    // A failed set-up is not tried again, and its samples are kept in the report.
    assert_eq!(turns.len(), 5, "{turns:?}");
    let samples: Vec<usize> = report.rows.iter().map(|row| row.samples.len()).collect();
    assert_eq!(samples, [3, 1, 0, 3, 0, 0]);
    assert_eq!(report.set_ups[2].about, None);
}

#[test]
fn curves_are_by_set_up_and_a_line_forwards_no_more_than_it_carries() {
    let (report, ..) = report(|set_up| Ok(Fake::of(set_up)));
    let curves = report.curves();
    let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(
        names,
        ["plain", "plain", "tuned", "tuned", "xdp", "xdp", "1Gbit/s line", "10Gbit/s line", "25Gbit/s line"]
    );
    assert!((curves[6].dots[0].y.value - 1e9 / (8.0 * 84.0)).abs() < 1.0);
    let shares = report.shares(1e9);
    assert_eq!(shares[0].dots[1].y.value, 1.0, "a line of 1 Gbit/s is full of 1518-byte frames");
    assert!((shares[0].dots[0].y.value - 0.2).abs() < 0.01, "{:?}", shares[0]);
    let back: ForwardingReport = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(back, report);
}

#[test]
fn values_that_cannot_be_are_named() {
    let mut wrong = experiment();
    wrong.set_ups[0].forwarding = "magic".to_owned();
    let Err(Refused::Value(said)) = set_ups(&wrong) else { panic!("magic was taken") };
    assert!(said.contains("magic") && said.contains("netfilter"), "{said}");
    type Edit = fn(&mut experiment::Forwarding);
    let changes: [(Edit, &str); 6] = [
        (|file| file.flows = Some(0), "flows"),
        (|file| file.destinations = 0, "destinations"),
        (|file| file.destination_ports = 0, "destination ports"),
        (|file| (file.flows, file.destinations) = (Some(64), 3), "a multiple of 3 destinations times 1"),
        (|file| file.trial = "1ms".to_owned(), "trial"),
        (|file| file.loss = "90%".to_owned(), "loss"),
    ];
    for (change, word) in changes {
        let mut wrong = experiment();
        change(&mut wrong);
        let Err(Refused::Value(said)) = settings(&wrong) else { panic!("{word} was taken") };
        assert!(said.contains(word), "{said}");
    }
}

/// The destinations of the file reach the generator. The flows are spread evenly over them; the file may set the number
/// of flows.
#[test]
fn flows_to_several_destinations() {
    let of = |lines: &str| {
        let text = format!("kind = \"forwarding\"\nsizes = [\"64B\"]\n{lines}\n[[set-up]]\nname = \"plain\"\n");
        let Ok(experiment::Experiment::Forwarding(file)) = experiment::Experiment::from_toml("test.toml", &text) else {
            panic!("{lines} was refused")
        };
        let Ok(settings) = settings(&file) else { panic!("{lines} was refused") };
        (settings.flows, settings.destinations, settings.destination_ports)
    };
    assert_eq!(of(""), (64, 1, 1));
    assert_eq!(of("flows = 8"), (8, 1, 1));
    assert_eq!(of("destinations = 3"), (66, 3, 1));
    assert_eq!(of("destinations = 100\ndestination_ports = 4"), (400, 100, 4));
    assert_eq!(of("flows = 800\ndestinations = 100\ndestination_ports = 4"), (800, 100, 4));
}

/// If the tester limits a throughput, the gain is only a lower limit, an upper limit, or unknown.
#[test]
fn gains_of_throughputs_that_the_tester_limits_are_limits() {
    use super::report::{ForwardingRow, GainLimit};
    let samples = |pps: f64, bound: Bound| -> Vec<ForwardingSample> {
        let sample = serde_json::json!({"round": 1, "throughput_pps": pps, "bound": bound, "sender_pps": 1e6, "trials": 1, "trial_time_s": 1.0});
        vec![serde_json::from_value(sample).expect("the documented form")]
    };
    for (base, own, limit) in [
        (Bound::Router, Bound::Router, None),
        (Bound::SharedCpu, Bound::Tester, Some(GainLimit::AtLeast)),
        (Bound::Tester, Bound::Router, Some(GainLimit::AtMost)),
        (Bound::Tester, Bound::Tester, Some(GainLimit::Open)),
    ] {
        let first = samples(1e5, base);
        let row = ForwardingRow::of(FrameSize::Fixed(64), "tuned", samples(2e5, own), Some(&first));
        assert!(row.gain_limit == limit && row.gain.is_some(), "{base:?} {own:?}: {row:?}");
    }
    let alone = ForwardingRow::of(FrameSize::Fixed(64), "plain", samples(1e5, Bound::Tester), None);
    assert_eq!(alone.gain_limit, None);
}
