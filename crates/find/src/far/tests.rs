use super::*;
use netcliff_remote::load::Carrier;

/// Whether an agent whose clients may change these interfaces takes these checks at eth1.
fn allowed(settings: Permission, checks: &[&str]) -> Result<(), String> {
    let checks: Vec<CheckSetup> = checks.iter().map(|text| text.parse().expect("a check")).collect();
    let desk = Arc::<OrderQueue>::default();
    let carrier: Box<dyn Carrier> =
        Box::new(Reverse { desk, shares_clock: false, fingerprint: Fingerprint::default(), peer: "a test".to_owned() });
    let between = BetweenOptions {
        interface: "eth1".to_owned(),
        carriers: vec![Arc::new(Mutex::new(carrier))],
        their_interface: None,
        by_control_link: false,
        sending: Sending::default(),
    };
    let rig = RigOptions { between: Some(between), ..RigOptions::default() };
    FindKind { permission: Permission::Any, settings, most_pps: None }.allows(&checks, &rig)
}

#[test]
fn checks_change_only_what_the_agent_lets_clients_change() {
    let only = |name: &str| Permission::Interfaces(vec![name.to_owned()]);
    assert_eq!(allowed(Permission::Interfaces(Vec::new()), &["size=512B", "backlog=200"]), Ok(()));
    assert_eq!(allowed(only("eth1"), &["rx-usecs=100"]), Ok(()));
    assert_eq!(allowed(Permission::Any, &["rx-usecs=100"]), Ok(()));
    let none =
        allowed(Permission::Interfaces(Vec::new()), &["size=512B", "rx-usecs=100"]).expect_err("none is allowed");
    let other = allowed(only("eth0"), &["gro=off"]).expect_err("another is allowed");
    for (why, words) in [
        (none, ["--check rx-usecs=100 changes eth1", "change none", "--allow-settings eth1"]),
        (other, ["--check gro=off changes eth1", "change eth0", "--allow-settings eth1"]),
    ] {
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
    }
}
