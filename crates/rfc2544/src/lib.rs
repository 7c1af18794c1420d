//! Forwarding through a device by RFC 2544 and its successors.
//!
//! | module | contents |
//! | --- | --- |
//! | [`procedures`] | frame loss, back-to-back (RFC 9004), latency (RFC 2544 26.2, RFC 8219), as pure functions |
//! | [`settings`], [`report`] | configuration and results |
//! | [`missing`] | what the results of a frame size lack, and why |
//! | [`conduct`] | the trials on a [`conduct::Device`], size by size |
//! | [`cost`] | the cost of a frame on the router's CPU, and the throughput predicted from it |
//! | [`instruments`] | how frames are sent, received and stamped |
//! | [`tester`] | frames through a forwarding device, accounted for one by one |
//! | [`mod@forwarding`] | experiments of forwarding: a router in several set-ups, by frame size |
//! | [`kernel`] | the real device: a router in namespaces, or what is connected between two ports |
//!
//! # Forwarding
//!
//! `host::testbed::forward` makes three namespaces for `rfc2544`: generator, router and sink. `rfc2544` requests trials
//! from a `conduct::Device`: the real one (`kernel`) or a fake. The searches are pure functions. `rfc2544::forwarding`
//! measures several set-ups of the router in turn; the tuning planner's settings are made inside the router's
//! namespace.
//!
//! Latency of the tagged frame by timestamps (`rfc2544::tester::stamps`): the frame is sent through a separate socket,
//! to which the kernel reports when it left. Another socket, whose filter passes only this frame, reports when it
//! arrived. `host::nic::phc` relates the clocks of two devices (pure functions), `host::nic::stamping` is the
//! timestamping configuration of a device, and `host::testbed::stamping` changes it and restores it afterwards.

pub mod conduct;
pub mod cost;
pub mod forwarding;
pub mod instruments;
pub mod kernel;
pub mod missing;
pub mod procedures;
pub mod report;
pub mod settings;
pub mod tester;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::tester::frame::least_bytes;
use crate::tester::stamps::Stamps;
use conduct::Step;
use kernel::{DeviceError, Kernel, Place};
use netcliff_host::nic::{self, Nic};
use report::Rfc2544Report;
use settings::{FrameSize, Settings};

/// Runs the tests on a real device. If it fails after results were measured, the report contains them and is partial.
///
/// # Errors
/// The device cannot be built, or it failed before anything was measured.
pub fn run(
    settings: &Settings,
    place: Place,
    tester_cpu: Option<u32>,
    stop: &Arc<AtomicBool>,
    watch: &mut dyn FnMut(Step),
) -> Result<Rfc2544Report, DeviceError> {
    let between_ports = matches!(place, Place::Ports { .. });
    let line_bps = match &place {
        Place::Ports { tx, rx, .. } => slower_line_bps(&nic::ask_all().unwrap_or_default(), [tx, rx]),
        _ => None,
    };
    let mut device = Kernel::build(settings, place, tester_cpu, Arc::clone(stop))?;
    let (sizes, failure) = conduct::conduct(settings, &mut device, watch);
    let failure = match failure {
        // Nothing was measured before the failure.
        Some(error) if sizes.is_empty() => return Err(error),
        other => other,
    };
    Ok(Rfc2544Report {
        kind: "rfc2544".to_owned(),
        device: device.describe(),
        tester: device.tester(),
        instruments: Some(device.instruments().clone()),
        line_bps,
        asked: settings.clone(),
        sizes,
        limits: std::mem::take(&mut device.limits),
        notes: notes(settings, between_ports),
        partial: failure.map(|error| error.to_string()),
        fingerprint: None,
        provenance: netcliff_core::Provenance::default(),
    })
}

/// Rate of the slower of two ports (bit/s). `None` if a port has no physical line or does not report its speed.
fn slower_line_bps(nics: &[Nic], ports: [&String; 2]) -> Option<f64> {
    let mbps = |port: &String| {
        let nic = nics.iter().find(|nic| nic.name == *port)?;
        nic.speed_mbps.filter(|mbps| *mbps > 0 && !nic.driver.as_deref().is_some_and(nic::has_made_up_speed))
    };
    Some(f64::from(mbps(ports[0])?.min(mbps(ports[1])?)) * 1e6)
}

/// Notes on differences to RFC 2544 and on the prediction. There is no prediction for a device between real ports,
/// because its CPU cannot be measured.
fn notes(settings: &Settings, between_ports: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !between_ports {
        let predicted = match settings.pcap {
            None => {
                "the prediction is for one server, the router's CPU, without other work, and for frames at a constant rate"
            }
            Some(_) => "no prediction of the throughput: it would assume frames at a constant rate",
        };
        notes.push(predicted.to_owned());
    }
    if let Some(pcap) = &settings.pcap {
        notes.push(format!("{}; each trial begins with its first packet", pcap.sent));
        notes.push(
            "RFC 2544 has frames of one size at a constant rate; the load is the mean rate of the capture's".to_owned(),
        );
        let bursts = "the frames of bursts follow each other at once, with the capture's sizes and flows";
        notes.extend(settings.tests.back_to_back.then(|| bursts.to_owned()));
    }
    let below = |what: &str, value: f64, asked: f64| {
        (value < asked).then(|| format!("{what} {value} s; RFC 2544 requires {asked} s"))
    };
    let full_s = if settings.tests.needs_search() { settings.goal().final_trial_s } else { settings.trial_s };
    notes.extend(below("trials of", full_s.min(settings.trial_s), 60.0));
    notes.extend(below("a rest between trials of", settings.rest_s, 5.0));
    notes.extend(below("a wait for residual frames of at most", settings.settle_s, 2.0));
    notes.push("the wait for residual frames ends when none is missing".to_owned());
    let uneven = "a trial that lost no more frames than the sender sent over 0.1 ms late is void: the sender may have caused the loss";
    notes.push(uneven.to_owned());
    if settings.stamps != Stamps::Application {
        notes.push(format!(
            "latency by the {} stamps is that of tagged frames; typical and worst case and the distribution are of all frames, \
             by the tester's own clock; what the tester adds is of the tagged frames, which go through a packet socket",
            settings.stamps
        ));
    }
    let loss_ratio = settings.goal().loss_ratio;
    if loss_ratio > 0.0 {
        notes.push(format!("trials may lose {loss_ratio} of the frames; RFC 2544's throughput allows none"));
    }
    if settings.tests.back_to_back && settings.max_pps.is_some() {
        let bursts = "--max does not apply to back-to-back: its bursts leave as fast as the sender can send";
        notes.push(bursts.to_owned());
    }
    if settings.frames.iter().any(|frame| matches!(frame, FrameSize::ImixFrom(_))) {
        let headers = match (settings.ipv6, settings.vlan) {
            (true, Some(_)) => "IPv6 with a VLAN tag leaves",
            (true, None) => "IPv6 leaves",
            _ => "a VLAN tag leaves",
        };
        notes.push(format!(
            "the smallest frames of the mix (imix) are of {} bytes, not of 64, in which {headers} no room for what names each frame",
            least_bytes(settings.ipv6, settings.vlan.is_some())
        ));
    }
    let neighbours = if between_ports { "" } else { ": neighbours and routes of the namespaces are permanent" };
    notes.push(format!("no routing updates or learning frames{neighbours}"));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ports_with_a_line_have_its_rate() {
        let nic = |name: &str, driver: &str, speed_mbps| Nic {
            name: name.to_owned(),
            driver: Some(driver.to_owned()),
            speed_mbps,
            ..Nic::default()
        };
        let nics = [
            nic("eth1", "ixgbe", Some(10_000)),
            nic("eth2", "igb", Some(1000)),
            nic("down", "igb", None),
            nic("ve0", "veth", Some(10_000)),
        ];
        let of = |a: &str, b: &str| slower_line_bps(&nics, [&a.to_owned(), &b.to_owned()]);
        assert_eq!(of("eth1", "eth2"), Some(1e9));
        assert_eq!((of("eth1", "down"), of("ve0", "eth1"), of("eth1", "none")), (None, None, None));
    }
}
