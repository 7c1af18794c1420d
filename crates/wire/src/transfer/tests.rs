use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};

use super::*;

const LOOPBACK: Channel = Channel::Tcp { address: IpAddr::V4(Ipv4Addr::LOCALHOST), no_delay: true };

fn settings(channel: Channel, block_bytes: usize) -> Settings {
    Settings {
        channel,
        block_bytes,
        read_bytes: 128 << 10,
        warm_up_s: 0.05,
        time_s: 0.1,
        sender: Placement::default(),
        receiver: Placement::default(),
    }
}

#[test]
fn every_byte_sent_is_received() {
    for channel in [LOOPBACK, Channel::Unix, Channel::Pipe] {
        for block_bytes in [1, 1448, 1 << 20] {
            let transfer = run(&settings(channel, block_bytes)).expect("both ends work");
            let (sent, received) = (transfer.sender, transfer.receiver);
            assert!(sent.total_bytes > 0, "{channel:?} {block_bytes}");
            assert_eq!(sent.total_bytes, received.total_bytes, "{channel:?} {block_bytes}");
        }
    }
}

#[test]
fn the_warm_up_is_not_in_the_window() {
    let transfer = run(&settings(Channel::Unix, 4096)).expect("both ends work");
    for end in [transfer.sender, transfer.receiver] {
        let window = end.window.expect("the window opened");
        assert!(window.bytes > 0 && window.bytes < end.total_bytes, "{end:?}");
        // The warm-up is over at the first call after 0.05 s; the window can only lose by that.
        assert!(window.cpu.wall_s > 0.02, "{end:?}");
        assert!(window.calls > 0 && window.calls <= window.bytes, "{end:?}");
        assert!(window.service_demand_us_per_kib().is_some());
    }
}

#[test]
fn a_small_block_is_one_call_each() {
    let window = run(&settings(Channel::Pipe, 1)).expect("both ends work").sender.window.expect("it opened");
    assert_eq!(window.calls, window.bytes);
}

#[test]
fn goodput_and_service_demand_follow_from_the_counts() {
    let cpu = crate::thread::CpuUse { wall_s: 2.0, user_s: 0.25, system_s: 0.75, ..Default::default() };
    let window = Window { bytes: 1_024_000, calls: 1000, cpu };
    assert_eq!(window.goodput_bps(), Some(4_096_000.0));
    assert_eq!(window.service_demand_us_per_kib(), Some(1000.0));
    assert_eq!(Window { bytes: 0, ..window }.service_demand_us_per_kib(), None);
}

#[test]
fn settings_out_of_range_are_named() {
    let refused = |change: fn(&mut Settings)| {
        let mut changed = settings(Channel::Pipe, 1);
        change(&mut changed);
        run(&changed).expect_err("out of range").to_string()
    };
    assert!(refused(|s| s.block_bytes = 0).contains("block_bytes is 0"));
    assert!(refused(|s| s.block_bytes = 1 << 40).contains("1 to 16777216 bytes"));
    assert!(refused(|s| s.read_bytes = 0).contains("read_bytes is 0"));
    assert!(refused(|s| s.time_s = 0.0).contains("time_s is 0"));
    assert!(refused(|s| s.time_s = 1e9).contains("time_s is 1000000000"));
    assert!(refused(|s| s.warm_up_s = f64::NAN).contains("warm_up_s is NaN"));
}

#[test]
fn an_address_of_another_host_is_named_and_ends_both_ends() {
    // 192.0.2.0/24 is for documentation: no host has it.
    let elsewhere = Channel::Tcp { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), no_delay: false };
    let error = run(&settings(elsewhere, 1)).expect_err("not ours").to_string();
    assert!(error.contains("192.0.2.1") && error.contains("not configured"), "{error}");
}

#[test]
fn a_cpu_that_does_not_exist_ends_both_ends() {
    let mut changed = settings(LOOPBACK, 1);
    changed.sender.cpu = Some(100_000);
    let error = run(&changed).expect_err("no such CPU").to_string();
    assert!(error.contains("cpu is 100000"), "{error}");
}

/// Reads a little, then fails.
struct Failing<R>(R, u32);

impl<R: Read> Read for Failing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1.checked_sub(1).ok_or(io::ErrorKind::ConnectionReset)?;
        self.0.read(buffer)
    }
}

#[test]
fn a_receiver_that_fails_ends_the_sender_and_is_told() {
    let mut long = settings(Channel::Unix, 4096);
    long.time_s = 600.0;
    let (sender, receiver) = open::unix().expect("a pair");
    let spans = long.spans().expect("in range");
    let error = end::between(&long, spans, || Ok(Some(sender)), || Ok(Some(Failing(receiver, 3))))
        .expect_err("the receiver failed")
        .to_string();
    assert!(error.contains("read up to 131072 bytes"), "{error}");
}
