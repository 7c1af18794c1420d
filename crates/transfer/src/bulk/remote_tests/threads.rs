//! Many flows over few threads at two ends.

use super::*;
use netcliff_remote::control::SHARED_THREADS;

fn over(threads: u32, flows: u32, settings: Settings) -> Settings {
    Settings { flows, threads: Some(threads), ..settings }
}

#[test]
fn a_hundred_flows_over_two_threads_of_each_end() {
    let peer = Peer::new();
    for direction in [Direction::Send, Direction::Receive, Direction::Both] {
        let asked = over(2, 100, Settings { direction, amount: Amount::Seconds(0.7), ..settings(tcp()) });
        let transfer = peer.made(&asked);
        assert_eq!(transfer.cut_short, None, "{direction:?}");
        for (number, flow) in transfer.flows.iter().enumerate() {
            assert!(flow.receiver.total_bytes > 0, "{direction:?}: flow {number} starved");
            assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes, "{direction:?}: flow {number}");
            assert!(flow.tcp.len() >= 2, "{direction:?}: flow {number}");
            for end in [&flow.sender, &flow.receiver] {
                assert_eq!(end.windows.len(), 1, "{direction:?}: flow {number}");
                let sharers = if direction == Direction::Both { 100 } else { 50 };
                assert_eq!(end.windows[0].thread_flows, Some(sharers), "{direction:?}: both ends share");
            }
        }
    }
}

#[test]
fn datagrams_of_shared_threads_hear_the_end_of_each_flow() {
    let peer = Peer::new();
    for path in [DatagramPath::Single, DatagramPath::Segmented] {
        let mut asked = Settings { direction: Direction::Both, block_bytes: 1000, ..settings(udp(path)) };
        asked.options.receive_buffer_bytes = Some(1 << 20);
        let begin = Instant::now();
        let transfer = peer.made(&over(1, 4, asked.clone()));
        assert_eq!(transfer.cut_short, None, "{path:?}");
        assert!(begin.elapsed().as_secs_f64() < asked.stall_s, "{path:?}: the end marks were heard");
        for flow in &transfer.flows {
            let (sent, got) = (flow.sender.datagrams.expect("counted"), flow.receiver.datagrams.expect("counted"));
            assert!(got.moved > 0 && got.moved <= sent.moved, "{path:?} {sent:?} {got:?}");
        }
    }
}

#[test]
fn paced_flows_and_windows_of_bytes_hold_between_ends() {
    let peer = Peer::new();
    let mut paced = Settings { amount: Amount::Seconds(0.5), ..settings(tcp()) };
    paced.options = SocketOptions { pacing_bps: Some(8_000_000), paced_by_sender: true, ..SocketOptions::default() };
    for flow in &peer.made(&over(1, 10, Settings { direction: Direction::Receive, ..paced })).flows {
        let pacing = flow.sender.pacing.expect("the far end paced it");
        assert!(pacing.sent_bps <= 8.1e6 && (pacing.sent_bps > 7e6 || pacing.given_up_s > 0.0), "{pacing:?}");
    }
    for direction in [Direction::Send, Direction::Receive] {
        let bytes = Settings { amount: Amount::Bytes(2_000_000), windows: 2, direction, ..settings(tcp()) };
        let transfer = peer.made(&over(2, 5, bytes));
        assert_eq!(transfer.cut_short, None, "{direction:?}");
        for flow in &transfer.flows {
            assert_eq!(flow.receiver.windows.len(), 2, "{direction:?}");
            assert!(flow.receiver.windows.iter().all(|window| window.bytes >= 2_000_000), "{flow:?}");
        }
    }
}

#[test]
fn an_older_agent_is_told_of_and_asked_for_nothing() {
    let older = Peer::of(Arc::new(Older));
    let asked = over(1, 2, settings(tcp()));
    let said = run_with(&asked, &mut older.session(), LOOPBACK, &mut ()).expect_err("it would not be done").to_string();
    assert!(said.contains(SHARED_THREADS) && said.contains("same version on both hosts"), "{said}");
    // An old agent supports only one thread per flow.
    let transfer = older.made(&over(2, 2, settings(tcp())));
    assert_eq!((transfer.cut_short, transfer.flows.len()), (None, 2));
}

#[test]
fn an_agent_refuses_threads_that_cannot_be() {
    let peer = Peer::new();
    let mut order =
        serde_json::to_value(FarEndRequest::of(&over(1, 2, settings(tcp()))).expect("in range")).expect("text");
    order["threads"] = 0.into();
    let said = peer.session().start(TransferKind::NAME, &order).expect_err("refused").to_string();
    assert!(said.contains("threads is 0"), "{said}");
}

#[test]
fn a_far_end_that_goes_is_told_and_every_flows_count_is_kept() {
    for channel in [tcp(), udp(DatagramPath::Single)] {
        let peer = Peer::new();
        let mut session = peer.session();
        let asked = Settings { block_bytes: 1000, amount: Amount::Seconds(600.0), ..settings(channel.clone()) };
        let begin = Instant::now();
        let leave = &mut Raise(Arc::clone(&peer.stop));
        let transfer = run_with(&over(1, 4, asked), &mut session, LOOPBACK, leave).expect("what was counted");
        assert!(begin.elapsed() < Duration::from_secs(20), "{channel:?}");
        assert!(transfer.cut_short.as_ref().is_some_and(|why| why.contains("far end")), "{:?}", transfer.cut_short);
        assert!(transfer.flows.iter().all(|flow| flow.sender.total_bytes > 0), "{channel:?}");
    }
}
