//! The report of a sending far end arrives complete, also with many flows and intervals.

use super::*;

#[test]
fn the_report_of_many_flows_in_short_intervals_is_no_message_too_long() {
    let settings = Settings {
        direction: Direction::Receive,
        flows: 96,
        threads: Some(2),
        block_bytes: 16 << 10,
        interval_s: Some(0.001),
        warm_up_s: 0.05,
        amount: Amount::Seconds(1.5),
        ..Settings::new(Channel::Tcp { address: LOOPBACK, multipath: false })
    };
    let made = Peer::new().made(&settings);
    assert_eq!(made.cut_short, None);
    // More samples than fit into a message of 1 MiB (an earlier limit), and no more than are stored.
    let samples: usize = made.flows.iter().map(|flow| flow.tcp.len()).sum();
    assert!((1000..=8192 + 96).contains(&samples), "{samples}");
    assert!(made.flows.iter().all(|flow| flow.tcp.len() > 2), "{:?}", made.flows[0].tcp.len());
}
