//! Several applications under every scheme.

use netcliff_core::Host;

use super::sides::{any, flow_control, linux, transmissions};
use super::{Rng, many_with};
use crate::tally::Counts;

/// Random applications: some with ticks so short that turns change often, some with their own shares, times and
/// sockets.
pub(super) fn applications(rng: &mut Rng, host: &mut Host) {
    host.application_s = Some(rng.time_s(8e-6));
    host.tick_s = 2e-5 + rng.roll() * 2e-3;
    let count = rng.up_to(4) as usize;
    let mut text = count.to_string();
    let list = |items: Vec<String>| items.join("/");
    let mut more = Vec::new();
    if rng.roll() < 0.5 {
        let parts: Vec<f64> = (0..count).map(|_| 0.01 + rng.roll()).collect();
        let sum: f64 = parts.iter().sum();
        more.push(format!("shares={}", list(parts.iter().map(|part| (part / sum).to_string()).collect())));
    }
    if rng.roll() < 0.5 {
        let times = (0..count).map(|_| format!("{}s", rng.time_s(2e-5))).collect();
        more.push(format!("times={}", list(times)));
    }
    if rng.roll() < 0.5 {
        more.push(format!("buffers={}", list((0..count).map(|_| rng.up_to(60).to_string()).collect())));
    }
    if !more.is_empty() {
        text = format!("{text}:{}", more.join(","));
    }
    host.applications = Some(text.parse().unwrap());
}

fn share(runs: &[Counts], of: impl Fn(&Counts) -> bool) -> f64 {
    runs.iter().filter(|counts| of(counts)).count() as f64 / runs.len() as f64
}

#[test]
fn several_applications_agree_packet_for_packet() {
    let mut runs = many_with(500, any, applications);
    runs.extend(many_with(500, |rng| linux(rng, true), applications));
    assert!(share(&runs, |counts| counts.dropped_socket > 0) > 0.1);
    assert!(share(&runs, |counts| counts.delivered > 1000) > 0.2);
}

#[test]
fn several_applications_beside_flow_control_and_transmissions_agree() {
    many_with(200, any, |rng, host| {
        applications(rng, host);
        flow_control(rng, host);
        transmissions(rng, host);
    });
}
