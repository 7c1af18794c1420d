//! `netcliff advise`: its page, its JSON, its refusals and its exit codes. Runs are small; which setting is right is
//! tested in crate lab against exact fakes.

use crate::common::{Home, number_at, refusals};
use crate::schema::printed;
use serde_json::Value;

/// Two schemes whose p99 is 58 and 74 us (exact chains), few packets.
const TWO: [&str; 11] = [
    "advise",
    "--rate",
    "100kpps",
    "--scheme",
    "disable-enable",
    "--scheme",
    "coalesce:frames=4,masked=true",
    "--packets-each",
    "5000",
    "--margin",
    "100%",
];

fn two(more: &[&'static str]) -> Vec<&'static str> {
    [&TWO[..], more].concat()
}

#[test]
fn a_page_for_people() {
    let home = Home::new();
    let brief = home.stdout(two(&["--subject-to", "loss<=1e-3", "--subject-to", "available>=30%"]));
    let whole = home.stdout(two(&["-v", "--subject-to", "loss<=1e-3"]));
    let sweep = [&["advise", "--rates", "20kpps,120kpps"], &TWO[3..]].concat();
    let sweep = home.stdout([&sweep[..], &["--objective", "cpu", "--subject-to", "loss<=1e-3"]].concat());
    insta::assert_snapshot!("advise", format!("#### brief\n{brief}\n#### -v\n{whole}\n#### several loads\n{sweep}"));
    let ascii = home.netcliff(two(&["--subject-to", "loss<=1e-3"])).env("LC_ALL", "C").output().unwrap();
    assert!(ascii.stdout.is_ascii());
}

#[test]
fn json_has_every_candidate_and_the_seed_repeats_it() {
    let home = Home::new();
    let ask = |more: &[&'static str]| home.json(two(&[&["--json"], more].concat()));
    let advice = ask(&["--minimise", "p99", "--seed", "5"]);
    assert_eq!(advice["verdict"], "picked");
    assert_eq!(advice["advised"], serde_json::json!(["disable-enable:merged=false"]));
    assert_eq!((&advice["goal"], &advice["provenance"]["seed"]), (&"minimise latency_p99_s".into(), &5.into()));
    let candidates = advice["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 2);
    assert!(number_at(&candidates[0], "/figures/latency_p99_s") < number_at(&candidates[1], "/figures/latency_p99_s"));
    assert_eq!((&candidates[0]["fate"], &candidates[1]["fate"]), (&"picked".into(), &"worse".into()));
    let without = |mut advice: Value| {
        advice.as_object_mut().unwrap().remove("provenance");
        advice
    };
    assert_eq!(without(ask(&["--minimise", "p99", "--seed", "5"])), without(advice));
}

/// Without a device, the commands contain a placeholder. Schemes that no driver offers are omitted or marked.
#[test]
fn the_advice_ends_in_commands() {
    let home = Home::new();
    let few = ["--packets-each", "2000", "--first-stage", "5", "--margin", "10%", "--packets-at-most", "3000000"];
    let ask = |more: &[&'static str]| {
        let args = [&["advise", "--rate", "60kpps", "--objective", "cpu", "--json"], &few[..], more].concat();
        let output = home.netcliff(args).output().unwrap();
        printed(&output.stdout, &output.stderr)
    };
    let advice = ask(&[]);
    let candidates = advice["candidates"].as_array().unwrap();
    assert!(candidates.len() > 20, "{}", candidates.len());
    for one in candidates {
        let scheme = one["scheme"].as_str().unwrap();
        assert!(
            scheme.starts_with("napi:") || scheme.starts_with("coalesce:") || scheme.starts_with("dim:"),
            "{scheme}"
        );
        assert!(one["commands"].is_array() && one.get("not_offered").is_none(), "{one}");
    }
    let pick = &candidates[0]["commands"];
    assert!(pick.to_string().contains("ethtool -C DEV"), "{pick}");
    let all = ask(&["--all-schemes"]);
    let marked = all["candidates"].as_array().unwrap().iter().filter(|one| one["not_offered"].is_string());
    assert!(marked.count() > 20);
    // A device without interrupts offers no coalescing.
    let lo = ask(&["--if", "lo"]);
    assert_eq!(lo["device"], "lo");
    assert!(
        lo["candidates"].as_array().unwrap().iter().all(|one| one["scheme"].as_str().unwrap().starts_with("napi:"))
    );
}

/// A question and its opposite have different answers: CPU idle grows with the count, latency too.
#[test]
fn the_objective_decides() {
    let home = Home::new();
    let pick = |objective: &'static str| {
        let advice = home.json(two(&["--json", "--objective", objective, "--subject-to", "loss<=1e-3"]));
        advice["advised"][0].as_str().unwrap().to_owned()
    };
    assert_eq!(pick("latency"), "disable-enable:merged=false");
    assert_eq!(pick("cpu"), "coalesce:frames=4,masked=true");
}

#[test]
fn without_a_feasible_candidate_the_closest_is_named() {
    let home = Home::new();
    let args = two(&["--subject-to", "available>=60%", "--json"]);
    let output = home.netcliff(args).assert().code(1);
    let (stdout, stderr) = (&output.get_output().stdout, String::from_utf8_lossy(&output.get_output().stderr));
    let advice = printed(stdout, "");
    assert_eq!(advice["verdict"], "none-feasible");
    for part in
        ["no candidate meets the constraints", "closest comes coalesce:frames=4,masked=true", "cpu_available>=60%"]
    {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn packets_that_do_not_decide_end_with_both() {
    let home = Home::new();
    let alike = ["--scheme", "napi:weight=16", "--scheme", "napi:weight=24", "--minimise", "p99"];
    let few = ["--indifference", "1ns", "--packets-each", "1000", "--packets-at-most", "60000", "--rate", "110kpps"];
    let output = home.netcliff([&["advise"], &alike[..], &few].concat()).assert().code(1);
    let (stdout, stderr) = (&output.get_output().stdout, String::from_utf8_lossy(&output.get_output().stderr));
    let page = String::from_utf8_lossy(stdout);
    assert!(page.contains("NOT DECIDED between"), "{page}");
    assert!(stderr.contains("not decided between") && stderr.contains("packets"), "{stderr}");
}

#[test]
fn refused() {
    refusals(
        &Home::new(),
        2,
        &[
            (&["advise"], &["--rate", "100kpps"]),
            (&["advise", "--rate", "100kpps", "--minimise", "p98"], &["p98", "latency_p99_s", "p99"]),
            (&["advise", "--rate", "100kpps", "--minimise", "p99", "--maximise", "available"], &["cannot be used"]),
            (&["advise", "--rate", "100kpps", "--objective", "speed"], &["speed", "latency", "throughput"]),
            (&["advise", "--rate", "100kpps", "--subject-to", "loss"], &["\"loss\"", "FIGURE<=BOUND"]),
            (&["advise", "--rate", "100kpps", "--subject-to", "loss<=0"], &["loss<=0", "1e-6"]),
            (&["advise", "--rate", "100kpps", "--subject-to", "available>=130%"], &["130%", "below 100%"]),
            (&["advise", "--rate", "100kpps", "--subject-to", "lost<=1%"], &["lost", "loss_fraction"]),
            (
                &["advise", "--rate", "100kpps", "--subject-to", "throughput>=200kpps"],
                &["throughput_pps>=200kpps", "only 100kpps"],
            ),
            (
                &["advise", "--rate", "1kpps", "--subject-to", "p99>=2ms", "--subject-to", "p99<=1ms"],
                &["latency_p99_s>=2ms", "latency_p99_s<=1ms", "exclude"],
            ),
            (&["advise", "--rate", "100kpps", "--candidates", "napy"], &["napy", "napi-2007", "all"]),
            (&["advise", "--rate", "100kpps", "--candidates", "polling"], &["by a timer", "--all-schemes"]),
            (&["advise", "--rate", "100kpps", "--if", "none0"], &["none0", "ip link"]),
            (&["advise", "--rate", "100kpps", "--scheme", "polling:period=1us"], &["1us", "poll overhead"]),
            (&["advise", "--rate", "100kpps", "--indifference", "2"], &["\"2\"", "latency_p99_s", "2%"]),
            (&["advise", "--rate", "100kpps", "--indifference", "0%"], &["\"0%\"", "above 0"]),
            (&["advise", "--rate", "100kpps", "--first-stage", "1"], &["'1'", "from 5"]),
            (&["advise", "--rate", "100kpps", "--confidence", "100%"], &["100%", "below 100%"]),
            (&["advise", "--rate", "100kpps", "--set", "queues=4"], &["one queue"]),
            (
                &["advise", "--rate", "100kpps", "--scheme", "interrupt", "--packets-at-most", "10000"],
                &["10000 packets", "1000000", "fewer"],
            ),
        ],
    );
}
