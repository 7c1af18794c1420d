//! Tests of every receiver.

use std::process::Command;
use std::time::{Duration, Instant};

use netcliff_packets::WireError;
use netcliff_packets::port::{ReceiveBy, Receiving, SendBy, Sending, open_receiver};
use netcliff_packets::thread::Placement;
use netcliff_rfc2544::tester::Direction;
use netcliff_rfc2544::tester::Trial;
use netcliff_rfc2544::tester::frame::IMIX;
use netcliff_rfc2544::tester::run::{Methods, TrialReport};
use netcliff_rfc2544::tester::stamps::Stamps;
use netcliff_testkit::{Need, has};

use super::common::{Pair, pair_or_skip};
use super::{TRIAL, alone, both, conserved, direction};

const XDP: Methods = Methods { send: SendBy::Packet, receive: ReceiveBy::Xdp, stamps: Stamps::Application };

/// Opens a receiver in the far namespace and returns the result. `look` sees the port while the receiver is open.
fn opened<T: Send>(
    pair: &Pair,
    by: ReceiveBy,
    longest: usize,
    look: impl FnOnce(Receiving, Option<String>) -> T + Send,
) -> Result<T, WireError> {
    let netns = Some(pair.netns("b"));
    alone(|| {
        Placement { netns, ..Placement::default() }.enter()?;
        let opened = open_receiver(by, "v1", longest)?;
        Ok(look(opened.receiver.receiving(), opened.not_xdp.map(|error| error.to_string())))
    })
}

/// Makes the pair on a kernel whose AF_XDP can receive. `None` otherwise; the reason is reported.
fn xdp_pair_or_skip() -> Option<Pair> {
    if !has(Need::AfXdp) {
        return None;
    }
    let pair = pair_or_skip()?;
    opened(&pair, ReceiveBy::Xdp, 60, |_, _| ()).expect("AF_XDP receives");
    Some(pair)
}

/// The output of `ip` for the far port.
fn shown(pair: &Pair) -> String {
    let namespace = pair.netns("b");
    let name = namespace.file_name().expect("a name").to_owned();
    let output = Command::new("ip").arg("-n").arg(name).args(["link", "show", "v1"]).output().expect("ip runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn trial(pair: &Pair, direction: Direction, trial: &Trial) -> TrialReport {
    let (tester, report) = both(&[direction], XDP, trial).expect("it runs");
    assert_eq!((tester.receiving, tester.not_received_by_xdp), (Receiving::XdpGeneric, None));
    assert!(!shown(pair).contains("xdp"), "the program is still attached");
    report
}

#[test]
fn xdp_takes_in_every_size_as_it_was_sent() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    pair.set_mtu(4000);
    // 1796 and 3844 bytes are the longest frames, with FCS, that fit slots of 2048 and 4096 bytes after 256 bytes of
    // headroom.
    for sizes in [&[64][..], &[1518], &[1796], &[3844], &IMIX] {
        let report = trial(&pair, direction(&pair, sizes), &TRIAL);
        let one = &report.directions[0];
        conserved(one);
        assert!(one.sent > 0 && one.arrived.frames == one.sent, "{sizes:?}: {one:?}");
        // The program takes the timestamps. Over a veth a frame takes microseconds, on a busy machine a little longer.
        let p50_s = one.latency.summary().expect("frames came").p50_s;
        assert!(p50_s > 0.0 && p50_s < 0.02, "{sizes:?}: {p50_s} s");
    }
}

#[test]
fn tags_and_ipv6_are_seen_through() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let mut tagged = direction(&pair, &[128]);
    tagged.profile.vlan = Some(7);
    let mut ipv6 = direction(&pair, &[128]);
    ipv6.profile.source = [0x2001, 2, 0, 0, 0, 0, 0, 2].into();
    ipv6.profile.destination = [0x2001, 2, 0, 1, 0, 0, 0, 2].into();
    let mut both = ipv6.clone();
    both.profile.vlan = Some(7);
    for direction in [tagged, ipv6, both] {
        let what = format!("{:?}", direction.profile);
        let report = trial(&pair, direction, &TRIAL);
        let one = &report.directions[0];
        conserved(one);
        assert!(one.sent > 0 && one.arrived.frames == one.sent, "{what}: {one:?}");
    }
}

#[test]
fn more_frames_than_the_sinks_memory_go_round() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let burst = Trial { burst: Some(80_000), load_pps: 1e6, ..TRIAL };
    let report = trial(&pair, direction(&pair, &[64]), &burst);
    let one = &report.directions[0];
    conserved(one);
    assert_eq!(one.sent, 80_000);
    // Each frame that the far end accepted was read, or found the ring full.
    assert_eq!(one.arrived.frames + one.missed, one.kicked.accepted, "{one:?}");
}

/// The kernel still answers frames that are not UDP.
#[test]
fn the_kernel_keeps_what_is_not_udp() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let name = pair.netns("a").file_name().expect("a name").to_owned();
    let answered = opened(&pair, ReceiveBy::Xdp, 60, |_, _| {
        let ping = ["netns", "exec"].map(Into::into).into_iter().chain([name]);
        Command::new("ip").args(ping).args(["ping", "-c", "1", "-W", "2", "10.199.7.2"]).output()
    });
    match answered.expect("it opens") {
        Ok(output) if output.status.code() != Some(255) && !output.stdout.is_empty() => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        // This machine has no `ping` program.
        _ => {}
    }
}

#[test]
fn auto_is_a_ring_on_a_veth_and_what_does_not_fit_is_refused() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let said = |by, longest| opened(&pair, by, longest, |receiving, why| (receiving, why));
    assert_eq!(said(ReceiveBy::Auto, 60).expect("it opens"), (Receiving::PacketRing, None));
    assert_eq!(said(ReceiveBy::Packet, 9014).expect("it opens"), (Receiving::PacketRing, None));
    assert_eq!(said(ReceiveBy::Xdp, 3840).expect("it opens"), (Receiving::XdpGeneric, None));
    let refused = said(ReceiveBy::Xdp, 9014).expect_err("too long").to_string();
    assert!(refused.contains("9018") && refused.contains("3844"), "{refused}");
}

#[test]
fn both_ways_each_port_sends_and_takes_in() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    pair.set_mtu(4000);
    for sizes in [&[64][..], &[1900]] {
        let there = direction(&pair, sizes);
        let mut back = there.clone();
        std::mem::swap(&mut back.from, &mut back.to);
        let ways = [there, back];
        for (send, receive) in
            [(SendBy::Xdp, ReceiveBy::Xdp), (SendBy::Packet, ReceiveBy::Xdp), (SendBy::Auto, ReceiveBy::Auto)]
        {
            let (tester, report) = both(&ways, Methods { send, receive, ..XDP }, &TRIAL).expect("it runs");
            assert_eq!(tester.receiving == Receiving::XdpGeneric, receive == ReceiveBy::Xdp);
            assert_eq!(tester.sending == Sending::XdpCopy, send != SendBy::Packet);
            for one in &report.directions {
                conserved(one);
                assert!(one.sent > 0 && one.arrived.frames == one.sent, "{sizes:?} {send:?} {receive:?}: {one:?}");
            }
        }
    }
}

/// The mode of the XDP program can be chosen. In native mode, the veth driver runs the program, and the kernel builds
/// no packet (`sk_buff`) from the frame.
#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so on stdout")]
fn the_program_runs_where_it_is_asked_to() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    for (receive, expected) in
        [(ReceiveBy::XdpNative, Receiving::XdpCopy), (ReceiveBy::XdpGeneric, Receiving::XdpGeneric)]
    {
        let mut tagged = direction(&pair, &[64, 1518]);
        tagged.profile.vlan = Some(7);
        tagged.profile.sizes = vec![68, 1522];
        for direction in [direction(&pair, &[64, 1518]), tagged] {
            let (tester, report) = both(&[direction], Methods { receive, ..XDP }, &TRIAL).expect("it runs");
            assert_eq!((tester.receiving, tester.not_received_by_xdp), (expected, None));
            let one = &report.directions[0];
            conserved(one);
            assert!(one.sent > 0 && one.arrived.frames == one.sent, "{receive:?}: {one:?}");
            let p50_s = one.latency.summary().expect("frames came").p50_s;
            assert!(p50_s > 0.0 && p50_s < 0.02, "{receive:?}: {p50_s} s");
            assert!(!shown(&pair).contains("xdp"), "the program is still attached");
        }
    }
}

/// Sends more frames than the memory has slots, so that every slot is lent, filled and returned.
#[test]
fn lent_memory_goes_round() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let there = direction(&pair, &[64]);
    let mut back = there.clone();
    std::mem::swap(&mut back.from, &mut back.to);
    let burst = Trial { burst: Some(80_000), load_pps: 1e6, ..TRIAL };
    let by = Methods { send: SendBy::Xdp, ..XDP };
    let (_, report) = both(&[there, back], by, &burst).expect("it runs");
    for one in &report.directions {
        conserved(one);
        assert_eq!((one.sent, one.arrived.frames + one.missed), (80_000, one.kicked.accepted), "{one:?}");
    }
}

/// The test opens the port twice: its first program stands for a program of another tool. The kernel does not report
/// which tool a program belongs to.
#[test]
fn another_program_is_left_where_it_is() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let refused = opened(&pair, ReceiveBy::Xdp, 60, |_, _| {
        let before = shown(&pair);
        assert!(before.contains("xdp"), "{before}");
        let refused = opened(&pair, ReceiveBy::Xdp, 60, |_, _| ()).expect_err("taken").to_string();
        assert_eq!(before, shown(&pair), "it is another one now");
        (before, refused)
    });
    let (before, refused) = refused.expect("it opens");
    let id = before.split("prog/xdp id ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("an id");
    assert!(refused.contains("v1") && refused.contains(&format!("(id {id}, \"netcliff_sink\")")), "{refused} {before}");
    assert!(!shown(&pair).contains("xdp"), "{}", shown(&pair));
}

/// The pair's interfaces disappear while each receiver and sender runs.
#[test]
fn a_port_that_goes_down_or_away_ends_the_trial() {
    let Some(pair) = xdp_pair_or_skip() else { return };
    let long = Trial { duration_s: 20.0, ..TRIAL };
    let ended_by = |by: Methods, change: &dyn Fn()| {
        let begin = Instant::now();
        let ended = std::thread::scope(|scope| {
            let flight = scope.spawn(|| both(&[direction(&pair, &[64])], by, &long));
            std::thread::sleep(Duration::from_millis(400));
            change();
            flight.join().expect("it does not panic")
        });
        let error = ended.expect_err("the port is gone").to_string();
        assert!(begin.elapsed().as_secs() < 10, "{by:?}: {error} after {:?}", begin.elapsed());
        error
    };
    for receive in [ReceiveBy::Packet, ReceiveBy::Xdp] {
        let error = ended_by(Methods { send: SendBy::Packet, receive, ..XDP }, &|| pair.set_receiver("down"));
        assert!(error.contains("interface v"), "{receive:?}: {error}");
        pair.set_receiver("up");
        std::thread::sleep(Duration::from_millis(50));
    }
    for (send, receive) in [(SendBy::Packet, ReceiveBy::Packet), (SendBy::Xdp, ReceiveBy::Xdp)] {
        let error = ended_by(Methods { send, receive, ..XDP }, &|| pair.remove_links());
        assert!(error.contains("interface v"), "{send:?}: {error}");
        pair.add_links();
    }
}
