//! What other programs rely on: the JSON and CSV on stdout, the store, and the texts that people read.

use crate::common::{Home, number, number_at};
use netcliff_testkit::has_program;
use serde_json::Value;

fn predict(home: &Home, args: &[&str]) -> Value {
    home.json([&["predict", "--json"], args].concat())
}

fn simulate(home: &Home, args: &[&str]) -> Value {
    home.json([&["simulate", "--json", "--seed", "7"], args].concat())
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Checks that each share of the CPU is from 0 to 1, and that their sum is 1.
fn check_cpu(outcome: &Value) {
    let cpu = outcome["cpu"].as_object().expect("cpu");
    for name in ["interrupt", "poll", "protocol", "application", "available"] {
        let share = cpu.get(name).and_then(number).unwrap_or(0.0);
        assert!((-1e-9..=1.0 + 1e-9).contains(&share), "{name}: {outcome}");
    }
    let sum: f64 = cpu.values().filter_map(number).sum();
    assert!((sum - 1.0).abs() < 1e-6, "the shares sum to {sum}: {outcome}");
}

#[test]
fn a_prediction_is_one_object() {
    let home = Home::new();
    for scheme in ["ideal", "interrupt", "disable-enable", "napi", "coalesce:frames=8,masked=true"] {
        let record = predict(&home, &["--scheme", scheme, "--rate", "100kpps"]);
        assert_eq!(keys(&record), ["engine", "outcome", "point", "provenance"]);
        assert_eq!(record["engine"], "model");
        assert_eq!(keys(&record["point"]), ["host", "scheme", "traffic"]);
        assert!(record["point"]["scheme"].as_str().unwrap().starts_with(scheme.split(':').next().unwrap()));
        assert_eq!(record["point"]["traffic"]["rate"], "100kpps");
        let outcome = &record["outcome"];
        let delivered = outcome["throughput_pps"].as_f64().expect("a computed figure is a plain number");
        assert!(delivered > 0.0 && delivered <= 100e3 * 1.000_001, "{scheme}: {delivered}");
        assert!((0.0..=1.0).contains(&number_at(outcome, "/loss_fraction")));
        let goodput = number_at(outcome, "/goodput_bps");
        assert!((goodput / (delivered * 64.0 * 8.0) - 1.0).abs() < 1e-9, "{scheme}: {goodput}");
        let mean_s = number_at(outcome, "/latency_s/mean");
        assert!((1e-6..1e-1).contains(&mean_s), "{scheme}: {mean_s} s");
        check_cpu(outcome);
        let provenance = &record["provenance"];
        assert_eq!(provenance["version"], env!("CARGO_PKG_VERSION"));
        assert!(provenance["command"].as_str().unwrap().starts_with("netcliff predict --json --scheme"));
        assert!(provenance["started_unix_s"].as_f64().unwrap() > 1.7e9);
        assert_eq!(provenance["settings"]["fidelity"], "exact");
    }
}

#[test]
fn a_sweep_is_one_object_a_line() {
    let home = Home::new();
    let lines = home.json_lines(["predict", "--scheme", "interrupt", "--rates", "10kpps..300kpps:30", "--json"]);
    assert_eq!(lines.len(), 30);
    let rates: Vec<&str> = lines.iter().map(|line| line["point"]["traffic"]["rate"].as_str().unwrap()).collect();
    assert_eq!((rates[0], rates[1], rates[29]), ("10kpps", "20kpps", "300kpps"));
    let delivered: Vec<f64> = lines.iter().map(|line| number_at(line, "/outcome/throughput_pps")).collect();
    let peak = delivered.iter().copied().fold(0.0, f64::max);
    // docs/theory/figures.md: the cliff at 127.05 kpps, then livelock.
    assert!((110e3..130e3).contains(&peak) && delivered[29] < 0.8 * peak, "{delivered:?}");
}

#[test]
fn the_papers_formula_is_not_the_exact_one() {
    let home = Home::new();
    let mean_us = |fidelity: &str, rate: &str| {
        // The paper rounds the service time of a 64-byte frame.
        let service = ["--set", "protocol=5.34us", "--set", "per_byte=0s"];
        let record = predict(
            &home,
            &[&["--scheme", "interrupt", "--fidelity", fidelity, "--rate", rate], &service[..]].concat(),
        );
        assert_eq!(record["provenance"]["settings"]["fidelity"], fidelity);
        1e6 * number_at(&record, "/outcome/latency_s/mean")
    };
    // docs/theory/chains.md, to two decimals.
    for (rate, paper, exact) in [("10kpps", 9.59, 9.81), ("50kpps", 13.00, 14.73), ("100kpps", 31.21, 41.46)] {
        for (fidelity, expected) in [("paper", paper), ("exact", exact)] {
            let found = mean_us(fidelity, rate);
            assert!((found - expected).abs() < 0.011, "{fidelity} at {rate}: {found} us, not {expected} us");
        }
    }
}

#[test]
fn a_simulation_repeats_by_its_seed() {
    let home = Home::new();
    let args = ["--scheme", "interrupt", "--rate", "100kpps", "--packets", "200000"];
    let first = simulate(&home, &args);
    assert_eq!(first["engine"], "sim");
    assert_eq!(first["provenance"]["seed"], 7);
    assert_eq!(first["provenance"]["settings"]["packets"], "200000");
    assert_eq!(first["outcome"], simulate(&home, &args)["outcome"], "the same seed, the same outcome");
    let other = home.json([&["simulate", "--json", "--seed", "8"], &args[..]].concat());
    assert_ne!(first["outcome"], other["outcome"], "another seed, another outcome");
    check_cpu(&first["outcome"]);
    for pointer in ["/throughput_pps", "/latency_s/mean", "/latency_s/p50", "/latency_s/p99", "/cpu/protocol"] {
        let figure = first["outcome"].pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {first}"));
        assert_eq!(keys(figure), ["confidence", "high", "low", "value"], "{pointer}");
        let [low, value, high] = ["low", "value", "high"].map(|key| figure[key].as_f64().unwrap());
        assert!(low <= value && value <= high && low < high, "{pointer}: {figure}");
        assert_eq!(figure["confidence"], 0.95);
    }
}

#[test]
fn a_simulation_reaches_its_precision() {
    let home = Home::new();
    let record =
        simulate(&home, &["--scheme", "interrupt", "--rate", "50kpps", "--precision", "1%", "--confidence", "99%"]);
    assert_eq!(record["provenance"]["settings"]["precision"], "1%");
    for pointer in ["/outcome/throughput_pps", "/outcome/latency_s/mean"] {
        let figure = record.pointer(pointer).unwrap();
        assert_eq!(figure["confidence"], 0.99);
        let [low, value, high] = ["low", "value", "high"].map(|key| figure[key].as_f64().unwrap());
        assert!((high - low) / 2.0 <= 0.0101 * value, "{pointer}: {figure}");
    }
    // The exact value is in docs/theory/chains.md. The tolerance is three times the half width (1 %) of a 99 %
    // interval, and the seed is fixed, so that the test does not fail by chance.
    let mean_us = 1e6 * number_at(&record, "/outcome/latency_s/mean");
    assert!((mean_us / 14.73 - 1.0).abs() < 0.03, "{mean_us} us");
}

#[test]
fn a_simulation_says_which_precision_it_did_not_reach() {
    let home = Home::new();
    let args = ["--scheme", "interrupt", "--rate", "100kpps", "--precision", "1%", "--packets-at-most", "200000"];
    let record = simulate(&home, &[&args[..], &["--for", "throughput,p99"]].concat());
    let settings = &record["provenance"]["settings"];
    assert_eq!([&settings["precision_for"], &settings["packets_at_most"]], ["throughput,p99", "200000"]);
    let precision = &record["outcome"]["precision"];
    assert_eq!((&precision["asked"], &precision["reached"]), (&0.01.into(), &false.into()), "{precision}");
    assert!(precision["packets"].as_u64().unwrap() <= 200_000);
    let figures = precision["figures"].as_array().unwrap();
    assert_eq!([&figures[0]["figure"], &figures[1]["figure"]], ["throughput_pps", "latency_p99_s"]);
    let p99 = &record["outcome"]["latency_s"]["p99"];
    let half = (p99["high"].as_f64().unwrap() - p99["low"].as_f64().unwrap()) / 2.0;
    let printed = figures[1]["half_width"].as_f64().unwrap();
    assert!((printed / (half / p99["value"].as_f64().unwrap()) - 1.0).abs() < 1e-9 && printed > 0.01, "{precision}");
    let notes = record["outcome"]["notes"].to_string();
    assert!(notes.contains("not reached") && notes.contains("99th percentile of latency ±"), "{notes}");
}

#[test]
fn a_histogram_has_every_delivered_packet() {
    let home = Home::new();
    let record = simulate(&home, &["--rate", "100kpps", "--packets", "20000", "--histogram"]);
    let cells = record["detail"]["latency_histogram_ns"].as_array().unwrap();
    let cells: Vec<[u64; 2]> = cells.iter().map(|cell| serde_json::from_value(cell.clone()).unwrap()).collect();
    assert!(cells.windows(2).all(|pair| pair[0][0] < pair[1][0]), "latencies rise");
    let packets: u64 = cells.iter().map(|cell| cell[1]).sum();
    assert!((10_000..=20_000).contains(&packets), "{packets}: all but the warm-up");
    let max_s = number_at(&record, "/outcome/latency_s/max");
    assert!((cells.last().unwrap()[0] as f64 * 1e-9 / max_s - 1.0).abs() < 2e-3, "{max_s}");
}

#[test]
fn csv_has_a_header_and_a_row_a_load() {
    let home = Home::new();
    let text = home.stdout(["predict", "--scheme", "ideal", "--rates", "10kpps,20kpps", "--csv"]);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 3, "{text}");
    let column =
        |name: &str| rows[0].iter().position(|field| *field == name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert_eq!(rows[1][column("engine")], "model");
    assert_eq!(rows[2][column("rate_pps")], "20000.0");
    assert_eq!(rows[1][column("throughput_pps")].parse::<f64>().unwrap().round(), 10_000.0);
    assert_eq!(rows[1][column("throughput_pps_low")], "", "a computed figure has no interval");
}

#[test]
fn runs_are_named_filtered_and_removed() {
    let home = Home::new();
    home.stdout(["predict", "--save", "--name", "first", "--rate", "1kpps"]);
    home.stdout(["simulate", "--save", "--name", "second", "--rate", "1kpps", "--packets", "1000"]);
    assert_eq!(home.json_lines(["results", "list", "--kind", "predict", "--json"]).len(), 1);
    assert_eq!(home.json_lines(["results", "list", "--last", "1", "--json"])[0]["kind"], "simulate");
    assert_eq!(home.json(["results", "show", "first", "--json"])["engine"], "model");
    assert_eq!(home.json(["results", "show", "last~1", "--json"])["engine"], "model");
    home.stdout(["results", "rename", "first", "old"]);
    home.stdout(["results", "rm", "old"]);
    let runs = home.json_lines(["results", "list", "--json"]);
    assert_eq!((runs.len(), &runs[0]["name"]), (1, &"second".into()));
    for gone in ["old", "first", "1"] {
        let output = home.netcliff(["results", "show", gone]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(gone) && said.contains("the newest are 2"), "{said}");
    }
    home.stdout(["results", "gc"]);
    assert_eq!(home.json_lines(["results", "list", "--json"]).len(), 1, "what holds something stays");
}

/// If no costs are named and none were measured, the page begins with the origin of the costs, once. Data output has no
/// such line. The costs of a finding count as a host too.
#[test]
fn whose_costs_they_are_is_said() {
    let home = Home::new();
    let said = |args: &[&str]| {
        let output = home.netcliff(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = said(&["predict", "--rate", "1kpps"]);
    assert_eq!(code, Some(0));
    assert_eq!(text, "", "it is on the page");
    let trace = home.text("trace.json");
    for args in [
        &["predict", "--rate", "1kpps"][..],
        &["predict", "--rates", "1kpps,2kpps"],
        &["predict", "--cliff"],
        &["simulate", "--rate", "1kpps", "--packets", "10000"],
        &["simulate", "--rate", "1kpps", "--packets", "10000", "--distributions", "--trace", &trace],
        &["simulate", "--rate", "1kpps", "--packets", "10000", "--against", "polling"],
    ] {
        let page = home.stdout(args);
        assert!(page.starts_with("Caution: these are the costs of preset pentium4-2530mhz"), "{page}");
        assert_eq!(page.matches("2003").count(), 1, "{page}");
        assert!(page.lines().take(3).all(|line| line.chars().count() <= 80), "{page}");
        for data in ["--json", "--csv"] {
            let output = home.netcliff([args, &[data]].concat()).output().unwrap();
            assert!(!String::from_utf8_lossy(&output.stdout).contains("Caution"), "{args:?}");
        }
    }
    assert_eq!(said(&["predict", "--rate", "1kpps", "--host", "pentium4-2530mhz"]), (Some(0), String::new()));
    for (host, why) in [("last-find", "no store yet"), ("find:1", "no store yet"), ("pentium5", "find:3")] {
        let (code, text) = said(&["predict", "--rate", "1kpps", "--host", host]);
        assert!(code == Some(2) && text.contains(host) && text.contains(why), "{text}");
    }
}

#[test]
fn saved_records_come_back_as_they_were() {
    let home = Home::new();
    assert_eq!(home.stdout(["results", "list"]), "", "an empty store is said on stderr");
    let sweep = ["--scheme", "interrupt", "--rates", "10kpps,20kpps", "--json"];
    let printed = home.json_lines([&["predict", "--save"], &sweep[..]].concat());
    home.stdout(["predict", "--rate", "1kpps"]);
    let runs = home.json_lines(["results", "list", "--json"]);
    assert_eq!(runs.len(), 1, "only what was asked to be saved: {runs:?}");
    assert_eq!(
        (&runs[0]["kind"], &runs[0]["state"], &runs[0]["records"]),
        (&"predict".into(), &"done".into(), &2.into())
    );
    assert!(runs[0]["command"].as_str().unwrap().starts_with("netcliff predict --save"));
    assert_eq!(home.json_lines(["results", "show", "--json"]), printed);
    assert_eq!(home.json_lines(["results", "show", "1", "--json"]), printed);
    assert_eq!(home.stdout(["results", "show", "--csv"]).lines().count(), 3);
    assert!(home.stdout(["results", "show"]).contains("20.0 kpps"));
    assert!(home.stdout(["results", "list"]).contains("predict"));
    assert!(home.default_db().exists());
    // A store that the user names.
    let db = home.text("elsewhere/own.db");
    home.stdout(["simulate", "--rate", "1kpps", "--packets", "1000", "--db", &db]);
    assert_eq!(home.json_lines(["results", "list", "--json", "--db", &db])[0]["kind"], "simulate");
    assert_eq!(home.json_lines(["results", "list", "--json"]).len(), 1);
}

#[test]
fn hosts_and_sizes_come_from_files() {
    let home = Home::new();
    let host = home.file("my.toml", "protocol = \"2us\"\nring = 16\n");
    let sizes = home.file("sizes.csv", "bytes,weight\n64,1\n128,1\n");
    let args = ["--scheme", "ideal", "--rate", "10kpps", "--host", &host, "--size", &sizes, "--set", "ring=32"];
    let record = predict(&home, &args);
    assert_eq!(record["point"]["host"]["protocol"], "2us");
    assert_eq!(record["point"]["host"]["ring"], 32);
    assert_eq!(record["point"]["traffic"]["size"], "mixture:64=1,128=1");
    assert!((number_at(&record, "/outcome/goodput_bps") / (10e3 * 96.0 * 8.0) - 1.0).abs() < 1e-6);
}

#[test]
fn a_cliff_comes_with_its_record() {
    let home = Home::new();
    let found = predict(&home, &["--scheme", "disable-enable", "--cliff", "--loss", "1e-3"]);
    assert_eq!(keys(&found), ["cliff_pps", "engine", "livelock", "loss_target", "outcome", "point", "provenance"]);
    let cliff = number_at(&found, "/cliff_pps");
    assert_eq!(number_at(&found, "/loss_target"), 1e-3);
    assert!((0.9..=1.0).contains(&number_at(&found, "/livelock")), "masked interrupts hold: {found}");
    // The bound is met at the cliff, and not a thousandth above it.
    let loss = |share: f64| {
        let record = predict(&home, &["--scheme", "disable-enable", "--rate", &format!("{}pps", cliff * share)]);
        number_at(&record, "/outcome/loss_fraction")
    };
    assert!(loss(1.0) <= 1.001e-3 && loss(1.001) > 1e-3, "{} {}", loss(1.0), loss(1.001));
}

#[test]
fn sensitivities_name_the_cost_to_attack() {
    let home = Home::new();
    let found = predict(&home, &["--scheme", "interrupt", "--sensitivities", "--rate", "100kpps"]);
    assert_eq!(found["point"]["traffic"]["rate"], "100kpps");
    assert_eq!(number_at(&found, "/step"), 0.01);
    let costs = found["sensitivities"].as_array().expect("sensitivities");
    assert_eq!(costs[0]["cost"], "protocol");
    // Scaling every cost scales time itself: the elasticities of the cliff sum to -1.
    let sum: f64 = costs.iter().map(|one| number_at(one, "/cliff")).sum();
    assert!((sum + 1.0).abs() < 5e-3, "{sum}");
    let text = home.stdout(["predict", "--scheme", "interrupt", "--sensitivities"]);
    assert!(text.contains("a cost 1 % higher") && text.contains("cliff"), "{text}");
}

#[test]
fn warnings_go_to_stderr_and_into_the_notes() {
    let home = Home::new();
    let args = ["--fidelity", "paper", "--scheme", "polling:period=4us", "--rates", "10kpps,20kpps", "--json"];
    let run = home.netcliff([&["predict"], &args[..]].concat()).assert().success().get_output().clone();
    let (out, err) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
    assert_eq!(err.matches("warning: period = 4us is shorter than the service of one packet").count(), 1, "{err}");
    assert_eq!(out.lines().count(), 2);
    assert!(out.lines().all(|line| line.contains("warning: period = 4us")), "{out}");
    // A page has the warning itself, once.
    let run = home.netcliff([&["predict"], &args[..args.len() - 1]].concat()).assert().success().get_output().clone();
    let (out, err) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
    assert_eq!((out.matches("warning: period = 4us").count(), err.matches("warning:").count()), (1, 0), "{out}{err}");
}

/// Costs as `find` calibrates them have sixteen digits. The JSON keeps them; sentences to people have four.
#[test]
fn predict_tells_calibrated_times_in_four_digits() {
    let home = Home::new();
    let costs = ["cold_protocol=150.2916749280791ns", "cold_application=213.45678901234ns", "poll=123.456789123ns"];
    let set = costs.iter().flat_map(|cost| ["--set", cost]);
    let common = ["predict", "--rate", "100kpps", "--set", "application=1.2345678912us", "--set", "ring=16"];
    let warm = ["cold_protocol=0s", "cold_application=0s"].iter().flat_map(|cost| ["--set", cost]);
    let paper = ["--fidelity", "paper", "--scheme", "polling:period=1ms,quota=20"];
    for more in [vec!["--set", "socket_buffer=16"], paper.into_iter().chain(warm).collect()] {
        let args: Vec<&str> = common.into_iter().chain(set.clone()).chain(more).collect();
        let run = home.netcliff(&args).assert().success().get_output().clone();
        let printed = [run.stdout, run.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        let is_long = |word: &&str| {
            let (number, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0));
            unit.starts_with(['n', 'u', 'm', 's']) && number.chars().filter(char::is_ascii_digit).count() > 4
        };
        assert_eq!(printed.split([' ', '(', ')']).find(is_long), None, "{printed}");
        assert!(printed.contains("150ns") || printed.contains("1.235us a packet"), "{printed}");
    }
    let json = home.stdout([&common[..], &["--set", "cold_protocol=150.2916749280791ns", "--json"]].concat());
    assert!(json.contains("\"cold_protocol\":\"150.2916749280791ns\""), "{json}");
}

/// Details besides the outcome: queue lengths, busy periods, slices. The trace is JSON with the CPU's spans.
#[test]
fn a_simulation_in_detail() {
    let home = Home::new();
    let trace = home.text("trace.json");
    let common =
        ["simulate", "--rate", "100kpps", "--packets", "20000", "--json", "--distributions", "--series", "5ms"];
    let record = home.json([&common[..], &["--trace", &trace]].concat());
    let detail = &record["detail"];
    assert!(record["outcome"]["throughput_pps"]["value"].as_f64().unwrap() > 9e4);
    let sum: f64 = detail["ring"].as_array().unwrap().iter().map(|one| one["share"]["value"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert!(detail["busy_periods"]["mean_s"]["low"].is_f64(), "{detail}");
    let arrived: u64 = detail["series"].as_array().unwrap().iter().map(|one| one["arrived"].as_u64().unwrap()).sum();
    assert_eq!(arrived, 2000);
    let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().iter().any(|event| event["name"] == "protocol"));
}

#[test]
fn two_schemes_on_the_same_packets() {
    let compared =
        Home::new().json(["simulate", "--rate", "100kpps", "--scheme", "interrupt", "--against", "napi", "--json"]);
    assert_eq!(compared["second"]["scheme"], "napi:weight=64,budget=300,budget_time=2ms");
    let differences = compared["differences"].as_array().unwrap();
    let latency = differences.iter().find(|one| one["figure"] == "latency_s.mean").unwrap();
    assert!(latency["difference"]["high"].as_f64() < Some(0.0), "{latency}");
}

/// The output of a command on a terminal of 60 columns, both streams. `None` if no terminal can be made; a line reports
/// it.
fn on_terminal(home: &Home, args: &[&str]) -> Option<String> {
    let netcliff = home.command(args);
    let words = std::iter::once(netcliff.get_program())
        .chain(netcliff.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy()));
    let line = format!("stty cols 60; {}", words.collect::<Vec<_>>().join(" "));
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::null()).current_dir(home.path("."));
    netcliff.get_envs().for_each(|(name, value)| match value {
        Some(value) => drop(script.env(name, value)),
        None => drop(script.env_remove(name)),
    });
    if !has_program("script") {
        return None;
    }
    let output = script.output().expect("script(1) runs");
    Some(String::from_utf8_lossy(&output.stdout).replace('\r', ""))
}

/// Output to a terminal is wrapped at its width. Output that a program reads is not wrapped.
#[test]
fn words_go_on_below_at_the_terminals_width() {
    let home = Home::new();
    home.stdout(["predict", "--save", "--json", "--scheme", "interrupt", "--rates", "10kpps,20kpps"]);
    for args in [
        &["results", "list"][..],
        &["results", "show", "7"],
        &["predict", "--scheme", "interrupt", "--rate", "many"],
        &["tune", "apply", "--objective", "cpu", "--plan", "/nonexistent/with/a/name"],
    ] {
        let Some(shown) = on_terminal(&home, args) else { return };
        // A single word, the path of a home, may be longer.
        let fits = |line: &str| line.chars().count() <= 60 || line.split_whitespace().count() == 1;
        assert!(shown.lines().all(fits), "{args:?}: {shown}");
        let piped = home.netcliff(args).output().unwrap();
        let piped = [piped.stdout, piped.stderr].concat();
        let piped = String::from_utf8_lossy(&piped);
        assert!(piped.lines().any(|line| line.chars().count() > 60), "{args:?}: {piped}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&shown), words(&piped), "{args:?}");
    }
}
