use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::pace::follow;
use super::*;
use crate::frame::{Checksum, Header};
use crate::port::SendOutcome;

const START_NS: u64 = 1_000_000_000;

/// A fake transmitter without timing: it takes every frame except each `refuse_every`th, and records the frames it
/// took.
#[derive(Default)]
struct Fake {
    staged: Vec<Header>,
    sent: Vec<Header>,
    refuse_every: Option<u64>,
    room: Option<usize>,
    fail_after: Option<usize>,
}

impl Transmit for Fake {
    fn capacity(&self) -> usize {
        1024
    }

    fn stage(&mut self, header: &Header) -> bool {
        if self.room.is_some_and(|room| self.sent.len() + self.staged.len() >= room) {
            return false;
        }
        self.staged.push(*header);
        true
    }

    fn kick(&mut self) -> Result<SendOutcome, WireError> {
        if self.fail_after.is_some_and(|most| self.sent.len() >= most) {
            return Err(WireError::system("send frames", std::io::Error::from_raw_os_error(libc::ENETDOWN)));
        }
        let mut kicked = SendOutcome::default();
        for header in self.staged.drain(..) {
            self.sent.push(header);
            match self.refuse_every {
                Some(every) if header.sequence % every == 0 => kicked.refused += 1,
                _ => kicked.accepted += 1,
            }
        }
        Ok(kicked)
    }
}

fn config(max_burst: usize) -> GeneratorConfig {
    let frame = FrameSpec {
        source_mac: [0; 6],
        destination_mac: [0; 6],
        source: "127.0.0.1:0".parse().expect("an address"),
        destination: "127.0.0.1:9".parse().expect("an address"),
        more_flows: Vec::new(),
        vlan: None,
        frame_bytes: 64,
        checksum: Checksum::Zero,
        run_id: 1,
        replay: None,
    };
    GeneratorConfig { max_burst, ..GeneratorConfig::new("none", frame) }
}

/// A clock that advances by `step_ns` at each read. It starts just before the runs of [`span`].
fn ticks(step_ns: u64) -> impl Fn() -> u64 {
    let now = Cell::new(START_NS - 50_000);
    move || {
        now.set(now.get() + step_ns);
        now.get()
    }
}

fn span(duration_ns: u64) -> Span {
    let start_ns = START_NS;
    Span {
        start_ns,
        duration_ns,
        max_frames: None,
        window: Window { from_ns: start_ns + duration_ns / 4, to_ns: start_ns + duration_ns / 2 },
    }
}

#[test]
fn every_frame_of_the_span_leaves_once_in_order_and_not_early() {
    let mut fake = Fake::default();
    let span = span(20_000_000);
    let schedule = (0..).map(|n| n * 10_000);
    let report = follow(&mut fake, schedule, span, &config(32), &AtomicBool::new(false), ticks(100), |_| ())
        .expect("the fake never fails");
    assert_eq!(fake.sent.len(), 2000);
    for (n, header) in (0..).zip(&fake.sent) {
        assert_eq!((header.sequence, header.intended_ns), (n, span.start_ns + n * 10_000));
    }
    assert_eq!(report.frames.total(), 2000);
    // The clock advances by 100 ns per read. The bound allows for one read of lateness, one for the call, and rounding
    // to three digits.
    assert!(report.lateness.quantile_s(1.0) <= Some(201e-9), "{report:?}");
    assert_eq!((report.lateness.count(), report.largest_burst), (2000, 1));
    assert_eq!(report.window_offered, 500, "a quarter of the span");
    assert_eq!(report.next_sequence, 2000);
    let by_size: u64 = (0..).zip(&report.burst_kicks).map(|(size, kicks): (u64, _)| size * kicks).sum();
    assert_eq!(by_size, 2000);
    let intended = report.intended_pps.expect("many frames");
    assert!((intended / 100_000.0 - 1.0).abs() < 1e-9, "{intended}");
    assert!(report.kept_up, "{report:?}");
}

#[test]
fn being_late_makes_bursts_of_at_most_the_bound() {
    let mut fake = Fake::default();
    // 50 frames due at one instant.
    let schedule = std::iter::repeat_n(1_000_000, 50);
    let report = follow(&mut fake, schedule, span(20_000_000), &config(8), &AtomicBool::new(false), ticks(100), |_| ())
        .expect("the fake never fails");
    assert_eq!(report.largest_burst, 8);
    assert!(report.burst_kicks[8] >= 6);
    assert_eq!(report.frames.total(), 50);
}

#[test]
fn a_rate_no_sender_reaches_is_admitted() {
    let mut fake = Fake::default();
    // 20 billion packets/s: 20 packets in each nanosecond.
    let schedule = (0u64..).map(|n| n / 20);
    let report = follow(&mut fake, schedule, span(2_000_000), &config(32), &AtomicBool::new(false), ticks(100), |_| ())
        .expect("the fake never fails");
    assert!(!report.kept_up);
    assert!(report.behind_s > 0.0);
    assert!(report.achieved_pps < report.intended_pps);
}

#[test]
fn refused_frames_are_offered_and_a_full_ring_is_the_senders_fault() {
    let schedule = || (0..).map(|n| n * 10_000);
    let mut fake = Fake { refuse_every: Some(2), ..Fake::default() };
    let never = AtomicBool::new(false);
    let report =
        follow(&mut fake, schedule(), span(2_000_000), &config(32), &never, ticks(100), |_| ()).expect("no failure");
    assert_eq!((report.frames.accepted, report.frames.refused), (100, 100));
    assert!(report.kept_up, "what the receiver refuses is not the sender's fault");

    let mut full = Fake { room: Some(50), ..Fake::default() };
    let report =
        follow(&mut full, schedule(), span(2_000_000), &config(32), &never, ticks(100), |_| ()).expect("no failure");
    assert_eq!(report.frames.total(), 50);
    assert!(report.ring_full > 0 && !report.kept_up);
}

#[test]
fn a_failure_keeps_what_was_measured() {
    let mut fake = Fake { fail_after: Some(10), ..Fake::default() };
    let failure = follow(
        &mut fake,
        (0..).map(|n| n * 10_000),
        span(2_000_000),
        &config(1),
        &AtomicBool::new(false),
        ticks(100),
        |_| (),
    )
    .expect_err("the interface goes away");
    assert_eq!(failure.measured.as_ref().map(|m| m.frames.total()), Some(10));
    assert!(failure.to_string().contains("10 frames"), "{failure}");
}

#[test]
fn the_stop_flag_and_the_frame_bound_end_a_run() {
    let stop = AtomicBool::new(false);
    let mut fake = Fake::default();
    let report =
        follow(&mut fake, (0..).map(|n| n * 10_000), span(3_600_000_000_000), &config(32), &stop, ticks(100), |sent| {
            if sent > 100 {
                stop.store(true, Ordering::Relaxed);
            }
        })
        .expect("no failure");
    assert!(report.stopped && report.frames.total() < 1000);

    let bounded = Span { max_frames: Some(7), ..span(3_600_000_000_000) };
    let report =
        follow(&mut fake, (0..).map(|n| n * 10_000), bounded, &config(32), &AtomicBool::new(false), ticks(100), |_| ())
            .expect("no failure");
    assert_eq!(report.frames.total(), 7);
}

#[test]
fn setup_errors_reach_the_caller() {
    let stop = Arc::<AtomicBool>::default();
    let error =
        Generator::prepare(GeneratorConfig { interface: "does-not-exist".into(), ..config(32) }, Arc::clone(&stop))
            .expect_err("no such interface");
    assert!(error.to_string().contains("does-not-exist"), "{error}");

    let mut socket = config(32);
    socket.method = Method::Socket;
    socket.max_burst = 0;
    let error = Generator::prepare(socket.clone(), Arc::clone(&stop)).expect_err("no burst");
    assert!(error.to_string().contains("max_burst is 0"), "{error}");

    socket.max_burst = 1;
    let generator = Generator::prepare(socket, stop).expect("loopback");
    let past = Span { start_ns: 1, ..span(1000) };
    let error = generator.start(std::iter::empty(), past).expect("alive").join().expect_err("too late");
    assert!(error.to_string().contains("in the past"), "{error}");
}

#[test]
fn a_limit_holds_however_late_the_generator_is() {
    let mut fake = Fake::default();
    let span = span(400_000_000);
    // All frames are due at once. The limit allows 100 kpps, and the frames of a tenth of a second more.
    let config = GeneratorConfig { most_pps: Some(100e3), ..config(32) };
    let report = follow(&mut fake, std::iter::repeat(0), span, &config, &AtomicBool::new(false), ticks(1000), |_| ());
    let sent = report.expect("the fake never fails").frames.total();
    assert!((49_000..=51_500).contains(&sent), "{sent} in 0.4 s and a grace");
}

/// Six generators send, one after the other, in the same half second of the fake clock; all their frames are overdue.
#[test]
fn generators_that_share_a_limit_keep_it_together() {
    let limits = RateLimits::of(Some(100e3));
    let shares = |interface: &str, pps: f64| limits.share(interface, pps);
    let own: Vec<_> = (0..6).map(|_| shares("a", 100e3 / 6.0).expect("a sixth is left").expect("a limit")).collect();
    let sent = own.iter().map(|share| {
        let config = GeneratorConfig { share: Some(Arc::clone(share)), ..config(32) };
        let (mut fake, span, stop) = (Fake::default(), span(400_000_000), AtomicBool::new(false));
        let report = follow(&mut fake, std::iter::repeat(0), span, &config, &stop, ticks(1000), |_| ());
        report.expect("the fake never fails").frames.total()
    });
    let sent: u64 = sent.sum();
    assert!((49_000..=51_500).contains(&sent), "{sent} in 0.4 s and a grace");

    assert_eq!(shares("a", 1.0).expect_err("all is reserved"), 0.0);
    assert!(shares("b", 100e3).is_ok(), "another interface has its own");
    assert!(shares("a", -1e300).is_ok() && shares("a", 1.0).is_err(), "nothing is gained by a rate that cannot be");
    drop(own);
    assert!(shares("a", f64::INFINITY).is_err());
    let whole = shares("a", 100e3).expect("all ended");
    assert!(shares("a", 5e3).is_err());
    drop(whole);
    assert!(RateLimits::default().share("a", 1e9).expect("no limit").is_none());
}

#[test]
fn a_generator_whose_lease_is_over_stops() {
    let mut fake = Fake::default();
    // Repeated until the end of the lease is known to within two frames, i.e. until this thread was not interrupted
    // between the two clock reads.
    let begun = || (crate::clock::monotonic_ns(), Lease::of(0), crate::clock::monotonic_ns());
    let known = |(before, _, after): &(u64, Lease, u64)| after - before < 20_000;
    let (_, lease, until) = std::iter::repeat_with(begun).find(known).expect("an endless sequence");
    let config = GeneratorConfig { lease: lease.clone(), ..config(32) };
    let clock = ticks(100);
    // The fake clock begins at one second, but the lease ends at the real present time, so the clock is shifted to just
    // before it.
    let ahead = move || until - 1_000_000 + clock() - START_NS;
    let start_ns = until - 900_000;
    let span = Span { start_ns, ..span(20_000_000) };
    let schedule = (0..).map(|n| n * 10_000);
    let report =
        follow(&mut fake, schedule, span, &config, &AtomicBool::new(false), ahead, |_| ()).expect("no failure");
    assert!(report.stopped && (80..=95).contains(&report.frames.total()), "{}", report.frames.total());
    lease.extend(1_000_000_000);
    assert!(!lease.is_over(crate::clock::monotonic_ns()) && !Lease::default().is_over(u64::MAX));
}
