use std::collections::VecDeque;

use crate::tester::stamps::{Absent, Stamps};
use netcliff_packets::latency::Latency as Histogram;

use super::*;
use crate::report::Limit;
use crate::settings::{SearchBy, Tests};
use netcliff_mlrsearch::simulated::{Bench, Device as Simulated};
use netcliff_mlrsearch::{End, Found, Goal, Searched};

/// What the results of a size lack, as sentences.
fn missing(size: &SizeReport) -> Vec<String> {
    size.missing.iter().map(ToString::to_string).collect()
}

/// Latencies of a tagged frame by the application's clock.
const TAGGED: Tagged = Tagged {
    latency_s: Some(1e-4),
    uncertainty_s: Some(1e-7),
    application_s: None,
    kernel_s: None,
    absent: Absent { left: 0, came: 0, clock: 0 },
};

/// A router of known capacity behind a sender of known rate. It fails after `trials_left` trials.
struct Fake {
    bench: Bench,
    capacity_pps: f64,
    sender_pps: f64,
    buffer: f64,
    trials_left: u32,
    tagged: Tagged,
    line_bps: Option<f64>,
    /// Successive capacities (pps): the device takes the next one each time its frames are set.
    drifting: VecDeque<f64>,
}

impl Fake {
    fn new(capacity_pps: f64, sender_pps: f64) -> Self {
        let bench = Bench::new(Simulated::Sharp { capacity_pps }, 1).with_sender(sender_pps);
        Self {
            bench,
            capacity_pps,
            sender_pps,
            buffer: 1000.0,
            trials_left: u32::MAX,
            tagged: TAGGED,
            line_bps: Some(1e9),
            drifting: VecDeque::new(),
        }
    }
}

impl Device for Fake {
    type Error = String;

    fn frames(&mut self, _: FrameSize) -> Result<(), String> {
        if let Some(capacity_pps) = self.drifting.pop_front() {
            let Self { bench, capacity_pps: own, .. } = Self::new(capacity_pps, self.sender_pps);
            (self.bench, self.capacity_pps) = (bench, own);
        }
        Ok(())
    }

    fn sender_pps(&mut self) -> Result<f64, String> {
        Ok(self.sender_pps)
    }

    fn trial(&mut self, request: Request) -> Result<Measured, String> {
        self.trials_left = self.trials_left.checked_sub(1).ok_or("the sink went down")?;
        let mut latency = Histogram::new();
        (1..=1000).for_each(|n| latency.record_ns(n * 1000));
        Ok(Measured {
            answer: self.bench.trial_until(request),
            seen: Seen { sent: 7, ..Seen::default() },
            pacing: Some(Pacing {
                lateness_p99_s: 1e-6,
                gap_error_p50_s: 1e-7,
                gap_error_p99_s: 2e-6,
                batch_frames: None,
                batch_s: None,
            }),
            latency: Some(latency),
            tagged: self.tagged,
        })
    }

    fn line_bps(&self) -> Option<f64> {
        self.line_bps
    }

    fn burst(&mut self, frames: u64) -> Result<Burst, String> {
        let kept = frames as f64 * (1.0 - self.capacity_pps / self.sender_pps);
        Ok(Burst { complete: kept <= self.buffer, burst_pps: self.sender_pps })
    }
}

fn all() -> Settings {
    Settings {
        tests: Tests { throughput: true, latency: true, loss: true, back_to_back: true },
        frames: vec![FrameSize::Fixed(64), FrameSize::Imix],
        ..Settings::default()
    }
}

fn run(settings: &Settings, mut device: Fake) -> (Vec<SizeReport>, Option<String>) {
    settings.check().unwrap();
    conduct(settings, &mut device, &mut |_| {})
}

/// A full trial that loses frames ends early. The search is shorter by the rest of that trial, says so, and finds the
/// same throughput. The latency trial after it has its full length.
#[test]
fn a_full_trial_that_loses_does_not_go_on() {
    struct Whole(Fake);
    impl Device for Whole {
        type Error = String;
        fn frames(&mut self, frame: FrameSize) -> Result<(), String> {
            self.0.frames(frame)
        }
        fn sender_pps(&mut self) -> Result<f64, String> {
            self.0.sender_pps()
        }
        fn trial(&mut self, request: Request) -> Result<Measured, String> {
            self.0.trial(Request { most_lost: None, ..request })
        }
        fn burst(&mut self, frames: u64) -> Result<Burst, String> {
            self.0.burst(frames)
        }
    }
    // Use noise: without it no full trial loses, because the short trials before it find the throughput exactly.
    let noisy = |seed| {
        let device = Simulated::Unsteady { capacity_pps: 400e3, spread: 0.02 };
        Fake { bench: Bench::new(device, seed).with_sender(1e6), ..Fake::new(400e3, 1e6) }
    };
    let settings = Settings {
        tests: Tests { throughput: true, latency: true, loss: false, back_to_back: false },
        frames: vec![FrameSize::Fixed(64)],
        search: SearchBy::Mlr,
        ..Settings::default()
    };
    let (mut cut_s, mut whole_s) = (0.0, 0.0);
    for seed in 0..10 {
        let mut last_s = 0.0;
        let mut watch = |step: Step| {
            if let Step::Trial { duration_s, answer: Answer::Valid(trial), .. } = step {
                assert_eq!(trial.duration_s, duration_s);
                last_s = duration_s;
            }
        };
        let (sizes, error) = conduct(&settings, &mut noisy(seed), &mut watch);
        assert_eq!((error, last_s), (None, 2.0 * settings.trial_s), "the latency trial is whole");
        let cut = sizes[0].throughput.as_ref().expect("a search");
        let sum_s: f64 = cut.trials.iter().map(|trial| trial.duration_s).sum();
        assert!((sum_s / cut.trial_time_s - 1.0).abs() < 1e-9, "{sum_s} {}", cut.trial_time_s);
        let (lower, upper) = cut.bounds().expect("bounds");
        assert!(upper.is_some_and(|upper| 1.0 - lower / upper <= settings.goal().width + 1e-9), "{lower} {upper:?}");
        cut_s += cut.trial_time_s;
        let (sizes, _) = conduct(&settings, &mut Whole(noisy(seed)), &mut |_| {});
        whole_s += sizes[0].throughput.as_ref().expect("a search").trial_time_s;
    }
    assert!(cut_s < 0.9 * whole_s, "{cut_s} s of {whole_s} s");
}

#[test]
fn every_test_gives_its_figure() {
    let (sizes, error) = run(&all(), Fake::new(400e3, 1e6));
    assert_eq!((sizes.len(), error), (2, None));
    let size = &sizes[0];
    let throughput = size.forwarded_pps().unwrap();
    assert!(throughput <= 400e3 && throughput > 0.99 * 400e3, "{throughput}");
    assert_eq!(size.limit, Some(Limit::Device));
    let line = size.line_shares[0];
    assert!((line.line_pps - 1e9 / 672.0).abs() < 1e-6 && (line.share - throughput / line.line_pps).abs() < 1e-12);
    let latency = size.latency.as_ref().unwrap();
    assert_eq!((latency.repeats.len(), latency.load_pps, latency.trial_s), (20, throughput, 120.0));
    assert!(size.latency_frames.as_ref().unwrap().summary.count == 20_000);
    let loss = size.loss.as_ref().unwrap();
    assert!(loss.clean && loss.trials[0].loss_ratio() > 0.5);
    let bursts = size.back_to_back.as_ref().unwrap();
    // The device forwards 0.4 of the burst's rate, so a burst of 1000 / (1 - 0.4) frames leaves 1000 frames in the
    // buffer. The resolution is 200 of 2e6 frames.
    assert!((bursts.mean - 1666.0).abs() <= 200.0, "{bursts:?}");
    assert!((bursts.corrected_buffer_s - bursts.mean / 1e6 * (1.0 - throughput / 1e6)).abs() < 1e-12);
    assert!(size.missing.is_empty() && size.seen.trials > 20 && size.pacing.is_some(), "{size:?}");
}

/// Settings for the latency test alone, by the kernel's timestamps.
fn stamped() -> Settings {
    let tests = Tests { throughput: true, latency: true, loss: false, back_to_back: false };
    Settings { tests, frames: vec![FrameSize::Fixed(64)], stamps: Stamps::Kernel, ..Settings::default() }
}

#[test]
fn latency_by_stamps_says_by_which_and_what_the_tester_adds() {
    let tagged = Tagged { latency_s: Some(8e-5), uncertainty_s: Some(0.0), application_s: Some(1e-4), ..TAGGED };
    let (sizes, _) = run(&stamped(), Fake { tagged, ..Fake::new(400e3, 1e6) });
    let latency = sizes[0].latency.as_ref().unwrap();
    assert_eq!((latency.clock, latency.repeats.len(), latency.uncertainty_s), (Stamps::Kernel, 20, Some(0.0)));
    assert!((latency.mean_s - 8e-5).abs() < 1e-12 && (latency.tester_share_s().unwrap() - 2e-5).abs() < 1e-12);
    assert_eq!(latency.absent, Some(Absent::default()));
    // With the application's clock, no other clock is available for comparison.
    let (sizes, _) = run(&all(), Fake::new(400e3, 1e6));
    let latency = sizes[0].latency.as_ref().unwrap();
    assert_eq!((latency.clock, latency.tester_share_s(), latency.absent), (Stamps::Application, None, None));
    assert_eq!(latency.uncertainty_s, Some(1e-7));
}

#[test]
fn stamps_that_do_not_come_back_are_counted_and_said() {
    let absent = Absent { left: 1, came: 0, clock: 0 };
    let tagged = Tagged { latency_s: None, application_s: Some(1e-4), absent, ..TAGGED };
    let (sizes, _) = run(&stamped(), Fake { tagged, ..Fake::new(400e3, 1e6) });
    assert!(sizes[0].latency.is_none());
    let said = &missing(&sizes[0])[0];
    assert!(said.contains("0 of 20 repeats") && said.contains("20 stamps of frames that left"), "{said}");
}

#[test]
fn a_device_faster_than_the_sender_is_said_to_be() {
    let settings = Settings { tests: Tests { latency: false, ..all().tests }, ..all() };
    let (sizes, _) = run(&settings, Fake::new(1e9, 500e3));
    let lower_bound = |missing: &MissingFigure| matches!(missing, MissingFigure::LowerBound(_));
    assert!(sizes[0].missing.iter().any(lower_bound), "{:?}", sizes[0].missing);
    assert_eq!(sizes[0].limit, Some(Limit::Tester));
    let (sizes, _) = run(&Settings { max_pps: Some(100e3), ..settings }, Fake::new(1e9, 500e3));
    assert_eq!(sizes[0].limit, Some(Limit::Asked));
    assert!(
        missing(&sizes[0]).iter().any(|line| line.contains("highest load allowed (--max)")),
        "{:?}",
        sizes[0].missing
    );
    assert!(sizes[0].back_to_back.is_none());
    // Bursts may exceed the highest load asked for. The throughput that corrects them is then a lower limit.
    let (sizes, _) = run(&Settings { max_pps: Some(100e3), ..all() }, Fake::new(400e3, 1e6));
    let bursts = sizes[0].back_to_back.as_ref().expect("bursts");
    assert!(bursts.burst_pps == 1e6 && bursts.throughput_pps == 100e3 && bursts.corrected_at_most, "{bursts:?}");
    let (sizes, _) = run(&all(), Fake::new(400e3, 1e6));
    assert!(!sizes[0].back_to_back.as_ref().expect("bursts").corrected_at_most);
}

#[test]
fn a_sink_that_dies_leaves_what_was_had() {
    let mut device = Fake::new(400e3, 1e6);
    device.trials_left = 60;
    let (sizes, error) = run(&all(), device);
    assert_eq!(error.as_deref(), Some("the sink went down"));
    assert!(sizes[0].throughput.is_some() && sizes.last().unwrap().loss.is_none());
}

/// The results of a run that ends after this number of trials.
fn ended_after(settings: &Settings, trials: u32) -> Vec<SizeReport> {
    let (sizes, error) = run(settings, Fake { trials_left: trials, ..Fake::new(400e3, 1e6) });
    assert_eq!(error.as_deref(), Some("the sink went down"));
    sizes
}

#[test]
fn a_search_that_ends_early_keeps_its_trials_and_bounds_and_claims_no_throughput() {
    for search in [SearchBy::Mlr, SearchBy::Binary] {
        let settings = Settings { search, frames: vec![FrameSize::Fixed(64)], ..all() };
        let whole = run(&settings, Fake::new(400e3, 1e6)).0[0].throughput.clone().expect("a search");
        let made = whole.trials.len() as u32 - 1;
        let size = &ended_after(&settings, made)[0];
        assert!(size.throughput.is_none() && size.forwarded_pps().is_none() && size.limit.is_none(), "{size:?}");
        let unfinished = size.unfinished.as_ref().expect("the search under way");
        let Searched { found, trials, .. } = &unfinished.searched;
        assert_eq!(trials[..], whole.trials[..made as usize], "{search:?}");
        let (lower, upper) = (found[0].lower_pps.unwrap(), found[0].upper_pps.unwrap());
        assert!(lower <= 400e3 && upper > 400e3 && found[0].end == End::Interrupted, "{found:?}");
        assert!(unfinished.searched.trial_time_s > 0.0 && found[0].throughput_pps.is_none());
        let said =
            format!("throughput: the search ended early after {made} trials; its bounds so far are no throughput");
        assert!(missing(size).contains(&said), "{:?}", size.missing);
    }
    let size = &ended_after(&Settings { searches: 3, ..all() }, 0)[0];
    assert!(missing(size)[0].contains("search 1 ended early after 0 trials"), "{:?}", size.missing);
}

#[test]
fn tests_that_end_early_keep_their_trials() {
    let settings = Settings { frames: vec![FrameSize::Fixed(64)], ..all() };
    let whole = &run(&settings, Fake::new(400e3, 1e6)).0[0];
    let searched = whole.throughput.as_ref().expect("a search").trials.len() as u32;
    let size = &ended_after(&settings, searched + 5)[0];
    assert_eq!(size.latency.as_ref().expect("latency").repeats.len(), 5);
    assert!(missing(size)[0].contains("5 of 20 repeats count (ended early after 5)"), "{:?}", size.missing);
    let size = &ended_after(&settings, searched + settings.latency_repeats + 3)[0];
    assert_eq!(size.loss.as_ref().expect("a curve").trials[..], whole.loss.as_ref().expect("a curve").trials[..3]);
    assert_eq!(missing(size)[0], "loss: ended early after 3 loads; lower ones were not tried");
}

#[test]
fn settings_that_cannot_be_are_refused_with_their_value() {
    let only_loss = Tests { throughput: false, latency: false, loss: true, back_to_back: false };
    for (settings, what) in [
        (Settings { frames: vec![], ..all() }, "frames = empty"),
        (Settings { ipv6: true, ..all() }, "frame size = 64B: at least 84B"),
        (Settings { flows: 0, ..all() }, "flows = 0"),
        (Settings { trial_s: 0.0, ..all() }, "trial = 0"),
        (Settings { loss_step: 0.2, ..all() }, "loss step = 20%: 0.1% to 10%"),
        (Settings { latency_repeats: 0, ..all() }, "repeats = 0"),
        (Settings { tests: Settings::default().tests, ..stamped() }, "stamps = kernel: application, or together with"),
        (Settings { searches: 0, ..all() }, "searches = 0: 1 to 1000"),
        (Settings { searches: 1001, ..all() }, "searches = 1001"),
        (Settings { searches: 2, tests: only_loss, ..all() }, "searches = 2: only with throughput"),
        (Settings { frames: vec![FrameSize::Imix; 2], ..all() }, "frame size = imix twice: each size once"),
    ] {
        let error = settings.check().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    for (text, good) in
        [("64", true), ("64B", true), ("imix", true), ("jumbo", true), ("63", false), ("9019", false), ("x", false)]
    {
        let size = text.parse::<FrameSize>();
        assert_eq!(size.is_ok(), good, "{text}");
        if let Ok(size) = size {
            assert_eq!(size.to_string().parse::<FrameSize>().unwrap(), size);
        }
    }
}

#[test]
fn one_search_finds_the_throughput_of_every_goal() {
    let goals: Vec<Goal> = [0.0, 0.2].map(|loss_ratio| Goal::rfc2544(60.0, loss_ratio, 0.005)).to_vec();
    let settings = Settings { goals: goals.clone(), frames: vec![FrameSize::Fixed(64)], ..Settings::default() };
    // At 500 kpps, a device of 400 kpps loses a fifth.
    let (sizes, error) = run(&settings, Fake::new(400e3, 1e6));
    let size = &sizes[0];
    assert_eq!((error, size.goals.iter().map(|of| of.goal).collect::<Vec<_>>()), (None, goals));
    for (of, truth) in size.goals.iter().zip([400e3, 500e3]) {
        let lower = of.lower_pps.expect("found").value;
        assert!(lower <= truth + 1.0 && lower > 0.995 * truth - 1.0 && of.upper_pps.is_some_and(|pps| pps >= lower));
        assert!(of.conditional_pps.is_some_and(|pps| pps <= 400e3 + 1.0) && of.limit == Some(Limit::Device), "{of:?}");
    }
    assert_eq!(size.forwarded_pps(), size.goals[0].lower_pps.map(|found| found.value), "the others go by the first");
    // A missing result of the second goal is reported for the second goal only.
    let (sizes, _) = run(&settings, Fake::new(400e3, 450e3));
    assert!(missing(&sizes[0]).iter().all(|line| line.starts_with("goal 2: the tester is the limit")), "{sizes:?}");
    assert_eq!(
        sizes[0].goals.iter().map(|of| of.limit).collect::<Vec<_>>(),
        [Some(Limit::Device), Some(Limit::Tester)]
    );
    let several = Settings { searches: 3, ..settings };
    let (sizes, _) = run(&several, Fake::new(400e3, 1e6));
    let second = sizes[0].goals[1].lower_pps.expect("three searches");
    assert!(second.interval.is_some() && second.covers(500e3), "{second:?}");
}

/// Three searches of two sizes, and nothing else.
fn in_rounds() -> Settings {
    let tests = Tests { throughput: true, latency: false, loss: false, back_to_back: false };
    Settings { tests, searches: 3, trial_s: 1.0, ..all() }
}

#[test]
fn searches_go_round_the_sizes_and_are_one_throughput() {
    let mut device = Fake::new(400e3, 1e6);
    // The searches of the second size see a device of 310, 320 and 350 kpps, the searches of the first size one of 300,
    // 330 and 340 kpps.
    device.drifting = [300e3, 310e3, 320e3, 330e3, 340e3, 350e3].into();
    let mut turns = Vec::new();
    let mut watch = |step| {
        if let Step::Search { frame, round, rounds: 3 } = step {
            turns.push((round, frame.to_string()));
        }
    };
    let (sizes, error) = conduct(&in_rounds(), &mut device, &mut watch);
    let order: Vec<(u32, &str)> = turns.iter().map(|(round, frame)| (*round, frame.as_str())).collect();
    assert_eq!(order, [(1, "64B"), (1, "imix"), (2, "imix"), (2, "64B"), (3, "64B"), (3, "imix")]);
    assert!(error.is_none() && sizes.len() == 2);
    for (size, capacities) in sizes.iter().zip([[300e3, 330e3, 340e3], [310e3, 320e3, 350e3]]) {
        let lowers: Vec<f64> = size.bounds().into_iter().map(|(lower, _)| lower).collect();
        for (lower, capacity) in lowers.iter().zip(capacities) {
            assert!(*lower <= capacity + 1e-6 && *lower > 0.995 * capacity - 1.0, "{lower} of {capacity}");
        }
        assert_eq!(size.searches.iter().map(|turn| turn.round).collect::<Vec<_>>(), [1, 2, 3]);
        let mean = size.throughput_pps.expect("three searches");
        assert!((mean.value - lowers.iter().sum::<f64>() / 3.0).abs() < 1e-6 && mean.covers(capacities[1]), "{mean:?}");
        assert_eq!(size.forwarded_pps(), Some(mean.value));
        assert_eq!(size.throughput.as_ref().and_then(Searched::bounds).map(|(lower, _)| lower), Some(lowers[1]));
        let [share] = size.line_shares[..] else { panic!("one line: {:?}", size.line_shares) };
        assert!((share.share * share.line_pps / mean.value - 1.0).abs() < 1e-12);
        assert!(size.limit == Some(Limit::Device) && !size.is_lower_limit() && size.missing.is_empty(), "{size:?}");
        let trials: usize = size.searches.iter().map(|turn| turn.searched.trials.len()).sum();
        assert_eq!((size.seen.trials, size.seen.sent), (trials as u64, 7 * trials as u64), "of all rounds");
        assert!(size.pacing.is_some());
    }
}

#[test]
fn other_tests_come_after_the_rounds_at_the_mean() {
    let settings = Settings { searches: 3, ..all() };
    let mut device = Fake::new(400e3, 1e6);
    device.drifting = [380e3, 400e3, 400e3, 400e3, 400e3, 400e3].into();
    let (sizes, _) = run(&settings, device);
    let latency = sizes[0].latency.as_ref().expect("latency");
    assert_eq!(Some(latency.load_pps), sizes[0].forwarded_pps());
    assert!(latency.load_pps < 398e3, "the mean of 380, 400 and 400 kpps: {}", latency.load_pps);
    assert!(sizes[1].loss.is_some() && sizes[1].back_to_back.is_some());
}

/// A device between veths has no physical line, whatever speed they report.
#[test]
fn without_a_line_there_is_no_share_of_one() {
    let (sizes, _) = run(&all(), Fake { line_bps: None, ..Fake::new(400e3, 1e6) });
    assert!(sizes.iter().all(|size| size.line_shares.is_empty() && size.forwarded_pps().is_some()));
    assert!(serde_json::to_value(&sizes[0]).expect("plain data").get("line_shares").is_none());
}

/// A load failed, and then the tester did not reach other loads: the device is the limit, and the bounds are far apart.
#[test]
fn a_load_that_failed_makes_the_device_the_limit() {
    let found =
        Found { lower_pps: Some(423e3), upper_pps: Some(448e3), throughput_pps: Some(423e3), end: End::AboveSender };
    let searched = Searched { found: vec![found], trials: Vec::new(), void_trials: 3, trial_time_s: 60.0 };
    let mut turn = SearchTurn { round: 1, sender_pps: 865e3, max_pps: 840e3, limit: None, searched };
    turn.limit = searches::limit(&all(), &turn, 0);
    let mut size = SizeReport::new(FrameSize::Fixed(64), 865e3, 840e3);
    searches::settle(&mut size, vec![turn], &all());
    assert_eq!((size.limit, size.is_lower_limit()), (Some(Limit::Device), false));
    assert!(missing(&size)[0].contains("further apart than requested"), "{:?}", size.missing);
}

#[test]
fn one_search_is_reported_as_before() {
    let (sizes, _) = run(&all(), Fake::new(400e3, 1e6));
    let json = serde_json::to_value(&sizes[0]).expect("plain data");
    assert!(json.get("searches").is_none() && json.get("throughput_pps").is_none());
    assert_eq!(sizes[0].bounds().len(), 1);
    // Settings of earlier versions have no `searches`.
    let mut asked = serde_json::to_value(all()).expect("plain data");
    asked.as_object_mut().expect("an object").remove("searches");
    assert_eq!(serde_json::from_value::<Settings>(asked).expect("as it was").searches, 1);
}

#[test]
fn a_stop_keeps_the_searches_that_were_made() {
    let mut device = Fake::new(400e3, 1e6);
    let (whole, _) = run(&in_rounds(), Fake::new(400e3, 1e6));
    // The run stops in the second round, after the second size's search and during the first size's.
    let of = |size: &SizeReport, rounds: usize| -> u32 {
        size.searches[..rounds].iter().map(|turn| turn.searched.trials.len() as u32).sum()
    };
    device.trials_left = of(&whole[0], 1) + of(&whole[1], 2) + 1;
    let (sizes, error) = run(&in_rounds(), device);
    assert_eq!(error.as_deref(), Some("the sink went down"));
    assert_eq!(sizes.iter().map(|size| size.searches.len()).collect::<Vec<_>>(), [1, 2]);
    assert!(sizes[0].throughput_pps.is_some_and(|figure| figure.interval.is_none()), "one tells no interval");
    assert!(sizes[1].throughput_pps.is_some_and(|figure| figure.interval.is_some()));
    let second = "throughput: search 2 ended early after 1 trial; its bounds so far are no throughput";
    assert_eq!(missing(&sizes[0]), ["throughput: 1 of 3 searches were made", second]);
    // If the run stops in the first round, a size that was not started is not reported.
    let (sizes, _) = run(&in_rounds(), Fake { trials_left: 1, ..Fake::new(400e3, 1e6) });
    assert_eq!(sizes.len(), 1);
    assert!(sizes[0].searches.is_empty() && sizes[0].seen.trials == 1);
}

#[test]
fn searches_that_end_otherwise_are_counted() {
    let mut device = Fake::new(400e3, 500e3);
    // First size: one search goes beyond the sender's reach, one finds nothing, and one is regular. Second size: all
    // searches are regular.
    device.drifting = [1e9, 400e3, 400e3, 10.0, 400e3, 400e3].into();
    let settings = Settings { search: SearchBy::Binary, ..in_rounds() };
    let (sizes, _) = run(&settings, device);
    let size = &sizes[0];
    assert!(size.is_lower_limit() && size.limit == Some(Limit::Tester) && size.bounds().len() == 2, "{size:?}");
    assert_eq!(size.searches[1].searched.found[0].end, End::BelowMinimum);
    assert_eq!(
        missing(size)[..2],
        [
            "throughput: in 1 of 3 searches: the tester is the limit: the device forwarded all frames that the tester sent at its full rate in these trials, and may forward more",
            "throughput: in 1 of 3 searches: even a thousandth of the highest load lost frames",
        ]
    );
    // Two throughputs are too few for an interval of their mean.
    assert!(size.missing.len() == 3 && missing(size)[2].contains("too few"), "{:?}", size.missing);
    assert!(sizes[1].missing.is_empty() && !sizes[1].is_lower_limit());
}

#[test]
fn a_mean_of_two_searches_far_apart_is_no_rate_below_zero() {
    let mut device = Fake::new(400e3, 1e6);
    device.drifting = [100e3, 400e3, 400e3, 500e3].into();
    let (sizes, _) = run(&Settings { searches: 2, ..in_rounds() }, device);
    let interval = sizes[0].throughput_pps.and_then(|mean| mean.interval).expect("two searches");
    assert_eq!(interval.low, 0.0);
    assert!(missing(&sizes[0])[0].contains("too few") && sizes[1].missing.is_empty(), "{:?}", sizes[0].missing);
}
