use super::*;
use crate::nic::link::LinkMode;
use std::collections::BTreeMap;

#[test]
fn what_a_device_does_not_have_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = StateDir::at(dir.path()).expect("it can be made");
    let error = DeviceHold::take("nothing0", &state).expect_err("no such device").to_string();
    assert!(error.contains("nothing0") && error.contains("lo"), "{error}");
    if !Permission::probe().allows_testbed() {
        let error = DeviceHold::take("lo", &state).expect_err("not allowed").to_string();
        assert!(error.contains("needs root"), "{error}");
        return;
    }
    let mut hold = DeviceHold::take("lo", &state).expect("it is there");
    let busy = DeviceHold::take("lo", &state).expect_err("it is held").to_string();
    assert!(busy.contains("another netcliff run"), "{busy}");
    let features = BTreeMap::from([("warp-drive".to_owned(), true)]);
    let coalesce = BTreeMap::from([("rx-usecs".to_owned(), 50)]);
    let feature =
        |name: &str| DeviceState { features: BTreeMap::from([(name.to_owned(), true)]), ..DeviceState::default() };
    let link = Some(LinkMode { speed_mbps: 100, half_duplex: true });
    for (wanted, words) in [
        (
            DeviceState { link, ..DeviceState::default() },
            "a link of 100 Mbit/s half duplex; its driver names no speeds",
        ),
        (DeviceState { features, ..DeviceState::default() }, "warp-drive"),
        // The kernel has these offloads. The right to change offloads must not allow cutting the host off, or receiving
        // frames of others.
        (feature("loopback"), "feature loopback; one of these is set: rx-checksum"),
        (feature("rx-all"), "feature rx-all"),
        (DeviceState { coalesce, ..DeviceState::default() }, "rx-usecs"),
        (
            DeviceState { pause: BTreeMap::from([("rx".to_owned(), false)]), ..DeviceState::default() },
            "flow control rx; it does not have that one",
        ),
        (DeviceState { mtu_bytes: Some(600), ..DeviceState::default() }, "1280 to 65535"),
    ] {
        let error = hold.bring_to(&wanted).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(hold.set_back(), Vec::<String>::new(), "nothing was changed");
}

/// Changes of dead runs that cannot be undone are reported to the caller who takes the device, not only logged.
#[test]
fn what_could_not_be_undone_is_told() {
    if !Permission::probe().allows_testbed() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let state = StateDir::at(dir.path()).expect("it can be made");
    assert_eq!(DeviceHold::take("lo", &state).expect("it is there").left_over(), [""; 0]);
    std::fs::write(state.journal_dir().expect("it can be made").join("whose.jsonl"), "nonsense\n").expect("written");
    let hold = DeviceHold::take("lo", &state).expect("it is there");
    let [told] = hold.left_over() else { panic!("{:?}", hold.left_over()) };
    assert!(told.contains("whose.jsonl") && told.contains("damaged"), "{told}");
}

/// The state of QEMU's igb after its link was set by hand: a carrier, no speed, and no received packets.
#[test]
fn a_link_that_is_not_there_is_told() {
    let down = || Err(DeviceError::LinkDown { interface: "eth0".to_owned() });
    let mode = LinkMode { speed_mbps: 10, half_duplex: true };
    let told = |link| Ok(DeviceState { link, ..DeviceState::default() });
    for (stands, why) in [
        (told(Some(mode)), None),
        (told(Some(LinkMode { half_duplex: false, ..mode })), None),
        (told(None), Some("its driver tells no speed then")),
        (down(), Some("it does not come up then")),
        (Err(DeviceError::Forbidden { interface: "eth0".to_owned() }), None),
    ] {
        assert_eq!(link::no_link(&stands), why, "{stands:?}");
    }
}
