//! Applies plans to a real veth in namespaces that the test creates, and undoes them.

use crate::inspect::common::journal;
use crate::inspect::live::{bed, mtu, offload, plan_of, queue_file, values};
use netcliff_core::inspection::Objective;
use netcliff_host::{
    inspect::Inspection,
    journal::{self, HostLock, StateDir},
    setting::Setting,
    tune::{
        Plan, Wish,
        apply::{self, ApplyError, Session},
        device::{DeviceKey, Held, Wanted},
        plan,
    },
};
use netcliff_testkit::{Need, has, has_all, skip};
use std::{fs, time::Duration};

/// Settings by files, ethtool and rtnetlink.
fn several() -> Vec<(Setting, &'static str)> {
    vec![
        (queue_file("rx-0/rps_cpus"), "1"),
        (queue_file("tx-1/xps_cpus"), "1"),
        (offload("rx-gro"), "off"),
        (mtu(), "1400"),
        (Setting::file("/sys/class/net/veth1/gro_flush_timeout"), "20000"),
        (Setting::sysctl("net.ipv4.tcp_rmem"), "4096 131072 12345678"),
    ]
}

#[test]
fn what_is_applied_stays_and_is_undone() {
    let Some((dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let wanted = several();
            let before = values(&wanted);
            let applied = apply::apply(&lock, &plan_of(&wanted)).unwrap();
            assert_eq!(applied.len(), wanted.len());
            assert!(applied.iter().all(|one| !one.differs()), "{applied:#?}");
            assert_eq!(journal::kept(lock.state()).unwrap().len(), wanted.len());
            // The start of another command does not undo the changes.
            assert!(journal::replay(lock.state()).unwrap().outcomes.is_empty());
            assert_eq!(wanted[3].0.read().unwrap(), "1400");

            let report = apply::undo(&lock).unwrap();
            assert!(report.is_clean() && report.outcomes.len() == wanted.len(), "{report:#?}");
            assert_eq!(values(&wanted), before);
            assert!(apply::undo(&lock).unwrap().outcomes.is_empty(), "nothing is undone twice");
        })
        .unwrap();
    assert_eq!(fs::read_dir(journal(&dir).with_file_name("tuned")).unwrap().count(), 0);
}

#[test]
fn two_plans_are_undone_to_the_beginning() {
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let before = mtu().read().unwrap();
            for value in ["1400", "1300"] {
                apply::apply(&lock, &plan_of(&[(mtu(), value)])).unwrap();
            }
            assert_eq!(mtu().read().unwrap(), "1300");
            assert!(apply::undo(&lock).unwrap().is_clean());
            assert_eq!(mtu().read().unwrap(), before);
        })
        .unwrap();
}

#[test]
fn a_step_that_fails_takes_the_others_back() {
    let Some((dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let mut wanted = several();
            let before = values(&wanted);
            wanted.push((mtu(), "1"));
            // `plan_of` reads the MTU before the fourth step sets it to 1400, so the old value of the last step is
            // corrected here.
            let mut plan = plan_of(&wanted);
            plan.steps.last_mut().unwrap().proposal.old = "1400".into();
            let error = apply::apply(&lock, &plan).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, ApplyError::Step { ref undone, .. } if undone.len() >= 6), "{error:#?}");
            assert!(text.contains("veth1 MTU") && text.contains("set back"), "{text}");
            wanted.pop();
            assert_eq!(values(&wanted), before);
        })
        .unwrap();
    assert!(journal::kept(lock.state()).unwrap().is_empty());
    drop((lock, testbed));
    assert_eq!(fs::read_dir(journal(&dir)).unwrap().count(), 0);
}

#[test]
fn what_the_kernel_rounds_is_told() {
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            // The flow table has a power of two entries (net/core/net-sysfs.c).
            let flows = queue_file("rx-0/rps_flow_cnt");
            let applied = apply::apply(&lock, &plan_of(&[(flows.clone(), "1000")])).unwrap();
            assert!(applied[0].differs());
            assert_eq!((applied[0].requested.as_str(), applied[0].effective.as_str()), ("1000", "1024"));
            assert!(apply::undo(&lock).unwrap().is_clean());
            assert_eq!(flows.read().unwrap(), "0");
        })
        .unwrap();
}

/// Each NAPI instance gets its own new value, and its own old value back.
#[test]
fn napi_instances_are_set_one_by_one() {
    use netcliff_host::nic::netdev::NapiKey;
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let napi = |place, key| Setting::Napi { interface: "veth1".into(), place, key };
            let wanted = [
                (napi(0, NapiKey::DeferHardIrqs), "2"),
                (napi(0, NapiKey::GroFlushTimeout), "20000"),
                (napi(1, NapiKey::IrqSuspendTimeout), "20000000"),
                (napi(1, NapiKey::DeferHardIrqs), "3"),
            ];
            if let Err(error) = wanted[2].0.read() {
                return skip(Need::Kernel, format!("NAPI settings by netlink: {error}"));
            }
            napi(0, NapiKey::DeferHardIrqs).write("1").unwrap();
            let before = values(&wanted);
            assert_eq!(before, ["1", "0", "0", "0"]);
            let applied = apply::apply(&lock, &plan_of(&wanted)).unwrap();
            assert!(applied.len() == 4 && applied.iter().all(|one| !one.differs()), "{applied:#?}");
            assert!(apply::undo(&lock).unwrap().is_clean());
            assert_eq!(values(&wanted), before);
            // A value out of the kernel's range (s32) is refused with a message, and nothing is changed.
            let error = apply::apply(&lock, &plan_of(&[(napi(0, NapiKey::DeferHardIrqs), "4294967295")])).unwrap_err();
            assert!(
                error.to_string().contains("veth1 NAPI 0 defer-hard-irqs could not be set to 4294967295"),
                "{error}"
            );
            let error = napi(9, NapiKey::Threaded).read().unwrap_err().to_string();
            assert!(error.contains("no number 9"), "{error}");
        })
        .unwrap();
}

#[test]
fn a_host_that_has_changed_since_is_left_alone() {
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let plan = plan_of(&[(mtu(), "1400")]);
            mtu().write("1450").unwrap();
            let error = apply::apply(&lock, &plan).unwrap_err();
            assert!(matches!(error, ApplyError::Changed { .. }), "{error:#?}");
            assert!(error.to_string().contains("1450"), "{error}");
            assert_eq!(mtu().read().unwrap(), "1450");
        })
        .unwrap();
}

#[test]
fn a_session_that_is_not_kept_sets_back() {
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let before = mtu().read().unwrap();
            let mut session = Session::new(&lock);
            let plan = plan_of(&[(mtu(), "1400")]);
            session.apply(&plan).unwrap();
            assert_eq!(mtu().read().unwrap(), "1400");
            // A setting that was restored and made again is in the journal again: after a kill the next start would
            // undo it.
            session.set_back();
            session.apply(&plan).unwrap();
            let journal = lock.state().path().join("journal");
            let holds = |file: fs::DirEntry| fs::read_to_string(file.path()).unwrap().contains("setting_changed");
            assert!(fs::read_dir(journal).unwrap().any(|file| holds(file.unwrap())));
            drop(session);
            assert_eq!(mtu().read().unwrap(), before);
        })
        .unwrap();
}

#[test]
fn another_namespaces_link_of_the_same_name_is_not_touched() {
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed.run_in_hut(|| apply::apply(&lock, &plan_of(&[(mtu(), "1400")])).unwrap()).unwrap();
    // Outside the namespace there may be another veth1, or no veth1: the undo has to refuse in both cases.
    let report = apply::undo(&lock).unwrap();
    assert!(!report.is_clean(), "{report:#?}");
    assert!(report.outcomes[0].error.as_ref().unwrap().contains("another network namespace"), "{report:#?}");
    let there = testbed.run_in_hut(|| (apply::undo(&lock).unwrap().is_clean(), mtu().read().unwrap())).unwrap();
    assert_eq!(there, (true, "1500".to_owned()));
    // Once the namespace has gone, there is nothing to undo.
    testbed.run_in_hut(|| apply::apply(&lock, &plan_of(&[(mtu(), "1400")])).unwrap()).unwrap();
    drop(testbed);
    let report = apply::undo(&lock).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.outcomes[0].note.as_ref().unwrap().contains("gone"), "{report:#?}");
}

/// All steps: inspect, plan, apply, check that nothing more is proposed, undo.
#[test]
fn a_plan_for_a_real_link_leaves_nothing_to_propose() {
    let Some((_dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let wish = Wish { interfaces: vec!["veth1".into()], ..Wish::new(Objective::Throughput) };
            let look = || {
                let plan = plan(&Inspection::of_this_host(Duration::ZERO).unwrap(), &wish).unwrap();
                // Only settings that belong to the namespace: this test does not change the host.
                let own = plan.steps.iter().filter(|step| step.setting.interface().is_some()).cloned().collect();
                Plan { steps: own, ..plan }
            };
            offload("rx-gro").write("on").unwrap();
            queue_file("rx-0/rps_cpus").write("1").unwrap();
            let before = look();
            if !has(Need::Cpus) {
                return;
            }
            assert!(!before.steps.is_empty(), "with two CPUs there is something to steer");
            assert_eq!(before.machine.differs(&Inspection::of_this_host(Duration::ZERO).unwrap()), None);
            apply::apply(&lock, &before).unwrap();
            assert_eq!(look().steps, []);
            assert!(apply::undo(&lock).unwrap().is_clean());
            assert_eq!(look(), before);
        })
        .unwrap();
}

/// The router between two sides of a tester is planned without the tester's CPU, and its settings are restored at the
/// end.
#[test]
fn a_router_is_set_as_planned_and_set_back() {
    use netcliff_host::testbed::forward::{ForwardBed, ForwardOptions, Forwarding};
    if !has_all(&[Need::Netns, Need::Cpus]) {
        return;
    }
    let online = Inspection::of_this_host(Duration::ZERO).unwrap().host.cpu.online;
    let [tester_cpu, .., router_cpu] = online[..] else { panic!("two CPUs: {online:?}") };
    let dir = tempfile::tempdir().unwrap();
    let lock = HostLock::acquire(&StateDir::at(dir.path()).unwrap()).unwrap();
    let options = ForwardOptions {
        forwarding: Forwarding::Route,
        rules: 1,
        vlan: None,
        mtu_bytes: 1500,
        router_cpu: tester_cpu,
        tester_cpu,
    };
    let mut bed = ForwardBed::create(&lock, options).unwrap();
    let plan = bed.tune(Objective::Throughput).unwrap();
    assert!(plan.cpus.contains(&router_cpu) && !plan.cpus.contains(&tester_cpu), "{plan:#?}");
    let names: Vec<&str> = plan.applied.iter().map(|one| one.name.as_str()).collect();
    for port in ["rtr0", "rtr1"] {
        assert!(names.contains(&format!("/sys/class/net/{port}/queues/rx-0/rps_cpus").as_str()), "{names:?}");
    }
    // The changes are in the journal while they are in force. They are undone without an error, and no journal is left.
    assert!(fs::read_dir(journal(&dir)).unwrap().count() >= 2);
    let undone = bed.close();
    assert!(undone.len() >= 2 && undone.iter().all(|outcome| outcome.error.is_none()), "{undone:#?}");
    assert_eq!(fs::read_dir(journal(&dir)).unwrap().count(), 0);
}

/// Settings of an interface that was removed need no undo, all other settings are restored, and the journal is empty
/// afterwards.
#[test]
fn an_interface_that_goes_away_in_the_middle_is_told() {
    let Some((dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let buffers = Setting::sysctl("net.ipv4.tcp_rmem");
            let before = buffers.read().unwrap();
            let mut session = Session::new(&lock);
            session.apply(&plan_of(&[(buffers.clone(), "4096 131072 12345678"), (mtu(), "1400")])).unwrap();
            let next = plan_of(&[(queue_file("rx-0/rps_cpus"), "1")]);
            let gone = std::process::Command::new("ip").args(["link", "delete", "veth1"]).status();
            assert!(gone.expect("iproute2").success());
            let told = session.apply(&next).unwrap_err().to_string();
            for part in ["rx-0/rps_cpus could not be set to 1", "set back", "veth1 MTU is not there any more"] {
                assert!(told.contains(part), "{part}: {told}");
            }
            assert_eq!(buffers.read().unwrap(), before);
            let open = fs::read_dir(journal(&dir)).unwrap();
            assert!(
                !open.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).any(|text| text.contains("MTU"))
            );
        })
        .unwrap();
}

/// The undo runs in another namespace, where the interface's settings cannot be restored.
#[test]
fn what_cannot_be_set_back_stays_written_down() {
    let Some((dir, lock, testbed)) = bed() else { return };
    let mut session = Session::new(&lock);
    testbed.run_in_hut(|| session.apply(&plan_of(&[(mtu(), "1400")])).unwrap()).unwrap();
    let outcomes = session.set_back();
    assert!(outcomes[0].error.as_ref().unwrap().contains("another network namespace"), "{outcomes:#?}");
    let files = fs::read_dir(journal(&dir)).unwrap();
    let left = files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .filter(|text| text.contains("setting_changed"));
    assert_eq!(left.count(), 1);
}

/// Settings of a veth that are requested by name are in force until the hold is dropped; if one is refused, none stays
/// in force.
#[test]
fn a_device_holds_settings_until_it_is_let_go() {
    let Some((dir, lock, testbed)) = bed() else { return };
    testbed
        .run_in_hut(|| {
            let wanted = |text: &str| -> Vec<Wanted> {
                let one = |item: &str| {
                    let (key, value) = item.split_once('=').unwrap();
                    DeviceKey::of(key).unwrap().parse(value).unwrap()
                };
                text.split(',').map(one).collect()
            };
            let timeout = Setting::file("/sys/class/net/veth1/gro_flush_timeout");
            let all = [(offload("rx-gro"), ""), (timeout.clone(), "")];
            let before = values(&all);
            let gro = if before[0] == "on" { "off" } else { "on" };
            {
                let held = Held::take(&lock, "veth1", &wanted(&format!("gro_flush_timeout=20us,gro={gro}"))).unwrap();
                let made: Vec<_> = held.settings().iter().map(|made| (made.name, made.effective.as_str())).collect();
                assert_eq!(made, [("gro_flush_timeout", "20us"), ("gro", gro)]);
                assert!(held.settings().iter().all(|made| !made.differs()), "{held:#?}");
                assert_eq!(values(&all), [gro, "20000"]);
            }
            assert_eq!(values(&all), before);
            let refused = Held::take(&lock, "veth1", &wanted("gro_flush_timeout=20us,rx-usecs=100")).unwrap_err();
            let why = refused.to_string();
            assert!(why.contains("veth1, veth, has no rx-usecs") || why.contains("rx-usecs could not be set"), "{why}");
            assert_eq!(values(&all), before);
        })
        .unwrap();
    drop((lock, testbed));
    assert_eq!(fs::read_dir(journal(&dir)).unwrap().count(), 0);
}
