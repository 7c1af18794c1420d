//! Any order (start of a test) of a client that has the key is refused, or its test begins and ends: no panic and no
//! hang, and the agent counted its memory before it began.

use std::net::{IpAddr, Ipv4Addr};

use netcliff_find::far::FindKind;
use netcliff_packets::generator::RateLimits;
use netcliff_packets::thread::Priority;
use netcliff_remote::control::far::{Context, Kind};
use netcliff_remote::control::key::Token;
use netcliff_remote::load::{LoadKind, Permission};
use netcliff_service::far::MeterKind;
use netcliff_transfer::bulk::TransferKind;
use netcliff_transfer::exchange::RrKind;
use serde_json::{Value, json};

use super::bytes::Bytes;

/// Orders that would need more memory (bytes) are not begun, because the fuzzer limits its own memory.
const BEGUN_BYTES: u64 = 64 << 20;

/// Reads the input as an order, or makes an order from its values.
pub fn run(bytes: &[u8]) {
    let mut input = Bytes(bytes);
    // Generators send nothing here: they have permission for no interface.
    let nowhere = || Permission::Interfaces(Vec::new());
    let load = LoadKind {
        permission: nowhere(),
        netns: None,
        limits: RateLimits::of(Some(20e3)),
        priority: Priority::default(),
    };
    let find = FindKind { permission: nowhere(), settings: nowhere(), most_pps: Some(20e3) };
    let kind: Box<dyn Kind> = match input.byte() % 8 {
        0 | 2 | 4 => Box::new(TransferKind::default()),
        1 | 3 => Box::new(RrKind),
        5 => Box::new(MeterKind),
        6 => Box::new(load),
        _ => Box::new(find),
    };
    // One input in four is the text of an order. The others supply the values of an order.
    let order = match input.byte() % 4 {
        0 => serde_json::from_slice(input.0).unwrap_or(Value::Null),
        _ => match kind.name() {
            "rr" => rr(&mut input),
            "load" => load_order(&mut input),
            "find" => find_order(&mut input),
            "service-meter" => meter_order(&mut input),
            _ => transfer(&mut input),
        },
    };
    let counted = kind.memory_bytes(&order);
    // Orders to send packets are begun at any size: they must be refused, as no interface is permitted.
    let sends = ["load", "find"].contains(&kind.name());
    if counted > BEGUN_BYTES && !sends {
        return;
    }
    let Ok(token) = Token::new() else { return };
    let context = Context { local: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), token, settings: true };
    if let Ok(mut far) = kind.start(&order, &context) {
        assert!(counted > 0, "{order} was begun and not counted");
        assert!(!sends, "{order} was begun by an interface that may not be used");
        assert!(!far.ports().is_empty() || kind.name() == "service-meter", "{order}");
        far.report().expect("it has just begun");
        far.stop();
    }
}

/// A number of any magnitude, or an invalid one.
fn size(input: &mut Bytes<'_>) -> Value {
    let (bits, more) = (input.byte(), input.byte());
    match bits % 80 {
        bits @ 0..64 => json!((1_u64 << bits).wrapping_add(u64::from(more % 3)).wrapping_sub(1)),
        64 => json!(u64::MAX),
        65 => json!(-1),
        66 => Value::Null,
        67 => json!(0.5),
        _ => json!(more),
    }
}

fn seconds(input: &mut Bytes<'_>) -> Value {
    match input.byte() % 8 {
        0 => json!(0.0),
        1 => json!(-1.0),
        2 => json!(1e300),
        3 => json!(1e-320),
        4 => json!(86_400.0),
        _ => json!(input.decade(-3.0, 1.0)),
    }
}

fn switch(input: &mut Bytes<'_>) -> bool {
    input.byte() & 1 != 0
}

fn transfer(input: &mut Bytes<'_>) -> Value {
    let carrier = match input.byte() % 5 {
        0 => json!({ "udp": input.pick(&["single", "batch", "segmented"]) }),
        1 => json!("multipath"),
        _ => json!("tcp"),
    };
    let path = match input.byte() % 6 {
        0 => json!({ "send-own-file": { "bytes": size(input), "cold": false } }),
        1 => json!({ "uring": { "zero_copy": switch(input) } }),
        2 => json!({ "send-file": { "file": "/etc/passwd", "cold": false } }),
        _ => json!(input.pick(&["write", "write-v", "splice", "zero-copy"])),
    };
    let amount = if switch(input) { json!({ "seconds": seconds(input) }) } else { json!({ "bytes": size(input) }) };
    let options = json!({
        "no_delay": switch(input), "congestion": null, "send_buffer_bytes": null, "receive_buffer_bytes": null, "mss_bytes": null,
        "tos": null, "pacing_bps": size(input), "paced_by_sender": switch(input),
    });
    json!({
        "carrier": carrier, "path": path, "options": options, "direction": input.pick(&["send", "receive", "both"]),
        "flows": input.byte() % 9, "block_bytes": size(input), "read_bytes": size(input),
        "receive": input.pick(&["read", "mapped", "uring"]), "warm_up_s": seconds(input), "amount": amount, "windows": size(input),
        "acknowledged": switch(input), "interval_s": seconds(input), "stall_s": seconds(input), "cpu": null,
        "cpus": [input.byte()], "threads": 1 + input.byte() % 4,
    })
}

fn rr(input: &mut Bytes<'_>) -> Value {
    json!({
        "transport": input.pick(&["tcp", "udp", "unix"]), "connect_each": switch(input), "request_bytes": size(input),
        "response_bytes": size(input), "flows": input.byte() % 9, "depth": size(input), "rate_per_s": seconds(input),
        "arrivals": "poisson", "seed": size(input), "warm_up_s": seconds(input), "time_s": seconds(input),
        "timeout_s": seconds(input), "receive": "block", "client_cpu": null, "server_cpu": null,
    })
}

fn load_order(input: &mut Bytes<'_>) -> Value {
    let timing = json!({ "warmup_s": seconds(input), "measured_s": seconds(input), "cooldown_s": seconds(input), "drain_s": seconds(input) });
    let load = match input.byte() % 3 {
        0 => json!({ "flat-out": { "seconds": seconds(input) } }),
        _ => {
            json!({ "paced": { "arrivals": input.pick(&["poisson", "constant"]), "rate_pps": rate(input), "seed": size(input), "timing": timing } })
        }
    };
    let more = json!({ "source": input.byte(), "destination": 9 });
    json!({
        // Addresses of this host: the test must not ask other hosts for their hardware address (ARP).
        "destination": input.pick(&["127.0.0.1:9", "127.255.255.255:0", "127.3.2.1:65535", "0.0.0.0:1"]),
        "destination_mac": if switch(input) { json!([2, 0, 0, 0, 0, input.byte()]) } else { Value::Null },
        "interface": if switch(input) { json!(input.pick(&["lo", "", "none0", "../x", "a/b"])) } else { Value::Null },
        "source_port": size(input), "more_flows": vec![more; usize::from(input.byte() % 5)],
        "vlan": if switch(input) { size(input) } else { Value::Null }, "most_pps": if switch(input) { rate(input) } else { Value::Null },
        "frame_bytes": size(input), "run_id": input.byte(), "max_burst": size(input), "cpu": if switch(input) { size(input) } else { Value::Null },
        "by_control_link": switch(input), "round_trips": switch(input), "load": load,
    })
}

/// Metering of a program by `procfs`, the kernel's tick counts. `ebpf` is left out: to load its programs for each order
/// would take most of the time.
fn meter_order(input: &mut Bytes<'_>) -> Value {
    json!({
        "to": input.pick(&["127.0.0.1:9", "0.0.0.0:0", "192.0.2.7:53", "[::1]:65535", "x"]), "is_udp": switch(input),
        "pid": if switch(input) { json!(std::process::id()) } else { size(input) }, "cpus": vec![size(input); usize::from(input.byte() % 3)],
        "without": if switch(input) { size(input) } else { Value::Null }, "method": input.pick(&["procfs", "soaker", "x"]),
    })
}

/// A rate (packets/s).
fn rate(input: &mut Bytes<'_>) -> Value {
    if switch(input) { json!(input.decade(-3.0, 12.0)) } else { seconds(input) }
}

fn find_order(input: &mut Bytes<'_>) -> Value {
    let sender = json!({
        "interface": input.pick(&["lo", "", "eth0", "a\u{1b}[31m"]), "address": input.pick(&["127.0.0.1", "0.0.0.0", "127.9.9.9"]),
        "by_control_link": switch(input), "clock": null, "fingerprint": {},
    });
    json!({
        "quick": switch(input), "loss": seconds(input), "frame_bytes": size(input), "arrivals": input.pick(&["poisson", "constant"]),
        "work_s": seconds(input), "receive_buffer_bytes": size(input), "repeats": size(input), "trial_s": seconds(input),
        "duration_sum_s": seconds(input), "exceed": size(input), "width": seconds(input), "searches": size(input), "seed": size(input),
        "awake": switch(input), "meter": null, "sender_cpu": size(input), "host_cpu": size(input),
        "checks": [input.pick(&["rps", "coalesce", "x", ""])], "check_loads_pps": vec![rate(input); usize::from(input.byte() % 40)],
        "try_suggestions": switch(input), "queues": size(input), "max_rate_pps": if switch(input) { rate(input) } else { Value::Null },
        "method": null, "command": "fuzz", "started_unix_s": seconds(input), "computes": switch(input), "sender": sender,
    })
}
