//! Flow control and transmissions under every scheme.

use netcliff_core::Host;
use netcliff_core::host::{TransmitLoad, TransmitPriority};

use super::{Rng, many_with, polled};
use crate::tally::Counts;

/// A random scheme of any kind.
pub(super) fn any(rng: &mut Rng) -> String {
    let polled = polled(rng);
    match rng.up_to(11) {
        1 => "ideal".to_owned(),
        2 => format!("interrupt:drops_interrupt={}", rng.roll() < 0.5),
        3 => format!("disable-enable:merged={}", rng.roll() < 0.5),
        4 => format!("polling:{polled}"),
        5 => format!("napi-2007:{polled},remember={}", rng.roll() < 0.5),
        6 => {
            let (usecs, gap) = (rng.up_to(60), rng.up_to(60));
            let (masked, free) = (rng.roll() < 0.5, rng.roll() < 0.5);
            format!("coalesce:usecs={usecs}us,min_gap={gap}us,masked={masked},free_timer={free}")
        }
        7 => format!("hybrid:up=120kpps,down=60kpps,{polled},ewma=0.5,merged={}", rng.roll() < 0.5),
        8 => format!("dim:start={}", rng.up_to(5) - 1),
        9 => format!("freebsd-polling:period={}us,burst_max=20", 3 + rng.up_to(60)),
        10 => format!("soft-timers:{polled},trigger={}us,backup=70us", rng.up_to(20) - 1),
        _ => linux(rng, false),
    }
}

pub(super) fn linux(rng: &mut Rng, backlog: bool) -> String {
    format!(
        "napi:weight={},budget={},backlog={},threaded={}",
        rng.up_to(80),
        rng.up_to(400),
        backlog && rng.roll() < 0.5,
        rng.roll() < 0.3
    ) + if !backlog && rng.roll() < 0.3 { ",defer_hard_irqs=2,gro_flush_timeout=20us" } else { "" }
}

pub(super) fn flow_control(rng: &mut Rng, host: &mut Host) {
    let xoff = rng.up_to(host.ring);
    let xon = rng.up_to(xoff) - 1;
    host.xoff = Some(xoff);
    host.xon = (rng.roll() < 0.8).then_some(xon);
    let held = rng.up_to(300);
    host.sender_queue = (rng.roll() < 0.7).then_some(held);
}

pub(super) fn transmissions(rng: &mut Rng, host: &mut Host) {
    host.transmit_s = Some(rng.time_s(6e-6));
    let (rate, share) = (10.0_f64.powf(3.5 + 2.0 * rng.roll()), rng.roll() * 2.0 + 0.01);
    host.transmit_load = match rng.up_to(3) {
        1 => None,
        2 => Some(TransmitLoad::Share(share)),
        _ => Some(TransmitLoad::Pps(rate)),
    };
    let priorities = [TransmitPriority::Before, TransmitPriority::After, TransmitPriority::Interrupt];
    host.transmit_priority = Some(priorities[rng.up_to(3) as usize - 1]);
    let slots = rng.up_to(30);
    host.transmit_ring = (rng.roll() < 0.8).then_some(slots);
}

fn share(runs: &[Counts], of: impl Fn(&Counts) -> bool) -> f64 {
    runs.iter().filter(|counts| of(counts)).count() as f64 / runs.len() as f64
}

#[test]
fn flow_control_agrees_packet_for_packet() {
    let mut runs = many_with(400, any, flow_control);
    runs.extend(many_with(300, |rng| linux(rng, true), flow_control));
    assert!(runs.iter().all(|counts| counts.dropped_ring == 0));
    // In at least a fifth of the runs, packets waited at the stopped sender; in at least a tenth, the sender lost
    // packets.
    assert!(share(&runs, |counts| counts.system_area > counts.ring_area && counts.inside_socket == 0) > 0.2);
    assert!(share(&runs, |counts| counts.dropped_sender > 0) > 0.1);
}

#[test]
fn transmissions_agree_packet_for_packet() {
    let mut runs = many_with(500, any, transmissions);
    runs.extend(many_with(400, |rng| linux(rng, false), transmissions));
    assert!(share(&runs, |counts| counts.transmit.completed > 0) > 0.9);
    assert!(share(&runs, |counts| counts.transmit.refused > 0) > 0.1);
}

#[test]
fn both_together_agree_packet_for_packet() {
    many_with(300, any, |rng, host| {
        flow_control(rng, host);
        transmissions(rng, host);
    });
}

/// Adds an application, and polls that take time.
pub(super) fn busy(rng: &mut Rng, host: &mut Host) {
    host.application_s = Some(rng.time_s(6e-6));
    host.poll_s = 1e-6 + rng.roll() * 2e-6;
}

pub(super) fn busy_napi(rng: &mut Rng) -> String {
    let deferred = format!(",defer_hard_irqs={},gro_flush_timeout={}us", rng.up_to(3), rng.up_to(60));
    let suspended = format!(",irq_suspend_timeout={}us", rng.up_to(200));
    let more = match rng.up_to(3) {
        1 => String::new(),
        2 => deferred,
        _ => deferred + &suspended,
    };
    format!("napi:busy_poll=true,weight={},threaded={}{more}", rng.up_to(80), rng.roll() < 0.3)
}

#[test]
fn busy_polling_agrees_packet_for_packet() {
    let plain = many_with(500, busy_napi, busy);
    assert!(share(&plain, |counts| counts.polls > 2 * counts.offered) > 0.2);
    many_with(200, busy_napi, |rng, host| {
        busy(rng, host);
        flow_control(rng, host);
        transmissions(rng, host);
    });
}
