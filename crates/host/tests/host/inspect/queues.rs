//! Tests changes of channels with their side effects, of links and of interrupts, on a real veth in namespaces that the
//! test creates.

use crate::inspect::live::{bed, mtu, offload, plan_of, queue_file};
use netcliff_host::{
    inspect::Inspection,
    journal,
    setting::{Group, Setting},
    testbed::kept::KeptOffloads,
    tune::apply::{self, ApplyError, Session},
};
use netcliff_testkit::{Need, not_applicable, skip};
use std::{fs, time::Duration};

fn channels(key: &str) -> Setting {
    Setting::Ethtool { interface: "veth1".into(), group: Group::Channels, key: key.into() }
}

/// A queue that is removed with its channel and recreated has lost its settings, so they are restored.
#[test]
fn what_a_change_of_channels_resets_is_set_back_too() {
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            if let Err(error) = channels("rx").read() {
                return skip(Need::Kernel, format!("channels of a veth: {error}"));
            }
            let of_queue_1 =
                [queue_file("rx-1/rps_cpus"), queue_file("rx-1/rps_flow_cnt"), queue_file("tx-1/xps_cpus")];
            for (setting, value) in of_queue_1.iter().zip(["1", "64", "1"]) {
                setting.write(value).unwrap();
            }
            let read = || of_queue_1.each_ref().map(|setting| setting.read().unwrap());
            let before = read();
            // The queue is configured and then removed: the undo does not report that it is missing until the channels
            // are restored.
            let plan = plan_of(&[(of_queue_1[0].clone(), "0"), (channels("rx"), "1"), (channels("tx"), "1")]);
            apply::apply(&lock, &plan).unwrap();
            assert!(of_queue_1[0].read().is_err(), "there is no queue 1");
            let report = apply::undo(&lock).unwrap();
            assert!(report.is_clean(), "{report:#?}");
            assert_eq!(read(), before);
            let (of_risk, others): (Vec<_>, Vec<_>) = report
                .outcomes
                .iter()
                .partition(|outcome| matches!(outcome.change, journal::Change::SettingsAtRisk { .. }));
            assert_eq!(of_risk.len(), 1);
            let told = of_risk[0].note.as_ref().unwrap();
            assert!(told.contains("rx-1/rps_flow_cnt") && !told.contains("rx-0"), "{told}");
            assert_eq!(others.len(), 3);
        })
        .unwrap();
}

/// Settings at risk that a failed change of channels did not alter are not reported.
#[test]
fn what_was_at_risk_and_was_not_touched_is_not_spoken_of() {
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let channels = channels("rx");
            let Ok(now) = channels.read() else { return skip(Need::Kernel, "channels of a veth") };
            let mut plan = plan_of(&[(channels, "99")]);
            plan.steps[0].proposal.old = now;
            let error = apply::apply(&lock, &plan).unwrap_err();
            let ApplyError::Step { undone, .. } = &error else { panic!("{error:#?}") };
            let silent = undone.iter().filter(|outcome| outcome.is_silent()).count();
            assert_eq!(silent, 1, "{undone:#?}");
            assert!(error.to_string().contains("veth1 channels rx could not be set to 99"), "{error}");
        })
        .unwrap();
}

/// If the link stays down after a setting, all settings are restored.
#[test]
fn a_link_that_does_not_come_back_takes_all_back() {
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let flags = Setting::file("/sys/class/net/veth1/flags");
            let up = flags.read().unwrap();
            let bits = u32::from_str_radix(up.trim_start_matches("0x"), 16).unwrap();
            let mut session = Session::new(&lock);
            session.carrier_time = Duration::from_millis(300);
            let plan = plan_of(&[(mtu(), "1400"), (flags.clone(), &format!("{:#x}", bits & !1))]);
            let error = session.apply(&plan).unwrap_err();
            assert!(matches!(error, ApplyError::NoCarrier { .. }), "{error:#?}");
            let told = error.to_string();
            assert!(told.contains("veth1 had a carrier before") && told.contains("everything was set back"), "{told}");
            assert_eq!((flags.read().unwrap(), mtu().read().unwrap()), (up, "1500".to_owned()));
        })
        .unwrap();
}

/// An offload that the kernel switched off during a measurement, as for an XDP program, is switched on again.
#[test]
fn an_offload_that_was_on_is_on_again() {
    let Some((dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let (gro, scatter) = (offload("rx-gro"), offload("tx-scatter-gather-fraglist"));
            gro.write("on").unwrap();
            scatter.write("off").unwrap();
            let held = KeptOffloads::hold(&lock, &["veth1", "nosuch0"], &["rx-gro", "tx-scatter-gather-fraglist"]);
            let files = || fs::read_dir(crate::inspect::common::journal(&dir)).unwrap().count();
            let with = files();
            gro.write("off").unwrap();
            scatter.write("on").unwrap();
            drop(held.unwrap());
            assert_eq!((gro.read().unwrap(), scatter.read().unwrap()), ("on".to_owned(), "on".to_owned()));
            assert_eq!(files(), with - 1);
        })
        .unwrap();
}

/// Reads this host's own hardware, without changing it.
#[test]
fn interrupts_are_found_by_the_drivers_name() {
    let host = Inspection::of_this_host(Duration::ZERO).unwrap();
    let mut seen = 0;
    for port in &host.ports {
        for irq in &port.irqs {
            let name = irq.name.clone();
            if port.irqs.iter().filter(|other| other.name == name).count() > 1 {
                continue;
            }
            let setting = Setting::Interrupt { interface: port.nic.name.clone(), name };
            let file = format!("/proc/irq/{}/smp_affinity_list", irq.number);
            assert_eq!(setting.read().unwrap(), fs::read_to_string(file).unwrap().trim(), "{setting}");
            seen += 1;
        }
    }
    if seen == 0 {
        not_applicable("no interface has interrupts");
    }
    let error = Setting::Interrupt { interface: "lo".into(), name: "lo-TxRx-0".into() }.read().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("no interrupt of lo is called lo-TxRx-0"), "{error}");
}
