//! `find --to` of a service on another host that an agent there meters: two namespaces joined by a link.

use std::time::Duration;

use netcliff_testkit::{Need, has, has_program};

use crate::common::bed::{AGENT, Bed, PATIENCE, ip, key};
use crate::common::running::{Ended, Running};
use crate::common::{Home, number_at};
use crate::schema::printed;

/// Longest permitted duration of a short run, next to other work.
const WHOLE: Duration = Duration::from_secs(120);

/// Returns datagrams after 1 ms of CPU time for each: less than 1000 per second.
const ECHO: &str = "import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.99.0.2', 5300))
print('ready', file=sys.stderr, flush=True)
while True:
    data, peer = s.recvfrom(2048)
    until = time.thread_time() + 0.001
    while time.thread_time() < until:
        pass
    s.sendto(data, peer)
";

/// Starts the service on these CPUs of the far end.
fn service(bed: &Bed, home: &Home, cpus: &str) -> Running {
    let echo = home.file("echo.py", ECHO);
    let mut service = Running::of(bed.inside(1, home, &["taskset", "-c", cpus, "python3", &echo], &[]));
    service.until("ready", PATIENCE);
    service
}

/// Starts an agent at the far end.
fn agent(bed: &Bed, home: &Home, key: &str) -> Running {
    let mut agent = Running::of(bed.inside(1, home, &[], &["agent", "--listen", AGENT, "--key", key]));
    agent.until("agent listens on", PATIENCE);
    agent
}

/// Steers packets to the service to its CPU, as in the testbed.
fn steer(bed: &Bed, home: &Home) {
    for (end, mask) in [(0, "1"), (1, "2")] {
        let file = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", bed.ends()[end].1);
        let set = bed.inside(end, home, &["sh", "-c", "echo $0 >$1", mask, &file], &[]).status().expect("a shell");
        assert!(set.success(), "RPS can not be set");
    }
}

#[test]
fn an_agent_meters_the_service_on_its_host() {
    if !(has(Need::Cpus) && has(Need::Ebpf) && has_program("python3") && has_program("taskset")) {
        return;
    }
    let Some(bed) = Bed::new("service") else { return };
    let home = Home::new();
    let key = key(&home);
    steer(&bed, &home);
    let find = |to: &str, more: &[&str]| -> Ended {
        let short = "find --quick --trial 400ms --searches 1 --width 10% --json --request udp:0000aabb --match 0:2 --loss 1% --p99 60ms";
        let args: Vec<&str> = short.split(' ').chain(["--to", to, "--key", &key]).chain(more.iter().copied()).collect();
        Running::of(bed.inside(0, &home, &[], &args)).end(WHOLE)
    };
    let refused = |to: &str, more: &[&str], says: &[&str]| {
        let ended = find(to, more);
        assert_ne!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(says.iter().all(|part| ended.stderr.contains(part)), "{says:?}: {}", ended.stderr);
    };
    let service = service(&bed, &home, "1");
    refused("10.99.0.2:5300", &[], &["cannot reach an agent at 10.99.0.2:9940"]);
    let mut agent = agent(&bed, &home, &key);
    let found = find("10.99.0.2:5300", &["--sender-cpu", "0"]);
    assert_eq!(found.status.code(), Some(0), "{}", found.stderr);
    let found = printed(&found.stdout, &found.stderr);
    // Programs that take the service's CPU lower the cliff, but do not change the service's CPU time per request. In
    // 400 ms, the queue of a load that is a sixth above 1000/s does not exceed the promised 60 ms.
    let cliff = number_at(&found, "/cliff_rps");
    assert!((1.0..1300.0).contains(&cliff), "{cliff}");
    assert_eq!(found["service"]["at"], AGENT);
    assert_eq!((&found["service"]["processes"], &found["service"]["threads"]), (&1.into(), &1.into()));
    // 1 ms by the program's own clock, in user mode, and what the kernel takes for two datagrams.
    let costs = found["costs"].as_array().expect("costs");
    let request_s: f64 =
        costs.iter().filter(|cost| cost["part"] != "other").map(|cost| number_at(cost, "/request_s")).sum();
    assert!((0.8e-3..2.5e-3).contains(&request_s), "{costs:?}");
    let predicted = number_at(&found, "/predicted/cliff_rps");
    assert!((1.0..1400.0).contains(&predicted), "{predicted}");
    let gives = found["bottleneck"]["gives"].as_str().unwrap_or_default();
    assert!(["cpu", "thread", "other-programs", "requester"].contains(&gives), "{}", found["bottleneck"]);
    let facts = &found["fingerprint"];
    assert_eq!(facts["kernel.release"], facts["sender.kernel.release"], "both hosts are on one kernel: {facts}");
    agent.until("ended service-meter", PATIENCE);
    let pid = agent.pid().to_string();
    refused("10.99.0.2:5300", &["--pid", &pid], &[&format!("--pid {pid}"), "not port 5300"]);
    // The agent's host has another address, at which nothing is open.
    assert!(ip(&["-n", bed.ends()[1].0, "addr", "add", "10.99.0.3/24", "dev", "far0"]), "it is ours");
    refused("10.99.0.3:5300", &["--agent", AGENT], &["10.99.0.3:5300"]);
    refused("127.0.0.1:5300", &[], &["127.0.0.1:5300 is on this host", "--key"]);
    service.signal("INT");
    service.end(PATIENCE);
}

#[test]
fn a_run_ends_with_what_it_has_when_the_agent_goes() {
    if !(has(Need::Cpus) && has_program("python3") && has_program("taskset")) {
        return;
    }
    let Some(bed) = Bed::new("gone") else { return };
    let home = Home::new();
    let key = key(&home);
    let _service = service(&bed, &home, "0,1");
    let agent = agent(&bed, &home, &key);
    let args =
        "find --quick --json --request udp:0000aabb --match 0:2 --p99 150ms --cpu-meter procfs --to 10.99.0.2:5300";
    let args: Vec<&str> = args.split(' ').chain(["--key", &key]).collect();
    let mut run = Running::of(bed.inside(0, &home, &[], &args));
    run.until("measuring what a request costs", WHOLE);
    agent.signal("KILL");
    let ended = run.end(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let found = printed(&ended.stdout, &ended.stderr);
    assert!(found["partial"].as_str().is_some_and(|why| why.contains("no longer metered")), "{}", found["partial"]);
    assert!(found["trials"].as_array().is_some_and(|trials| !trials.is_empty()));
}
