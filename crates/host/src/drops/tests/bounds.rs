//! Bounds of the tracer: more drops than it examines, more flows than it has space for, a kernel without reasons.

use crate::drops::{Ask, By, Reading, Tracer, symbols::Symbols};
use netcliff_testkit::{Need, has};
use std::net::UdpSocket;

/// Sends a datagram to each of these ports of loopback, which normally have no listener; returns the snapshots before
/// and after.
fn provoked(tracer: &Tracer, ports: impl Iterator<Item = u16>) -> (Reading, Reading) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let before = tracer.read().unwrap();
    for port in ports {
        let _ = socket.send_to(b"x", ("127.0.0.1", port));
    }
    (before, tracer.read().unwrap())
}

fn may_trace() -> bool {
    has(Need::Root) && has(Need::Ebpf)
}

#[test]
fn above_the_bound_some_are_looked_at_and_rows_are_scaled() {
    if !may_trace() {
        return;
    }
    const SENT: u64 = 40_000;
    let filter = "udp and dst host 127.0.0.1 and dst port 1".parse().ok();
    let ask = Ask { filter, bound_per_s: Some(2000), ..Ask::default() };
    let tracer = Tracer::start(&ask).unwrap();
    let (before, after) = provoked(&tracer, std::iter::repeat_n(1, SENT as usize));
    let grown = before.until(&after);
    assert!(grown.seen >= SENT && grown.looked_at < grown.seen / 2, "{grown:?}");
    let drops = tracer.drops(&ask, &before, &after, &Symbols::default());
    assert!(
        drops.sampling_factor > 2.0 && drops.limits.iter().any(|limit| limit.starts_with("sampled: ")),
        "{drops:?}"
    );
    // The sampling factor is applied to drops that come after those from which it was computed, so the sum varies with
    // the rate.
    let told: u64 = drops.rows.iter().map(|row| row.drops).sum();
    assert!((SENT / 2..SENT * 2).contains(&told), "{told} of {SENT}: {drops:?}");
}

#[test]
fn flows_beyond_the_room_are_counted_and_told() {
    if !may_trace() {
        return;
    }
    let filter = "udp and dst host 127.0.0.1 and dst portrange 20000-39999".parse().ok();
    let ask = Ask { filter, by: By { flow: true, ..By::default() }, ..Ask::default() };
    let tracer = Tracer::start(&ask).unwrap();
    let (before, after) = provoked(&tracer, 20_000..40_000);
    let drops = tracer.drops(&ask, &before, &after, &Symbols::default());
    assert!(drops.rows.len() > 10_000, "{} rows", drops.rows.len());
    assert!(drops.limits.iter().any(|limit| limit.contains("flows, processes and stacks")), "{:?}", drops.limits);
    // Grouped by place, every drop has space.
    let placed: u64 = before.until(&after).sites.values().map(|tally| tally.drops).sum();
    assert!(placed > 19_000, "{placed}");
    // The next drops have space again.
    let (before, after) = provoked(&tracer, 39_000..39_100);
    let flows = before.until(&after).details.len();
    assert!((90..=100).contains(&flows), "{flows}");
}

#[test]
fn without_reasons_the_place_tells() {
    if !may_trace() {
        return;
    }
    let filter = "udp and dst host 127.0.0.1 and dst port 1".parse().ok();
    let ask = Ask { filter, without_reasons: true, ..Ask::default() };
    let tracer = Tracer::start(&ask).unwrap();
    let (before, after) = provoked(&tracer, std::iter::repeat_n(1, 50));
    let drops = tracer.drops(&ask, &before, &after, &Symbols::read().unwrap());
    let row = &drops.rows[0];
    assert!(row.reason == "-" && row.place.starts_with("__udp4_lib_rcv+") && row.drops >= 50, "{drops:?}");
    assert!(drops.limits.iter().any(|limit| limit.contains("Linux 5.17")), "{drops:?}");
}
