//! Tests of every sender.

use netcliff_packets::WireError;
use netcliff_packets::port::{ReceiveBy, SendBy, Sending, open_sender};
use netcliff_packets::thread::Placement;
use netcliff_rfc2544::tester::Trial;
use netcliff_rfc2544::tester::frame::IMIX;
use netcliff_rfc2544::tester::run::{Methods, TrialReport};
use netcliff_testkit::{Need, has};

use super::common::{Pair, pair_or_skip};
use super::{TRIAL, alone, both, conserved, direction};

/// Sends by one method and receives by a packet ring.
fn trial(pair: &Pair, sizes: &[usize], send: SendBy, trial: &Trial) -> Result<(Sending, TrialReport), WireError> {
    let by = Methods { send, receive: ReceiveBy::Packet, ..Methods::default() };
    both(&[direction(pair, sizes)], by, trial).map(|(tester, report)| (tester.sending, report))
}

/// Opens a sender in the near namespace and returns the result.
fn opened(pair: &Pair, by: SendBy, length: usize) -> Result<(Sending, Option<String>), WireError> {
    let netns = Some(pair.netns("a"));
    alone(|| {
        Placement { netns, ..Placement::default() }.enter()?;
        let opened = open_sender(by, "v0", &vec![0; length], 32)?;
        Ok((opened.sender.sending(), opened.not_xdp.map(|error| error.to_string())))
    })
}

/// Makes the pair on a kernel with AF_XDP. `None` otherwise; the reason is reported.
fn xdp_pair_or_skip() -> Option<Pair> {
    if !has(Need::AfXdp) {
        return None;
    }
    let pair = pair_or_skip()?;
    opened(&pair, SendBy::Xdp, 60).expect("an AF_XDP socket");
    Some(pair)
}

#[test]
fn xdp_sends_every_size_as_it_is() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    for sizes in [&[64][..], &[1518], &IMIX] {
        let (sending, report) = trial(&pair, sizes, SendBy::Xdp, &TRIAL).expect("it runs");
        // A veth does not support zero-copy.
        assert_eq!(sending, Sending::XdpCopy);
        let one = &report.directions[0];
        conserved(one);
        // At this load the far backlog refuses nothing, even if other programs delay the sender.
        assert!(one.sent > 0 && one.arrived.frames == one.sent, "{sizes:?}: {one:?}");
    }
}

/// Every second frame is too long for the far port. A trial that may lose 100 frames ends early after it has lost them,
/// accounts for the frames sent, and is not void. A trial that may lose all frames continues to its end.
#[test]
fn a_trial_ends_once_it_is_decided() {
    let Some(pair) = pair_or_skip() else { return };
    pair.set_mtu(1000);
    let lossy = Trial { load_pps: 2000.0, duration_s: 20.0, settle_s: 0.3, most_lost: Some(100), ..TRIAL };
    let sent = |lossy: &Trial| trial(&pair, &[64, 1400], SendBy::Packet, lossy).expect("it runs").1;
    // As in searches, a trial in which another program delayed the sender is repeated.
    let made = std::iter::repeat_with(|| sent(&lossy)).take(20).find(|report| report.void.is_none());
    let report = made.expect("one of twenty trials counts");
    let one = &report.directions[0];
    conserved(one);
    // 200 frames are sent in 0.1 s; the wait and two looks follow.
    assert!((0.35..1.5).contains(&report.duration_s), "{report:?}");
    assert_eq!((one.sent, report.void.is_some(), report.stopped), (one.intended, false, false), "{report:?}");
    let expected = report.duration_s * lossy.load_pps;
    assert!((one.sent as f64 / expected - 1.0).abs() < 0.02, "{} of {expected}", one.sent);
    assert!((one.lost() as f64 / one.sent as f64 - 0.5).abs() < 0.02, "{one:?}");
    let whole = sent(&Trial { duration_s: 0.8, most_lost: Some(800), ..lossy });
    assert_eq!((whole.duration_s, whole.directions[0].sent), (0.8, 1600));
}

#[test]
fn more_frames_than_shared_memory_go_round() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let burst = Trial { burst: Some(30_000), load_pps: 1e6, ..TRIAL };
    let (_, report) = trial(&pair, &[64], SendBy::Xdp, &burst).expect("it runs");
    let one = &report.directions[0];
    conserved(one);
    assert_eq!(one.sent, 30_000);
    // Frames that the far end's backlog refused are reported one by one. No other frame may be missing, because the
    // sink had room.
    if one.missed == 0 {
        assert_eq!(one.arrived.frames, one.kicked.accepted, "{one:?}");
    }
}

#[test]
fn auto_says_why_it_is_not_xdp() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    assert_eq!(opened(&pair, SendBy::Auto, 60).expect("it opens"), (Sending::XdpCopy, None));
    assert_eq!(opened(&pair, SendBy::Packet, 60).expect("it opens"), (Sending::PacketRing, None));
    let (sending, why) = opened(&pair, SendBy::Auto, 9014).expect("it opens");
    let why = why.expect("a reason");
    assert!(sending == Sending::PacketRing && why.contains("9018") && why.contains("4100"), "{why}");
    let refused = opened(&pair, SendBy::Xdp, 9014).expect_err("too long").to_string();
    assert!(refused.contains("9018"), "{refused}");
}

#[test]
fn a_queue_that_another_socket_has_is_left_to_it() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let netns = Some(pair.netns("a"));
    alone(|| {
        Placement { netns, ..Placement::default() }.enter().expect("it is there");
        let first = open_sender(SendBy::Xdp, "v0", &[0; 60], 32).expect("it opens");
        let refused = open_sender(SendBy::Xdp, "v0", &[0; 60], 32).expect_err("taken").to_string();
        assert!(refused.contains("first queue") && refused.contains("busy"), "{refused}");
        let other = open_sender(SendBy::Auto, "v0", &[0; 60], 32).expect("by another way");
        assert_eq!(other.sender.sending(), Sending::PacketRing);
        assert_eq!(first.sender.sending(), Sending::XdpCopy);
    });
}

#[test]
fn a_port_that_is_down_or_goes_down_is_named() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let long = Trial { duration_s: 2.0, ..TRIAL };
    for by in [SendBy::Packet, SendBy::Xdp] {
        let ended = std::thread::scope(|scope| {
            let flight = scope.spawn(|| trial(&pair, &[64], by, &long));
            std::thread::sleep(std::time::Duration::from_millis(400));
            pair.set_sender("down");
            flight.join().expect("it does not panic")
        });
        let error = ended.expect_err("the port is down").to_string();
        assert!(error.contains("v0 has no carrier") && error.contains("ip link set dev v0 up"), "{by:?}: {error}");
        let refused = opened(&pair, by, 60).expect_err("the port is down");
        assert!(matches!(&refused, WireError::NoCarrier { interface } if interface == "v0"), "{by:?}: {refused}");
        pair.set_sender("up");
    }
}
