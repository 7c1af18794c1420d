//! Several agents: they start together and are counted separately; an agent that dies or refuses is named.

use super::*;
use netcliff_remote::control::COMMON_START;

fn agents(peers: &[Peer]) -> Vec<Agent> {
    let of = |(number, peer): (usize, &Peer)| Agent {
        name: format!("peer-{number}"),
        session: peer.session(),
        address: LOOPBACK,
    };
    peers.iter().enumerate().map(of).collect()
}

/// Every byte of every agent arrives, in each direction and over datagrams. All agents start at the common start, not
/// before.
#[test]
fn agents_begin_together_and_every_byte_is_some_agent_s() {
    let peers: Vec<Peer> = (0..3).map(|_| Peer::new()).collect();
    let mut agents = agents(&peers);
    for direction in [Direction::Receive, Direction::Send, Direction::Both] {
        let asked = Settings { direction, flows: 2, ..settings(tcp()) };
        let transfer = run_many(&asked, &mut agents, &mut ()).expect("all work");
        assert_eq!(transfer.cut_short, None, "{direction:?}");
        let many = transfer.many.expect("who is whose");
        let of_each = if direction == Direction::Both { 4 } else { 2 };
        assert_eq!(transfer.flows.len(), 3 * of_each);
        for (number, part) in many.agents.iter().enumerate() {
            assert_eq!(
                (part.name.as_str(), &part.flows),
                (&*format!("peer-{number}"), &(number * of_each..(number + 1) * of_each))
            );
            let began_ns = part.began_ns.expect("it tells");
            // A busy machine may be late, but no agent is early.
            assert!((many.start_ns..many.start_ns + 2_000_000_000).contains(&began_ns), "{many:?}");
            assert_eq!(part.clock_error_ns, 0, "one clock");
        }
        for flow in &transfer.flows {
            assert!(flow.sender.total_bytes > 0);
            assert_eq!(flow.sender.total_bytes, flow.receiver.total_bytes, "{direction:?}");
        }
    }
    let asked = Settings { direction: Direction::Receive, block_bytes: 1000, ..settings(udp(DatagramPath::Batch)) };
    let transfer = run_many(&asked, &mut agents, &mut ()).expect("all work");
    assert_eq!((transfer.cut_short, transfer.flows.len()), (None, 3));
}

/// Bursts start together and are complete in order, each after the common start plus its multiple of the period.
#[test]
fn bursts_of_all_agents_are_whole_in_order() {
    let peers: Vec<Peer> = (0..2).map(|_| Peer::new()).collect();
    let mut agents = agents(&peers);
    let burst = Burst { bytes: 20_000, every_ns: 20_000_000 };
    let asked = Settings { direction: Direction::Receive, burst: Some(burst), warm_up_s: 0.0, ..settings(tcp()) };
    let transfer = run_many(&asked, &mut agents, &mut ()).expect("all work");
    assert_eq!(transfer.cut_short, None);
    let start_ns = transfer.many.expect("a start").start_ns;
    for flow in &transfer.flows {
        let whole = &flow.receiver.bursts_ns;
        assert!(whole.len() >= 5, "{whole:?}");
        for (number, whole_ns) in whole.iter().enumerate() {
            assert!(
                *whole_ns >= start_ns + number as u64 * burst.every_ns,
                "burst {number}: {whole:?} since {start_ns}"
            );
        }
    }
    // Far ends receive no bursts, because the near end could not report their times.
    let error = run_many(&Settings { direction: Direction::Send, ..asked }, &mut agents, &mut ()).expect_err("refused");
    assert!(error.to_string().contains("peer-0") && error.to_string().contains("agents send"), "{error}");
}

/// An agent of another version is named with its version. The parts that the other agents had started are ended, so
/// that they can be used again.
#[test]
fn an_agent_that_cannot_wait_for_a_start_is_named() {
    let peers = [Peer::new(), Peer::of(Arc::new(Older))];
    let mut agents = agents(&peers);
    let error = run_many(&settings(tcp()), &mut agents, &mut ()).expect_err("one cannot").to_string();
    for part in ["peer-1", COMMON_START, "netcliff 0", "install the same version"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let transfer = run_many(&settings(tcp()), &mut agents[..1], &mut ()).expect("it works by itself");
    assert_eq!(transfer.cut_short, None);
}

/// If an agent is gone, the transfer ends soon and names the agent.
#[test]
fn an_agent_that_dies_is_named_and_what_was_counted_is_kept() {
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::new()).collect();
    let mut agents = agents(&peers);
    let asked = Settings { direction: Direction::Receive, amount: Amount::Seconds(30.0), ..settings(tcp()) };
    let begin = Instant::now();
    let dying = peers.remove(1);
    let transfer = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(400));
            drop(dying);
        });
        run_many(&asked, &mut agents, &mut ()).expect("it had begun")
    });
    assert!(begin.elapsed() < Duration::from_secs(15), "it does not wait for its 30 s");
    let why = transfer.cut_short.expect("it was cut short");
    assert!(why.contains("peer-1"), "{why}");
    assert!(transfer.flows.iter().all(|flow| flow.receiver.total_bytes > 0), "what was counted is kept");
}
