//! The kernel's timestamps of tagged frames on real packets, and the error for timestamps that a veth does not offer.

use std::sync::atomic::AtomicBool;

use netcliff_packets::WireError;
use netcliff_packets::port::{ReceiveBy, SendBy, Sending};
use netcliff_packets::thread::Placement;
use netcliff_rfc2544::tester::Direction;
use netcliff_rfc2544::tester::Trial;
use netcliff_rfc2544::tester::run::{Bench, Methods, Tester, TrialReport};
use netcliff_rfc2544::tester::stamps::{Absent, Stamps};
use netcliff_testkit::{Need, skip};

use super::common::{Pair, pair_or_skip};
use super::{TRIAL, alone, both, conserved, direction};

/// A trial whose tagged frame follows a few others, but early enough to be sent even if other programs delay the
/// sender.
const TAGGED: Trial = Trial { tagged_at_s: Some(0.001), ..TRIAL };

fn kernel(send: SendBy) -> Methods {
    Methods { send, receive: ReceiveBy::Auto, stamps: Stamps::Kernel }
}

/// Runs several trials one after the other on one bench.
fn trials(
    directions: &[Direction],
    by: Methods,
    trial: &Trial,
    count: u32,
) -> Result<(Tester, Vec<TrialReport>), WireError> {
    alone(|| {
        let mut bench = Bench::open(directions, by, 32, &Placement { cpu: Some(0), ..Placement::default() })?;
        let reports = (0..count).map(|_| bench.run(trial, &AtomicBool::new(false))).collect::<Result<_, _>>()?;
        Ok((bench.tester().clone(), reports))
    })
}

/// Makes the pair on a kernel that stamps frames on a veth. `None` otherwise; the reason is reported.
fn stamping_pair_or_skip() -> Option<Pair> {
    let pair = pair_or_skip()?;
    match both(&[direction(&pair, &[64])], kernel(SendBy::Packet), &TRIAL) {
        Err(error @ WireError::NoStamps { .. }) => {
            skip(Need::Kernel, error);
            None
        }
        _ => Some(pair),
    }
}

/// Checks that every direction's tagged frame arrived, was stamped at both ends, and took no longer than the sending
/// program measured.
fn stamped(report: &TrialReport, what: &str) {
    for one in &report.directions {
        conserved(one);
        assert_eq!(one.arrived.frames, one.sent, "{what}");
        assert!(one.tagged_s.is_some(), "{what}: the tagged frame did not come, {} were sent", one.sent);
        let stamped = one.stamped.unwrap_or_else(|| panic!("{what}: the tagged frame came, and is not told of"));
        assert_eq!(stamped.absent, Absent::default(), "{what}");
        let (kernel_s, application_s) =
            (stamped.kernel_s.expect("both ends"), stamped.application_s.expect("the far end"));
        assert!(0.0 < kernel_s && kernel_s <= application_s, "{what}: {kernel_s} s of {application_s} s");
        assert_eq!((stamped.hardware_s, stamped.by(Stamps::Kernel)), (None, Some(kernel_s)), "{what}");
    }
}

#[test]
fn the_kernel_stamps_every_tagged_frame() {
    let Some(pair) = stamping_pair_or_skip() else { return };
    let mut tagged = direction(&pair, &[128]);
    tagged.profile.vlan = Some(7);
    let mut ipv6 = direction(&pair, &[1518]);
    ipv6.profile.source = [0x2001, 2, 0, 0, 0, 0, 0, 2].into();
    ipv6.profile.destination = [0x2001, 2, 0, 1, 0, 0, 0, 2].into();
    for send in [SendBy::Packet, SendBy::Auto] {
        for direction in [direction(&pair, &[64]), tagged.clone(), ipv6.clone()] {
            let what = format!("{send:?} {:?}", direction.profile);
            // The later trials show that each frame has its own timestamps.
            let (tester, reports) = trials(&[direction], kernel(send), &TAGGED, 3).expect("it runs");
            assert_eq!(tester.stamps, Stamps::Kernel);
            reports.iter().for_each(|report| stamped(report, &what));
        }
    }
}

#[test]
fn both_ways_each_tagged_frame_has_its_own_stamps() {
    let Some(pair) = stamping_pair_or_skip() else { return };
    let there = direction(&pair, &[64, 512]);
    let mut back = there.clone();
    std::mem::swap(&mut back.from, &mut back.to);
    let (tester, reports) = trials(&[there, back], kernel(SendBy::Auto), &TAGGED, 2).expect("it runs");
    reports.iter().for_each(|report| stamped(report, "both ways"));
    let offered = tester.ports[0].offered.expect("the kernel says");
    assert!(offered.software_transmit && offered.software_receive && !offered.hardware_transmit, "{offered:?}");
}

#[test]
fn nothing_is_told_where_no_frame_is_tagged() {
    let Some(pair) = stamping_pair_or_skip() else { return };
    let (_, reports) = trials(&[direction(&pair, &[64])], kernel(SendBy::Packet), &TRIAL, 1).expect("it runs");
    assert_eq!(reports[0].directions[0].stamped, None);
    let application = Methods { stamps: Stamps::Application, ..kernel(SendBy::Packet) };
    let (_, reports) = trials(&[direction(&pair, &[64])], application, &TAGGED, 1).expect("it runs");
    let one = &reports[0].directions[0];
    assert_eq!((one.tagged_s.is_some(), one.stamped), (true, None));
}

#[test]
fn what_cannot_be_had_is_refused_with_the_port() {
    let Some(pair) = pair_or_skip() else { return };
    let hardware = Methods { stamps: Stamps::Hardware, ..kernel(SendBy::Auto) };
    let refused = both(&[direction(&pair, &[64])], hardware, &TAGGED).expect_err("a veth has no clock").to_string();
    for word in ["interface v0", "hardware time stamps on what leaves", "it offers", "choose --stamps"] {
        assert!(refused.contains(word), "{refused}");
    }
    let xdp = Methods { receive: ReceiveBy::Xdp, ..kernel(SendBy::Auto) };
    let refused = both(&[direction(&pair, &[64])], xdp, &TAGGED).expect_err("an XDP program takes them").to_string();
    assert!(refused.contains("--receive-by") && refused.contains("--stamps kernel"), "{refused}");
    // The sender uses the requested method.
    let ring = Methods { stamps: Stamps::Application, ..kernel(SendBy::Packet) };
    let (tester, _) = both(&[direction(&pair, &[64])], ring, &TAGGED).expect("it runs");
    assert_eq!(tester.sending, Sending::PacketRing);
}
