//! Sends frames through this kernel's forwarding, in namespaces that the test makes: each way of forwarding, with IPv4
//! and IPv6.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use netcliff_host::testbed::forward::Forwarding;
use netcliff_mlrsearch::trial::{Answer, Request};
use netcliff_packets::port::{ReceiveBy, Receiving};
use netcliff_rfc2544::conduct::Device;
use netcliff_rfc2544::kernel::{Kernel, Place};
use netcliff_rfc2544::settings::{FrameSize, Settings};
use netcliff_testkit::{Need, Shared, built, has, turn};

/// Prints a line for readers of the test's output.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn place(forwarding: Forwarding) -> Place {
    Place::Namespaces { forwarding, rules: 500, router_cpu: None }
}

/// The device, or the reason why this machine has none.
fn build(settings: &Settings, forwarding: Forwarding) -> Option<Kernel> {
    let need = match forwarding {
        Forwarding::Netfilter | Forwarding::Conntrack => Need::Nftables,
        Forwarding::Xdp | Forwarding::XdpGeneric => Need::Xdp,
        Forwarding::Route | Forwarding::Bridge => Need::Netns,
    };
    if !has(need) {
        return None;
    }
    Some(built(|| Kernel::build(settings, place(forwarding), None, Arc::<AtomicBool>::default())))
}

fn settings() -> Settings {
    Settings { settle_s: 1.0, rest_s: 0.0, ..Settings::default() }
}

/// Checks that 500 frames at a low rate all arrive. Tries several times, because the sender may be late on a busy
/// machine.
fn all_arrive(device: &mut Kernel, what: &str) {
    let mut said = String::new();
    for _ in 0..8 {
        let measured = device.trial(Request::whole(0.1, 5000.0)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let seen = measured.seen;
        assert_eq!((seen.corrupt, seen.duplicates, seen.reordered), (0, 0, 0), "{what}");
        match measured.answer {
            Answer::Valid(trial) if trial.lost == 0 => {
                assert!(
                    measured.tagged.latency_s.is_some_and(|s| s > 0.0 && s < 1.0),
                    "{what}: {:?}",
                    measured.tagged.latency_s
                );
                return;
            }
            other => said = format!("{other:?}"),
        }
    }
    panic!("{what}: frames were lost or late eight times; last: {said}");
}

#[test]
fn every_way_of_forwarding_forwards_every_frame() {
    let _turn = turn(Shared::Cpus);
    for forwarding in Forwarding::ALL {
        let settings = Settings { flows: 40, both_ways: true, ..settings() };
        let Some(mut device) = build(&settings, forwarding) else { continue };
        for frame in [FrameSize::Fixed(64), FrameSize::Imix, FrameSize::Fixed(9018)] {
            device.frames(frame).expect("the rings open");
            all_arrive(&mut device, &format!("{forwarding}, {frame}"));
        }
    }
}

#[test]
fn what_every_way_forwards_can_be_received_by_af_xdp() {
    let _turn = turn(Shared::Cpus);
    for forwarding in Forwarding::ALL {
        if !has(Need::AfXdp) {
            return;
        }
        let settings = Settings { flows: 40, both_ways: true, receive_by: ReceiveBy::Xdp, ..settings() };
        let Some(mut device) = build(&settings, forwarding) else { continue };
        for frame in [FrameSize::Fixed(64), FrameSize::Imix] {
            device.frames(frame).expect("the rings open");
            all_arrive(&mut device, &format!("{forwarding}, {frame}, AF_XDP"));
        }
        assert_eq!(device.instruments().taken_in_by, [Receiving::XdpGeneric]);
        let refused = device.frames(FrameSize::Fixed(9018)).expect_err("it does not fit a page").to_string();
        assert!(refused.contains("9018"), "{refused}");
    }
}

#[test]
fn ipv6_is_routed_and_tags_are_bridged() {
    let _turn = turn(Shared::Cpus);
    let ipv6 = Settings { ipv6: true, flows: 3, ..settings() };
    let tagged = Settings { vlan: Some(7), ..settings() };
    for (settings, forwarding, bytes) in [(ipv6, Forwarding::Route, 84), (tagged, Forwarding::Bridge, 68)] {
        let Some(mut device) = build(&settings, forwarding) else { continue };
        device.frames(FrameSize::Fixed(bytes)).expect("the rings open");
        all_arrive(&mut device, &format!("{forwarding}, {bytes} bytes"));
    }
}

/// The kernel forwards flows to many destinations in both directions, so it has many routes, neighbours and
/// connections.
#[test]
fn flows_to_many_destinations_are_forwarded() {
    let _turn = turn(Shared::Cpus);
    let many = Settings { flows: 800, destinations: 50, destination_ports: 4, both_ways: true, ..settings() };
    for (ipv6, forwarding) in [
        (false, Forwarding::Route),
        (true, Forwarding::Route),
        (false, Forwarding::Conntrack),
        (false, Forwarding::Bridge),
        (false, Forwarding::Xdp),
    ] {
        let Some(mut device) = build(&Settings { ipv6, ..many.clone() }, forwarding) else { continue };
        device.frames(FrameSize::Fixed(128)).expect("the rings open");
        all_arrive(&mut device, &format!("{forwarding}, many destinations"));
    }
}

/// XDP forwards in the driver if that is possible, and reports its mode. It also forwards frames longer than a page.
#[test]
fn xdp_says_in_which_mode_it_forwards() {
    let _turn = turn(Shared::Cpus);
    for (forwarding, modes) in
        [(Forwarding::Xdp, &["native mode", "generic mode"][..]), (Forwarding::XdpGeneric, &["generic mode"])]
    {
        let Some(mut device) = build(&Settings { both_ways: true, ..settings() }, forwarding) else { continue };
        let said = device.describe();
        assert!(modes.iter().any(|mode| said.contains(mode)), "{said}");
        let refused = device.limits.iter().any(|limit| limit.contains("native mode"));
        assert_eq!(refused, forwarding == Forwarding::Xdp && said.contains("generic mode"), "{:?}", device.limits);
        say(&said);
        for bytes in [64, 1518, 9018] {
            device.frames(FrameSize::Fixed(bytes)).expect("the rings open");
            all_arrive(&mut device, &said);
        }
    }
}

#[test]
fn overload_is_loss_and_an_unreachable_load_is_void() {
    let _turn = turn(Shared::Cpus);
    let Some(mut device) = build(&settings(), Forwarding::Route) else { return };
    device.frames(FrameSize::Fixed(64)).expect("the rings open");
    let reached = device.sender_pps().expect("it sends");
    assert!(reached > 10e3, "{reached}");
    let void = device.trial(Request::whole(0.1, 20e6)).expect("it runs");
    let Answer::Void { reached_pps, .. } = void.answer else { panic!("20 Mpps were reached: {:?}", void.answer) };
    assert!(reached_pps > 1e3 && reached_pps < 20e6);
    // A burst longer than any backlog on the way cannot pass whole.
    let burst = device.burst(200_000).expect("it runs");
    say(&format!(
        "sender {reached:.0} pps flat out; 200 000 frames at once at {:.0} pps, whole: {}",
        burst.burst_pps, burst.complete
    ));
}

#[test]
fn a_sink_that_goes_down_mid_trial_ends_it_with_its_name() {
    let _turn = turn(Shared::Cpus);
    let Some(mut device) = build(&settings(), Forwarding::Route) else { return };
    device.frames(FrameSize::Fixed(64)).expect("the rings open");
    let sink = device.netns_path(1).expect("it is made of namespaces");
    let down = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        netcliff_packets::thread::Placement { netns: Some(sink), ..Default::default() }.enter().expect("it is there");
        std::process::Command::new("ip").args(["link", "set", "tst1", "down"]).status()
    });
    let ended = device.trial(Request::whole(1.0, 2000.0));
    assert!(down.join().expect("it does not panic").expect("ip runs").success());
    let error = ended.expect_err("the sink is down").to_string();
    assert!(error.contains("tst1 was set down"), "{error}");
}
