//! Flows spread over several CPUs.

use super::*;
use crate::exchange::report::ServerCount;

fn spread(transport: Transport) -> Settings {
    // CPU 0 exists on every host. This test only checks that every flow reaches its far end.
    Settings { client_cpus: vec![0, 0], server_cpus: vec![0, 0, 0], flows: 3, ..settings(transport) }
}

#[test]
fn flows_of_every_transport_find_their_far_ends() {
    for transport in [Transport::Tcp, Transport::Udp, Transport::Unix] {
        sound(&both(&spread(transport)), &format!("{transport:?}"));
    }
    sound(&both(&Settings { connect_each: true, ..spread(Transport::Tcp) }), "connect each");
}

#[test]
fn ends_of_a_flow_on_one_cpu_are_known() {
    let on = |client_cpus: &[usize], server_cpus: &[usize]| {
        let asked = Settings {
            client_cpus: client_cpus.to_vec(),
            server_cpus: server_cpus.to_vec(),
            flows: 2,
            client_cpu: Some(0),
            server_cpu: Some(1),
            ..settings(Transport::Tcp)
        };
        asked.shares_a_cpu()
    };
    assert!(!on(&[], &[]) && !on(&[0, 1], &[1, 0]) && !on(&[0, 2], &[]));
    assert!(on(&[0, 1], &[]) && on(&[0, 1], &[2, 1]));
}

#[test]
fn a_cpu_of_a_list_that_does_not_exist_is_named_by_its_end() {
    let token = Token::new().expect("random bytes");
    let wrong = Settings { server_cpus: vec![0, 100_000], ..spread(Transport::Tcp) };
    let error = Server::listen(&wrong, LOOPBACK, token, &Placement::default()).unwrap_err().to_string();
    assert!(error.contains("cpu is 100000"), "{error}");
    let wrong = Settings { client_cpus: vec![0, 100_000], ..spread(Transport::Tcp) };
    let server = Server::listen(&wrong, LOOPBACK, token, &Placement::default()).expect("it listens");
    let stop = AtomicBool::new(false);
    let error = run(&wrong, near(targets(&wrong, server.ports()), token, &stop), &mut || None, None).unwrap_err();
    assert!(error.to_string().contains("cpu is 100000"), "{error}");
    let many = Settings { server_cpus: vec![0; 257], ..spread(Transport::Tcp) };
    let error = Server::listen(&many, LOOPBACK, token, &Placement::default()).unwrap_err().to_string();
    assert!(error.contains("server_cpus is 257: expected at most 256"), "{error}");
}

#[test]
fn a_far_host_that_does_not_tell_its_cpus_is_said_not_to() {
    let settings = settings(Transport::Tcp);
    let told = |tells: bool| {
        let token = Token::new().expect("random bytes");
        let stop = AtomicBool::new(false);
        let mut server = Server::listen(&settings, LOOPBACK, token, &Placement::default()).expect("it listens");
        let near = Near { same_host: false, ..near(targets(&settings, server.ports()), token, &stop) };
        let mut far = || {
            let count = server.count();
            Some(if tells { count } else { ServerCount { ticks: None, ..count } })
        };
        run(&settings, near, &mut far, None).expect("it runs")
    };
    let why = |report: &Report| report.notes.iter().any(|note| note.contains("by ticks: not available: its agent"));
    let report = told(true);
    assert!(!report.ticks.far.is_empty() && !why(&report), "{:?}", report.notes);
    let report = told(false);
    assert!(report.ticks.far.is_empty() && why(&report), "{:?}", report.notes);
}
