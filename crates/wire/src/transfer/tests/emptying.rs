//! What is still under way when the windows are over counts for nothing, and is waited for no longer than it takes as a rule.

use std::time::{Duration, Instant};

use super::*;

/// A connection that the kernel holds to 1 Mbit/s has a block of 1 MiB for 8 s.
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
        // What had not come by then is not counted as received.
        let left = |flow: &Flow| flow.sender.total_bytes > flow.receiver.total_bytes;
        assert!(transfer.flows.iter().all(left), "{transfer:?}");
    }
}

/// The kernel tells of each flow, also while its sender is in a call that lasts for the whole window.
#[test]
fn every_flow_is_asked_while_its_sender_waits() {
    let transfer = made(&Settings { flows: 3, interval_s: Some(0.05), ..slow() });
    for flow in &transfer.flows {
        // Only its sender could tell before, and only once: when the call was over. A busy host may leave some out.
        assert!((2..=7).contains(&flow.tcp.len()), "{:?}", flow.tcp);
        assert!(flow.tcp[0].at_s < 0.2 && flow.tcp.iter().all(|told| told.at_s < 0.5), "{:?}", flow.tcp);
    }
}
