//! Wrong usage: exit code 2, nothing on stdout, and a message with the offending value and the accepted form.

use crate::common::{Home, refusals};
use crate::schema::printed;

#[test]
fn costs_and_sizes() {
    refusals(
        &Home::new(),
        2,
        &[
            (&["predict", "--rate", "100kpps", "--set", "ring=0"], &["ring = 0", "at least 1"]),
            (&["predict", "--rate", "100kpps", "--set", "socket_buffer=0"], &["socket_buffer = 0", "at least 1"]),
            (&["predict", "--rate", "100kpps", "--set", "ring=1.5"], &["--set ring", "\"1.5\"", "whole number"]),
            (&["predict", "--rate", "100kpps", "--set", "ring=-1"], &["--set ring", "\"-1\"", "whole number"]),
            (&["predict", "--rate", "100kpps", "--set", "rng=5"], &["rng=5", "KEY=VALUE", "socket_buffer"]),
            (&["predict", "--rate", "100kpps", "--set", "application"], &["\"application\"", "KEY=VALUE"]),
            (&["predict", "--rate", "100kpps", "--set", "protocol=5"], &["--set protocol", "\"5\"", "20us"]),
            (&["predict", "--rate", "100kpps", "--set", "protocol=5kpps"], &["\"5kpps\"", "20us"]),
            (&["predict", "--rate", "100kpps", "--set", "protocol=-5us"], &["\"-5us\"", "20us"]),
            (&["predict", "--rate", "100kpps", "--set", "protocol=NaN"], &["\"NaN\"", "20us"]),
            (&["predict", "--rate", "100kpps", "--set", "protocol=infs"], &["\"infs\"", "20us"]),
            (
                &["predict", "--rate", "100kpps", "--set", "protocol=0s", "--set", "per_byte=0s"],
                &["protocol", "above 0"],
            ),
            (
                &["predict", "--rate", "100kpps", "--set", "socket_drop_cost=20"],
                &["socket_drop_cost = 20", "from 0 to 10"],
            ),
            (&["predict", "--rate", "100kpps", "--set", "service=gaussian"], &["gaussian", "exponential"]),
            (&["predict", "--rate", "100kpps", "--set", "service=erlang:stages=0"], &["stages = 0", "from 1"]),
            (&["predict", "--rate", "100kpps", "--host", "pentium5"], &["pentium5", "pentium4-2530mhz", "TOML file"]),
            (&["simulate", "--rate", "100kpps", "--host", "/"], &["/: is a directory", "pentium4-2530mhz"]),
        ],
    );
}

/// Times that people wait for may have minutes and hours. For an invalid one, the error names the units.
#[test]
fn long_times() {
    let home = Home::new();
    home.netcliff(["tune", "undo", "--wait=5min"]).assert().success();
    home.netcliff(["tune", "undo", "--wait=1h"]).assert().success();
    // A number alone is in seconds, as `stream -t` has it.
    home.netcliff(["tune", "undo", "--wait=100"]).assert().success();
    refusals(
        &home,
        2,
        &[
            (&["tune", "undo", "--wait=5m"], &["--wait", "\"5m\"", "ms, s, min or h"]),
            (&["tune", "undo", "--wait=604801"], &["--wait", "'604801'", "at most a week"]),
            (&["tune", "undo", "--wait=169h"], &["--wait", "'169h'", "at most a week"]),
            (&["tune", "undo", "--wait=-1min"], &["--wait", "\"-1min\"", "min or h"]),
        ],
    );
}

#[test]
fn loads() {
    refusals(
        &Home::new(),
        2,
        &[
            (&["predict"], &["--rate"]),
            (&["predict", "--cliff", "--loss", "0"], &["--loss", "'0'", "1e-4"]),
            (&["predict", "--cliff", "--loss", "2"], &["--loss", "'2'", "1e-4"]),
            (&["predict", "--cliff", "--rates", "1kpps..2kpps:2"], &["--cliff", "--rates", "cannot be used"]),
            (&["predict", "--cliff", "--arrivals", "constant"], &["Poisson", "constant", "simulator"]),
            (&["simulate", "--rate", "9kpps", "--series", "0us"], &["--series", "'0us'", "1ms"]),
            (&["simulate", "--rate", "9kpps", "--series", "1ns"], &["series slice", "or more"]),
            (&["simulate", "--distributions"], &["--rate 100kpps"]),
            (&["simulate", "--rate", "9kpps", "--against", "napo"], &["--against", "napo", "polling"]),
            (&["simulate", "--rate", "9kpps", "--trace-packets", "500"], &["--trace <FILE.json>"]),
            (&["simulate", "--rate", "9kpps", "--trace", "x", "--trace-packets", "5"], &["'5'", "from 100"]),
            (&["predict", "--rate", "0kpps"], &["0kpps", "above zero", "100kpps"]),
            (&["predict", "--rate", "0"], &["'0'", "above zero"]),
            (&["predict", "--rate", "0%"], &["0%", "above zero"]),
            (&["predict", "--rate", "-5kpps"], &["-5kpps", "above zero", "100kpps"]),
            (&["predict", "--rate=-5kpps"], &["-5kpps", "above zero", "100kpps"]),
            (&["predict", "--rate", "NaN"], &["NaN", "100kpps"]),
            (&["predict", "--rate", "NaNkpps"], &["NaNkpps", "100kpps"]),
            (&["predict", "--rate", "1e999pps"], &["1e999pps", "100kpps"]),
            (&["predict", "--rate", "100"], &["100", "100kpps"]),
            (&["predict", "--rate", "100us"], &["100us", "100kpps"]),
            (&["predict", "--rate", ""], &["--rate", "100kpps"]),
            (&["predict", "--rate", "1kpps", "--rates", "1kpps..2kpps:2"], &["--rate", "--rates", "cannot be used"]),
            (&["predict", "--rates", "10kpps..300kpps"], &["10kpps..300kpps'", "10kpps..300kpps:30"]),
            (&["predict", "--rates", "10kpps..300kpps:0"], &["300kpps:0", "10kpps..300kpps:30"]),
            (&["predict", "--rates", "10kpps..300kpps:1"], &["300kpps:1'", "10kpps..300kpps:30"]),
            (&["predict", "--rates", "300kpps..10kpps:3"], &["300kpps..10kpps:3", "10kpps..300kpps:30"]),
            (&["predict", "--rates", "10kpps..40%:3"], &["10kpps..40%:3", "10kpps..300kpps:30"]),
            (&["predict", "--rates", "10kpps..300kpps:x"], &["300kpps:x", "10kpps..300kpps:30"]),
            (&["predict", "--rates", "10kpps,,"], &["10kpps,,", "10kpps,20kpps"]),
            (&["predict", "--rates", "-1kpps..2kpps:2"], &["-1kpps..2kpps:2", "10kpps..300kpps:30"]),
            (&["predict", "--rate", "40%", "--link", "0Gbit/s"], &["link", "0", "from 1bit/s"]),
            (&["predict", "--rate", "40%", "--link", "1kpps"], &["1kpps", "1.5Gbit/s"]),
            (&["predict", "--rate", "40%", "--link", "-1Gbit/s"], &["-1Gbit/s", "1.5Gbit/s"]),
        ],
    );
}

#[test]
fn schemes_and_arrivals() {
    refusals(
        &Home::new(),
        2,
        &[
            (
                &["predict", "--rate", "1kpps", "--scheme", "interupt"],
                &["\"interupt\"", "interrupt,", "polling:period=20us"],
            ),
            (&["predict", "--rate", "1kpps", "--scheme", "napi:wieght=64"], &["wieght", "weight,"]),
            (&["predict", "--rate", "1kpps", "--scheme", "ideal:x=1"], &["`x`", "none"]),
            (&["predict", "--rate", "1kpps", "--scheme", "napi:weight=0"], &["weight = 0", "at least 1"]),
            (&["predict", "--rate", "1kpps", "--scheme", "napi:weight=1,weight=2"], &["`weight` is given twice"]),
            (&["predict", "--rate", "1kpps", "--scheme", "napi:weight=-1"], &["`weight`", "\"-1\"", "whole number"]),
            (
                &["predict", "--rate", "1kpps", "--scheme", "napi:defer_hard_irqs=2"],
                &["defer_hard_irqs = 2", "gro_flush_timeout"],
            ),
            (&["predict", "--rate", "1kpps", "--scheme", "polling:period=20"], &["`period`", "\"20\"", "20us"]),
            (&["predict", "--rate", "1kpps", "--scheme", "polling:period=1us"], &["period = 1us", "1.59us"]),
            (
                &["predict", "--rate", "1kpps", "--scheme", "interrupt:drops_interrupt=maybe"],
                &["maybe", "true or false"],
            ),
            (&["predict", "--rate", "1kpps", "--scheme", "coalesce:frames=5000"], &["frames = 5000", "1024"]),
            (&["predict", "--rate", "1kpps", "--scheme", "hybrid:up=10kpps,down=20kpps"], &["down = 20kpps", "10kpps"]),
            (&["predict", "--rate", "1kpps", "--scheme", "polling:quota=0"], &["quota = 0", "at least 1"]),
            (&["predict", "--rate", "1kpps", "--scheme", "napi-2007:quota=0"], &["quota = 0", "at least 1"]),
            (&["predict", "--rate", "1kpps", "--scheme", "napi-2007:period=1590ns"], &["period = 1.59us", "1.59us"]),
            (&["predict", "--rate", "1kpps", "--scheme", "hybrid:period=1us"], &["period = 1us", "1.59us"]),
            (&["predict", "--rate", "1kpps", "--scheme", "hybrid:ewma=0"], &["ewma", "above 0"]),
            (&["predict", "--rate", "1kpps", "--scheme", "napi:budget=0"], &["budget = 0", "at least 1"]),
            (&["predict", "--rate", "1kpps", "--scheme", "coalesce:frames=0"], &["frames = 0", "at least 1"]),
            (&["predict", "--rate", "1kpps", "--scheme", "coalesce:usecs=-1us"], &["`usecs`", "\"-1us\"", "20us"]),
            (&["simulate", "--rate", "1kpps", "--scheme", "dim:start=9"], &["start = 9", "from 0 to 4"]),
            (&["simulate", "--rate", "1kpps", "--scheme", "dim:profile=fast"], &["fast", "eqe or cqe"]),
            (&["simulate", "--rate", "1kpps", "--arrivals", "poison"], &["poison", "poisson, constant"]),
            (&["simulate", "--rate", "1kpps", "--arrivals", "batch:size=0"], &["batch size = 0", "at least 1"]),
            (&["simulate", "--rate", "1kpps", "--arrivals", "mmpp:busy=2"], &["busy = 2", "between 0 and 1"]),
            (&["simulate", "--rate", "1kpps", "--arrivals", "onoff:alpha_on=0.9"], &["alpha_on = 0.9", "above 1"]),
            (&["simulate", "--rate", "1kpps", "--arrivals", "trace:/nonexistent"], &["/nonexistent"]),
            (&["predict", "--rate", "1kpps", "--fidelity", "rough"], &["rough", "paper", "exact"]),
        ],
    );
}

#[test]
fn effort_of_a_simulation() {
    refusals(
        &Home::new(),
        2,
        &[
            (&["simulate", "--rate", "1kpps", "--seed", "-1"], &["'-1'", "--seed", "whole number"]),
            (&["simulate", "--rate", "1kpps", "--seed", "x"], &["'x'", "--seed", "whole number"]),
            (&["simulate", "--rate", "1kpps", "--packets", "10"], &["'10'", "1000 to", "1_000_000"]),
            (&["simulate", "--rate", "1kpps", "--packets", "-10"], &["-10", "whole number"]),
            (&["simulate", "--rate", "1kpps", "--packets", "1e6"], &["1e6", "whole number"]),
            (&["simulate", "--rate", "1kpps", "--precision", "0%"], &["0%", "above 0%"]),
            (&["simulate", "--rate", "1kpps", "--precision", "1%", "--for", "speed"], &["speed", "throughput", "p999"]),
            (&["simulate", "--rate", "1kpps", "--precision", "200%"], &["200%", "below 100%"]),
            (&["simulate", "--rate", "1kpps", "--precision", "1%", "--packets", "5000"], &["--precision", "--packets"]),
            (&["simulate", "--rate", "1kpps", "--confidence", "100%"], &["100%", "below 100%"]),
        ],
    );
}

#[test]
fn measuring() {
    let home = Home::new();
    refusals(
        &home,
        2,
        &[
            (&["find", "--loss", "2"], &["'2'", "--loss", "above 0 and below 1"]),
            (&["find", "--loss", "0"], &["'0'", "above 0 and below 1"]),
            (&["find", "--loss", "-1"], &["-1", "--loss", "1e-4"]),
            (&["find", "--size", "10B"], &["10B", "64B to 9018B"]),
            (&["find", "--size", "imix"], &["imix", "64B"]),
            (&["find", "--work", "-1us"], &["-1us", "20us"]),
            (&["find", "--trial", "1ms"], &["1ms", "50ms to 600s"]),
            (&["find", "--trial", "601"], &["601", "50ms to 600s"]),
            (&["find", "--repeats", "0"], &["0", "1..=1000"]),
            (&["find", "--socket-buffer", "1B"], &["1B", "4KiB to 1GiB"]),
            (&["find", "--testbed", "moon"], &["moon", "best, netns, loopback"]),
            (&["find", "--cpu-meter", "x"], &["'x'", "best, ebpf, procfs, soaker"]),
            (&["find", "--check", "nonsense"], &["nonsense", "size=512B", "backlog=200"]),
            (&["find", "--check", "size=imix"], &["imix", "512B"]),
            (&["find", "--check", "backlog=0"], &["backlog", "\"0\"", "above 0"]),
            (&["find", "--check", "work=5"], &["work", "\"5\"", "20us"]),
            (&["find", "--check", "rx-usecs=fast"], &["--check rx-usecs", "fast", "microseconds"]),
            (&["find", "--check", "rx-usecs=100"], &["--check rx-usecs=100", "interface", "--if IF --from HOST"]),
            (&["find", "--testbed", "netns", "--check", "gro=off"], &["--check gro=off", "--if IF --from HOST"]),
            (&["find", "--testbed", "loopback", "--check", "rx=64"], &["--check rx=64", "--if IF --from HOST"]),
            (&["find", "--no-store", "--db", "x.db"], &["--no-store", "--db"]),
            (&["find", "--host-cpu", "999"], &["CPU 999", "online are 0", "choose one"]),
            (&["find", "--sender-cpu", "999"], &["CPU 999", "online are 0", "choose one"]),
            (&["find", "--host-cpu", "-1"], &["'-1'", "--host-cpu", "number of a CPU"]),
        ],
    );
    let runs = home.json_lines(["results", "list", "--json"]);
    assert!(runs.iter().all(|run| run["state"] != "running"), "a refused run is over: {runs:?}");
}

#[test]
fn commands_and_results() {
    let home = Home::new();
    let saved = home.text("saved.db");
    home.stdout(["predict", "--rate", "1kpps", "--db", &saved]);
    refusals(
        &home,
        2,
        &[
            (&[], &["Usage: netcliff"]),
            (&["fnd"], &["fnd", "find"]),
            (&["predict", "--rat", "1kpps"], &["--rat"]),
            (&["completions", "cmd.exe"], &["cmd.exe", "bash"]),
            (&["results", "show"], &["no runs", "data/netcliff/records.db"]),
            (&["results", "show", "99"], &["no run 99", "data/netcliff/records.db", "empty"]),
            (&["results", "show", "99", "--db", &saved], &["no run 99", "the newest are 1"]),
            (&["results", "show", "first"], &["no run first", "results list"]),
            (&["results", "show", "--json", "--csv"], &["--json", "--csv"]),
            (&["results", "export", "1", "--db", &saved, "-o", "no/such/x.json"], &["no/such/x.json", "No such file"]),
        ],
    );
}

#[test]
fn limits_of_what() {
    let limits = |args: &[&'static str]| -> Vec<&'static str> { ["limits"].iter().chain(args).copied().collect() };
    let home = Home::new();
    for (args, says) in [
        (&[][..], &["no part is given", "--this-host", "--link", "--bus", "--memory", "--host"][..]),
        (&["--link", "0bit/s"], &["--link", "above 0"]),
        (&["--link", "fast"], &["\"fast\"", "1.5Gbit/s"]),
        (&["--memory", "10Gbit/s"], &["10Gbit/s", "10GB/s"]),
        (&["--bus", "isa"], &["isa", "pcie-3x8"]),
        (&["--bus", "pcie-3x9"], &["lanes = 9", "16 or 32"]),
        (&["--bus", "pcie-3x8:mps=100B"], &["100B", "128B"]),
        (&["--sizes", "10B"], &["10B", "64B to 65535B"]),
        (&["--offload", "ufo"], &["ufo", "zero-copy"]),
        (&["--copies", "-1"], &["-1", "--copies"]),
        (&["--cpus", "0"], &["0", "--cpus"]),
        (&["--set", "ring=5"], &["--host"]),
        (&["--host", "pentium5"], &["pentium5", "pentium4-2530mhz"]),
        (&["--if", "no-such-if"], &["no-such-if", "ip link"]),
        (&["--json", "--csv", "--link", "1Gbit/s"], &["--json", "--csv"]),
    ] {
        crate::common::refusal(&home, &limits(args), 2, says).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// `--this-host`: memory is measured, link and slot come from the kernel, costs from the store. Options replace each of
/// them.
#[test]
fn limits_of_this_host() {
    let home = Home::new();
    let output = home.command(["limits", "--this-host", "--json", "--sizes", "1518B"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let json = printed(&output.stdout, &output.stderr);
    let memory = crate::common::number(&json["memory_bytes_per_s"]).unwrap();
    assert!((1e8..1e12).contains(&memory), "{memory}");
    assert!(json["host"].is_null());
    assert!(String::from_utf8_lossy(&output.stderr).contains("not calibrated"), "{output:?}");
    let given =
        ["--link", "1Gbit/s", "--bus", "pci-64/66", "--memory", "6GB/s", "--host", "pentium4-2530mhz", "--cpus", "3"];
    let mut here = home.json(["limits", "--this-host", "--json"].iter().chain(&given));
    let mut usual = home.json(["limits", "--json"].iter().chain(&given));
    // NAPI with the budget of this host, and with the kernel's usual one.
    for json in [&mut here, &mut usual] {
        let scheme = json.as_object_mut().expect("an object").remove("highest_by").expect("a scheme");
        assert!(scheme.as_str().is_some_and(|text| text.starts_with("napi:")), "{scheme}");
    }
    assert_eq!(here, usual);
    let text = home.stdout(["limits", "--this-host"]);
    assert!(text.contains("a copy by one CPU just now"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// If the number of frames per interrupt was not measured, the bound is a range up to the result of `predict` for this
/// host.
#[test]
fn limits_and_predict_say_the_same_of_a_host() {
    let home = Home::new();
    let host = ["--host", "pentium4-2530mhz", "--set", "ring=128"];
    let number = |value: &serde_json::Value| crate::common::number(value).expect("a number");
    let limits = home.json(["limits", "--sizes", "64B", "--offload", "checksum", "--json"].iter().chain(&host));
    let row = &limits["rows"][1];
    let predicted = home.json(["predict", "--cliff", "--json"].iter().chain(&host));
    let (cliff, said) = (number(&predicted["cliff_pps"]), number(&row["highest"]["cliff_pps"]));
    assert!((cliff / said - 1.0).abs() < 1e-3, "{cliff} {said}");
    assert!(number(&row["pps"]) < cliff && number(&row["highest"]["pps"]) > 0.999 * cliff, "{cliff}: {row}");
    let text = home.stdout(["limits"].iter().chain(&host));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.starts_with("Upper bound ") && !text.contains("At most"), "{text}");
    for says in [
        "The low end is for one interrupt per frame",
        "frames per interrupt, which the model predicts at the cliff of napi",
    ] {
        assert!(words.contains(says), "{says}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // If the number of frames per interrupt is given, the bound is not a range.
    let given = home.stdout(["limits", "--frames-per-interrupt", "8"].iter().chain(&host));
    assert!(given.starts_with("About "), "{given}");
}

/// The three forms agree, and the lowest bound is the lowest of the parts.
#[test]
fn limits_in_three_forms() {
    let home = Home::new();
    let args = ["limits", "--link", "10Gbit/s", "--bus", "pci-x-133", "--sizes", "64B,1518B", "--offload", "jumbo"];
    let json = home.json(args.iter().chain(&["--json"]));
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let bounds: Vec<f64> =
            row["bounds_pps"].as_object().unwrap().values().filter_map(crate::common::number).collect();
        assert_eq!(crate::common::number(&row["pps"]).unwrap(), bounds.into_iter().fold(f64::INFINITY, f64::min));
    }
    let csv = home.stdout(args.iter().chain(&["--csv"]));
    assert_eq!(csv.lines().count(), 5);
    assert!(csv.lines().nth(4).unwrap().starts_with("1518,9018,jumbo,"), "{csv}");
    let page = home.text("page.html");
    let text = home.stdout(args.iter().chain(&["--html", &page]));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("WITH JUMBO") && std::fs::read_to_string(&page).unwrap().contains("<svg"));
}

#[test]
fn queues_and_their_shares() {
    let predict = |shares: &'static str| ["predict", "--rate", "100kpps", "--queues", shares];
    refusals(
        &Home::new(),
        2,
        &[
            (&predict("0"), &["'0'", "queues = 0", "1 to 4096"]),
            (&predict("-1"), &["-1", "such as 4"]),
            (&predict("many"), &["many", "40%,30%,30%"]),
            (&predict("50%,40%"), &["50%,40%", "sum to 90%", "100%"]),
            (&predict("4:map=up"), &["up", "pairing, spread or smt"]),
            (&predict("4:cold=0.5"), &["queues cold = 0.5", "from 1"]),
            (&["predict", "--rate", "9kpps", "--queues", "2", "--flows", "0"], &["flows = 0", "from 1 to 1000000"]),
            (&["predict", "--rate", "9kpps", "--flows", "9"], &["--queues"]),
            (&["simulate", "--rate", "9kpps", "--queues", "2", "--distributions"], &["one queue", "leave queues out"]),
            (&predict("150%,-50%"), &["-50%", "40%"]),
        ],
    );
}

/// Four queues alike carry four times one queue; a queue with 40 % of the load puts the cliff at 2.5 times.
#[test]
fn skew_moves_the_cliff() {
    let home = Home::new();
    let cliff = |queues: &str| {
        let args = ["predict", "--scheme", "interrupt", "--cliff", "--json", "--queues", queues];
        crate::common::number(&home.json(args)["cliff_pps"]).expect("a cliff")
    };
    let one = cliff("1");
    assert!((cliff("4") / (4.0 * one) - 1.0).abs() < 1e-3);
    let skewed = cliff("40%,30%,20%,10%") / one;
    // The loss target applies to all packets, and the busiest queue has 40 % of them: slightly more than 2.5.
    assert!((2.49..2.6).contains(&skewed), "{skewed}");
}

/// Without an option that bounds a frame, the error names the options, one part per line, with an example.
#[test]
fn limits_of_nothing() {
    let home = Home::new();
    refusals(
        &home,
        2,
        &[
            (
                &["limits"],
                &[
                    "no part is given",
                    "--this-host",
                    "--link, such as 10Gbit/s",
                    "--bus, such as pcie-3x8",
                    "--memory, such as 10GB/s",
                    "such as `netcliff",
                ],
            ),
            (&["limits", "--cpus", "2"], &["no part is given", "--host PRESET"]),
        ],
    );
    let said = home.netcliff(["limits"]).output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.lines().count() >= 6, "a part a line: {said}");
}
