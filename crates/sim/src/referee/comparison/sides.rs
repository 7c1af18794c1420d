//! Flow control and transmissions under every scheme.

use netcliff_core::Host;
use netcliff_core::host::{TransmitLoad, TransmitPriority};

use super::{Dice, many_with, polled};
use crate::tally::Counts;

/// A random scheme of any kind.
pub(super) fn any(dice: &mut Dice) -> String {
    let polled = polled(dice);
    match dice.up_to(9) {
        1 => "ideal".to_owned(),
        2 => format!("interrupt:drops_interrupt={}", dice.roll() < 0.5),
        3 => format!("disable-enable:merged={}", dice.roll() < 0.5),
        4 => format!("polling:{polled}"),
        5 => format!("napi-2007:{polled}"),
        6 => format!("coalesce:usecs={}us,min_gap={}us,masked={}", dice.up_to(60), dice.up_to(60), dice.roll() < 0.5),
        7 => format!("hybrid:up=120kpps,down=60kpps,{polled},ewma=0.5,merged={}", dice.roll() < 0.5),
        8 => format!("dim:start={}", dice.up_to(5) - 1),
        _ => linux(dice, false),
    }
}

pub(super) fn linux(dice: &mut Dice, backlog: bool) -> String {
    format!(
        "napi:weight={},budget={},backlog={},threaded={}",
        dice.up_to(80),
        dice.up_to(400),
        backlog && dice.roll() < 0.5,
        dice.roll() < 0.3
    ) + if !backlog && dice.roll() < 0.3 { ",defer_hard_irqs=2,gro_flush_timeout=20us" } else { "" }
}

pub(super) fn flow_control(dice: &mut Dice, host: &mut Host) {
    let xoff = dice.up_to(host.ring);
    let xon = dice.up_to(xoff) - 1;
    host.xoff = Some(xoff);
    host.xon = (dice.roll() < 0.8).then_some(xon);
    let held = dice.up_to(300);
    host.sender_queue = (dice.roll() < 0.7).then_some(held);
}

pub(super) fn transmissions(dice: &mut Dice, host: &mut Host) {
    host.transmit_s = Some(dice.time_s(6e-6));
    let (rate, share) = (10.0_f64.powf(3.5 + 2.0 * dice.roll()), dice.roll() * 2.0 + 0.01);
    host.transmit_load = match dice.up_to(3) {
        1 => None,
        2 => Some(TransmitLoad::Share(share)),
        _ => Some(TransmitLoad::Pps(rate)),
    };
    let priorities = [TransmitPriority::Before, TransmitPriority::After, TransmitPriority::Interrupt];
    host.transmit_priority = Some(priorities[dice.up_to(3) as usize - 1]);
    let slots = dice.up_to(30);
    host.transmit_ring = (dice.roll() < 0.8).then_some(slots);
}

fn share(runs: &[Counts], of: impl Fn(&Counts) -> bool) -> f64 {
    runs.iter().filter(|counts| of(counts)).count() as f64 / runs.len() as f64
}

#[test]
fn flow_control_agrees_packet_for_packet() {
    let mut runs = many_with(400, any, flow_control);
    runs.extend(many_with(300, |dice| linux(dice, true), flow_control));
    assert!(runs.iter().all(|counts| counts.dropped_ring == 0));
    // In a good part of the runs, the sender was stopped and lost packets.
    assert!(share(&runs, |counts| counts.system_area > counts.ring_area && counts.inside_socket == 0) > 0.2);
    assert!(share(&runs, |counts| counts.dropped_sender > 0) > 0.1);
}

#[test]
fn transmissions_agree_packet_for_packet() {
    let mut runs = many_with(500, any, transmissions);
    runs.extend(many_with(400, |dice| linux(dice, false), transmissions));
    assert!(share(&runs, |counts| counts.transmit.completed > 0) > 0.9);
    assert!(share(&runs, |counts| counts.transmit.refused > 0) > 0.1);
}

#[test]
fn both_together_agree_packet_for_packet() {
    many_with(300, any, |dice, host| {
        flow_control(dice, host);
        transmissions(dice, host);
    });
}

/// Adds an application, and polls that take time.
pub(super) fn busy(dice: &mut Dice, host: &mut Host) {
    host.application_s = Some(dice.time_s(6e-6));
    host.poll_s = 1e-6 + dice.roll() * 2e-6;
}

pub(super) fn busy_napi(dice: &mut Dice) -> String {
    let deferred = format!(",defer_hard_irqs={},gro_flush_timeout={}us", dice.up_to(3), dice.up_to(60));
    let suspended = format!(",irq_suspend_timeout={}us", dice.up_to(200));
    let more = match dice.up_to(3) {
        1 => String::new(),
        2 => deferred,
        _ => deferred + &suspended,
    };
    format!("napi:busy_poll=true,weight={},threaded={}{more}", dice.up_to(80), dice.roll() < 0.3)
}

#[test]
fn busy_polling_agrees_packet_for_packet() {
    let plain = many_with(500, busy_napi, busy);
    assert!(share(&plain, |counts| counts.polls > 2 * counts.offered) > 0.2);
    many_with(200, busy_napi, |dice, host| {
        busy(dice, host);
        flow_control(dice, host);
        transmissions(dice, host);
    });
}
