//! `find` between two hosts: two namespaces of the test, joined by a link, with separate state. The generator is in
//! one, the host under test in the other; either end may start the run, or a third namespace.

use std::time::{Duration, Instant};

use crate::common::bed::{AGENT, Bed, PATIENCE, ip, key, within};
use crate::common::running::{Ended, Running};
use crate::common::{Home, number_at, refusals};
use crate::schema::printed;
use netcliff_testkit::{Need, Shared, Turn, has, turn};
use serde_json::Value;

/// Longest permitted duration of a short run, in a debug build next to other work.
const WHOLE: Duration = Duration::from_secs(280);
/// Longest permitted time until an end stops after the other end has gone.
const GONE: Duration = Duration::from_secs(5);

/// A short run, with small chains of the model.
const SHORT: &str =
    "find --quick --trial 100ms --loss 1e-3 --searches 1 --socket-buffer 64KiB --json --if near0 --sender-cpu 0";

/// Address at which the agent listens, apart from the link under load.
const CONTROL: &str = "10.97.0.2:9940";

/// The hosts, with a second link for the control connection.
fn bed(name: &str) -> Option<(Bed, Turn)> {
    if !has(Need::Cpus) {
        return None;
    }
    let bed = Bed::new(name)?;
    let [(near, ..), (far, ..)] = bed.ends();
    set(near, &format!("link add near1 type veth peer name far1 netns {far}"));
    for (space, device, address) in [(near, "near1", "10.97.0.1/24"), (far, "far1", "10.97.0.2/24")] {
        set(space, &format!("addr add {address} dev {device}"));
        set(space, &format!("link set {device} up"));
    }
    Some((bed, turn(Shared::Cpus)))
}

/// Runs `ip` in a namespace.
fn set(space: &str, args: &str) {
    let all = [&["-n", space], &args.split(' ').collect::<Vec<_>>()[..]].concat();
    assert!(ip(&all), "ip {}", all.join(" "));
}

/// Address at which a second agent listens.
const SECOND: &str = "10.97.0.2:9941";

/// Starts an agent at the far end, which listens on both links.
fn agent(bed: &Bed, home: &Home, key: &str, more: &[&str]) -> Running {
    agent_at(bed, home, key, "0.0.0.0:9940", more)
}

fn agent_at(bed: &Bed, home: &Home, key: &str, address: &str, more: &[&str]) -> Running {
    let args = [&["agent", "--listen", address, "--key", key], more].concat();
    let mut agent = Running::of(bed.inside(1, home, &[], &args));
    agent.until("agent listens on", PATIENCE);
    agent
}

/// Packets that an end receives are steered to CPUs: with mask 2 to CPU 1, as in the testbed.
fn steer(bed: &Bed, home: &Home, end: usize, mask: &str) {
    let device = bed.ends()[end].1;
    let file = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
    let set = bed.inside(end, home, &["sh", "-c", "echo $0 >$1", mask, &file], &[]).status().expect("a shell");
    assert!(set.success(), "RPS can not be set");
}

fn find<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SHORT.split(' ').chain(more.iter().copied()).collect()
}

/// The finding of a run.
fn found(ended: &Ended) -> Value {
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}: {}", ended.status, ended.stderr);
    let finding = printed(&ended.stdout, &ended.stderr);
    // If the machine is too busy for costs or a cliff, the finding says so.
    assert!(number_at(&finding, "/generator/ceiling_pps") > 1e4, "{}", finding["generator"]);
    let missing = finding["missing"].to_string();
    assert!(finding["calibration"].is_object() || missing.contains("do not determine the costs"), "{missing}");
    let facts = &finding["fingerprint"];
    assert_eq!(facts["kernel.release"], facts["sender.kernel.release"], "both hosts are on one kernel: {facts}");
    finding
}

#[test]
fn a_generator_in_an_agent_loads_this_host() {
    let Some((bed, _turn)) = bed("from") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    // Two generators, one of which permits at most 60 kpps: both together send twice that.
    let _agent = agent(&bed, &far, &key, &["--allow-find", "far0", "--max-rate", "60kpps"]);
    let _other = agent_at(&bed, &far, &key, SECOND, &["--allow-find", "far0"]);
    steer(&bed, &near, 0, "2");
    let args = find(&["--from", CONTROL, "--from", SECOND, "--key", &key, "--max-rate", "150kpps"]);
    let mut run = Running::of(bed.inside(0, &near, &[], &args));
    // The test below makes a complete run.
    run.until("measuring the cliff", WHOLE);
    run.signal("INT");
    let finding = found(&run.end(PATIENCE));
    let testbed = finding["host"]["testbed"].as_str().expect("a line");
    assert!(testbed.contains("near0 of this host, load from 10.97.0.2") && testbed.contains("on CPU 1"), "{testbed}");
    assert_eq!(finding["host"]["driver"], "veth, process_backlog on CPU 1");
    assert!(finding["host"].get("at").is_none(), "it is this host");
    let generator = &finding["generator"];
    assert_eq!(number_at(&finding, "/generator/max_rate_pps"), 120e3, "{generator}");
    assert!(number_at(&finding, "/generator/ceiling_pps") < 121e3, "{generator}");
    assert_eq!(generator["flows"], "2 flows to one queue, backlog of CPU 1 (counted)");
    let each = generator["each"].as_array().expect("both");
    assert_eq!(each.len(), 2, "{generator}");
    for (one, at) in each.iter().zip([CONTROL, SECOND]) {
        assert_eq!(one["at"], at);
        assert!(number_at(one, "/offered_pps") < 70e3 && number_at(one, "/achieved_pps") > 1e3, "{one}");
        assert!(one["stalls"].is_u64() && number_at(one, "/trials") > 5.0, "{one}");
    }
    assert_eq!(finding["device"]["interface"], "near0");
    assert!(number_at(&finding, "/device/received") > 1e4, "{}", finding["device"]);
    assert!(finding["latency_method"].as_str().is_some_and(|how| how.contains("one clock")));
    assert!(finding["fingerprint"]["sender2.kernel.release"].is_string());
}

#[test]
fn what_cannot_be_loaded_is_a_sentence() {
    let Some((bed, _turn)) = bed("refused") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    refusals(
        &near,
        2,
        &[
            (&["find", "--if", "near0"], &["--from HOST", "--of HOST", "--allow-find"]),
            (&["find", "--from", "h"], &["--if <IF>"]),
            (&["find", "--from", "h", "--if", "a", "--testbed", "netns"], &["--testbed"]),
            (&["find", "--of", "h"], &["--if <IF>", "--from"]),
            (&["find", "--of", "h", "--from", "i", "--testbed", "netns"], &["--testbed", "--of"]),
            (
                &["find", "--of", "h", "--from", "i", "--from", "h:9940"],
                &["--from h:9940", "host under test (--of h) cannot send its own load"],
            ),
            (&["find", "--if", "none0", "--of", "127.0.0.1"], &["none0 does not exist here"]),
            (&["agent", "--allow-find", "eth0"], &["--allow-find eth0", "--key FILE"]),
            (&["agent", "--max-rate", "100pps"], &["--max-rate 100pps", "2kpps or more"]),
            (&["find", "--if", "a", "--from", "h", "--max-rate", "1kpps"], &["--max-rate 1kpps", "2kpps or more"]),
            (
                &["find", "--if", "a", "--from", "h", "--queues", "2", "--send-by", "socket"],
                &["--queues 2", "--send-by xdp"],
            ),
            (&["find", "--max-rate", "200kpps"], &["--if <IF>"]),
        ],
    );
    let from = |agent: &Running, more: &[&str], words: &[&str]| {
        let plain = ["find", "--quick", "--if", "near0", "--from", AGENT, "--key", &key];
        let ended = Running::of(bed.inside(0, &near, &[], &[&plain[..], more].concat())).end(PATIENCE);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        for word in words {
            assert!(ended.stderr.contains(word), "{word}: {}, agent {}", ended.stderr, agent.pid());
        }
    };
    {
        let agent = agent(&bed, &far, &key, &[]);
        from(&agent, &["--i-know"], &["by far0", "lets clients send by none", "--allow-find far0"]);
    }
    let agent = agent(&bed, &far, &key, &["--allow-find", "far0"]);
    from(&agent, &[], &["far0 also carries the control connection", "--i-know"]);
    if has(Need::Ipv6) {
        from(&agent, &["-6"], &["near0 has no IPv6 address", "ip address add"]);
        give_ipv6(&bed, false);
        // The connection is of IPv4, and the interface has addresses of both families.
        from(&agent, &["-6"], &["far0 also carries the control connection", "--i-know"]);
    }
    from(&agent, &["--i-know", "--their-if", "none0"], &["none0 does not exist here"]);
    // The device gets addresses of the test before that of the control connection; then a neighbour entry names another
    // hardware address for one of them.
    let [(space, device, address), (far_space, far_device, _)] = bed.ends();
    let set = |space: &str, args: &str| {
        assert!(ip(&[&["-n", space], &args.split(' ').collect::<Vec<_>>()[..]].concat()), "{args}")
    };
    set(space, &format!("addr del {address} dev {device}"));
    set(space, &format!("addr add 10.98.0.1/24 dev {device}"));
    set(space, &format!("addr add {address} dev {device}"));
    from(&agent, &[], &["the way to 10.98.0.1 is not known"]);
    set(far_space, &format!("route add 10.98.0.0/24 via 10.99.0.1 dev {far_device}"));
    from(&agent, &[], &["10.98.0.1 is behind the router 10.99.0.1"]);
    set(far_space, "route del 10.98.0.0/24");
    set(far_space, &format!("addr add 10.98.0.2/24 dev {far_device}"));
    set(far_space, &format!("neigh replace 10.98.0.1 lladdr 02:00:00:00:00:09 dev {far_device}"));
    // The interface carries the control connection, with whatever address the load is sent.
    from(&agent, &[], &["far0 also carries the control connection"]);
    from(&agent, &["--i-know"], &["02:00:00:00:00:09 answers for 10.98.0.1"]);
    set(far_space, &format!("neigh del 10.98.0.1 dev {far_device}"));
    set(space, &format!("link set {device} mtu 1000"));
    from(&agent, &["--i-know", "--size", "1518B"], &["near0", "MTU 1000"]);
}

/// Gives both ends of the link addresses of IPv6, and takes those of IPv4 away if `only` is true.
fn give_ipv6(bed: &Bed, only: bool) {
    for ((space, device, address), own) in bed.ends().into_iter().zip(["fd00:99::1/64", "fd00:99::2/64"]) {
        set(space, &format!("addr add {own} dev {device} nodad"));
        if only {
            set(space, &format!("addr del {address} dev {device}"));
        }
    }
}

#[test]
fn a_link_with_ipv6_alone_is_measured_from_either_end() {
    if !has(Need::Ipv6) {
        return;
    }
    let Some((bed, _turn)) = bed("ipv6") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    give_ipv6(&bed, true);
    let _agent = agent(&bed, &far, &key, &["--allow-find", "far0"]);
    steer(&bed, &near, 0, "2");
    steer(&bed, &near, 1, "2");
    refused(&bed, &near, &key, &[], &["near0 has no IPv4 address", "--ipv6"]);
    if has(Need::Nftables) {
        nft(&bed, "add table inet t");
        nft(&bed, "add chain inet t in { type filter hook input priority 0; }");
        nft(&bed, "add rule inet t in ip6 daddr fd00:99::/64 udp dport 9000 drop");
        refused(&bed, &near, &key, &["-6"], &["to fd00:99::1, UDP port 9000", "nft: table inet t, chain in drops ip6"]);
        nft(&bed, "delete table inet t");
    }
    let of_ipv6 = |finding: &Value, words: &str| {
        assert_eq!((&finding["setup"]["ipv6"], &finding["generator"]["frame_bytes"]), (&true.into(), &84.into()));
        let testbed = finding["host"]["testbed"].as_str().expect("a line");
        assert!(testbed.contains(words) && testbed.ends_with(", IPv6"), "{testbed}");
    };
    let finding = begun(&bed, &near, &key, &["-6"]);
    of_ipv6(&finding, "near0 of this host, load from 10.97.0.2");
    assert_eq!(finding["generator"]["flows"], "1 flow to one queue, backlog of CPU 1 (counted)");
    let args = find(&["--of", CONTROL, "--key", &key, "-6"]);
    let finding = found(&Running::of(bed.inside(0, &near, &[], &args)).end(WHOLE));
    of_ipv6(&finding, "far0 of this host, load from near0 of fd00:99::1");
    assert!(finding["sweep"].as_array().is_some_and(|sweep| sweep.len() > 3), "{}", finding["missing"]);
    round_trips(&finding);
}

/// A run from CONTROL that is ended when it searches for the cliff. Returns its results so far.
fn begun(bed: &Bed, home: &Home, key: &str, more: &[&str]) -> Value {
    let args = find(&[&["--from", CONTROL, "--key", key], more].concat());
    let mut run = Running::of(bed.inside(0, home, &[], &args));
    run.until("looking for the rough cliff", PATIENCE);
    run.signal("INT");
    let ended = run.end(PATIENCE);
    printed(&ended.stdout, &ended.stderr)
}

/// A run from CONTROL that cannot start prints the reason.
fn refused(bed: &Bed, home: &Home, key: &str, more: &[&str], words: &[&str]) {
    let args = find(&[&["--from", CONTROL, "--key", key], more].concat());
    let ended = Running::of(bed.inside(0, home, &[], &args)).end(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    words.iter().for_each(|word| assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr));
}

#[test]
fn flows_reach_the_queues_asked_for_by_the_method_asked_for() {
    let Some((bed, _turn)) = bed("queues") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    let _agent = agent(&bed, &far, &key, &["--allow-find", "far0", "--allow-find", "far0.5"]);
    steer(&bed, &near, 0, "2");
    refused(
        &bed,
        &near,
        &key,
        &["--queues", "2"],
        &["--queues 2: packets of near0 reach at most 1 (CPU backlogs)", "rps_cpus"],
    );
    refused(&bed, &near, &key, &["--vlan", "5"], &["far0 leads to the host under test", "type vlan id 5"]);
    steer(&bed, &near, 0, "3");
    let by_xdp = has(Need::Xdp);
    let method = if by_xdp { "xdp" } else { "packet" };
    let finding = begun(&bed, &near, &key, &["--queues", "2", "--send-by", method]);
    assert_eq!(finding["generator"]["flows"], "2 flows to 2 queues (counted)", "{}", finding["generator"]);
    let said = finding["generator"]["method"].as_str().expect("a method");
    assert!(said.starts_with(if by_xdp { "AF_XDP (copy)" } else { "AF_PACKET" }), "{said}");
    let testbed = finding["host"]["testbed"].as_str().expect("a line");
    assert!(testbed.contains("2 queues, an application each: CPU ") && testbed.contains("CPU 0"), "{testbed}");
    let socket = begun(&bed, &near, &key, &["--send-by", "socket", "--max-rate", "50kpps"]);
    assert_eq!(socket["generator"]["method"], "UDP socket, sendmmsg");
    if !has(Need::Vlan) {
        return;
    }
    for ((space, device, _), address) in bed.ends().into_iter().zip(["10.95.0.1/24", "10.95.0.2/24"]) {
        set(space, &format!("link add link {device} name {device}.5 type vlan id 5"));
        set(space, &format!("addr add {address} dev {device}.5"));
        set(space, &format!("link set {device}.5 up"));
    }
    let tagged =
        ["find", "--quick", "--trial", "100ms", "--json", "--if", "near0.5", "--sender-cpu", "0", "--vlan", "5"];
    let mut run = Running::of(bed.inside(0, &near, &[], &[&tagged[..], &["--from", CONTROL, "--key", &key]].concat()));
    run.until("looking for the rough cliff", PATIENCE);
    run.signal("INT");
    let ended = run.end(PATIENCE);
    let finding = printed(&ended.stdout, &ended.stderr);
    let testbed = finding["host"]["testbed"].as_str().expect("a line");
    assert!(testbed.contains("VLAN 5") && finding["device"]["interface"] == "near0", "{testbed}");
}

/// Runs `nft` at the near end.
fn nft(bed: &Bed, rule: &str) {
    let args = ["netns", "exec", bed.ends()[0].0, "nft", rule];
    assert!(ip(&args), "nft {rule}");
}

#[test]
fn what_drops_the_load_or_cuts_it_off_is_named() {
    let Some((bed, _turn)) = bed("faults") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    let _agent = agent(&bed, &far, &key, &["--allow-find", "far0"]);
    steer(&bed, &near, 0, "2");
    if has(Need::Nftables) {
        nft(&bed, "add table inet t");
        nft(&bed, "add chain inet t in { type filter hook input priority 0; }");
        nft(&bed, "add rule inet t in tcp dport 9000 drop");
        nft(&bed, "add rule inet t in udp dport { 53, 9000 } drop");
        refused(&bed, &near, &key, &[], &["0 of ", "UDP port 9000", "nft: table inet t, chain in drops udp dport"]);
        nft(&bed, "delete table inet t");
    }
    // The cable is pulled, or the interface gets another name, while the load runs.
    for (space, change, back, words) in [
        (1, "link set far0 down", "link set far0 up", ["near0", "carrier"]),
        (0, "link set near0 name near9", "link set near9 name near0", ["near0", "near9"]),
    ] {
        let args = find(&["--from", CONTROL, "--key", &key]);
        let mut run = Running::of(bed.inside(0, &near, &[], &args));
        run.until("looking for the rough cliff", PATIENCE);
        let name = bed.ends()[space].0;
        if !ip(&[&["-n", name], &change.split(' ').collect::<Vec<_>>()[..]].concat()) {
            // Before Linux 6.2 an interface that is up keeps its name.
            run.signal("INT");
            run.end(PATIENCE);
            continue;
        }
        let began = Instant::now();
        let ended = run.end(PATIENCE);
        assert!(began.elapsed() < GONE, "{change}: {:?}", began.elapsed());
        set(name, back);
        assert_eq!(ended.status.code(), Some(1), "{change}: {}", ended.stderr);
        let said = ended.stderr + &ended.stdout;
        words.iter().for_each(|word| assert!(said.contains(word), "{change}: {word}: {said}"));
    }
}

/// Time from now until an end last receives load; waits 1.6 s.
fn load_ends(bed: &Bed, home: &Home, end: usize) -> Duration {
    let cut = Instant::now();
    let (mut last, mut changed) = (received(bed, home, end), cut);
    while cut.elapsed() < Duration::from_millis(1600) {
        std::thread::sleep(Duration::from_millis(20));
        let now = received(bed, home, end);
        if now > last + 2 {
            (last, changed) = (now, Instant::now());
        }
    }
    changed - cut
}

#[test]
fn a_cut_control_connection_ends_the_load_within_a_second() {
    let Some((bed, _turn)) = bed("cut") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    let _agent = agent(&bed, &far, &key, &["--allow-find", "far0"]);
    // This end sends, and its control connection to the agent is cut. A trial is longer than the test.
    let long =
        ["find", "--quick", "--trial", "20s", "--json", "--if", "near0", "--sender-cpu", "0", "--max-rate", "20kpps"];
    let mut run = Running::of(bed.inside(0, &near, &[], &[&long[..], &["--of", CONTROL, "--key", &key]].concat()));
    run.until("calibrating", PATIENCE);
    assert!(within(GONE, || !is_silent(&bed, &near, 1)), "there is no load");
    set(bed.ends()[0].0, "link set near1 down");
    let took = load_ends(&bed, &near, 1);
    assert!(took < Duration::from_millis(1100), "the load went on for {took:?}");
    let ended = run.end(Duration::from_secs(12));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
}

/// The check that reverses the GRO setting of an end, and GRO's value before and during the check.
fn other_gro(bed: &Bed, end: usize) -> (&'static str, [&'static str; 2]) {
    match bed.offloads(end).contains("generic-receive-offload: on") {
        true => ("gro=off", ["on", "off"]),
        false => ("gro=on", ["off", "on"]),
    }
}

/// A whole run from the generator's end: it is stored there, and not used as the costs of that host.
fn is_of_the_far_host(near: &Home, finding: &Value) {
    assert_eq!(finding["partial"], false);
    assert!(finding["sweep"].as_array().is_some_and(|sweep| sweep.len() > 3), "{}", finding["missing"]);
    assert_eq!(finding["host"]["at"], CONTROL);
    let testbed = finding["host"]["testbed"].as_str().expect("a line");
    assert!(testbed.contains("far0 of this host, load from near0 of 10.99.0.1"), "{testbed}");
    let runs = near.stdout(["results", "list"]);
    assert!(runs.contains("find"), "{runs}");
    let costs = near.netcliff(["predict", "--rate", "50kpps"]).output().expect("it runs");
    let told = String::from_utf8_lossy(&costs.stdout).into_owned() + &String::from_utf8_lossy(&costs.stderr);
    assert!(told.contains("pentium4"), "{told}");
}

/// Checks the round trips, which a host that sends measures by its own clock, at rising loads.
fn round_trips(finding: &Value) {
    let all = finding["round_trips"].as_array().unwrap_or_else(|| panic!("{}", finding["missing"]));
    assert!(!all.is_empty() && finding["latency_method"].as_str().is_some_and(|how| how.contains("round trips")));
    for at in all {
        let [samples, answers] = ["/samples", "/answers"].map(|key| number_at(at, key));
        assert!(samples >= 10.0 && samples <= answers, "{at}");
        let times = ["/min_s", "/p50_s", "/p90_s", "/p99_s", "/max_s"].map(|key| number_at(at, key));
        assert!(times[0] > 1e-6 && times.is_sorted() && times[1] < 1.0, "{at}");
    }
}

#[test]
fn this_host_loads_that_of_an_agent_and_sets_its_checks_back() {
    let Some((bed, _turn)) = bed("checks") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    steer(&bed, &near, 1, "2");
    let found_there = bed.offloads(1);
    let (gro, [before, during]) = other_gro(&bed, 1);
    let checks = ["--of", CONTROL, "--key", &key, "--check", "rx-usecs=100", "--check", gro];
    {
        let _agent = agent(&bed, &far, &key, &["--allow-find", "far0"]);
        let ended = Running::of(bed.inside(0, &near, &[], &find(&checks))).end(PATIENCE);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        for word in ["--check rx-usecs=100 changes far0", "change none", "--allow-settings far0"] {
            assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
        }
    }
    let _agent = agent(&bed, &far, &key, &["--allow-find", "far0", "--allow-settings", "far0"]);
    let finding = found(&Running::of(bed.inside(0, &near, &[], &find(&checks))).end(WHOLE));
    assert_eq!(bed.offloads(1), found_there);
    is_of_the_far_host(&near, &finding);
    round_trips(&finding);
    if finding["calibration"].is_null() {
        return eprintln!("no check without costs: {}", finding["missing"]);
    }
    let missing = |figure: &str| {
        let all = finding["missing"].as_array().expect("a list");
        let one = all.iter().find(|missing| missing["figure"] == figure).map(|missing| missing["why"].to_string());
        one.unwrap_or_default()
    };
    let refused = missing("checks.rx-usecs=100");
    assert!(refused.contains("far0, veth, has no rx-usecs"), "{}", finding["missing"]);
    // If the machine is too busy for the check's own cliff, the check says so.
    let Some(check) = finding["checks"].as_array().and_then(|checks| checks.first()) else {
        let why = missing(&format!("checks.{gro}"));
        assert!(!why.is_empty() && !why.contains("gro"), "{why}");
        return eprintln!("the check has no cliff: {why}");
    };
    let setting = serde_json::json!({"name": "gro", "found": before, "requested": during, "effective": during});
    assert_eq!(check["settings"], serde_json::json!([setting]));
    assert!(check["notes"][0].as_str().is_some_and(|note| note.contains("gro is in neither")), "{check}");
}

#[test]
fn a_run_that_is_killed_within_a_check_leaves_a_journal() {
    let Some((bed, _turn)) = bed("checked") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    let _agent = agent(&bed, &far, &key, &["--allow-find", "far0"]);
    steer(&bed, &near, 0, "2");
    let found_here = bed.offloads(0);
    let (gro, _) = other_gro(&bed, 0);
    let mut run = Running::of(bed.inside(0, &near, &[], &find(&["--from", CONTROL, "--key", &key, "--check", gro])));
    if !run.reaches(&format!("checking {gro}"), WHOLE) {
        return eprintln!("no check without costs: {:?}", run.said());
    }
    assert!(within(PATIENCE, || bed.offloads(0) != found_here), "{gro} is not set");
    run.signal("KILL");
    drop(run);
    assert_ne!(bed.offloads(0), found_here, "nobody could set it back");
    let undone = bed.inside(0, &near, &[], &["tune", "undo"]).output().expect("it runs");
    assert_eq!(bed.offloads(0), found_here, "{undone:?}");
}

/// Packets that an end has received.
fn received(bed: &Bed, home: &Home, end: usize) -> u64 {
    let file = format!("/sys/class/net/{}/statistics/rx_packets", bed.ends()[end].1);
    let output = bed.inside(end, home, &["sh", "-c", "cat $0", &file], &[]).output().expect("a shell");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0)
}

/// True once hardly anything is received any more.
fn is_silent(bed: &Bed, home: &Home, end: usize) -> bool {
    let before = received(bed, home, end);
    std::thread::sleep(Duration::from_millis(500));
    received(bed, home, end) - before < 100
}

#[test]
fn whichever_end_is_killed_the_other_ends_and_no_load_stays() {
    let Some((bed, _turn)) = bed("killed") else { return };
    let (near, far) = (Home::new(), Home::new());
    let key = key(&far);
    for (way, loaded) in [("--from", 0), ("--of", 1)] {
        for victim in ["agent", "client"] {
            let agent = agent(&bed, &far, &key, &["--allow-find", "far0"]);
            let mut run = Running::of(bed.inside(0, &near, &[], &find(&[way, CONTROL, "--key", &key])));
            run.until("looking for the rough cliff", PATIENCE);
            let began = Instant::now();
            if victim == "agent" {
                agent.signal("KILL");
                let ended = run.end(PATIENCE);
                assert!(began.elapsed() < GONE, "{way}: {:?}", began.elapsed());
                assert_eq!(ended.status.code(), Some(1), "{way}: {}", ended.stderr);
                let said = ended.stderr + &ended.stdout;
                assert!(said.contains(CONTROL) || said.contains("is gone"), "{way}: {said}");
            } else {
                run.signal("KILL");
                drop(run);
            }
            assert!(within(GONE, || is_silent(&bed, &near, loaded)), "{way}, {victim} killed: the load goes on");
            if victim == "client" {
                // The agent accepts the next run.
                let mut next = Running::of(bed.inside(0, &near, &[], &find(&[way, CONTROL, "--key", &key])));
                next.until("looking for the rough cliff", PATIENCE);
                next.signal("INT");
                let ended = next.end(PATIENCE);
                assert_eq!(ended.status.code(), Some(1), "{way}: {}", ended.stderr);
                let finding = printed(&ended.stdout, &ended.stderr);
                assert_eq!(finding["partial"], true);
            }
        }
    }
}

/// Addresses at which agents of the near end listen for a third host.
const NEAR: [&str; 2] = ["10.96.0.2:9940", "10.96.0.2:9941"];

/// The hosts, and a third one that has a control connection to each of them and no part in the load.
fn bed_of_three(name: &str) -> Option<(Bed, Turn)> {
    let (mut bed, turn) = bed(name)?;
    bed.add_third();
    let third = bed.third_name();
    let [(near, ..), (far, ..)] = bed.ends();
    set(near, "link del near1");
    for (net, space, device) in [(96, near, "near1"), (97, far, "far1")] {
        set(&third, &format!("link add to-{device} type veth peer name {device} netns {space}"));
        set(&third, &format!("addr add 10.{net}.0.1/24 dev to-{device}"));
        set(&third, &format!("link set to-{device} up"));
        set(space, &format!("addr add 10.{net}.0.2/24 dev {device}"));
        set(space, &format!("link set {device} up"));
    }
    Some((bed, turn))
}

/// Starts an agent at the near end.
fn near_agent(bed: &Bed, home: &Home, key: &str, address: &str, more: &[&str]) -> Running {
    let args = [&["agent", "--listen", address, "--key", key, "--allow-find", "near0"], more].concat();
    let mut agent = Running::of(bed.inside(0, home, &[], &args));
    agent.until("agent listens on", PATIENCE);
    agent
}

/// A short run of the third host, of the far end under load from agents of the near end.
fn third<'a>(key: &'a str, from: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let short =
        ["find", "--quick", "--trial", "100ms", "--loss", "1e-3", "--searches", "1", "--socket-buffer", "64KiB"];
    let hosts = ["--json", "--sender-cpu", "0", "--of", CONTROL, "--key", key];
    let from = from.iter().flat_map(|from| ["--from", from]);
    short.into_iter().chain(hosts).chain(from).chain(more.iter().copied()).collect()
}

#[test]
fn a_third_host_has_agents_load_the_host_of_another_agent() {
    let Some((bed, _turn)) = bed_of_three("three") else { return };
    let (near, far, own) = (Home::new(), Home::new(), Home::new());
    let key = key(&far);
    steer(&bed, &far, 1, "2");
    let run = |more: &[&str]| Running::of(bed.inside(2, &own, &[], &third(&key, &NEAR, more)));
    let refused = |more: &[&str], words: &[&str]| {
        let ended = run(more).end(PATIENCE);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        words.iter().for_each(|word| assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr));
    };
    let _agents = [
        near_agent(&bed, &near, &key, NEAR[0], &["--max-rate", "60kpps"]),
        near_agent(&bed, &near, &key, NEAR[1], &[]),
    ];
    {
        let _agent = agent(&bed, &far, &key, &["--allow-find", "far1"]);
        // The generators' agents are in a network that the far end has no route to.
        refused(&[], &["10.96.0.2"]);
        refused(&["--if", "far0"], &["the load comes in by far0", "lets clients load far1", "--allow-find far0"]);
        refused(&["--if", "far1"], &["far1 also carries the control connection", "--i-know"]);
    }
    let _agent = agent(&bed, &far, &key, &["--allow-find", "far0"]);
    refused(&["--if", "far0", "--their-if", "none0"], &[NEAR[0], "none0 does not exist here"]);
    refused(&["--if", "far0", "--check", "gro=off"], &["--check gro=off changes far0", "--allow-settings far0"]);
    let mut run = run(&["--if", "far0", "--max-rate", "150kpps"]);
    run.until("measuring the cliff", WHOLE);
    run.signal("INT");
    let finding = found(&run.end(PATIENCE));
    assert_eq!(finding["host"]["at"], CONTROL);
    let testbed = finding["host"]["testbed"].as_str().expect("a line");
    assert!(testbed.contains(&format!("far0 of this host, load from {} and {}", NEAR[0], NEAR[1])), "{testbed}");
    let generator = &finding["generator"];
    assert_eq!(number_at(&finding, "/generator/max_rate_pps"), 120e3, "{generator}");
    assert_eq!(generator["flows"], "2 flows to one queue, backlog of CPU 1 (counted)");
    let each = generator["each"].as_array().expect("both");
    assert_eq!(each.len(), 2, "{generator}");
    for (one, at) in each.iter().zip(NEAR) {
        assert_eq!(one["at"], at);
        assert!(number_at(one, "/offered_pps") < 70e3 && number_at(one, "/achieved_pps") > 1e3, "{one}");
    }
    assert_eq!(finding["device"]["interface"], "far0");
    assert!(finding["latency_method"].as_str().is_some_and(|how| how.contains("round trips")));
    assert!(finding["fingerprint"]["sender2.kernel.release"].is_string());
    assert!(own.stdout(["results", "list"]).contains("find"));
    // Without --if the load comes in by the interface that leads to the generator's address.
    set(&bed.third_name(), "route add 10.99.0.0/24 via 10.96.0.2");
    let by_load = "10.99.0.1:9942";
    let _agent = near_agent(&bed, &near, &key, by_load, &[]);
    let args = third(&key, &[by_load], &["--i-know", "--max-rate", "50kpps"]);
    let mut run = Running::of(bed.inside(2, &own, &[], &args));
    run.until("looking for the rough cliff", PATIENCE);
    run.signal("INT");
    let ended = run.end(PATIENCE);
    assert_eq!(printed(&ended.stdout, &ended.stderr)["device"]["interface"], "far0");
}

#[test]
fn whichever_of_three_hosts_is_killed_the_others_end_and_no_load_stays() {
    let Some((bed, _turn)) = bed_of_three("third") else { return };
    let (near, far, own) = (Home::new(), Home::new(), Home::new());
    let key = key(&far);
    for victim in ["client", "receiver", "generator"] {
        let receiver = agent(&bed, &far, &key, &["--allow-find", "far0"]);
        let generators = NEAR.map(|address| near_agent(&bed, &near, &key, address, &[]));
        let mut run = Running::of(bed.inside(2, &own, &[], &third(&key, &NEAR, &["--if", "far0"])));
        run.until("looking for the rough cliff", PATIENCE);
        assert!(within(GONE, || !is_silent(&bed, &far, 1)), "there is no load");
        let began = Instant::now();
        match victim {
            "client" => run.signal("KILL"),
            "receiver" => receiver.signal("KILL"),
            _ => generators[1].signal("KILL"),
        }
        if victim == "client" {
            drop(run);
        } else {
            let ended = run.end(PATIENCE);
            assert!(began.elapsed() < GONE, "{victim}: {:?}", began.elapsed());
            assert_eq!(ended.status.code(), Some(1), "{victim}: {}", ended.stderr);
            let said = ended.stderr + &ended.stdout;
            let gone = if victim == "receiver" { CONTROL } else { NEAR[1] };
            assert!(said.contains(gone), "{victim}: {said}");
        }
        assert!(within(GONE, || is_silent(&bed, &far, 1)), "{victim} killed: the load goes on");
        assert!(began.elapsed() < 2 * GONE, "{victim}: {:?}", began.elapsed());
    }
}

#[test]
fn generators_of_a_third_host_stop_within_a_second_without_the_receiver() {
    let Some((bed, _turn)) = bed_of_three("third-cut") else { return };
    let (near, far, own) = (Home::new(), Home::new(), Home::new());
    let key = key(&far);
    let _agent = agent(&bed, &far, &key, &["--allow-find", "far0"]);
    let _generator = near_agent(&bed, &near, &key, NEAR[0], &[]);
    // The connection between the third host and the receiver is cut. A trial is longer than the test.
    let long =
        ["find", "--quick", "--trial", "20s", "--json", "--if", "far0", "--sender-cpu", "0", "--max-rate", "20kpps"];
    let hosts = ["--of", CONTROL, "--from", NEAR[0], "--key", &key];
    let mut run = Running::of(bed.inside(2, &own, &[], &[&long[..], &hosts].concat()));
    run.until("calibrating", PATIENCE);
    assert!(within(GONE, || !is_silent(&bed, &far, 1)), "there is no load");
    set(bed.ends()[1].0, "link set far1 down");
    let took = load_ends(&bed, &far, 1);
    assert!(took < Duration::from_millis(1300), "the load went on for {took:?}");
    let ended = run.end(Duration::from_secs(12));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
}
