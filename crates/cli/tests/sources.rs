//! What a host or a traffic is read from: measured times and captures, and how a record names them.

mod common;

use common::{Home, number_at, refusals};
use serde_json::Value;

const CONSTANT: &[&str] = &["--rate", "100kpps", "--scheme", "ideal", "--set", "protocol=5us", "--set", "per_byte=0s"];

fn answer(home: &Home, command: &str, service: &str) -> Value {
    let service = format!("service={service}");
    let seed: &[&str] = if command == "simulate" { &["--seed", "3", "--packets", "200000"] } else { &[] };
    home.json([&[command, "--json", "--set", &service], CONSTANT, seed].concat())
}

/// One time is a constant: on paper the same to the last digit, simulated the same packet for packet.
#[test]
fn one_measured_time_is_a_constant() {
    let home = Home::new();
    let one = format!("empirical:{}", home.file("one.txt", "# measured\n5us\n5us\n"));
    for command in ["predict", "simulate"] {
        let (measured, constant) = (answer(&home, command, &one), answer(&home, command, "deterministic"));
        assert_eq!(measured["outcome"], constant["outcome"], "{command}");
        assert_eq!(measured["point"]["host"]["service"], one);
    }
}

/// Times of 2, 5 and 20 us weighing 5, 4, 1: M/G/1 by Pollaczek and Khinchin, on paper and within the simulated interval.
#[test]
fn measured_times_are_an_m_g_1() {
    let home = Home::new();
    let file = home.file("times.csv", "time,weight\n2us,5\n0.000005,4\n20us,1\n");
    let service = format!("empirical:{file}");
    let mean = 5e-6;
    // Only the shape is taken: (4 x 5 + 25 x 4 + 400 x 1)/10 over the square of the mean of 5 us.
    let second = 52.0 / 25.0 * mean * mean;
    let rho = 100e3 * mean;
    let expected = mean + 100e3 * second / (2.0 * (1.0 - rho));
    let (paper, simulated) = (answer(&home, "predict", &service), answer(&home, "simulate", &service));
    let on_paper = number_at(&paper, "/outcome/latency_s/mean");
    assert!((on_paper / expected - 1.0).abs() < 1e-9, "{on_paper} {expected}");
    let end = |which: &str| number_at(&simulated, &format!("/outcome/latency_s/mean/{which}"));
    let slack = 0.5 * (end("high") - end("low"));
    assert!(end("low") - slack < expected && expected < end("high") + slack, "{simulated}");
    for record in [&paper, &simulated] {
        let digest = record["provenance"]["settings"]["service_sha256"].as_str().expect("a digest");
        assert_eq!(digest, "b1c65ae2a3c1af8d3839e9d1d76020de44445bdb080af9371a1f861ffc945465");
    }
}

#[test]
fn a_mean_that_is_not_taken_is_said() {
    let home = Home::new();
    let file = home.file("slow.txt", "50us\n70us\n");
    let record = answer(&home, "predict", &format!("empirical:{file}"));
    let notes = record["outcome"]["notes"].to_string();
    assert!(notes.contains("has a mean of 60us") && notes.contains("protocol=60us"), "{notes}");
}

#[test]
fn an_experiment_reads_measured_times() {
    let home = Home::new();
    let file = home.file("times.txt", "2us\n8us\n");
    let text = format!(
        "engines = [\"model\"]\nschemes = [\"ideal\"]\n[host]\npreset = \"pentium4-2530mhz\"\n\
         vary = [\"service=exponential,empirical:{file}\"]\n[traffic]\nrates = \"50kpps,60kpps\"\n"
    );
    let lines = home.json_lines(["run", &home.file("e.toml", text), "--json"]);
    assert_eq!(lines.len(), 4);
    let services: Vec<&Value> = lines.iter().map(|line| &line["point"]["host"]["service"]).collect();
    assert!(services.iter().any(|service| **service == format!("empirical:{file}")), "{services:?}");
}

#[test]
fn measured_times_that_cannot_be() {
    let home = Home::new();
    let file = |name: &str, text: &str| format!("service=empirical:{}", home.file(name, text));
    let cases = [
        (file("empty.txt", ""), &["empty.txt", "holds no time", "5.2us"][..]),
        (file("comments.txt", "# 5us\n"), &["comments.txt", "holds no time"]),
        (file("negative.txt", "5us\n-1us\n"), &["negative.txt", "line 2", "-1us", "at least 0"]),
        (file("nan.txt", "5us\nNaN\n"), &["nan.txt", "line 2", "NaN", "at least 0"]),
        (file("zero.txt", "0s\n0\n"), &["zero.txt", "above 0"]),
        (file("mixed.txt", "5us,1\n6us\n"), &["mixed.txt", "line 2", "TIME,WEIGHT on every line"]),
        (file("long.txt", &"1\n".repeat(1_000_001)), &["long.txt", "more than 1000000 times", "5.2us,17"]),
        ("service=empirical:missing.txt".to_owned(), &["missing.txt", "No such file"]),
        ("service=empirical".to_owned(), &["empirical:FILE"]),
        ("service=gaussian".to_owned(), &["gaussian", "empirical:FILE"]),
    ];
    for (service, says) in &cases {
        refusals(&home, 2, &[(&["predict", "--rate", "1kpps", "--set", service], says)]);
    }
    let huge = home.file("huge.txt", vec![b'#'; (16 << 20) + 1]);
    refusals(
        &home,
        2,
        &[(&["predict", "--rate", "1kpps", "--set", &format!("service=empirical:{huge}")], &["huge.txt", "at most"])],
    );
    let times = file("times.txt", "5us\n6us\n");
    refusals(
        &home,
        2,
        &[(
            &["predict", "--scheme", "napi", "--rate", "1kpps", "--set", &times],
            &["exponential times only", "use the simulator"],
        )],
    );
}
