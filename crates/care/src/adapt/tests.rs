use super::*;
use proptest::prelude::*;

fn given(up_pps: f64, down_pps: Option<f64>) -> Thresholds {
    Thresholds { up_pps: Some(up_pps), down_pps, costs: None }
}

/// Imitates a device with exact counters.
#[derive(Default)]
struct Fake {
    at_s: f64,
    counters: Counters,
}

impl Fake {
    /// Passes a window with `packets` packets of 60 bytes, as interfaces count them (without FCS).
    fn window(&mut self, follower: &mut Follower, packets: u64, lost: u64) -> (Option<Measured>, Option<Part>) {
        self.at_s += 0.1;
        self.counters.packets += packets;
        self.counters.bytes += 60 * packets;
        self.counters.lost += lost;
        follower.reading(self.at_s, self.counters)
    }
}

#[test]
fn it_switches_up_and_down_with_hysteresis() {
    let mut follower = Follower::new(given(100e3, Some(80e3)), 0.3);
    let mut fake = Fake::default();
    let mut switches = Vec::new();
    // Load in kpps by window of 0.1 s: below, above, between, and below the thresholds.
    for kpps in [50, 50, 50, 50, 200, 200, 90, 90, 90, 90, 50, 50, 50, 50] {
        let (measured, switch) = fake.window(&mut follower, kpps * 100, 0);
        if let Some(part) = switch {
            switches.push((fake.at_s, part, measured.unwrap().pps));
        }
    }
    let seen: Vec<String> = switches.iter().map(|(at, part, pps)| format!("{at:.1} {part:?} {pps:.0}")).collect();
    assert_eq!(seen, ["0.5 Poll 125000", "1.1 Interrupt 72266"]);
    let [quiet, busy] = [Part::Interrupt, Part::Poll].map(|part| follower.spent(part));
    assert!((quiet.0 - 0.7).abs() < 1e-9 && (busy.0 - 0.6).abs() < 1e-9, "{quiet:?} {busy:?}");
    assert_eq!((quiet.1 + busy.1) as u64, 100 * (3 * 50 + 2 * 200 + 4 * 90 + 4 * 50));
}

/// Packets lost in the ring count as arrived, because a host in livelock must not look idle.
#[test]
fn lost_packets_count_and_sizes_have_their_checksum() {
    let mut follower = Follower::new(given(100e3, None), 0.0);
    let mut fake = Fake::default();
    fake.window(&mut follower, 0, 0);
    let (measured, switch) = fake.window(&mut follower, 1000, 19_000);
    let measured = measured.unwrap();
    assert!((measured.pps - 200e3).abs() < 1e-3 && measured.frame_bytes == 64.0, "{measured:?}");
    assert_eq!((measured.up_pps, measured.down_pps, switch), (100e3, 90e3, Some(Part::Poll)));
}

/// By Salah et al. (2007), eq. (13), with the costs and the measured size: 127 kpps for 64-byte frames, less for longer
/// frames.
#[test]
fn thresholds_by_the_costs_follow_the_size() {
    let thresholds = Thresholds {
        up_pps: None,
        down_pps: None,
        costs: Some(netcliff_core::Host { mask_s: 0.0, ..netcliff_core::Host::pentium4_2530mhz() }),
    };
    assert!((thresholds.up_pps(64.0) - 127.1e3).abs() < 50.0, "{}", thresholds.up_pps(64.0));
    assert!((thresholds.up_pps(557.0) - 116.3e3).abs() < 50.0, "{}", thresholds.up_pps(557.0));
    assert_eq!(thresholds.down_pps(64.0), 0.9 * thresholds.up_pps(64.0));
    let neither = Thresholds { costs: None, ..thresholds };
    assert_eq!(neither.up_pps(64.0), f64::INFINITY);
    let low = Thresholds { up_pps: Some(10e3), down_pps: Some(50e3), costs: None };
    assert_eq!(low.down_pps(64.0), 10e3, "never above the upper one");
}

/// Without packets the frame size is unknown, so that an idle device never switches. Its first packets count.
#[test]
fn an_idle_device() {
    let mut follower = Follower::new(given(1e3, None), 0.0);
    let mut fake = Fake::default();
    for _ in 0..5 {
        assert_eq!(fake.window(&mut follower, 0, 0), (None, None));
    }
    assert_eq!(fake.window(&mut follower, 1000, 0).1, Some(Part::Poll));
    let down = (0..20).find_map(|_| fake.window(&mut follower, 0, 0).1);
    assert_eq!(down, Some(Part::Interrupt), "silence is a load of 0");
}

#[test]
fn counters_that_wrap_or_begin_anew() {
    let at = |packets, bytes| Counters { packets, bytes, lost: 0 };
    let top = (1 << 32) - 100;
    assert_eq!(grown(at(top, top), at(900, 2000)), Some(at(1000, 2100)), "32 bits");
    assert_eq!(grown(at(top, 5000), at(900, 6000)), Some(at(1000, 1000)), "each by itself");
    assert_eq!(grown(at(1000, 60_000), at(10, 600)), None, "a reset");
    assert_eq!(grown(at(3 << 30, 9 << 32), at(0, 0)), None);
    assert_eq!(grown(at(9 << 32, 9 << 33), at(5, 5)), None, "64 bits do not wrap");

    // A reset of the counters loses one window and causes no switch.
    let mut follower = Follower::new(given(50e3, None), 0.0);
    let mut fake = Fake::default();
    fake.window(&mut follower, 1000, 0);
    let (before, _) = fake.window(&mut follower, 1000, 0);
    fake.counters = Counters::default();
    assert_eq!(fake.window(&mut follower, 10, 0), (None, None));
    let (after, switch) = fake.window(&mut follower, 1000, 0);
    assert!((before.unwrap().pps - after.unwrap().pps).abs() < 1e-3 && switch.is_none());
}

#[test]
fn a_clock_that_stands_still_is_no_window() {
    let mut follower = Follower::new(given(1.0, None), 0.0);
    let counters = |packets| Counters { packets, bytes: 60 * packets, lost: 0 };
    follower.reading(1.0, counters(0));
    assert_eq!(follower.reading(1.0, counters(1000)), (None, None));
    assert_eq!(follower.reading(2.0, counters(1000)).0.unwrap().pps, 1000.0, "counted in the window that ends later");
}

proptest! {
    /// For any load and thresholds: switches are at least the hold time apart, the modes alternate, and the averages
    /// justify each switch.
    #[test]
    fn it_never_oscillates_faster_than_it_holds(
        loads in prop::collection::vec((0..400_000_u64, 0..1000_u64, 1..500_u64), 1..200),
        up in 1e3..300e3_f64,
        share in 0.0..1.0_f64,
        hold_s in 0.0..3.0_f64,
    ) {
        let mut follower = Follower::new(given(up, Some(share * up)), hold_s);
        let (mut at_s, mut counters, mut last): (f64, Counters, Option<(f64, Part)>) = (0.0, Counters::default(), None);
        for (pps, lost, window_ms) in loads {
            at_s += window_ms as f64 * 1e-3;
            counters.packets += pps * window_ms / 1000;
            counters.bytes += 60 * (pps * window_ms / 1000);
            counters.lost += lost;
            let (measured, switch) = follower.reading(at_s, counters);
            let Some(part) = switch else { continue };
            let measured = measured.unwrap();
            prop_assert_eq!(follower.part(), part);
            match part {
                Part::Poll => prop_assert!(measured.pps > measured.up_pps),
                Part::Interrupt => prop_assert!(measured.pps < measured.down_pps),
            }
            if let Some((before_s, before)) = last.replace((at_s, part)) {
                prop_assert!(before != part && at_s - before_s >= hold_s);
            } else {
                prop_assert_eq!(part, Part::Poll);
            }
        }
    }

    /// A steady load between the thresholds causes no switch, in either mode.
    #[test]
    fn a_steady_load_between_the_thresholds_is_left(before in 0..300_000_u64, up in 50_000..200_000_u64) {
        let mut follower = Follower::new(given(up as f64, Some(0.5 * up as f64)), 0.0);
        let mut fake = Fake::default();
        let between = up * 3 / 4;
        (0..3).for_each(|_| {
            let _ = fake.window(&mut follower, before / 10, 0);
        });
        // For some windows, the averages still contain the previous load.
        (0..20).for_each(|_| {
            let _ = fake.window(&mut follower, between / 10, 0);
        });
        let part = follower.part();
        for _ in 0..20 {
            prop_assert_eq!(fake.window(&mut follower, between / 10, 0).1, None);
        }
        prop_assert_eq!(follower.part(), part);
    }
}
