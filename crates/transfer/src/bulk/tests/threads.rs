//! Many flows served by few threads.

use super::*;

/// Settings of `flows` flows with `threads` threads at each end.
fn over(threads: u32, flows: u32, settings: Settings) -> Settings {
    Settings { flows, threads: Some(threads), ..settings }
}

/// A transfer in which every end has its window: on a busy machine a thread may get no CPU during a whole window, and
/// then has none.
fn undisturbed(settings: &Settings) -> Transfer {
    let whole = |flow: &Flow| flow.sender.windows.len() == 1 && flow.receiver.windows.len() == 1;
    let transfer = || Some(made(settings)).filter(|transfer| transfer.flows.iter().all(whole));
    netcliff_testkit::retried(5, "an end without its window", transfer)
}

/// Checks that every flow received all bytes that were sent, and has its windows.
fn check(transfer: &Transfer, flows: usize, what: &str) {
    assert_eq!(transfer.cut_short, None, "{what}");
    assert_eq!(transfer.flows.len(), flows, "{what}");
    for (number, flow) in transfer.flows.iter().enumerate() {
        assert!(flow.receiver.total_bytes > 0, "{what}: flow {number} starved: {flow:?}");
        assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes, "{what}: flow {number}");
        assert_eq!((flow.sender.windows.len(), flow.receiver.windows.len()), (1, 1), "{what}: flow {number}");
    }
}

#[test]
fn every_byte_of_every_flow_is_received_in_each_direction() {
    for channel in [tcp(), Channel::Unix] {
        for direction in [Direction::Send, Direction::Receive, Direction::Both] {
            for (block_bytes, threads) in [(1, 1), (1448, 2), (1 << 20, 3)] {
                let asked = over(threads, 5, Settings { direction, ..settings(channel.clone(), block_bytes) });
                let flows = if direction == Direction::Both { 10 } else { 5 };
                check(&undisturbed(&asked), flows, &format!("{channel:?} {direction:?} {block_bytes}"));
            }
        }
    }
}

#[test]
fn every_way_that_a_thread_can_share_sends_and_receives() {
    for path in
        [SendPath::Write, SendPath::WriteV, SendPath::Splice, SendPath::SendOwnFile { bytes: 300_001, cold: false }]
    {
        check(
            &undisturbed(&over(2, 4, Settings { path: path.clone(), ..settings(tcp(), 100_000) })),
            4,
            &format!("{path:?}"),
        );
    }
    let mapped = over(1, 2, Settings { receive: ReceivePath::Mapped, ..settings(tcp(), 64 << 10) });
    check(&undisturbed(&mapped), 2, "mapped");
    let marked =
        over(1, 3, Settings { low_water_bytes: Some(32 << 10), read_bytes: 128 << 10, ..settings(tcp(), 4096) });
    check(&undisturbed(&marked), 3, "low water");
}

#[test]
fn multipath_is_served_by_turns_or_refused_by_name() {
    let channel = Channel::Tcp { address: LOOPBACK, multipath: true };
    match run(&over(1, 3, settings(channel, 4096)), &mut ()) {
        Ok(transfer) => check(&transfer, 3, "multipath"),
        Err(error) => assert!(error.to_string().contains("Multipath TCP"), "{error}"),
    }
}

#[test]
fn a_hundred_flows_over_two_threads_all_move() {
    for direction in [Direction::Send, Direction::Both] {
        let asked = over(2, 100, Settings { direction, ..settings(tcp(), 16 << 10) });
        let transfer = undisturbed(&Settings { amount: Amount::Seconds(1.0), interval_s: Some(0.2), ..asked });
        check(&transfer, if direction == Direction::Both { 200 } else { 100 }, &format!("{direction:?}"));
        for flow in &transfer.flows {
            assert!(flow.tcp.len() >= 2, "its connection was asked: {flow:?}");
            assert!(flow.in_force.as_ref().is_some_and(|held| held.congestion.is_some()));
        }
    }
}

#[test]
fn flows_are_served_by_turns_and_none_far_more_than_another() {
    let asked = Settings { warm_up_s: 0.1, amount: Amount::Seconds(1.0), ..settings(Channel::Unix, 4096) };
    let transfer = made(&over(1, 8, asked));
    let bytes: Vec<u64> = transfer.flows.iter().map(|flow| flow.receiver.windows[0].bytes).collect();
    let (least, most) = (bytes.iter().min().expect("eight"), bytes.iter().max().expect("eight"));
    // Equal flows of one thread have equal turns; the queue lengths at the end of a window differ.
    assert!(*least * 4 > *most, "{bytes:?}");
}

#[test]
fn a_number_of_bytes_ends_each_flow_by_itself() {
    let bytes =
        Settings { amount: Amount::Bytes(1_000_001), warm_up_s: 0.0, read_bytes: 10_000, ..settings(tcp(), 10_000) };
    let transfer = made(&over(2, 7, bytes.clone()));
    check(&transfer, 7, "bytes");
    for flow in &transfer.flows {
        // A call may send less than its block: then the last call exceeds the amount by less than a block.
        assert!((1_010_000..1_020_000).contains(&flow.sender.windows[0].bytes), "{flow:?}");
    }
    let windows = Settings { amount: Amount::Bytes(100_000), windows: 3, warm_up_s: 0.0, ..bytes };
    for flow in &made(&over(1, 3, windows)).flows {
        assert_eq!((flow.sender.windows.len(), flow.receiver.windows.len()), (3, 3), "{flow:?}");
    }
}

#[test]
fn datagrams_are_served_by_turns_and_counted() {
    for path in [DatagramPath::Single, DatagramPath::Batch, DatagramPath::Segmented] {
        let mut asked = Settings { direction: Direction::Both, ..settings(udp(path), 1000) };
        asked.options.receive_buffer_bytes = Some(1 << 20);
        let transfer = made(&over(1, 3, asked));
        assert_eq!(transfer.cut_short, None, "{path:?}");
        for flow in &transfer.flows {
            let (sent, got) = (flow.sender.datagrams.expect("counted"), flow.receiver.datagrams.expect("counted"));
            assert!(got.moved > 0 && got.moved <= sent.moved, "{path:?} {sent:?} {got:?}");
            // A thread that moves to another CPU leaves datagrams in the backlog of its old CPU.
            assert!(got.duplicates == 0 && got.reordered * 10 <= got.moved, "{path:?} {got:?}");
        }
    }
}

#[test]
fn paced_flows_of_one_thread_keep_to_their_rates() {
    let options = SocketOptions { pacing_bps: Some(8_000_000), paced_by_sender: true, ..SocketOptions::default() };
    for (channel, block_bytes) in [(tcp(), 10_000), (udp(DatagramPath::Single), 1000)] {
        let asked = Settings { options: options.clone(), ..settings(channel.clone(), block_bytes) };
        let transfer = made(&over(1, 10, Settings { amount: Amount::Seconds(1.0), ..asked }));
        assert_eq!(transfer.cut_short, None, "{channel:?}");
        for flow in &transfer.flows {
            let pacing = flow.sender.pacing.expect("it was paced");
            // The sender never exceeds the requested rate. A busy machine may fall behind, and then the sender reports
            // it.
            assert!(pacing.asked_bps == 8e6 && pacing.sent_bps <= 8.1e6, "{channel:?} {pacing:?}");
            assert!(pacing.sent_bps > 7e6 || pacing.given_up_s > 0.0, "{channel:?} {pacing:?}");
            assert!(flow.receiver.total_bytes > 0, "{channel:?} {flow:?}");
        }
    }
}

#[test]
fn a_shared_threads_time_is_divided_among_its_flows() {
    let transfer = made(&over(1, 8, Settings { amount: Amount::Seconds(0.5), ..settings(Channel::Unix, 4096) }));
    for end in [|flow: &Flow| flow.sender.windows[0], |flow: &Flow| flow.receiver.windows[0]] {
        let windows: Vec<Window> = transfer.flows.iter().map(end).collect();
        let busy: f64 =
            windows.iter().map(|window| (window.cpu.user_s + window.cpu.system_s) / window.cpu.wall_s).sum();
        // The tolerance covers getrusage's resolution of a microsecond and windows that differ by a turn.
        assert!(busy > 0.0 && busy < 1.2, "{busy}: {windows:?}");
        assert!(windows.iter().all(|window| window.thread_flows == Some(8)));
    }
    let own = made(&over(2, 2, settings(Channel::Unix, 4096)));
    assert!(own.flows.iter().all(|flow| flow.sender.windows[0].thread_flows.is_none()), "a thread each: {own:?}");
}

#[test]
fn threads_use_cpus_and_flows_use_threads_round_robin() {
    let spread = Settings { near_cpus: vec![4, 5, 6], ..over(2, 5, settings(tcp(), 4096)) };
    let near: Vec<Option<usize>> = (0..5).map(|flow| spread.near_placement(flow).cpu).collect();
    assert_eq!(near, [4, 5, 4, 5, 4].map(Some));
    let each = Settings { threads: Some(9), ..spread.clone() };
    assert_eq!((each.shared_threads(), each.near_placement(2).cpu), (None, Some(6)));
    assert_eq!(Settings { threads: None, ..spread.clone() }.near_placement(3).cpu, Some(4));
    let both = Settings { threads: Some(9), direction: Direction::Both, ..spread };
    assert_eq!(both.shared_threads(), Some(9), "an end has ten flows then");
}

#[test]
fn more_threads_than_cpus_or_flows_are_no_matter() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    check(&made(&over(2 * cpus + 1, 4 * cpus + 4, settings(tcp(), 4096))), 4 * cpus as usize + 4, "more than CPUs");
    check(&made(&over(100, 2, settings(tcp(), 4096))), 2, "more than flows");
}

#[test]
fn what_a_shared_thread_cannot_do_is_refused_by_name() {
    let refused = |change: fn(&mut Settings)| {
        let mut changed = over(1, 2, settings(tcp(), 4096));
        change(&mut changed);
        run(&changed, &mut ()).expect_err("refused").to_string()
    };
    assert!(refused(|s| s.threads = Some(0)).contains("threads is 0: expected at least 1 thread"));
    assert!(refused(|s| s.path = SendPath::ZeroCopy).contains("path zerocopy"));
    assert!(refused(|s| s.path = SendPath::Uring { zero_copy: true }).contains("path uring-zc"));
    assert!(refused(|s| s.receive = ReceivePath::Uring).contains("receive uring"));
    assert!(refused(|s| s.channel = Channel::Pipe).contains("channel pipe"));
    let acked = |s: &mut Settings| (s.acknowledged, s.amount, s.warm_up_s) = (true, Amount::Bytes(10_000), 0.0);
    assert!(refused(acked).contains("method acked"));
    // With one thread for each flow, nothing is refused.
    let mut own = over(2, 2, settings(tcp(), 4096));
    acked(&mut own);
    check(&made(&own), 2, "acked");
}

#[test]
fn a_shared_thread_that_is_stopped_keeps_what_its_flows_counted() {
    let stop = Arc::<AtomicBool>::default();
    let long = Settings { amount: Amount::Seconds(600.0), stop: Some(Arc::clone(&stop)), ..settings(tcp(), 4096) };
    let transfer = run(&over(2, 6, long), &mut Raise(stop)).expect("what was counted is kept");
    assert!(transfer.cut_short.as_ref().is_some_and(|why| why.contains("stopped")), "{:?}", transfer.cut_short);
    assert!(transfer.flows.iter().any(|flow| flow.receiver.total_bytes > 0));
}

#[test]
fn a_failure_of_one_flow_is_told_and_the_others_counts_are_kept() {
    let (path, mut file) = tempfile();
    file.write_all(&vec![7; 4 << 20]).expect("room in /tmp");
    let send = SendPath::SendFile { file: path.clone(), cold: false };
    let long = Settings { path: send, amount: Amount::Seconds(30.0), ..settings(tcp(), 4096) };
    let transfer = run(&over(1, 3, long), &mut Shrink(file)).expect("what was sent is kept");
    std::fs::remove_file(path).expect("it was there");
    let why = transfer.cut_short.clone().expect("it was cut short");
    assert!(why.contains("it shrank while it was sent"), "{why}");
    assert!(transfer.flows.iter().any(|flow| flow.receiver.total_bytes > 0));
}

#[test]
fn an_end_that_cannot_begin_is_named_and_ends_all() {
    let elsewhere = Channel::Tcp { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), multipath: false };
    let error = run(&over(2, 6, settings(elsewhere, 1)), &mut ()).expect_err("not ours").to_string();
    assert!(error.contains("192.0.2.1") && error.contains("not configured"), "{error}");
    let wrong = Settings { far_cpus: vec![0, 100_000], ..over(2, 6, settings(tcp(), 4096)) };
    let error = run(&wrong, &mut ()).expect_err("no such CPU").to_string();
    assert!(error.contains("cpu is 100000"), "{error}");
}
