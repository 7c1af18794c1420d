use super::*;

fn nic(coalesce: &[(&str, u32)]) -> Nic {
    let owned = |values: &[(&str, u32)]| values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Nic {
        name: "eth0".to_owned(),
        driver: Some("ice".to_owned()),
        coalesce: owned(coalesce),
        rings: owned(&[("rx", 512), ("rx-max", 4096)]),
        features: [("rx-gro".to_owned(), true)].into(),
        napi_settings: [("gro_flush_timeout".to_owned(), 0), ("threaded".to_owned(), 0)].into(),
        ..Nic::default()
    }
}

fn wanted(text: &str) -> Vec<Wanted> {
    let one = |item: &str| {
        let (key, value) = item.split_once('=').expect("key=value");
        DeviceKey::of(key).expect("a key").parse(value).expect("a value")
    };
    text.split(',').map(one).collect()
}

/// The steps of some settings, each as `what old>new`.
fn planned(nic: &Nic, text: &str) -> Result<String, String> {
    let of = |step: &Step| format!("{} {}>{}", step.setting, step.proposal.old, step.proposal.new);
    Ok(steps(nic, &wanted(text))?.iter().map(of).collect::<Vec<_>>().join("; "))
}

#[test]
fn what_resets_another_setting_is_made_before_it() {
    let adaptive = nic(&[("adaptive-rx", 1), ("rx-usecs", 50), ("rx-frames", 0)]);
    assert_eq!(
        planned(&adaptive, "rx-usecs=100,gro=off,rx=1024").as_deref(),
        Ok(
            "eth0 ring rx 512>1024; eth0 offload rx-gro on>off; eth0 coalesce adaptive-rx 1>0; eth0 coalesce rx-usecs 50>100"
        )
    );
    assert_eq!(planned(&adaptive, "adaptive-rx=on").as_deref(), Ok("eth0 coalesce adaptive-rx 1>1"));
    assert_eq!(
        planned(&nic(&[("rx-usecs", 50)]), "gro_flush_timeout=20us,threaded=on").as_deref(),
        Ok("/sys/class/net/eth0/gro_flush_timeout 0>20000; /sys/class/net/eth0/threaded 0>1")
    );
}

#[test]
fn what_a_device_does_not_have_is_named() {
    let mut veth = nic(&[]);
    (veth.driver, veth.kind) = (None, Some("veth".to_owned()));
    veth.missing.insert("coalesce".to_owned(), "Operation not supported".to_owned());
    for (nic, text, words) in [
        (&veth, "rx-usecs=100", &["eth0, veth, has no rx-usecs", "Operation not supported"][..]),
        (&nic(&[]), "rx=8192", &["eth0 has at most 4096 slots of rx"]),
        (&nic(&[]), "lro=on", &["has no lro"]),
        (&nic(&[]), "napi_defer_hard_irqs=2", &["does not offer napi_defer_hard_irqs for eth0"]),
    ] {
        let why = planned(nic, text).expect_err(text);
        assert!(words.iter().all(|word| why.contains(word)), "{text}: {why}");
    }
}

#[test]
fn values_are_read_and_refused_with_the_accepted_form() {
    let all = wanted("rx-usecs=100,adaptive-rx=off,gro=on,rx=256,gro_flush_timeout=20us,napi_defer_hard_irqs=2");
    assert_eq!(all.iter().map(|one| one.value).collect::<Vec<_>>(), [100, 0, 1, 256, 20_000, 2]);
    for (key, value, word) in [
        ("rx-usecs", "-1", "microseconds"),
        ("rx-usecs", "100us", "microseconds"),
        ("rx-frames", "x", "frames"),
        ("gro", "1", "on or off"),
        ("adaptive-rx", "1", "on or off"),
        ("threaded", "yes", "on or off"),
        ("rx", "0", "at least 1"),
        ("gro_flush_timeout", "20", "20us"),
        ("gro_flush_timeout", "10s", "4.29s"),
        ("napi_defer_hard_irqs", "many", "empty polls"),
    ] {
        let error = DeviceKey::of(key).expect(key).parse(value).expect_err(value).to_string();
        assert!(error.contains(value) && error.contains(word), "{key}={value}: {error}");
    }
    for key in DeviceKey::ALL {
        assert_eq!(DeviceKey::of(key.name()), Some(key));
    }
    assert_eq!(DeviceKey::of("tx-usecs"), None);
}

#[test]
fn values_in_force_are_told_as_they_are_given() {
    for (key, value, words) in [
        ("adaptive-rx", "1", "on"),
        ("threaded", "0", "off"),
        ("threaded", "2", "2"),
        ("gro", "off", "off"),
        ("gro_flush_timeout", "20000", "20us"),
        ("irq-suspend-timeout", "20000000", "20ms"),
        ("rx-usecs", "1", "1"),
    ] {
        assert_eq!(DeviceKey::of(key).expect(key).in_words(value), words, "{key}");
    }
}
