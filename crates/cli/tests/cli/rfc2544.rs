//! `netcliff rfc2544`: a real router in namespaces, and refusals.

use crate::common::running::{Ended, Running, namespaces_of};
use crate::common::{Home, entries, pcap_of_udp, say};
use crate::schema::printed;
use netcliff_testkit::{has_namespaces, not_applicable, retried};
use serde_json::Value;

/// Short trials of a few kpps: they show that the command works, not how fast this machine is.
const SHORT: [&str; 13] = [
    "rfc2544",
    "all",
    "--frames",
    "64,imix",
    "--trial",
    "50ms",
    "--max",
    "20kpps",
    "--rest",
    "0s",
    "--repeats",
    "2",
    "--save",
];

#[test]
fn every_test_is_made_kept_and_shown_again() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let page = home.text("report.html");
    let args = [&SHORT[..], &["--width", "20%", "--json", "--live", "--html", &page]].concat();
    let run = Running::start(&home, &args);
    let pid = run.pid();
    let Ended { stdout, stderr: said, .. } = run.end(std::time::Duration::from_secs(120));
    let found = printed(&stdout, &said);
    assert_eq!(found["kind"], "rfc2544");
    crate::live::documented_beside(&said, "rfc2544", &["size", "trial"]);
    let sizes = found["sizes"].as_array().expect("sizes");
    assert_eq!(sizes.iter().map(|size| size["frame"].as_str()).collect::<Vec<_>>(), [Some("64B"), Some("imix")]);
    for size in sizes {
        // A loaded machine may lose frames at any load. Therefore a size has a figure or a reason why the figure is
        // missing.
        let had = size["throughput"]["found"][0]["lower_pps"].as_f64();
        assert!(had.is_some_and(|pps| pps > 0.0) || size["missing"][0].is_string(), "{size}");
        assert!(size["seen"]["sent"].as_u64().is_some_and(|sent| sent > 0) && size["seen"]["corrupt"] == 0, "{size}");
        assert!(size["loss"]["trials"].is_array(), "{size}");
        let ledger = &size["ledger"];
        let count = |key: &str| ledger[key].as_i64().unwrap_or_else(|| panic!("{key}: {size}"));
        let dropped = ledger["dropped"].as_array().expect("rows").iter().map(|row| row["packets"].as_i64());
        let dropped: i64 = dropped.map(|packets| packets.expect("a number")).sum();
        assert_eq!(count("sent"), count("delivered") + dropped + count("inside") + count("unexplained"), "{ledger}");
    }
    let html = std::fs::read_to_string(page).expect("the page is written");
    assert!(html.contains("Where every frame went"), "no ledger");
    assert!(html.contains("<svg") && html.contains("Forwarding by RFC 2544"), "no picture");
    let shown = home.stdout(["results", "show"]);
    assert!(shown.contains("THROUGHPUT (26.1)") && shown.contains("FRAME LOSS (26.3)"), "{shown}");
    assert_eq!(namespaces_of(pid), [""; 0], "namespaces are left");
    assert!(entries(&home.state().join("journal")).is_empty(), "the journal is not empty");
}

/// A capture as traffic: every frame with its size and flow arrives intact, and the report says how the capture was
/// sent.
#[test]
fn a_capture_is_replayed_through_the_router() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let file = home.text("own.pcap");
    let packets = [18, 1472, 200, 18, 2000].into_iter().enumerate();
    let packets = packets.map(|(n, payload)| (1000 + (n % 2) as u16, payload));
    std::fs::write(&file, pcap_of_udp(100, packets)).expect("it is written");
    // The last packet is longer than a frame of the usual MTU. Without `mtu=9000` it would be read as several
    // fragments.
    let file = format!("{file},mtu=9000");
    let short = ["--trial", "50ms", "--max", "10kpps", "--rest", "0s", "--repeats", "2", "--width", "20%", "--json"];
    for more in [&["--forwarding", "route"][..], &["--ipv6", "--both-ways"]] {
        let run = Running::start(&home, &[&["rfc2544", "all", "--pcap", &file], &short[..], more].concat());
        let Ended { stdout, stderr: said, .. } = run.end(std::time::Duration::from_secs(120));
        let found = printed(&stdout, &said);
        let (size, pcap) = (&found["sizes"][0], &found["asked"]["pcap"]);
        assert_eq!((&pcap["packets"], &pcap["source_ports"]), (&5.into(), &2.into()), "{pcap}");
        let sent = pcap["sent"].as_str().expect("a sentence");
        assert!(sent.contains("around and around") && sent.contains("1 frames cut to 1518 bytes"), "{sent}");
        assert_eq!(sent.contains("lengthened to 84 bytes"), more[0] == "--ipv6", "{sent}");
        assert!(size["frame"].as_str().is_some_and(|frame| frame.starts_with("pcap-") && frame.ends_with("-1518")));
        assert!(size["seen"]["sent"].as_u64().is_some_and(|sent| sent > 0) && size["seen"]["corrupt"] == 0, "{size}");
        assert!(size.get("predicted").is_none(), "{size}");
        let ledger = &size["ledger"];
        assert!(ledger["sent"].as_u64().is_some_and(|sent| sent > 0), "{size}");
    }
    for (args, words) in [
        (&["--pcap", &file, "--frames", "64"][..], "cannot be used with"),
        (&["--pcap", &file, "--flows", "3"], "cannot be used with"),
        (&["--pcap", "/nowhere.pcap"], "/nowhere.pcap"),
        (&["--pcap", "/dev/null"], "is a device"),
        (&["--frames", "pcap-100-200"], "--pcap FILE"),
    ] {
        let refused = home.command([&["rfc2544", "throughput"], args].concat()).output().expect("it starts");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn wrong_usage_is_named_with_what_is_accepted() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    for (args, words) in [
        (&["--frames", "63"][..], &["63", "standard, imix, jumbo (9018) or bytes with FCS, 64 to 9018"][..]),
        (&["--frames", "9019"], &["9019", "64 to 9018"]),
        (&["--frames", "64", "--ipv6"], &["frame size = 64B", "at least 84B"]),
        (&["--frames", "64", "--vlan", "5"], &["at least 68B"]),
        (&["--frames", "84,standard", "--ipv6"], &["frame size = 84B twice"]),
        (&["--frames", "68,standard", "--vlan", "5"], &["frame size = 68B twice"]),
        (&["--frames", "88,standard", "--vlan", "5", "--ipv6"], &["frame size = 88B twice"]),
        (&["--vlan", "4095"], &["4095"]),
        (&["--flows", "0"], &["0 is not in 1..=65536"]),
        (&["--flows", "10", "--destinations", "3"], &["flows = 10", "a multiple of 3 destinations times 1"]),
        (&["--destinations", "32001"], &["32001 is not in 1..=32000"]),
        (&["--destinations", "300", "--destination-ports", "300"], &["flows = 90000", "1 to 65536"]),
        (&["--searches", "0"], &["0 is not in 1..=1000"]),
        (&["--searches", "-1"], &["-1 is not in 1..=1000"]),
        (&["--searches", "1001"], &["1001 is not in 1..=1000"]),
        (&["--frames", "64,standard"], &["frame size = 64B twice", "each size once"]),
        (&["--trial", "0s"], &["trial = 0", "10ms to 86400s"]),
        (&["--width", "0"], &["width = 0%: 0.01% to 50%"]),
        (&["--step", "20%"], &["loss step = 20%", "RFC 2544"]),
        (&["--loss", "60%"], &["loss = 60%: 0% to 50%"]),
        (&["--loss", "2"], &["loss = 200%"]),
        (&["--max", "0"], &["max = 0", "1pps to 1000Mpps"]),
        (&["--max", "fast"], &["fast", "pps"]),
        (&["--cpu", "0"], &["'0'", "tester and router, such as 0,1"]),
        (&["--cpu", "0,4000"], &["CPU 4000 cannot be used"]),
        (&["--rules", "30"], &["rules = 30", "--forwarding netfilter"]),
        (&["--rules", "501", "--forwarding", "netfilter"], &["501 is not in 1..=500"]),
        (&["--goal", "speed=1"], &["speed=1", "trial, sum, initial", "exceed=50%"]),
        (&["--goal", "loss=2s"], &["loss=2s", "percentage"]),
        (
            &["--goal", "trial=1s", "--goal", "trial=5s,sum=1s"],
            &["goal 2, duration sum = 1s", "at least the final trial"],
        ),
        (&["--goal", "exceed=100%"], &["exceed ratio = 100%"]),
        (&["--goal", "loss=0", "--goal", "trial=60s"], &["twice: each goal once"]),
        (&["--goal", "loss=0", "--search", "binary"], &["cannot be used with"]),
        (&["--stamps", "sundial"], &["sundial", "application, kernel, hardware"]),
        (&["--stamps", "kernel"], &["stamps = kernel", "latency test"]),
        (&["--send-by", "pigeon"], &["pigeon", "auto, packet, xdp"]),
        (&["--receive-by", "pigeon"], &["pigeon", "auto, packet, xdp, xdp-native, xdp-generic"]),
        (&["--name", "router"], &["--name router", "add --save"]),
        (&["--html", "/"], &["cannot write /: is a directory", "name a file in a directory that can be written"]),
        (&["--html", "no/such/place.html"], &["cannot write no/such/place.html: No such file"]),
        (&["--tx", "eth7"], &["--rx"]),
        (&["--tx", "no-such-if", "--rx", "lo"], &["there is no interface no-such-if"]),
        (&["--tx", "lo", "--rx", "lo", "--device-mac", "x"], &["02:00:00:00:00:01"]),
        (&["--tx", "lo", "--rx", "lo", "--forwarding", "bridge"], &["cannot be used with"]),
    ] {
        let out = home.netcliff([&["rfc2544", "throughput"], args].concat()).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
}

/// Two goals in one search, frames of a mix that leaves room for IPv6, and trials of the requested length.
#[test]
fn goals_mixes_and_lengths_are_as_asked() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let short = ["rfc2544", "throughput", "--max", "5kpps", "--rest", "0s", "--width", "20%", "--json"];
    let run = |args: &[&str]| {
        let out = home.netcliff([&short[..], args].concat()).output().expect("it runs");
        printed(&out.stdout, &out.stderr)
    };
    let goals = ["--goal", "trial=50ms", "--goal", "trial=20ms,sum=60ms,exceed=50%,loss=1%"];
    let found = run(&[&["--frames", "imix", "--ipv6"], &goals[..]].concat());
    let size = &found["sizes"][0];
    assert_eq!((&size["frame"], size["throughput"]["found"].as_array().map(Vec::len)), (&"imix-84".into(), Some(2)));
    assert_eq!(size["goals"][1]["goal"]["exceed_ratio"], 0.5);
    assert_eq!(size["goals"][1]["goal"]["duration_sum_s"], 0.06);
    let notes = found["notes"].as_array().expect("notes");
    assert!(
        notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains("(imix) are of 84 bytes"))),
        "{notes:?}"
    );
    let found = run(&["--frames", "64", "--search", "typical", "--trial", "1100ms"]);
    let trials = found["sizes"][0]["throughput"]["trials"].as_array().expect("trials");
    assert!(trials.iter().any(|trial| trial["duration_s"] == 1.1), "{trials:?}");
}

/// Short trials of tagged frames with this kind of forwarding.
fn tagged(home: &Home, forwarding: &str, test: &str) -> std::process::Output {
    let args = ["rfc2544", test, "--vlan", "7", "--frames", "128", "--forwarding", forwarding, "--json"];
    let short = ["--trial", "50ms", "--max", "5kpps", "--rest", "0s", "--width", "20%"];
    home.netcliff([&args[..], &short].concat()).output().expect("it runs")
}

/// Tagged frames need an interface of the VLAN at a router. Other kinds of forwarding pass a tag unchanged.
#[test]
fn tagged_frames_are_forwarded_or_refused() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    for forwarding in ["bridge", "xdp", "route", "netfilter", "conntrack"] {
        let output = tagged(&home, forwarding, "loss");
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("--vlan") && !["bridge", "xdp"].contains(&forwarding) {
            assert_eq!(output.status.code(), Some(2), "{said}");
            for words in ["this kernel cannot make", &format!("--forwarding {forwarding}"), "bridge or xdp", "--tx"] {
                assert!(said.contains(words), "{words}: {said}");
            }
            assert!(output.stdout.is_empty());
            say(&format!("{forwarding}: this kernel has no VLAN interfaces; the refusal was seen"));
            continue;
        }
        let found = printed(&output.stdout, &output.stderr);
        let trials = found["sizes"][0]["loss"]["trials"].as_array().expect("trials");
        // A loaded machine may lose some frames at any load.
        assert!(trials.iter().any(|trial| trial["lost"].as_u64() < trial["sent"].as_u64()), "{forwarding}: {found}");
    }
    assert!(entries(&home.state().join("journal")).is_empty(), "the journal is not empty");
}

/// Both signals of one stop, as `timeout` and a terminal send them. The second one does not end the run at once.
#[test]
fn two_signals_at_once_are_one_stop() {
    let home = Home::new();
    let Some(run) = in_its_second_search(&home) else { return };
    let pid = run.pid();
    crate::common::running::signals(pid, &["TERM", "INT", "TERM"]);
    let Ended { status, stdout, stderr } = run.end(std::time::Duration::from_secs(60));
    let found = printed(&stdout, &stderr);
    assert!(status.code() == Some(1) && found["partial"].is_string(), "{found}");
    assert_eq!(stderr.matches("stopping; press Ctrl-C again").count(), 1, "{stderr}");
    assert_eq!(namespaces_of(pid), [""; 0], "namespaces are left");
}

/// A run of several searches, in its second one. `None` if it cannot run here, which is reported.
fn in_its_second_search(home: &Home) -> Option<Running> {
    if !has_namespaces() {
        return None;
    }
    let mut run = Running::start(home, &searches("64", "1000"));
    run.until("search 2 of 1000", std::time::Duration::from_secs(120));
    Some(run)
}

/// Arguments for searches by a coarse bisection, which are short whatever the throughput is.
fn searches<'a>(frames: &'a str, searches: &'a str) -> Vec<&'a str> {
    let start = ["rfc2544", "throughput", "--search", "binary", "--frames", frames, "--searches", searches];
    [&start[..], &["--trial", "50ms", "--max", "20kpps", "--rest", "0s", "--width", "20%", "--json"]].concat()
}

/// Number of attempts. On a loaded machine at most one attempt in ten loses frames by chance, so five that lose in a
/// row are a fault (a false alarm in 1e5 runs).
const ATTEMPTS: usize = 5;

#[test]
fn several_searches_go_round_the_sizes_and_can_be_compared() {
    if !has_namespaces() {
        return;
    }
    retried(ATTEMPTS, "no size has two throughputs", || searched_twice().then_some(()));
}

/// Runs two searches and compares the result with itself. False if no size has two throughputs.
fn searched_twice() -> bool {
    let home = Home::new();
    let run = Running::start(&home, &searches("64,imix", "2"));
    let Ended { status, stdout, stderr: said } = run.end(std::time::Duration::from_secs(120));
    let begun = said.lines().filter_map(|line| line.strip_prefix("netcliff: frames of "));
    let begun: Vec<&str> = begun.map(|line| line.split_once(';').map_or(line, |(what, _)| what)).collect();
    let rounds =
        ["64B, search 1 of 2", "imix, search 1 of 2", "imix, search 2 of 2", "64B, search 2 of 2", "64B", "imix"];
    assert_eq!(begun, rounds, "{said}");
    let found = printed(&stdout, &said);
    assert_eq!(found["asked"]["searches"], 2);
    let mut both = 0;
    for size in found["sizes"].as_array().expect("sizes") {
        let turns = size["searches"].as_array().expect("searches");
        assert_eq!(turns.iter().map(|turn| turn["round"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2)], "{size}");
        let lowers: Vec<f64> = turns.iter().filter_map(|turn| turn["found"][0]["lower_pps"].as_f64()).collect();
        // A loaded machine may lose frames at any load.
        let mean = size["throughput_pps"]["value"].as_f64().or(size["throughput_pps"].as_f64());
        match mean {
            Some(mean) => {
                assert!((mean / lowers.iter().sum::<f64>() * lowers.len() as f64 - 1.0).abs() < 1e-9, "{size}")
            }
            None => assert!(lowers.is_empty() && size["missing"][0].is_string(), "{size}"),
        }
        both += usize::from(lowers.len() == 2);
    }
    if both == 0 {
        return false;
    }
    assert!(status.success(), "{said}");
    let file = home.file("run.json", stdout);
    let compared = home.json(["compare", &file, &file, "--json"]);
    let twice = |row: &&Value| row["a_repeats"] == 2 && row["b_repeats"] == 2;
    assert_eq!(compared["rows"].as_array().expect("rows").iter().filter(twice).count(), both, "{compared}");
    assert!(!compared["notes"].to_string().contains("--repeats"), "{compared}");
    true
}

#[test]
fn a_stop_between_rounds_keeps_the_searches_that_were_made() {
    let home = Home::new();
    let Some(run) = in_its_second_search(&home) else { return };
    let pid = run.pid();
    run.signal("INT");
    let Ended { status, stdout, stderr } = run.end(std::time::Duration::from_secs(60));
    let found = printed(&stdout, &stderr);
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(found["partial"].as_str().is_some_and(|why| why.contains("stopped")), "{found}");
    let size = &found["sizes"][0];
    let made = size["searches"].as_array().expect("searches").len();
    assert!((1..1000).contains(&made), "{made}");
    assert_eq!(size["missing"][0], format!("throughput: {made} of 1000 searches were made"));
    assert_eq!(namespaces_of(pid), [""; 0], "namespaces are left");
    assert!(entries(&home.state().join("journal")).is_empty(), "the journal is not empty");
}

#[test]
fn a_stop_during_a_search_keeps_its_trials() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    // Half a minute of trials at the highest load. The first line is printed when they have begun.
    let args = ["rfc2544", "throughput", "--frames", "64,imix", "--max", "5kpps", "--rest", "0s", "--save", "--json"];
    let goal = ["--goal", "trial=500ms,sum=60s,exceed=50%,initial=100ms"];
    let mut run = Running::start(&home, &[&args[..], &goal].concat());
    run.until("of 100 ms: ", std::time::Duration::from_secs(60));
    run.signal("INT");
    let Ended { status, stdout, stderr } = run.end(std::time::Duration::from_secs(60));
    let found = printed(&stdout, &stderr);
    assert_eq!(status.code(), Some(1), "{stderr}");
    let size = &found["sizes"][0];
    assert!(size["throughput"].is_null() && size["unfinished"]["trials"][0]["load_pps"].is_number(), "{found}");
    let shown = home.stdout(["results", "show"]);
    assert!(shown.contains("PARTIAL: ended early after") && shown.contains("SEARCH ENDED EARLY"), "{shown}");
}

/// Latency of frames of 64 bytes through the router of the namespaces.
const LATENCY: [&str; 15] = [
    "rfc2544",
    "latency",
    "--frames",
    "64",
    "--trial",
    "50ms",
    "--max",
    "5kpps",
    "--rest",
    "0s",
    "--repeats",
    "3",
    "--width",
    "20%",
    "--stamps",
];

#[test]
fn the_kernels_stamps_stand_beside_the_testers_clock() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let latency = retried(ATTEMPTS, "no latency", || {
        let output = home.netcliff([&LATENCY[..], &["kernel", "--json"]].concat()).output().expect("it runs");
        let found = printed(&output.stdout, &output.stderr);
        assert_eq!(found["instruments"]["tagged_by"], "kernel");
        let size = &found["sizes"][0];
        assert!(!size["latency"].is_null() || size["missing"][0].is_string(), "{size}");
        Some(size["latency"].clone()).filter(|latency| !latency.is_null())
    });
    assert_eq!(latency["clock"], "kernel");
    assert_eq!(latency["uncertainty_s"], 0.0);
    assert_eq!(latency["absent"], serde_json::json!({"left": 0, "came": 0, "clock": 0}), "{latency}");
    for repeat in latency["repeats"].as_array().expect("repeats") {
        let (kernel_s, application_s) = (repeat["tagged_s"].as_f64(), repeat["application_s"].as_f64());
        assert!(kernel_s.is_some_and(|s| s > 0.0) && kernel_s <= application_s, "{repeat}");
    }
}

#[test]
fn hardware_stamps_of_ports_without_are_refused_and_nothing_is_left() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let out = home.netcliff([&LATENCY[..], &["hardware"]].concat()).output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    for words in ["cannot put hardware time stamps on what leaves", "it offers", "choose --stamps"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(out.stdout.is_empty() && entries(&home.state().join("journal")).is_empty(), "something is left");
}

/// The interface that carries the default route is refused before a frame is sent.
#[test]
fn the_default_route_is_not_flooded() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let table = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let default = table.lines().skip(1).map(fields).find(|line| line.get(1).is_some_and(|to| to == "00000000"));
    let Some(port) = default.and_then(|line| line.first().cloned()) else {
        return not_applicable("this machine has no default route");
    };
    let out = home.netcliff(["rfc2544", "throughput", "--tx", &port, "--rx", &port]).output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.code() == Some(2) && said.contains("carries the default route") && said.contains("--i-know"),
        "{said}"
    );
}
