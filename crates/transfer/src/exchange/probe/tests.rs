use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use super::*;
use crate::exchange::server::Server;

/// Every request has a time, and every answered one has a round trip that contains the far end's time. Tested on both
/// transports.
#[test]
fn requests_are_answered_in_time() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let token = Token::new().expect("random bytes");
        let local = Ipv4Addr::LOCALHOST.into();
        let server = Server::listen(&settings(transport), local, token, &Placement::default()).expect("loopback");
        let target = (SocketAddr::new(local, server.ports()[0]), token);
        let prober =
            Prober::start(transport, Duration::from_millis(2), target, Placement::default()).expect("loopback");
        thread::sleep(Duration::from_millis(120));
        let found = prober.end();
        assert_eq!(found.failed, None, "{transport:?}");
        let answered: Vec<_> = found.trips.iter().filter(|trip| trip.answered_ns.is_some()).collect();
        assert!(answered.len() >= 5, "{transport:?}: {} of {}", answered.len(), found.trips.len());
        for trip in answered {
            let answered_ns = trip.answered_ns.unwrap_or(0);
            assert!(trip.due_ns <= trip.sent_ns && trip.sent_ns <= trip.arrived_ns, "{trip:?}");
            assert!(trip.arrived_ns <= answered_ns, "{trip:?}");
        }
    }
}

/// A server that is gone ends the probe with an error message: for TCP, and for UDP on this host, whose kernel refuses
/// datagrams to a closed port.
#[test]
fn a_far_end_that_dies_is_told() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let token = Token::new().expect("random bytes");
        let local = Ipv4Addr::LOCALHOST.into();
        let server = Server::listen(&settings(transport), local, token, &Placement::default()).expect("loopback");
        let target = (SocketAddr::new(local, server.ports()[0]), token);
        let prober =
            Prober::start(transport, Duration::from_millis(2), target, Placement::default()).expect("loopback");
        thread::sleep(Duration::from_millis(50));
        drop(server);
        thread::sleep(Duration::from_millis(50));
        let found = prober.end();
        let told = found.failed.expect("it is told");
        assert!(told.contains("failed: "), "{transport:?}: {told}");
        assert!(found.trips.iter().any(|trip| trip.answered_ns.is_some()), "{transport:?}");
    }
}

/// Bytes queued in a socket are seen at the end that holds them, and the socket is released.
#[test]
fn queues_of_sockets_are_seen() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let sender = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
    let (receiver, _) = listener.accept().expect("it has connected");
    let observer = Observer::start(Placement::default()).expect("a thread");
    let doubled = |socket: &TcpStream| -> OwnedFd { socket.try_clone().expect("a descriptor").into() };
    observer.watch(vec![(true, doubled(&sender)), (false, doubled(&receiver))]);
    std::io::Write::write_all(&mut &sender, &[0; 100_000]).expect("it fits");
    thread::sleep(Duration::from_millis(150));
    let found = observer.end();
    let waits = |queue: &Queue| {
        let of = |seen: &Observed| seen.queues.iter().find(|(seen, _)| seen == queue).map(|(_, waits)| *waits);
        found.iter().filter_map(of).max()
    };
    assert!(waits(&Queue::ReceiveBuffers).is_some_and(|bytes| bytes >= 50_000), "{found:?}");
    assert!(waits(&Queue::SendBuffers).is_some(), "{found:?}");
}
