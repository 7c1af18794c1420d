//! Data under way after the windows do not count, and the ends wait only a bounded time for them.

use std::time::{Duration, Instant};

use super::*;

/// The kernel paces the connection at 1 Mbit/s, so that a block of 1 MiB takes 8 s.
fn slow() -> Settings {
    let mut settings = settings(tcp(), 1 << 20);
    settings.options.pacing_bps = Some(1_000_000);
    settings.stall_s = 20.0;
    settings
}

#[test]
fn buffers_are_not_emptied_for_ever() {
    for threads in [None, Some(1)] {
        let (mut settings, begin) = (slow(), Instant::now());
        (settings.flows, settings.threads) = (2, threads);
        let transfer = made(&settings);
        assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
        assert_eq!(transfer.cut_short, None);
        // Bytes that had not arrived by then do not count as received.
        let left = |flow: &Flow| flow.sender.total_bytes > flow.receiver.total_bytes;
        assert!(transfer.flows.iter().all(left), "{transfer:?}");
    }
}

/// TCP_INFO of each flow is sampled, even while its sender is in a call that lasts for the whole window.
#[test]
fn every_flow_is_asked_while_its_sender_waits() {
    let transfer = made(&Settings { flows: 3, interval_s: Some(0.05), ..slow() });
    for flow in &transfer.flows {
        // Sampling in the sender's own thread would give one sample, after the call. A busy host may skip some.
        assert!((2..=7).contains(&flow.tcp.len()), "{:?}", flow.tcp);
        assert!(flow.tcp[0].at_s < 0.2 && flow.tcp.iter().all(|told| told.at_s < 0.5), "{:?}", flow.tcp);
    }
}
