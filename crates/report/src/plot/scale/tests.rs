use super::*;

/// Labels with 7 pixels per character on an axis of `length` pixels.
fn labels(scale: &Scale, length: f64) -> Vec<String> {
    let mut ticks = scale.ticks(length, &|text| 7.0 * text.chars().count() as f64);
    ticks.sort_by(|a, b| a.at.total_cmp(&b.at));
    ticks.into_iter().filter_map(|tick| tick.label).collect()
}

fn axis(name: &str, dimension: Dimension, scale: experiment::Scale) -> Axis {
    Axis { name: name.to_owned(), dimension, scale, range: None }
}

#[test]
fn frame_sizes_are_ticks_on_both_kinds_of_axis() {
    for (kind, wanted) in [
        (experiment::Scale::Log, &["64", "128", "256", "512", "1024", "1518", "9018"][..]),
        (experiment::Scale::Linear, &["64", "512", "1024", "1518", "9018"]),
    ] {
        let scale = Scale::along(&axis("frame size", Dimension::Bytes, kind), [64.0, 9018.0].into_iter());
        let found = labels(&scale, 600.0);
        let known =
            found.iter().all(|label| ["2048", "4096"].contains(&label.as_str()) || wanted.contains(&label.as_str()));
        assert!(known && found.contains(&"64".to_owned()) && found.contains(&"9018".to_owned()), "{found:?}");
        assert_eq!(scale.title(), "frame size [B]");
    }
    let ieee =
        Scale::along(&axis("frame size", Dimension::Bytes, experiment::Scale::Linear), [64.0, 1518.0].into_iter());
    assert_eq!(labels(&ieee, 500.0), ["64", "256", "512", "1024", "1280", "1518"]);
}

#[test]
fn blocks_have_ticks_at_powers_of_two() {
    let scale = Scale::along(&axis("block", Dimension::Bytes, experiment::Scale::Log), [4096.0, 1048576.0].into_iter());
    assert_eq!(
        labels(&scale, 700.0),
        ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB", "128 KiB", "256 KiB", "512 KiB", "1 MiB"]
    );
    assert_eq!(labels(&scale, 200.0), ["4 KiB", "32 KiB", "256 KiB"]);
    let linear = Scale::along(&axis("block", Dimension::Bytes, experiment::Scale::Linear), [0.0, 65536.0].into_iter());
    assert_eq!(labels(&linear, 320.0), ["0 B", "16 KiB", "32 KiB", "48 KiB", "64 KiB"]);
}

#[test]
fn labels_never_touch_and_few_fit_on_a_short_axis() {
    for length in [60.0, 120.0, 250.0, 600.0] {
        for scale in [
            Scale::linear("load", Unit::Pps, 0.0, 883e3),
            Scale::log("latency", Unit::Seconds, -5.3, -1.0),
            Scale::log("loss", Unit::Share, -8.0, 0.0).with_zero(),
        ] {
            let mut ticks = scale.ticks(length, &|text| 7.0 * text.chars().count() as f64);
            ticks.retain(|tick| tick.label.is_some() && Some(tick.at) > scale.gap());
            ticks.sort_by(|a, b| a.at.total_cmp(&b.at));
            for two in ticks.windows(2) {
                let width = |tick: &Tick| 7.0 * tick.label.as_ref().unwrap().chars().count() as f64;
                assert!((two[1].at - two[0].at) * length > (width(&two[0]) + width(&two[1])) / 2.0, "{ticks:?}");
            }
        }
    }
}

#[test]
fn a_logarithmic_axis_has_minor_ticks_and_one_kind_of_label() {
    let scale = Scale::log("loss", Unit::Share, -6.0, 0.0).with_zero();
    assert_eq!(labels(&scale, 900.0), ["0", "0.0001 %", "0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"]);
    let minor = scale.ticks(900.0, &|_| 10.0).into_iter().filter(|tick| tick.label.is_none()).count();
    assert_eq!(minor, 6 * 8);
}

#[test]
fn zero_stands_apart_from_what_is_small() {
    let scale = Scale::log("loss", Unit::Share, -4.0, 0.0).with_zero();
    assert_eq!(scale.place(0.0), Some(ZERO_AT));
    assert!(scale.is_apart(0.0) && scale.is_apart(1e-5) && !scale.is_apart(1e-4));
    assert!(scale.place(1e-4).unwrap() > scale.gap().unwrap() && scale.gap().unwrap() > ZERO_AT);
    assert_eq!(scale.place(1.0), Some(1.0));
    assert_eq!(scale.place(2.0), None);
    assert_eq!(Scale::log("x", Unit::Seconds, -4.0, 0.0).place(0.0), None);
}

#[test]
fn zeros_that_say_nothing_are_left_out() {
    for (text, wanted) in
        [("100 us", "100 us"), ("0.0100 %", "0.01 %"), ("1.00 ms", "1 ms"), ("10.0", "10"), ("-", "-")]
    {
        assert_eq!(whole(text), wanted);
    }
}
