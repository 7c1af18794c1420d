use super::*;
use crate::rfc2544::settings::Tests;
use crate::rfc2544::simulated::{Bench, Device as Simulated};

/// As a sending program's clock and a sink's say.
const TAGGED: Tagged = Tagged {
    latency_s: Some(1e-4),
    uncertainty_s: Some(1e-7),
    application_s: None,
    kernel_s: None,
    absent: Absent { left: 0, came: 0, clock: 0 },
};

/// A router of known capacity behind a sender of known rate, that breaks when told to.
struct Fake {
    bench: Bench,
    capacity_pps: f64,
    sender_pps: f64,
    buffer: f64,
    trials_left: u32,
    tagged: Tagged,
}

impl Fake {
    fn new(capacity_pps: f64, sender_pps: f64) -> Self {
        let bench = Bench::new(Simulated::Sharp { capacity_pps }, 1).with_sender(sender_pps);
        Self { bench, capacity_pps, sender_pps, buffer: 1000.0, trials_left: u32::MAX, tagged: TAGGED }
    }
}

impl Device for Fake {
    type Error = String;

    fn frames(&mut self, _: FrameSize) -> Result<(), String> {
        Ok(())
    }

    fn sender_pps(&mut self) -> Result<f64, String> {
        Ok(self.sender_pps)
    }

    fn trial(&mut self, duration_s: f64, load_pps: f64) -> Result<Measured, String> {
        self.trials_left = self.trials_left.checked_sub(1).ok_or("the sink went down")?;
        let mut latency = Histogram::new();
        (1..=1000).for_each(|n| latency.record_ns(n * 1000));
        Ok(Measured {
            answer: self.bench.trial(duration_s, load_pps),
            seen: Seen { sent: 7, ..Seen::default() },
            pacing: Some(Pacing { lateness_p99_s: 1e-6, gap_error_p50_s: 1e-7, gap_error_p99_s: 2e-6 }),
            latency: Some(latency),
            tagged: self.tagged,
        })
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
    // 1000 frames stay behind of a burst of 1000 / (1 - 0.4), at a resolution of 200 of 2e6.
    assert!((bursts.mean - 1666.0).abs() <= 200.0, "{bursts:?}");
    assert!((bursts.corrected_buffer_s - bursts.mean / 1e6 * (1.0 - throughput / 1e6)).abs() < 1e-12);
    assert!(size.missing.is_empty() && size.seen.trials > 20 && size.pacing.is_some(), "{size:?}");
}

/// Only the latency test, by the kernel's stamps.
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
    // By the application's clock there is nothing to compare with.
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
    let said = &sizes[0].missing[0];
    assert!(said.contains("0 of 20 repeats") && said.contains("20 stamps of frames that left"), "{said}");
}

#[test]
fn a_device_faster_than_the_sender_is_said_to_be() {
    let settings = Settings { tests: Tests { latency: false, ..all().tests }, ..all() };
    let (sizes, _) = run(&settings, Fake::new(1e9, 500e3));
    assert!(sizes[0].missing.iter().any(|line| line.contains("the tester is the limit")), "{:?}", sizes[0].missing);
    assert_eq!(sizes[0].limit, Some(Limit::Tester));
    let (sizes, _) = run(&Settings { max_pps: Some(100e3), ..settings }, Fake::new(1e9, 500e3));
    assert_eq!(sizes[0].limit, Some(Limit::Asked));
    assert!(sizes[0].missing.iter().any(|line| line.contains("asked for")), "{:?}", sizes[0].missing);
    assert!(sizes[0].back_to_back.is_none());
}

#[test]
fn a_sink_that_dies_leaves_what_was_had() {
    let mut device = Fake::new(400e3, 1e6);
    device.trials_left = 60;
    let (sizes, error) = run(&all(), device);
    assert_eq!(error.as_deref(), Some("the sink went down"));
    assert!(sizes[0].throughput.is_some() && sizes.last().unwrap().loss.is_none());
}

#[test]
fn settings_that_cannot_be_are_refused_with_their_value() {
    for (settings, what) in [
        (Settings { frames: vec![], ..all() }, "frames = empty"),
        (Settings { ipv6: true, ..all() }, "frame size = 64B: at least 84B"),
        (Settings { flows: 0, ..all() }, "flows = 0"),
        (Settings { trial_s: 0.0, ..all() }, "trial = 0"),
        (Settings { loss_step: 0.2, ..all() }, "loss step = 0.2"),
        (Settings { latency_repeats: 0, ..all() }, "repeats = 0"),
        (Settings { tests: Settings::default().tests, ..stamped() }, "stamps = kernel: application, or together with"),
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
