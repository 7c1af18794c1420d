use super::*;

#[test]
fn preset_has_the_papers_service_time() {
    let host = Host::preset("pentium4-2530mhz").unwrap();
    assert!((host.service_s(64.0) - 5.3356e-6).abs() < 1e-9);
    assert!(host.validate().is_ok());
}

#[test]
fn set_reads_every_key_and_refuses_others() {
    let mut host = Host::pentium4_2530mhz();
    for Key { name, unit, .. } in TABLE {
        let value = match (unit, *name) {
            (Unit::Slots | Unit::Packets, _) | (_, "queues" | "applications") => "7",
            (Unit::Time, _) => "7us",
            (Unit::Ratio, _) => "50%",
            (_, "transmit_load") => "50kpps",
            (_, "transmit_priority") => "after",
            (_, "service") => "lognormal:cv=0.5",
            (Unit::Text, _) => "constant",
        };
        host.set(&format!("{name}={value}")).unwrap();
    }
    assert_eq!((host.ring, host.interrupt_s, host.application_s), (7, 7e-6, Some(7e-6)));
    let error = host.set("interupt=3us").unwrap_err().to_string();
    assert!(error.contains("interupt=3us") && error.contains("interrupt"), "{error}");
    assert!(host.set("interrupt=-3us").unwrap_err().to_string().contains("--set interrupt"));
}

/// The texts of its keys restore a host, including values that are not numbers.
#[test]
fn a_text_of_a_key_sets_it_again() {
    let mut host = Host::pentium4_2530mhz();
    assert_eq!((host.text("transmit_load"), host.text("name"), host.text("interupt")), (None, None, None));
    for (key, value) in [
        ("transmit_load", "150kpps"),
        ("transmit_priority", "after"),
        ("applications", "7"),
        ("pause_times", "constant"),
        ("service", "lognormal:cv=0.5"),
        ("queues", "7"),
        ("ring", "64"),
        ("pause", "3us"),
    ] {
        host.set(&format!("{key}={value}")).unwrap();
    }
    let mut other = Host::pentium4_2530mhz();
    for key in KEYS {
        if let Some(text) = host.text(key) {
            other.set(&format!("{key}={text}")).unwrap();
        }
    }
    assert_eq!(other, host);
    assert_eq!(host.text("transmit_load").as_deref(), Some("150kpps"));
    assert!(TEXT_KEYS.iter().all(|key| host.text(key).is_some() && host.get(key).is_none()));
}

#[test]
fn keys_of_text_are_those_of_the_table() {
    let texts = |key: &str| TABLE.iter().any(|row| row.name == key && row.unit == Unit::Text);
    assert!(TEXT_KEYS.iter().all(|key| texts(key)));
    assert_eq!(TABLE.iter().filter(|row| row.unit == Unit::Text).count(), TEXT_KEYS.len());
}

#[test]
fn none_takes_away_what_a_row_says() {
    for key in TABLE {
        let mut host = Host::default();
        assert_eq!(host.set(&format!("{}=none", key.name)).is_ok(), key.takes_none, "{}", key.name);
        assert_eq!(host, Host::default(), "{}", key.name);
    }
}

#[test]
fn a_host_file_round_trips() {
    let mut host = Host::pentium4_2530mhz();
    host.application_s = Some(2e-6);
    let text = toml::to_string(&host).unwrap();
    assert_eq!(Host::from_toml("host.toml", &text).unwrap(), host);
}

#[test]
fn a_host_file_says_line_value_and_form() {
    let error = Host::from_toml("my.toml", "protocol = \"5us\"\ninterrupt = \"20\"\n").unwrap_err().to_string();
    for part in ["my.toml", "line 2", "\"20\"", "20us"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = Host::from_toml("my.toml", "protocol = 5\n").unwrap_err().to_string();
    assert!(error.contains("line 1") && error.contains("\"20us\" in quotes"), "{error}");
    let error = Host::from_toml("my.toml", "protocol = \"5us\"\nrings = 20\n").unwrap_err().to_string();
    assert!(error.contains("rings") && error.contains("line 2") && error.contains("ring"), "{error}");
    let error = Host::from_toml("my.toml", "protocol = \"5us\"\nring = 0\n").unwrap_err().to_string();
    assert!(error.contains("ring = 0"), "{error}");
}

#[test]
fn flow_control_must_leave_room_between_its_marks() {
    let with = |settings: &[&str]| {
        let mut host = Host::pentium4_2530mhz();
        settings.iter().for_each(|setting| host.set(setting).unwrap());
        host.validate().map_err(|error| error.to_string())
    };
    assert!(with(&["xoff=1024", "xon=1023"]).is_ok());
    assert!(with(&["xoff=1"]).is_ok());
    for (settings, parts) in [
        (&["xoff=100", "xon=100"][..], ["xon = 100", "below xoff (100"]),
        (&["xoff=1025"][..], ["xoff = 1025", "at most the ring (1024"]),
        (&["xoff=0"][..], ["xoff = 0", "at least 1"]),
        (&["xon=5"][..], ["xon = 5", "xoff"]),
        (&["xoff=5", "sender_queue=0"][..], ["sender_queue = 0", "at least 1"]),
        (&["xoff=5", "queues=2"][..], ["xoff = 5", "all queues"]),
        (&["transmit=1us", "transmit_load=0%"][..], ["transmit_load", "above 0"]),
        (&["transmit_load=50%"][..], ["transmit_load", "transmit"]),
    ] {
        let error = with(settings).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{settings:?}: {error}");
    }
    let error = Host::pentium4_2530mhz().set("transmit_priority=same").unwrap_err().to_string();
    assert!(error.contains("same") && error.contains("before or after"), "{error}");
}

#[test]
fn what_a_host_does_besides_receiving_round_trips() {
    let mut host = Host::pentium4_2530mhz();
    for setting in ["xoff=800", "xon=200", "transmit=1us", "transmit_load=50%", "transmit_priority=after"] {
        host.set(setting).unwrap();
    }
    let text = toml::to_string(&host).unwrap();
    assert!(text.contains("xoff = 800") && text.contains("transmit_load = \"50%\""), "{text}");
    assert_eq!(Host::from_toml("host.toml", &text).unwrap(), host);
    assert!(!toml::to_string(&Host::pentium4_2530mhz()).unwrap().contains("transmit"));
}

#[test]
fn a_file_that_names_nothing_is_the_default() {
    let read: Host = toml::from_str("protocol = \"0s\"").expect("a host file");
    assert_eq!(read, Host::default());
}
