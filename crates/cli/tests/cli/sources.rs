//! The files that hosts and traffic are read from: measured times and captures, and how records name them.

use crate::common::{Home, number_at, refusals};
use serde_json::Value;

const CONSTANT: &[&str] = &["--rate", "100kpps", "--scheme", "ideal", "--set", "protocol=5us", "--set", "per_byte=0s"];

fn answer(home: &Home, command: &str, service: &str) -> Value {
    let service = format!("service={service}");
    let seed: &[&str] = if command == "simulate" { &["--seed", "3", "--packets", "200000"] } else { &[] };
    home.json([&[command, "--json", "--set", &service], CONSTANT, seed].concat())
}

/// One time is a constant: equal predictions to the last digit, equal simulations packet for packet.
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

/// Times of 2, 5 and 20 us with weights 5, 4 and 1: M/G/1 by Pollaczek and Khinchin, predicted, and within the
/// simulated interval.
#[test]
fn measured_times_are_an_m_g_1() {
    let home = Home::new();
    let file = home.file("times.csv", "time,weight\n2us,5\n0.000005,4\n20us,1\n");
    let service = format!("empirical:{file}");
    let mean = 5e-6;
    // Only the shape is used: (4 x 5 + 25 x 4 + 400 x 1)/10, divided by the square of the mean of 5 us.
    let second = 52.0 / 25.0 * mean * mean;
    let rho = 100e3 * mean;
    let expected = mean + 100e3 * second / (2.0 * (1.0 - rho));
    let (paper, simulated) = (answer(&home, "predict", &service), answer(&home, "simulate", &service));
    let by_model = number_at(&paper, "/outcome/latency_s/mean");
    assert!((by_model / expected - 1.0).abs() < 1e-9, "{by_model} {expected}");
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
        &[(
            &["predict", "--rate", "1kpps", "--set", &format!("service=empirical:{huge}")],
            &["huge.txt", "the most that is read"],
        )],
    );
    let times = file("times.txt", "5us\n6us\n");
    refusals(
        &home,
        2,
        &[(
            &["predict", "--scheme", "napi", "--rate", "1kpps", "--set", &times],
            &["erlang, hyperexponential and deterministic times", "use the simulator"],
        )],
    );
}

/// A little-endian pcap of Ethernet frames of 60 bytes without FCS, the given number of microseconds apart.
fn pcap(gaps_us: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut words = |words: &[u32]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1]);
    let mut at_us = 1_000_000_u32;
    for gap in gaps_us {
        at_us += gap;
        words(&[at_us / 1_000_000, at_us % 1_000_000, 60, 60]);
        words(&[0; 15]);
    }
    bytes
}

/// Gaps of 10 us, then gaps of 2 us. If a repeated capture is read, most of the time has one kind of gap; if it is read
/// once, both kinds occur in their order, each packet once, and a constant server makes all replications equal.
#[test]
fn a_trace_is_read_once() {
    let home = Home::new();
    let gaps: Vec<u32> = std::iter::repeat_n(10, 500).chain(std::iter::repeat_n(2, 500)).collect();
    let bytes = pcap(&gaps);
    let file = home.file("burst.pcap", &bytes);
    let host = ["--set", "service=deterministic", "--set", "protocol=4us", "--set", "per_byte=0s", "--scheme", "ideal"];
    let arrivals = format!("trace:{file},once");
    let record = home.json([&["simulate", "--json", "--seed", "1", "--arrivals", &arrivals], &host[..]].concat());
    assert_eq!(record["point"]["traffic"]["arrivals"], arrivals);
    let outcome = &record["outcome"];
    assert!(outcome["notes"].to_string().contains("a trace of 1000 packets, read once from its start"), "{outcome}");
    let digest = record["provenance"]["settings"]["arrivals_sha256"].as_str().expect("a digest");
    assert_eq!(digest.len(), 64);
    // The first 500 packets take 4 us each, as does the first of the others. Packet n of the others waits 2 us longer
    // than the packet before it.
    let mean = (501.0 * 4e-6 + (1..500).map(|n| 4e-6 + 2e-6 * f64::from(n)).sum::<f64>()) / 1000.0;
    let found = number_at(outcome, "/latency_s/mean/value");
    // When the capture ends, a mean gap after its last packet, the last few hundred packets are still in the host: half
    // of the burst.
    assert!(found < mean && found > 0.2 * mean, "{found} {mean}");
    assert_eq!(number_at(outcome, "/latency_s/mean/low"), number_at(outcome, "/latency_s/mean/high"));
    let again = home.json([&["simulate", "--json", "--seed", "2", "--arrivals", &arrivals], &host[..]].concat());
    assert_eq!(again["outcome"], record["outcome"], "no chance is left");
    let around = home.json(["simulate", "--json", "--arrivals", &format!("trace:{file}"), "--packets", "20000"]);
    assert_eq!(around["provenance"]["settings"]["arrivals_sha256"], digest);

    let short = home.file("short.pcap", pcap(&gaps[..20]));
    let (short, twice) = (format!("trace:{short},once"), format!("trace:{file},once,speed=2"));
    let simulate = ["simulate", "--arrivals"];
    refusals(
        &home,
        2,
        &[
            (&[simulate[0], simulate[1], &short], &["20 packets", "at least 500", "leave it out"]),
            (&[simulate[0], simulate[1], &arrivals, "--distributions"], &["leave out once"]),
            (&[simulate[0], simulate[1], &twice, "--rate", "1kpps"], &["give only one"]),
        ],
    );
}

/// The results of several applications are one line each.
#[test]
fn applications_are_listed() {
    let home = Home::new();
    let host = ["--set", "application=4us", "--set", "applications=2:shares=75%/25%,buffers=64/8", "--scheme", "napi"];
    let run = ["simulate", "--rate", "100kpps", "--packets", "20000"];
    let text = home.stdout([&run[..], &host[..]].concat());
    let lines = text.lines().map(str::trim_start).skip_while(|line| !line.starts_with("application  ")).skip(2);
    let rows: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    assert!(rows.len() == 2 && rows[0].starts_with("0 ") && rows[1].starts_with("1 "), "{text}");
    let record = home.json([&run[..], &host[..], &["--json"]].concat());
    let each = record["outcome"]["applications"].as_array().expect("applications");
    assert_eq!(each.len(), 2);
    let offered = number_at(&each[0], "/offered_pps/value") / number_at(&record["outcome"], "/offered_pps/value");
    assert!((offered - 0.75).abs() < 0.02, "{offered}");
    refusals(
        &home,
        2,
        &[
            (
                &["predict", "--rate", "1kpps", "--set", "application=1us", "--set", "applications=2"],
                &["one application above one socket", "use the simulator"],
            ),
            (&["simulate", "--rate", "1kpps", "--set", "applications=2"], &["applications = 2", "needs application"]),
            (
                &[
                    "simulate",
                    "--rate",
                    "1kpps",
                    "--scheme",
                    "napi:busy_poll",
                    "--set",
                    "application=1us",
                    "--set",
                    "applications=2",
                ],
                &["busy_poll", "leave out applications"],
            ),
            (&["simulate", "--rate", "1kpps", "--set", "transmit_priority=never"], &["never", "interrupt"]),
        ],
    );
}
