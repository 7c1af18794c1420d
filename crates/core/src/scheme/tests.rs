use super::*;

fn parse(text: &str) -> Scheme {
    text.parse().unwrap()
}

#[test]
fn every_scheme_round_trips_through_its_text() {
    let texts = [
        "interrupt:drops_interrupt=false",
        "disable-enable:merged=true",
        "polling:period=20us,quota=3",
        "napi-2007:period=30us,quota=5",
        "napi-2007:period=30us,quota=5,remember=true",
        "napi:weight=64,budget=300",
        "napi:backlog,threaded,ksoftirqd,defer_hard_irqs=3,gro_flush_timeout=50us,busy_poll,irq_suspend_timeout=1ms",
        "napi:rx_usecs=50us,rx_frames=8,packet_timer=0s,min_gap=20us",
        "coalesce:frames=8,usecs=50us,packet_timer=40us,min_gap=250us,masked=true",
        "coalesce:usecs=50us,free_timer=true",
        "freebsd-polling:period=2ms,burst_max=90,user_frac=20%",
        "soft-timers:period=40us,quota=5,trigger=0s,backup=400us,cost=25%",
        "hybrid:up=120kpps,down=110kpps,ewma=0.25",
        "dim:profile=cqe,start=0",
    ];
    for text in Scheme::names().into_iter().chain(texts) {
        let scheme = parse(text);
        assert_eq!(parse(&scheme.to_string()), scheme, "{text} -> {scheme}");
        let json = serde_json::to_string(&scheme).unwrap();
        assert_eq!(serde_json::from_str::<Scheme>(&json).unwrap(), scheme);
    }
}

#[test]
fn refuses_unknown_names_keys_and_values() {
    for (text, part) in [
        ("nappi", "expected one of ideal"),
        ("napi:wieght=3", "unknown key `wieght`; the keys here are: weight"),
        ("ideal:x=1", "the keys here are: none"),
        ("polling:quota=-1", "whole number"),
        ("polling:period=20", "20us"),
        ("polling:quota=1,quota=2", "given twice"),
        ("interrupt:drops_interrupt=maybe", "true or false"),
        ("dim:profile=tx", "eqe or cqe"),
        ("napi:min_gap=20us,gap=direct", "`gap` is how an emulated NIC departs from hardware"),
        ("napi:gap=each", "`gap` is how an emulated NIC"),
        ("napi:min_gap=20us,gap_late=5us", "`gap_late` is how an emulated NIC"),
        ("coalesce:gap=direct", "unknown key `gap`"),
    ] {
        let error = text.parse::<Scheme>().expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn impossible_parameters_name_value_and_range() {
    let host = Host::pentium4_2530mhz();
    for (text, part) in [
        ("polling:quota=0", "quota = 0: must be at least 1"),
        ("polling:period=1us", "period = 1us: must be longer than the poll overhead (1.59us)"),
        ("coalesce:frames=2000", "frames = 2000: must be at most the ring (1024 slots)"),
        ("napi:weight=0", "weight = 0"),
        ("coalesce:frames=8,free_timer=true", "free_timer = true: needs usecs above 0"),
        ("coalesce:usecs=0s,free_timer=true", "free_timer = true: needs usecs above 0"),
        ("napi-2007:quota=0,remember=true", "quota = 0"),
        ("freebsd-polling:user_frac=100%", "user_frac = 100%: must be a whole percentage from 0 % to 99 %"),
        ("freebsd-polling:user_frac=12.5%", "whole percentage"),
        ("freebsd-polling:burst_max=0", "at least 1"),
        ("soft-timers:period=1us", "period = 1us: must be longer than the poll overhead"),
        ("soft-timers:backup=10us", "backup = 10us: must not be shorter than period"),
        ("soft-timers:cost=150%", "cost = 1.5: must be a share from 0 to 1"),
        ("napi:defer_hard_irqs=2", "needs gro_flush_timeout"),
        ("napi:rx_frames=0,rx_usecs=1us", "rx_frames = 0: must be at least 1"),
        ("napi:rx_frames=2000,rx_usecs=1us", "rx_frames = 2000: must be at most the ring (1024 slots)"),
        ("napi:rx_frames=8", "rx_frames = 8: needs rx_usecs or packet_timer above 0"),
        ("napi:rx_frames=8,rx_usecs=0s,min_gap=9us", "rx_frames = 8: needs rx_usecs or packet_timer above 0"),
        ("napi:min_gap=1e9s", "min_gap = 1000000000s: must be 0s, or a time from"),
        ("napi:backlog,min_gap=20us", "backlog = true: has no NIC in front of it"),
        ("napi:gap=direct", "gap = direct: needs min_gap above 0"),
        ("napi:min_gap=20us,gap=direct,gap_late=5us", "gap_late = 5us: is of gap=echo only"),
        ("napi:min_gap=20us,gap=echo,rx_usecs=5us", "gap = echo: interrupts for each packet"),
        ("napi:gap=reopened,min_gap=20us", "gap = reopened: keeps no gap"),
        ("napi:gap=reopened,rx_usecs=5us", "gap = reopened: interrupts for each packet"),
        ("napi:gap=latched,backlog", "backlog = true: has no NIC in front of it"),
        ("napi:backlog,rx_frames=1", "backlog = true: has no NIC in front of it"),
        ("hybrid:up=100kpps,down=110kpps", "down = 110kpps: must not be above up (100kpps)"),
        ("dim:start=9", "dim start = 9"),
    ] {
        let error = Scheme::of_record(text).unwrap().validate(&host).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

proptest::proptest! {
    #[test]
    fn moderation_round_trips_through_its_text(
        frames in proptest::option::of(1..1000_u64),
        timers in proptest::array::uniform4(proptest::option::of(0.0..1e-2_f64)),
        weight in 1..500_u64,
        threaded: bool,
        gap in proptest::sample::select(Gap::ALL.as_slice()),
    ) {
        let [absolute_timer_s, packet_timer_s, min_gap_s, gap_late_s] = timers;
        let quirk = Quirk { gap, gap_late_s };
        let moderation = Moderation { frames, absolute_timer_s, packet_timer_s, min_gap_s, quirk };
        let scheme = Scheme::Napi(Napi { weight, threaded, moderation, ..Napi::default() });
        proptest::prop_assert_eq!(Scheme::of_record(&scheme.record()).unwrap(), scheme.clone());
        let json = serde_json::to_string(&scheme).unwrap();
        proptest::prop_assert_eq!(serde_json::from_str::<Scheme>(&json).unwrap(), scheme.clone());
        // Users read and write it without the quirk.
        let Scheme::Napi(mut plain) = scheme.clone() else { unreachable!() };
        plain.moderation.quirk = Quirk::default();
        proptest::prop_assert_eq!(parse(&scheme.to_string()), Scheme::Napi(plain));
    }
}
