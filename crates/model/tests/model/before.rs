//! Compares random hosts with an application with the results of an older version (`tests/referee/before.csv`, commit
//! 80f536ec of November 2026 with `MOST_OPERATIONS` of 8e18, `netcliff predict` to 13 digits). That version eliminated
//! the band state by state and computed each busy period separately by the socket's free space. The two versions leave
//! out rare events in different places.

use netcliff_core::note::Note;
use netcliff_core::{Engine, Host, Point, Scheme};
use netcliff_model::{Fidelity, ModelEngine};

/// Accepted relative difference of figures.
const NEAR: f64 = 1e-6;
/// Losses and shares up to this value count as zero.
const NONE: f64 = 1e-9;

#[test]
fn the_figures_of_the_program_before() {
    let text = include_str!("referee/before.csv");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
    let mut points = 0;
    for line in lines {
        let values: Vec<&str> = line.split(',').collect();
        let of = |name: &str| values[names.iter().position(|other| *other == name).unwrap()];
        let number = |name: &str| of(name).parse::<f64>().unwrap();
        let time_s = |name: &str| 1e-6 * number(name);
        let host = Host {
            interrupt_s: time_s("interrupt"),
            interrupt_latency_s: time_s("interrupt_latency"),
            protocol_s: time_s("protocol"),
            per_byte_s: 0.0,
            mask_s: time_s("mask"),
            poll_s: time_s("poll"),
            application_s: Some(time_s("application")),
            context_switch_s: time_s("context_switch"),
            wakeup_s: time_s("wakeup"),
            cold_protocol_s: time_s("cold_protocol"),
            cold_application_s: time_s("cold_application"),
            socket_drop_cost: number("socket_drop_cost"),
            ring: number("ring") as u64,
            socket_buffer: number("socket_buffer") as u64,
            ..Host::pentium4_2530mhz()
        };
        let scheme: Scheme = of("scheme").replace(';', ",").parse().unwrap();
        let point = Point::poisson(host, scheme, number("load_pps"));
        let outcome = engine.evaluate(&point).unwrap();
        assert!(!outcome.notes.iter().any(|note| matches!(note, Note::TwoMoments(_))), "{line}: approximated");
        let found = [
            ("read_pps", outcome.throughput_pps),
            ("loss", outcome.loss_fraction),
            ("latency_s", outcome.latency_s.and_then(|latency| latency.mean)),
            ("available", outcome.cpu.and_then(|cpu| cpu.available)),
        ];
        for (name, found) in found {
            let wanted = number(name);
            let Some(found) = found.map(|figure| figure.value).filter(|_| wanted.is_finite()) else {
                assert!(wanted.is_nan(), "{line}: no {name}");
                continue;
            };
            // Largest value that counts as zero, in packets per second or as a share.
            let none = if name == "read_pps" { NONE * point.rate_pps().unwrap() } else { NONE };
            let far = (found - wanted).abs();
            assert!(far <= NEAR * wanted.abs() || (name != "latency_s" && far <= none), "{line}: {name} {found:e}");
        }
        points += 1;
    }
    assert_eq!(points, 72);
}
