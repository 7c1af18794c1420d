//! The simulator against theory, invariants and snapshots. All tests are one binary: each file is a module.

mod adapting;
mod applications;
mod choices;
mod cliff;
mod coverage;
mod invariants;
mod pauses;
mod queues;
mod sides;
mod snapshot;
mod speed;
mod theory;

mod trace {
    //! A trace agrees with the counts.

    use netcliff_core::{Host, Point};
    use netcliff_sim::{Activity, SimEngine};

    fn point(scheme: &str, kpps: f64) -> Point {
        let host = Host { application_s: Some(2e-6), ring: 64, socket_buffer: 32, ..Host::pentium4_2530mhz() };
        Point::poisson(host, scheme.parse().unwrap(), kpps * 1e3)
    }

    #[test]
    fn spans_are_in_order_and_levels_balance() {
        for scheme in ["interrupt", "napi:backlog", "polling", "coalesce:frames=8,usecs=50us"] {
            let trace = SimEngine::with_packets(7, 0).trace(&point(scheme, 150.0), 2000).unwrap();
            assert!(trace.cpu.windows(2).all(|pair| pair[0].to_s <= pair[1].from_s + 1e-15), "{scheme}");
            assert!(
                trace.cpu.windows(2).all(|pair| pair[0].to_s < pair[1].from_s || pair[0].activity != pair[1].activity)
            );
            assert!(trace.levels.iter().all(|(_, level)| level.socket <= 32), "{scheme}");
            let last = trace.levels.last().unwrap().1;
            assert!(last.dropped_ring + last.dropped_socket > 0, "{scheme} loses packets at this load");
        }
    }

    /// The trace shows the livelock: beyond the cliff of the interrupt scheme, no application runs after the start.
    #[test]
    fn a_livelock_can_be_seen() {
        let trace = SimEngine::with_packets(7, 0).trace(&point("interrupt", 400.0), 20_000).unwrap();
        let late = trace.cpu.iter().filter(|span| span.from_s > trace.end_s / 2.0);
        assert!(late.clone().count() > 1000);
        assert!(late.into_iter().all(|span| span.activity != Activity::Application));
    }

    #[test]
    fn the_json_is_json_with_a_span_and_two_counters_a_change() {
        let trace = SimEngine::with_packets(7, 0).trace(&point("napi", 50.0), 200).unwrap();
        let value: serde_json::Value = serde_json::from_str(&trace.chrome_json()).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 2 + trace.cpu.len() + trace.timers_s.len() + 2 * trace.levels.len());
        assert!(events.iter().any(|event| event["name"] == "interrupt"));
    }

    /// The sums over the tracks equal the CPU split of the counts.
    #[test]
    fn spans_add_up_to_the_cpu_split_and_timers_tick() {
        let point = point("polling:period=20us,quota=3", 100.0);
        let trace = SimEngine::with_packets(7, 0).trace(&point, 20_000).unwrap();
        let busy_s: f64 = trace.cpu.iter().map(|span| span.to_s.min(trace.end_s) - span.from_s).sum();
        let engine = SimEngine { confidence: 0.999, ..SimEngine::with_packets(7, 200_000) };
        let available = engine.simulate(&point).unwrap().outcome.cpu.unwrap().available.unwrap();
        assert!((1.0 - busy_s / trace.end_s - available.value).abs() < 0.02, "{available:?}");
        let ticks = trace.timers_s.len() as f64 / (trace.end_s / 20e-6);
        assert!((ticks - 1.0).abs() < 0.01, "{ticks} of the ticks");
    }
}
