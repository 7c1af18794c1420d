use super::*;
use crate::stream::Method;
use crate::stream::tests::options;

fn phase(p50_s: f64, late_mean_s: f64) -> ProbePhase {
    ProbePhase { sent: 10, answered: 10, p50_s: Some(p50_s), late_mean_s: Some(late_mean_s), ..ProbePhase::default() }
}

fn queue(name: &str, unit: &str, shared: bool, idle: f64, loaded: f64) -> ProbeQueue {
    let unit = unit.to_owned();
    ProbeQueue { name: name.to_owned(), unit, shared, idle, loaded, recovering: 0.0, max: loaded }
}

/// The queue in which requests wait is named, with the delay that it causes. The transfer's own queues are mentioned in
/// addition.
#[test]
fn the_queue_that_grew_is_named() {
    let (idle, loaded) = (phase(50e-6, 0.0), phase(20e-3, 0.0));
    let qdisc = queue("qdisc tbf of veth0", "bytes", true, 0.0, 125_000.0);
    let backlog = queue("softnet backlog of CPU 1", "packets", true, 0.1, 12.5);
    let own = queue("send buffers of the transfer", "bytes", false, 0.0, 2_500_000.0);
    let named = |queues: &[ProbeQueue]| grew(&idle, &loaded, queues, Some(100e6));
    assert_eq!(named(&[backlog.clone(), qdisc]), "qdisc tbf of veth0 (125 kB on average, 10ms at this goodput)");
    assert_eq!(named(&[backlog]), "softnet backlog of CPU 1 (12.5 packets on average)");
    assert!(named(std::slice::from_ref(&own)).starts_with("none that is seen from here"));
    assert!(named(&[own]).ends_with("holds its own data up by 200ms"));
    let late = grew(&idle, &phase(1e-3, 5e-4), &[], None);
    assert_eq!(late, "the run queue of the CPUs: requests left 500us later than without the transfer");
    assert!(grew(&idle, &phase(51e-6, 0.0), &[], None).starts_with("none that requests wait in"));
    assert!(grew(&idle, &ProbePhase::default(), &[], None).starts_with("not known"));
}

/// A request belongs to the phase in which it was sent. Requests of the warm-up belong to no phase, but are in the plot
/// over time.
#[test]
fn requests_belong_to_the_phase_in_which_they_were_sent() {
    const MS: u64 = 1_000_000;
    let trip = |sent_ms: u64, took_us: u64| RoundTrip {
        due_ns: sent_ms * MS,
        sent_ns: sent_ms * MS,
        arrived_ns: sent_ms * MS + took_us * 250,
        answered_ns: (took_us > 0).then_some(sent_ms * MS + took_us * 1000),
    };
    let trips = vec![
        trip(10, 100),
        trip(20, 100),
        trip(120, 9000),
        trip(210, 400),
        trip(220, 600),
        trip(230, 0),
        trip(320, 200),
    ];
    let probed = Probed {
        trips,
        begun_ns: 100 * MS,
        opened_ns: Some(200 * MS),
        closed_ns: Some(300 * MS),
        same_clock: true,
        looks: vec![
            Observed { at_ns: 50 * MS, queues: vec![(Queue::SendBuffers, 0)] },
            Observed { at_ns: 250 * MS, queues: vec![(Queue::SendBuffers, 3000)] },
        ],
        ..Probed::default()
    };
    let mut asked = options(Method::Default);
    asked.probe = Some(ProbeOptions { transport: Transport::Udp, every_s: 0.01, around_s: 0.1, far: None });
    let all = [&probed];
    let counts = [Phase::Idle, Phase::Loaded, Phase::Recovering].map(|phase| of_phase(&all, phase));
    assert_eq!(counts.map(|phase| (phase.sent, phase.answered)), [(2, 2), (3, 2), (1, 1)]);
    let added_s = added_one_way(&all, |trip| trip.arrived_ns.checked_sub(trip.sent_ns)).expect("one clock");
    assert!((added_s - 75e-6).abs() < 1e-9, "{added_s}");
    let points = over_time(&all);
    assert_eq!(points.iter().map(|point| point.sent).sum::<u64>(), 7);
    let slow = |point: &ProbePoint| point.max_s.is_some_and(|max_s| (max_s - 9e-3).abs() < 1e-9);
    assert!(points[0].at_s < -0.18 && points.iter().any(slow), "{points:?}");
    let seen = queues(&all);
    assert_eq!((seen[0].idle, seen[0].loaded, seen[0].shared), (0.0, 3000.0, false));
    let repeat = Repeat {
        transfer: crate::bulk::Transfer { flows: Vec::new(), cut_short: None, far: None, many: None },
        ticks: Vec::new(),
        exact: Vec::new(),
        devices: None,
        probe: Some(probed),
    };
    let row = row(&asked, &[repeat], None).expect("it was asked for");
    assert!(row.added_p50_s.is_some_and(|added_s| (added_s - 300e-6).abs() < 1e-9), "{row:?}");
}

/// A refused setting is reported with the accepted range.
#[test]
fn settings_out_of_range_are_refused() {
    let template = options(Method::Default).template;
    let usual = ProbeOptions { transport: Transport::Udp, every_s: 0.01, around_s: 1.0, far: None };
    assert!(usual.check(&template, 1.0).is_ok());
    let told = |asked: ProbeOptions, time_s: f64| asked.check(&template, time_s).expect_err("refused").to_string();
    assert!(told(ProbeOptions { every_s: 1e-6, ..usual.clone() }, 1.0).contains("1ms to 1s"));
    assert!(told(ProbeOptions { around_s: 0.0, ..usual.clone() }, 1.0).contains("10ms to 3600s"));
    assert!(told(ProbeOptions { every_s: 1e-3, ..usual.clone() }, 86_400.0).contains("ask less often"));
    let pipe = Settings { channel: Channel::Pipe, ..template.clone() };
    assert!(usual.check(&pipe, 1.0).expect_err("refused").to_string().contains("tcp, mptcp or udp"));
}
