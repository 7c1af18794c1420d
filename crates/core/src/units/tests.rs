use super::*;
use proptest::prelude::*;

#[test]
fn reads_the_forms_of_the_command_line() {
    assert_eq!(parse_time_s("20us"), Ok(20e-6));
    assert_eq!(parse_time_s("3.73 us"), Ok(3.73e-6));
    assert_eq!(parse_time_s("3.73µs"), Ok(3.73e-6));
    assert_eq!(parse_time_s("0"), Ok(0.0));
    let long = ["5min", "1.5 min", "1h", "0.25h", "168h", "1e1min"].map(|text| parse_time_s(text).unwrap());
    assert_eq!(long, [300.0, 90.0, 3600.0, 900.0, 604_800.0, 600.0]);
    assert_eq!(parse_pps("120kpps"), Ok(120e3));
    assert_eq!(parse_pps("1e3 pps"), Ok(1000.0));
    assert_eq!(parse_bps("1.5Gbit/s"), Ok(1.5e9));
    assert_eq!(parse_bytes("64B"), Ok(64));
    assert_eq!(parse_bytes("1.5MiB"), Ok(1_572_864));
    assert_eq!(parse_share("40%"), Ok(0.4));
}

#[test]
fn prints_what_people_write() {
    for text in ["20us", "3.73us", "1ns", "1.5s", "250ms"] {
        assert_eq!(print_time_s(parse_time_s(text).unwrap()), text);
    }
    for text in ["120kpps", "1.488Mpps", "1pps", "999.5pps"] {
        assert_eq!(print_pps(parse_pps(text).unwrap()), text);
    }
    assert_eq!(print_bps(1.5e9), "1.5Gbit/s");
    assert_eq!(print_bytes(212_992), "208KiB");
    assert_eq!(print_bytes(0), "0B");
    assert_eq!(print_share(0.4), "40%");
    assert_eq!(print_share(1e-4), "0.01%");
    assert_eq!(print_time_s(1e-12), "0.001ns");
}

/// A calibrated time has sixteen digits; a sentence shows four of them.
#[test]
fn times_of_sentences_have_four_digits() {
    for (seconds, text) in [
        (150.291_674_928_079_1e-9, "150.3ns"),
        (20e-6, "20us"),
        (1.234_567e-3, "1.235ms"),
        (0.0, "0s"),
        (12_345.6, "12350s"),
    ] {
        assert_eq!(print_short_time_s(seconds), text);
    }
}

#[test]
fn refuses_with_the_value_and_the_accepted_form() {
    for text in [
        "20",
        "20 parsecs",
        "-5us",
        "NaN",
        "inf",
        "nan us",
        "",
        "us",
        "1e999s",
        "+3us",
        "2u s",
        "1..2us",
        "5m",
        "5mins",
        "1h30min",
        "-5min",
        "min",
        "1e308h",
        "NaNmin",
        "1d",
        "5 MIN",
    ] {
        let error = parse_time_s(text).expect_err(text).to_string();
        assert!(error.contains(&format!("\"{text}\"")) && error.contains("s, min or h, such as \"20us\""), "{error}");
    }
    for text in ["64", "1.3B", "64KB", "-1B", "99999999999GiB"] {
        assert!(parse_bytes(text).expect_err(text).to_string().contains("KiB"));
    }
    assert!(parse_share("40 pct").is_err());
}

proptest! {
    #[test]
    fn quantities_round_trip_to_the_last_bit(value in prop_oneof![Just(0.0), 1e-15..1e15f64, 1e-300..1e-290f64]) {
        prop_assert_eq!(parse_time_s(&print_time_s(value)), Ok(value));
        prop_assert_eq!(parse_pps(&print_pps(value)), Ok(value));
        prop_assert_eq!(parse_bps(&print_bps(value)), Ok(value));
        prop_assert_eq!(parse_share(&print_share(value)), Ok(value));
        prop_assert_eq!(parse_byte_rate(&print_byte_rate(value)), Ok(value));
    }

    #[test]
    fn sizes_round_trip(bytes in 0..u64::MAX / 2) {
        prop_assert_eq!(parse_bytes(&print_bytes(bytes)), Ok(bytes));
    }

    #[test]
    fn any_text_is_read_or_refused_without_panic(text in "\\PC{0,12}") {
        let _ = (parse_time_s(&text), parse_pps(&text), parse_bps(&text), parse_bytes(&text), parse_share(&text));
    }
}

#[test]
fn figures_are_rounded_to_three_digits() {
    for (figure, rounded) in
        [(284_193.98, 284e3), (-0.999_6, -1.0), (1.234_5e-9, 1.23e-9), (0.0, 0.0), (f64::INFINITY, f64::INFINITY)]
    {
        assert_eq!(three_digits(figure), rounded);
    }
}
