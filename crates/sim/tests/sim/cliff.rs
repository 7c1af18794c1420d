//! The cliff of a host like the hosts that calibration measures: Linux, backlog reception, an application.

use netcliff_core::{Engine, Host, Outcome, Point, Service, Traffic};
use netcliff_sim::{Cliff, Effort, SimEngine, Start, cliff_sim, cliff_sim_unless};

/// Costs measured on a small virtual machine, rounded.
fn calibrated() -> Host {
    Host {
        name: "calibrated".to_owned(),
        interrupt_s: 1.5e-6,
        protocol_s: 0.9e-6,
        per_byte_s: 0.0,
        mask_s: 0.0,
        poll_s: 0.5e-6,
        application_s: Some(1e-6),
        context_switch_s: 2e-6,
        wakeup_s: 1e-6,
        socket_drop_cost: 0.6,
        ring: 1000,
        socket_buffer: 5000,
        tick_s: 4e-3,
        service: Service::Erlang { stages: 4 },
        ..Host::pentium4_2530mhz()
    }
}

fn point(scheme: &str, pps: f64) -> Point {
    Point::poisson(calibrated(), scheme.parse().unwrap(), pps)
}

fn evaluate(scheme: &str, pps: f64) -> Outcome {
    // The test needs only throughput and losses; latencies need not be precise, although packets may wait long.
    let engine = SimEngine { effort: Effort::Exactly(2_000_000), ..SimEngine::default() };
    engine.evaluate(&point(scheme, pps)).unwrap()
}

fn cliff(scheme: &str) -> Cliff {
    cliff_sim(&SimEngine::default(), &calibrated(), &scheme.parse().unwrap(), &Traffic::default(), 1e-4).unwrap()
}

/// Beyond its cliff, a host whose softirqs preempt the application starves it, as seen on real kernels.
#[test]
fn backlog_reception_with_an_application_falls_into_livelock() {
    let cliff = cliff("napi:backlog");
    let load = cliff.load_pps.value;
    // Between the cost of a packet alone (protocol + application) and that cost plus one interrupt and one poll: the
    // application does not sleep at the cliff.
    assert!(load < 1.0 / 1.9e-6, "{load}");
    assert!(load > 1.0 / 3.9e-6, "{load}");
    assert!(cliff.load_pps.covers(load));
    assert!(cliff.load_pps.relative_half_width() < 0.05, "{:?}", cliff.load_pps);
    let throughput = |pps| evaluate("napi:backlog", pps).throughput_pps.unwrap().value;
    let (peak, past) = (throughput(load), throughput(4.0 * load));
    assert!(past < 0.2 * peak, "{peak} at the cliff, {past} at 4 times");
}

/// Kernels before 6.5: beyond the cliff, ksoftirqd and the application alternate by ticks.
#[test]
fn an_older_kernel_shares_with_its_application() {
    let shares = |scheme| evaluate(scheme, 2e6).cpu.expect("shares");
    let (older, newer) = (shares("napi:backlog,ksoftirqd"), shares("napi:backlog"));
    assert!(newer.application.unwrap().value < 0.02, "{newer:?}");
    assert!((0.4..0.6).contains(&older.application.unwrap().value), "{older:?}");
    // The application never sleeps: a packet takes 1 us of its time and causes no wake-up.
    let throughput = evaluate("napi:backlog,ksoftirqd", 2e6).throughput_pps.unwrap().value;
    assert!((throughput * 1e-6 / older.application.unwrap().value - 1.0).abs() < 0.1, "{throughput}: {older:?}");
}

/// A search finds the same cliff from any start; a start near the cliff needs fewer loads.
#[test]
fn a_search_may_begin_anywhere() {
    let from = |start| {
        let at = |load_pps| point("napi:backlog", load_pps);
        cliff_sim_unless(&SimEngine::default(), &at, 1e-4, start, &|| false).unwrap().expect("not stopped")
    };
    let anywhere = from(Start::guess(&calibrated(), &Traffic::default()));
    let found_pps = anywhere.load_pps.value;
    for share in [0.5, 1.02, 1.7] {
        let near = from(Start::Near(share * found_pps));
        assert!((near.load_pps.value / found_pps - 1.0).abs() < 0.01, "{share}: {:?}, {found_pps}", near.load_pps);
        if share == 1.02 {
            assert!(near.sweep.len() < anywhere.sweep.len(), "{} {}", near.sweep.len(), anywhere.sweep.len());
        }
    }
}

/// On a host with losses in a band of loads and a second cliff above the band, the lower end of the band is the cliff.
#[test]
fn of_two_cliffs_the_lower_one_is_found() {
    let from = |band_pps: std::ops::Range<f64>| {
        let slow = |load_pps: f64| if band_pps.contains(&load_pps) { 20.0 } else { 1.0 };
        let at = |load_pps: f64| {
            let usual = point("napi:backlog", load_pps);
            Point { host: Host { application_s: Some(slow(load_pps) * 1e-6), ..usual.host }, ..usual }
        };
        let engine = SimEngine { effort: Effort::Exactly(300_000), ..SimEngine::default() };
        let start = Start::guess(&Host { application_s: Some(1e-6), ..calibrated() }, &Traffic::default());
        cliff_sim_unless(&engine, &at, 1e-4, start, &|| false).unwrap().expect("not stopped").load_pps.value
    };
    let usual_pps = from(0.0..0.0);
    let band_pps = 0.4 * usual_pps..0.6 * usual_pps;
    assert!((from(band_pps.clone()) / band_pps.start - 1.0).abs() < 0.01, "{usual_pps}");
}

/// Up to the softirq's own limit, packets are lost at the socket; beyond it also at the backlog. Interrupts then cease.
#[test]
fn past_the_cliff_packets_are_lost_where_the_cpu_is_not() {
    let (near, far) = (evaluate("napi:backlog", 600e3), evaluate("napi:backlog", 2e6));
    let value = |figure: Option<netcliff_core::Figure>| figure.unwrap().value;
    let (near_loss, far_loss) = (near.loss.unwrap(), far.loss.unwrap());
    assert!(value(near_loss.ring) < 1e-3 && value(near_loss.socket) > 0.3, "{near_loss:?}");
    assert!(value(far_loss.ring) > 0.05 && value(far_loss.socket) > 0.3, "{far_loss:?}");
    assert!(value(far.cpu.unwrap().protocol) > 0.9, "{:?}", far.cpu);
    assert!(value(far.interrupts_per_s) < 0.1 * value(near.interrupts_per_s));
}
