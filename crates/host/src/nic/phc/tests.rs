use super::*;

/// Start of the simulated time (ns of CLOCK_REALTIME): as large as real values.
const BEGIN: i64 = 1_795_000_000_000_000_000;

/// Time of a device's clock (ns) that runs faster than the system's by `drift` and was ahead of it by `ahead` (ns) at
/// the start.
fn device_ns(system_ns: i64, drift: f64, ahead: i64) -> i64 {
    let since = system_ns - BEGIN;
    BEGIN + since + ahead + (since as f64 * drift).round() as i64
}

/// A reading at `at_s` (s) whose device clock was read at the share `at` of a window of `window_ns` (ns).
fn reading(at_s: f64, drift: f64, ahead: i64, window_ns: i64, at: f64) -> Reading {
    let before = BEGIN + (at_s * 1e9) as i64;
    let moment = before + (window_ns as f64 * at).round() as i64;
    Reading::tightest([(before, device_ns(moment, drift, ahead), before + window_ns)]).unwrap()
}

#[test]
fn a_drifting_clock_is_followed() {
    for (drift, ahead) in [(0.0, 0), (87e-6, 37_000_000_000), (-87e-6, -5)] {
        let line = Line::between(reading(0.0, drift, ahead, 0, 0.5), reading(120.0, drift, ahead, 0, 0.5)).unwrap();
        assert_eq!(line.uncertainty_s(), 0.0);
        for at_s in [0.0, 0.3, 60.0, 119.9] {
            let system = BEGIN + (at_s * 1e9) as i64;
            let found = line.system_ns(device_ns(system, drift, ahead)).unwrap();
            assert!((found - system).abs() <= 1, "{drift} {at_s}: off by {} ns", found - system);
        }
    }
}

/// The error of the conversion is within the reported uncertainty, wherever in the window the clock was read.
#[test]
fn the_uncertainty_holds() {
    for (from, to) in [(0.0, 1.0), (1.0, 0.0), (0.2, 0.9), (0.5, 0.5)] {
        let line = Line::between(reading(0.0, 20e-6, 7, 3000, from), reading(2.0, 20e-6, 7, 1000, to)).unwrap();
        assert_eq!(line.uncertainty_s(), 1.5e-6);
        for at_s in [0.001, 1.0, 1.999] {
            let system = BEGIN + (at_s * 1e9) as i64;
            let off = (line.system_ns(device_ns(system, 20e-6, 7)).unwrap() - system).abs();
            assert!(off <= 1501, "{from} {to} {at_s}: {off} ns");
        }
    }
}

#[test]
fn a_clock_that_was_set_is_seen() {
    let from = reading(0.0, 0.0, 0, 1000, 0.5);
    for (ahead, word) in [(100_000_000, "2.1"), (-100_000_000, "1.9"), (-3_000_000_000, "-1.0")] {
        let error = Line::between(from, reading(2.0, 0.0, ahead, 1000, 0.5)).unwrap_err();
        assert!(matches!(error, NoLine::Stepped { .. }), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(Line::between(from, from), Err(NoLine::OneMoment));
    // Over a short time wide windows look like drift; they must not count as such.
    let (wide, later) = (reading(0.0, 0.0, 0, 40_000, 1.0), reading(0.001, 0.0, 0, 40_000, 0.0));
    assert!(Line::between(wide, later).is_ok());
}

#[test]
fn what_lies_outside_is_not_guessed() {
    let line = Line::between(reading(1.0, 0.0, 0, 0, 0.5), reading(2.0, 0.0, 0, 0, 0.5)).unwrap();
    for (at_s, inside) in [(0.9, false), (1.0, true), (2.0, true), (2.1, false)] {
        assert_eq!(line.system_ns(BEGIN + (at_s * 1e9) as i64).is_some(), inside, "{at_s}");
    }
}

#[test]
fn the_tightest_sample_counts() {
    let best = Reading::tightest([(0, 7, 100), (200, 9, 230), (300, 11, 290)]).unwrap();
    assert_eq!(best, Reading { device_ns: 9, system_ns: 215, window_ns: 30 });
    // In the last one the system's clock went backwards.
    assert_eq!(Reading::tightest([(300, 11, 290)]), None);
    let times: Vec<libc::ptp_clock_time> =
        (0..51).map(|n| libc::ptp_clock_time { sec: 1, nsec: n * 10, reserved: 0 }).collect();
    let samples: Vec<_> = alternating(&times, 2).collect();
    let second = 1_000_000_000;
    assert_eq!(samples, [(second, second + 10, second + 20), (second + 20, second + 30, second + 40)]);
}

#[test]
fn a_clock_that_is_not_there_is_named() {
    let error = DeviceClock::open(4_000_000).unwrap_err().to_string();
    assert!(error.contains("/dev/ptp4000000"), "{error}");
}
