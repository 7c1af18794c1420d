use super::*;

#[test]
fn three_significant_digits_in_the_unit_that_reads_best() {
    for (value, unit, text) in [
        (412_345.0, Unit::Pps, "412 kpps"),
        (999_600.0, Unit::Pps, "1.00 Mpps"),
        (1_488_095.0, Unit::Pps, "1.49 Mpps"),
        (0.5, Unit::Pps, "0.500 pps"),
        (8.123e-7, Unit::Seconds, "812 ns"),
        (1.2345e-6, Unit::Seconds, "1.23 us"),
        (2.0, Unit::Seconds, "2.00 s"),
        (1.337e-9, Unit::SecondsPerByte, "1.34 ns/B"),
        (0.084, Unit::Share, "8.40 %"),
        (0.9996, Unit::Share, "100 %"),
        (1e-5, Unit::Share, "0.00100 %"),
        (0.0, Unit::Share, "0 %"),
        (-3e-17, Unit::Share, "0 %"),
        (1e-8, Unit::Share, "1.00e-6 %"),
        (1.15e-6, Unit::Number, "1.15e-6"),
        (1000.0, Unit::Packets, "1000 packets"),
        (12.34, Unit::Packets, "12.3 packets"),
        (f64::NAN, Unit::Pps, "-"),
        (f64::INFINITY, Unit::Seconds, "-"),
        (-0.0437, Unit::Share, "-4.37 %"),
    ] {
        assert_eq!(quantity(value, unit), text);
    }
    assert_eq!(significant(0.99832), "0.998");
    assert_eq!(signed(0.0437, Unit::Share), "+4.37 %");
}

#[test]
fn an_interval_shares_unit_and_decimals_with_its_value() {
    let cliff = Figure::sampled(412e3, 9e3, 0.95);
    assert_eq!(figure(&cliff, Unit::Pps), "412 kpps (403-421)");
    assert_eq!(plus_minus(&cliff, Unit::Pps), "412 ± 9 kpps");
    assert_eq!(figure(&Figure::exact(412e3), Unit::Pps), "412 kpps");
    assert_eq!(figure(&Figure::between(0.0, 0.0, 3e-4, 0.95), Unit::Share), "0 % (0-0.0300 %)");
    assert_eq!(figure(&Figure::between(0.0, 0.0, 0.0, 0.95), Unit::Share), "0 % (0-0)");
    assert_eq!(figure(&Figure::between(1e-6, -1e-6, 3e-6, 0.95), Unit::Seconds), "1.00 us (-1.00..3.00)");
    assert_eq!(plus_minus(&Figure::between(4e-6, 1e-6, 5e-6, 0.95), Unit::Seconds), "4.00 us (1.00-5.00)");
    let equal = Figure::between(2.0, 2.0 - 4.4e-16, 2.0 + 1.3e-15, 0.95);
    assert_eq!(plus_minus(&equal, Unit::Number), "2.00 ± 0.00");
    assert_eq!(figure(&Figure::between(1.0, 0.5, f64::INFINITY, 0.95), Unit::Number), "1.00 (0.50-?)");
    assert_eq!(figure(&Figure::sampled(f64::NAN, 1.0, 0.95), Unit::Pps), "-");
}

#[test]
fn losses_and_shares_are_short() {
    assert_eq!(loss(1e-4), "0.01 %");
    assert_eq!(loss(1e-5), "1e-5");
    assert_eq!(loss(2.5e-7), "2.5e-7");
    assert_eq!(loss(0.0), "0 %");
    assert_eq!(share_short(0.5), "50 %");
}

#[test]
fn cpus_in_a_row_are_a_range() {
    for (numbers, text) in [(&[3][..], "CPU 3"), (&[0, 1], "CPUs 0-1"), (&[0, 1, 2, 4, 6, 7], "CPUs 0-2,4,6-7")] {
        assert_eq!(cpus(numbers), text);
    }
}

/// Keys of JSON name their units; numbers without a unit get one exponent.
#[test]
fn numbers_read_together_have_one_scale() {
    assert_eq!(Unit::of_key("p99_s"), (Unit::Seconds, 1.0));
    assert_eq!(Unit::of_key("wait_us"), (Unit::Seconds, 1e-6));
    assert_eq!(Unit::of_key("bps"), (Unit::Bps, 1.0));
    assert_eq!(Unit::of_key("rate_per_s"), (Unit::PerSecond, 1.0));
    for key in ["us_per_kib", "s", "columns", ""] {
        assert_eq!(Unit::of_key(key), (Unit::Number, 1.0), "{key}");
    }
    let text = |values: &[f64], unit: Unit| {
        let scale = CommonScale::of(values.iter().copied(), unit);
        let decimals = scale.decimals(values[0], values);
        values.iter().map(|value| scale.text(*value, decimals)).collect::<Vec<_>>()
    };
    assert_eq!(text(&[7.45e-5, 1.22e-4, -1e-6], Unit::Seconds), ["74.5 us", "122.0 us", "-1.0 us"]);
    assert_eq!(text(&[7.45e-5, 8e-6], Unit::Number), ["7.45e-5", "0.80e-5"]);
    assert_eq!(text(&[11_423_285_274.0], Unit::Number), ["1.14e10"]);
    assert_eq!(text(&[1500.0, 1400.0, 0.0], Unit::Number), ["1500", "1400", "0"]);
    assert_eq!(text(&[0.0], Unit::Seconds), ["0 ns"]);
    let scale = CommonScale::of([1.0], Unit::Number);
    assert_eq!([0.5, -0.5, -0.001, f64::NAN].map(|value| scale.signed(value, 1)), ["+0.5", "-0.5", "+0.0", "-"]);
}

#[test]
fn dates_are_utc() {
    assert_eq!(date_utc(1_790_000_000.7), "2026-09-21 14:13:20 UTC");
    assert_eq!(date_utc(f64::NAN), "-");
    assert_eq!(date_utc(1e300), "-");
}

#[test]
fn nothing_that_is_not_seen_is_printed() {
    assert_eq!(printable("a\tb\nc – µ"), "a\tb\nc – µ");
    assert_eq!(printable("\u{1b}[2J\u{202e}x\u{2066}"), "\u{fffd}[2J\u{fffd}x\u{fffd}");
}

#[test]
fn what_steers_a_terminal_is_escaped_in_json_and_only_styles_stay_in_pages() {
    let evil = "a\u{1b}[31m\u{7}\u{7f}\u{85}\u{9b}2J\u{202e}\u{2028}\u{e0041}\u{fffe} µ";
    let text = serde_json::to_string(&evil).expect("a string");
    let safe = json(&text);
    assert!(safe.chars().all(|c| !netcliff_core::quote::is_unseen(c)), "{safe}");
    assert_eq!(serde_json::from_str::<String>(&safe).expect("JSON"), evil);
    assert_eq!(json("{\n}\n"), "{\n}\n");
    assert_eq!(
        printable_but_styles("\u{1b}[1mA\u{1b}[0m\u{1b}]0;x\u{7}\u{1b}[2J\u{1b}"),
        "\u{1b}[1mA\u{1b}[0m\u{fffd}]0;x\u{fffd}\u{fffd}[2J\u{fffd}"
    );
    assert_eq!(date_utc(-1.5), "1969-12-31 23:59:58 UTC");
}
