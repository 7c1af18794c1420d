//! Random inputs that the command line accepts: every scheme with any parameters, on any host and at any rate, either
//! has an outcome with possible figures ([`netcliff_core::Outcome::check`]), or is refused with a reason that a user
//! can act on.

use netcliff_core::{Engine, EngineFailure, Host, Load, Point, Traffic};
use netcliff_model::{Fidelity, ModelEngine};
use proptest::prelude::*;

/// A time: 0, or from 1e-18 s to 1e6 s, mostly close to the times of real hosts.
fn time_s() -> impl Strategy<Value = f64> {
    prop_oneof![
        1 => Just(0.0),
        4 => (-8.0..-4.0_f64).prop_map(|power| 10_f64.powf(power)),
        1 => (-18.0..6.0_f64).prop_map(|power| 10_f64.powf(power)),
    ]
}

/// A count, mostly small, up to 2^31 - 1.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1..9_u64, 3 => 9..80_u64, 1 => 80..2_147_483_647_u64]
}

fn scheme() -> impl Strategy<Value = String> {
    let timer = || time_s().prop_map(|seconds| format!("{seconds:e}s"));
    let some = || prop::option::of(timer());
    let flag = || any::<bool>();
    let coalesce = (prop::option::of(count()), some(), some(), some(), flag(), flag(), flag());
    prop_oneof![
        Just("ideal".to_owned()),
        flag().prop_map(|drops| format!("interrupt:drops_interrupt={drops}")),
        flag().prop_map(|merged| format!("disable-enable:merged={merged}")),
        (timer(), count()).prop_map(|(period, quota)| format!("polling:period={period},quota={quota}")),
        (timer(), count(), flag()).prop_map(|(period, quota, remember)| {
            format!("napi-2007:period={period},quota={quota},remember={remember}")
        }),
        (timer(), count(), flag())
            .prop_map(|(period, quota, merged)| format!("hybrid:period={period},quota={quota},merged={merged}")),
        (count(), flag()).prop_map(|(weight, backlog)| format!("napi:weight={weight},backlog={backlog}")),
        (flag(), 0..5_u32)
            .prop_map(|(cqe, start)| format!("dim:profile={},start={start}", if cqe { "cqe" } else { "eqe" })),
        coalesce.prop_map(|(frames, usecs, packet, gap, masked, drops, free)| {
            let mut text = format!("coalesce:masked={masked},drops_interrupt={drops},free_timer={free}");
            frames.into_iter().for_each(|frames| text += &format!(",frames={frames}"));
            for (key, timer) in [("usecs", usecs), ("packet_timer", packet), ("min_gap", gap)] {
                timer.into_iter().for_each(|timer| text += &format!(",{key}={timer}"));
            }
            text
        }),
    ]
}

fn host() -> impl Strategy<Value = Host> {
    let times = (time_s(), time_s(), time_s(), time_s(), time_s());
    // Larger rings only take longer; `large_rings_take_no_time` tests them.
    let ring = prop_oneof![4 => 1..9_u64, 3 => 9..130_u64, 1 => 130..3000_u64];
    let service = prop_oneof![
        6 => Just("exponential"),
        1 => Just("deterministic"),
        1 => Just("erlang:stages=3"),
        1 => Just("lognormal:cv=0.7"),
        1 => Just("hyperexponential:cv=2"),
    ];
    (times, prop::option::weighted(0.2, time_s()), ring, 1..300_u64, service).prop_map(
        |(
            (interrupt_s, interrupt_latency_s, protocol_s, mask_s, poll_s),
            application_s,
            ring,
            socket_buffer,
            service,
        )| Host {
            interrupt_s,
            interrupt_latency_s,
            protocol_s,
            mask_s,
            poll_s,
            application_s,
            ring,
            socket_buffer,
            service: service.parse().unwrap(),
            ..Host::pentium4_2530mhz()
        },
    )
}

fn offered() -> impl Strategy<Value = (Traffic, Load)> {
    let power = prop_oneof![3 => 3.0..7.0_f64, 1 => -6.0..13.0_f64];
    let arrivals = prop_oneof![6 => Just("poisson"), 1 => Just("mmpp:peak=4,busy=10%,stay=1ms")];
    (power, arrivals, any::<bool>()).prop_map(|(power, arrivals, mixed)| {
        let size = if mixed { "imix" } else { "64B" }.parse().unwrap();
        let traffic = Traffic { arrivals: arrivals.parse().unwrap(), size, ..Traffic::default() };
        (traffic, Load::Pps(10_f64.powf(power)))
    })
}

// Each run tests new random points: 400 of them show a defect that affects one in 100 with a probability of 98 %.
proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_point_is_answered_or_refused(host in host(), scheme in scheme(), (traffic, load) in offered(), paper in 0..6_u8, quantiles: bool) {
        let fidelity = [Fidelity::Paper, Fidelity::Printed].get(usize::from(paper)).copied().unwrap_or_default();
        let point = Point { host, scheme: scheme.parse().unwrap(), traffic, load };
        match (ModelEngine { quantiles, ..ModelEngine::new(fidelity) }).evaluate(&point) {
            Ok(_) | Err(EngineFailure::Invalid(_) | EngineFailure::Unsupported(_)) => {}
            Err(defect) => prop_assert!(false, "{} {:?} {fidelity}: {defect}", point.scheme, point),
        }
    }
}

/// A polling period of 5e-16 s, whose effect is smaller than rounding errors, is refused.
#[test]
fn a_period_without_arrivals_is_refused() {
    let host = Host { application_s: Some(0.2e-6), per_byte_s: 1.3e-9, ..Host::default() };
    let point = Point::poisson(host, "polling:period=0.0000005ns,quota=2".parse().unwrap(), 9e5);
    let refused = ModelEngine::new(Fidelity::Exact).evaluate(&point).unwrap_err().to_string();
    assert!(refused.contains("give a longer period"), "{refused}");
}

/// A polling period whose arrivals have a distribution of 80 GB and more is refused.
#[test]
fn a_period_of_too_many_arrivals_is_refused() {
    let host = Host { application_s: Some(2e-6), ..Host::pentium4_2530mhz() };
    for (scheme, pps) in [("polling:period=10000s,quota=3", 1e6), ("napi-2007:period=100s,quota=3", 1e9)] {
        let point = Point::poisson(host.clone(), scheme.parse().unwrap(), pps);
        let refused = ModelEngine::new(Fidelity::Exact).evaluate(&point).unwrap_err().to_string();
        assert!(
            refused.contains("events of the chain") && refused.contains("use the simulator"),
            "{scheme}: {refused}"
        );
    }
}
