//! Outputs of `netcliff rfc2544` from an artificial report.

use netcliff_mlrsearch::End;
use netcliff_report::{Style, csv, html, terminal};
use netcliff_rfc2544::report::{Limit, Rfc2544Report};

fn report() -> Rfc2544Report {
    let text = r#"{
        "kind": "rfc2544", "device": "a fake router", "tester": "a fake tester",
        "instruments": {"sent_by": ["xdp-copy"], "taken_in_by": ["packet-ring"], "stamped": "software: sent as the frame is written, received in an XDP program; hardware: not offered by eth2",
            "ports": [{"interface": "eth2", "offered": {"hardware_receive": false, "hardware_transmit": true,
                "software_receive": true, "software_transmit": true, "clock": 0}}]},
        "asked": {"tests": {"throughput": true, "latency": true, "loss": true, "back_to_back": true},
            "frames": ["64B", "imix"], "ipv6": false, "both_ways": false, "flows": 4, "search": "mlr", "trial_s": 60.0,
            "loss_ratio": 0.0, "width": 0.005, "settle_s": 2.0, "rest_s": 5.0, "loss_step": 0.1, "latency_repeats": 20,
            "burst_repeats": 50},
        "sizes": [
            {"frame": "64B", "mean_bytes": 64.0, "sender_pps": 1e6, "max_pps": 9.7e5,
             "throughput": {"found": [{"lower_pps": 4e5, "upper_pps": 4.01e5, "throughput_pps": 4e5, "end": "regular"}],
                 "trials": [{"load_pps": 4e5, "duration_s": 60.0, "sent": 24000000, "lost": 0}], "void_trials": 1,
                 "trial_time_s": 95.5},
             "limit": "device", "predicted": {"load_pps": 2e5, "frame_s": 2.3e-6, "poll_s": 6.4e-6, "server_pps": 416667.0,
                 "simulated_pps": 4.2e5}, "line_shares": [{"line_bps": 1e9, "line_pps": 1488095.2, "share": 0.2688}],
             "latency": {"load_pps": 4e5, "trial_s": 120.0,
                 "repeats": [{"tagged_s": 2e-5, "p50_s": 1.5e-5, "p999_s": 9e-5}], "mean_s": 2e-5,
                 "typical_s": {"median": 1.5e-5, "min": 1.5e-5, "max": 1.5e-5},
                 "worst_s": {"median": 9e-5, "min": 9e-5, "max": 9e-5}},
             "loss": {"trials": [{"load_pps": 9.7e5, "duration_s": 60.0, "sent": 58200000, "lost": 34200000},
                 {"load_pps": 3.88e5, "duration_s": 60.0, "sent": 23280000, "lost": 0}], "clean": true},
             "back_to_back": {"bursts": [1660, 1670], "mean": 1665.0,
                 "spread": {"median": 1665.0, "min": 1660.0, "max": 1670.0}, "deviation": 7.07, "burst_pps": 1e6,
                 "throughput_pps": 4e5, "implied_buffer_s": 1.665e-3, "corrected_buffer_s": 9.99e-4, "capped": 0},
             "seen": {"trials": 90, "void_trials": 1, "sent": 100000000, "duplicates": 0, "reordered": 2, "corrupt": 0},
             "pacing": {"lateness_p99_s": 8e-6, "gap_error_p50_s": 2e-7, "gap_error_p99_s": 3e-6}},
            {"frame": "imix", "mean_bytes": 358.8, "sender_pps": 9e5, "max_pps": 8.7e5,
             "throughput": {"found": [{"lower_pps": 8.7e5, "end": "above-sender"}], "trials": [], "void_trials": 0,
                 "trial_time_s": 60.0},
             "limit": "tester",
             "seen": {"trials": 1, "void_trials": 0, "sent": 52200000, "duplicates": 0, "reordered": 0, "corrupt": 0},
             "missing": ["throughput: the tester is the limit"]}],
        "limits": ["two CPUs"], "notes": ["the wait for residual frames ends when none is missing"],
        "provenance": {"version": "0.0.0", "command": "netcliff rfc2544 all", "started_unix_s": 0.0}
    }"#;
    serde_json::from_str(text).expect("the documented form")
}

/// The cells of a line of a table, from 0: its heading.
fn cells(page: &str, heading: &str, at: usize) -> Vec<String> {
    let line = page.lines().skip_while(|line| !line.starts_with(heading)).nth(at).expect("a row");
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_page() {
    let mut pages = String::new();
    for width in [80, 120] {
        let style = Style { width, ..Style::default() };
        let (page, brief) = (terminal::rfc2544(&report(), style), terminal::rfc2544_brief(&report(), style));
        assert!(page.lines().chain(brief.lines()).all(|line| line.chars().count() <= width), "{page}{brief}");
        assert!(brief.lines().count() <= 40, "{brief}");
        pages += &format!("#### brief, {width} columns\n{brief}\n");
        if width == 80 {
            pages += &format!("#### whole, {width} columns\n{page}\n");
        }
    }
    insta::assert_snapshot!("rfc2544_pages", pages);
}

/// A device between veths has no line, so that the page has no share of a line. If the tester limits the throughput,
/// the page has no failed load.
#[test]
fn no_line_is_made_up_and_the_tester_fails_nothing() {
    let mut report = report();
    for size in &mut report.sizes {
        size.line_shares.clear();
        size.limit = Some(Limit::Tester);
        for found in size.throughput.iter_mut().flat_map(|searched| &mut searched.found) {
            (found.end, found.upper_pps) = (End::AboveSender, None);
        }
    }
    let page = terminal::rfc2544_brief(&report, Style { width: 80, ..Style::default() });
    assert_eq!(cells(&page, "THROUGHPUT (26.1)", 1), ["size", "throughput", "failed at", "wire bit/s", "limit"]);
    assert_eq!(cells(&page, "THROUGHPUT (26.1)", 2), ["64B", ">= 400 kpps", "-", "269 Mbit/s", "tester"]);
    assert!(page.contains("64B >= 400 kpps (limit: the tester)"), "{page}");
    assert!(!csv::rfc2544(&report).contains("share_of"), "{page}");
    let mut json = serde_json::to_value(&report).expect("plain data");
    assert!(json["sizes"][0].as_object_mut().expect("an object").remove("line_shares").is_none());
}

/// A report with latency by the timestamps of two devices, and the kernel's and the application's latency of the same
/// frames.
fn stamped() -> Rfc2544Report {
    let mut json = serde_json::to_value(report()).expect("plain data");
    let more = serde_json::json!({"clock": "hardware", "uncertainty_s": 1.5e-6, "application_mean_s": 2.9e-5,
        "kernel_mean_s": 2.6e-5, "absent": {"left": 1, "came": 0, "clock": 2}});
    let latency = json["sizes"][0]["latency"].as_object_mut().expect("an object");
    latency.extend(more.as_object().expect("an object").clone());
    serde_json::from_value(json).expect("the documented form")
}

#[test]
fn stamped_frames_are_shown_beside_what_the_tester_adds() {
    let page = terminal::rfc2544(&stamped(), Style { width: 80, ..Style::default() });
    let line = page.lines().skip_while(|line| !line.starts_with("TAGGED")).nth(2).expect("a row");
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["64B", "hardware", "20.0 us", "1.50 us", "26.0 us", "29.0 us", "3.00 us", "3"]);
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let rows = csv::rfc2544(&stamped());
    for row in [
        "tagged_mean_hardware_s,2e-5\n",
        "tagged_uncertainty_s,1.5e-6\n",
        "tagged_mean_application_s,2.9e-5\n",
        "tagged_mean_kernel_s,2.6e-5\n",
        "absent_stamps,3.0\n",
    ] {
        assert!(rows.contains(row), "{rows}");
    }
    assert!(html::rfc2544(&stamped()).contains("from before they were written"));
    // A latency by the tester's own clock has no table of tagged frames.
    assert!(!terminal::rfc2544(&report(), Style::default()).contains("TAGGED"));
}

#[test]
fn the_tables_as_csv() {
    insta::assert_snapshot!("rfc2544_csv", csv::rfc2544(&report()));
}

/// The report of a device whose ports have lines of this rate (bit/s).
fn of_line(line_bps: f64) -> Rfc2544Report {
    Rfc2544Report { line_bps: Some(line_bps), ..report() }
}

#[test]
fn only_a_device_with_a_line_has_shares_of_it() {
    for (report, has) in [(report(), false), (of_line(1e9), true)] {
        let (page, rows, html) =
            (terminal::rfc2544(&report, Style::default()), csv::rfc2544(&report), html::rfc2544(&report));
        assert_eq!(page.contains("of 1G") && page.contains("26.9 %"), has, "{page}");
        assert_eq!(rows.contains("share_of_1000000000_bps,0.2688"), has, "{rows}");
        assert_eq!(html.contains("theoretical at 1.00 Gbit/s") && html.contains("1Gbit/s line"), has);
        assert!(!page.contains("10G") && !page.contains("25G") && !rows.contains("share_of_10000000000"), "{page}");
    }
}

#[test]
fn a_lower_limit_has_an_arrow_in_the_graph() {
    let throughput = |report: &Rfc2544Report| {
        let page = html::rfc2544(report);
        page.split("<figure").find(|figure| figure.contains("Throughput by frame size")).map(str::to_owned).unwrap()
    };
    // Both drawings; the legend's sample has none.
    assert_eq!(throughput(&limited()).matches("class=\"limit\"").count(), 2);
    assert!(throughput(&limited()).contains("a lower limit") && throughput(&limited()).contains("at least"));
    assert!(!throughput(&report()).contains("class=\"limit\""));
}

#[test]
fn the_html_has_the_graphs_that_rfc_2544_asks_for() {
    let page = html::rfc2544(&of_line(1e10));
    assert_eq!(page.matches("<figure").count(), 3, "throughput, latency, loss");
    for words in [
        "Throughput by frame size",
        "Latency at the throughput",
        "Frame loss by load",
        "theoretical at",
        "netcliff rfc2544 all",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Only one size has a latency: it is drawn as a point, because a line through it would be invisible.
    let latency = page.split("<svg").find(|picture| picture.contains("Latency at the throughput")).expect("a picture");
    assert!(latency.contains("transform=\"translate("), "{latency}");
    let partial = Rfc2544Report { partial: Some("the <sink> died".to_owned()), sizes: vec![], ..report() };
    let page = html::rfc2544(&partial);
    assert!(page.contains("the &lt;sink&gt; died") && !page.contains("<figure"), "{page}");
}

/// Three searches of 64 bytes, two of which found a throughput, and one search of IMIX before the run was stopped.
fn searched() -> Rfc2544Report {
    let mut json = serde_json::to_value(report()).expect("plain data");
    let turn = |round: u32, lower_pps: Option<f64>, end: &str| {
        let upper_pps = lower_pps.filter(|_| end == "regular").map(|pps| pps * 1.005);
        let found = serde_json::json!({"lower_pps": lower_pps, "upper_pps": upper_pps, "end": end});
        serde_json::json!({"round": round, "sender_pps": 1e6, "max_pps": 9.7e5, "limit": "device", "found": [found], "trials": [],
            "void_trials": 0, "trial_time_s": 95.5})
    };
    json["asked"]["searches"] = 3.into();
    let size = &mut json["sizes"][0];
    size["searches"] =
        vec![turn(1, Some(3.9e5), "regular"), turn(2, None, "below-minimum"), turn(3, Some(4.1e5), "regular")].into();
    size["throughput_pps"] = serde_json::json!({"value": 4e5, "low": 2.7e5, "high": 5.3e5, "confidence": 0.95});
    json["sizes"][1]["searches"] = vec![turn(1, Some(8.7e5), "above-sender")].into();
    json["sizes"][1]["throughput_pps"] = 8.7e5.into();
    serde_json::from_value(json).expect("the documented form")
}

#[test]
fn every_goal_is_in_the_page_and_the_csv() {
    let mut json = serde_json::to_value(report()).expect("plain data");
    let goal = |loss_ratio: f64| {
        serde_json::json!({"final_trial_s": 60.0, "initial_trial_s": 1.0, "duration_sum_s": 60.0, "loss_ratio": loss_ratio,
            "exceed_ratio": 0.0, "width": 0.005})
    };
    json["asked"]["goals"] = vec![goal(0.0), goal(0.005)].into();
    let found = |loss_ratio, lower_pps: f64, limit: &str| serde_json::json!({"goal": goal(loss_ratio), "lower_pps": lower_pps, "limit": limit});
    json["sizes"][0]["goals"] = vec![found(0.0, 4e5, "device"), found(0.005, 9.7e5, "tester")].into();
    let report: Rfc2544Report = serde_json::from_value(json).expect("the documented form");
    let page = terminal::rfc2544(&report, Style { width: 80, ..Style::default() });
    assert!(page.contains("goal 2          trial=60s,sum=60s,loss=0.5%,exceed=0%,width=0.5%,initial=1s"), "{page}");
    assert_eq!(cells(&page, "THROUGHPUT BY GOAL", 3), ["64B", "2", ">= 970 kpps", "-", "-", "tester"], "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let rows = csv::rfc2544(&report);
    for row in ["goal 2,,lower_pps,970000.0\n", "goal 2,,limit,tester\n", "\"trial=60s,sum=60s,loss=0.5%"] {
        assert!(rows.contains(row), "{rows}");
    }
}

#[test]
fn several_searches_are_a_mean_with_how_far_they_are_apart() {
    let page = terminal::rfc2544(&searched(), Style { width: 80, ..Style::default() });
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let row = |heading: &str, at: usize| cells(&page, heading, at);
    assert_eq!(row("THROUGHPUT", 2)[..3], ["64B", "400 ± 130 kpps", "269 Mbit/s"], "{page}");
    assert_eq!(row("THROUGHPUT", 3)[..2], ["imix", ">= 870 kpps"]);
    assert_eq!(row("SEARCHES", 2), ["64B", "3", "2", "400 kpps", "390 kpps", "410 kpps", "5.00 %"]);
    assert_eq!(row("SEARCHES", 3)[..3], ["imix", "1", "1"]);
    let words: Vec<&str> = page.split_whitespace().collect();
    assert!(words.join(" ").contains("goal, 3 a size, round by round over the sizes; trial duration 60.0 s"), "{page}");
    let rows = csv::rfc2544(&searched());
    for row in [
        "64B,64.0,throughput,,mean_pps,400000.0\n",
        "64B,64.0,throughput,,mean_low_pps,270000.0\n",
        "64B,64.0,search 1,,lower_pps,390000.0\n",
        "64B,64.0,search 2,,sender_pps,1000000.0\n",
        "imix,358.8,search 1,,lower_pps,870000.0\n",
    ] {
        assert!(rows.contains(row), "{row} in {rows}");
    }
    let page = html::rfc2544(&searched());
    for words in ["400 ± 130 kpps", "390 kpps, -, 410 kpps", "each, in its round", "Means of the searches"] {
        assert!(page.contains(words), "{words}");
    }
    // With one search for each size, the page does not name the searches.
    assert!(!html::rfc2544(&report()).contains("each, in its round"));
}

/// 64 bytes: the throughput is the highest requested load, one load is void, no load has two clean trials, and latency
/// is of all frames.
fn limited() -> Rfc2544Report {
    let mut json = serde_json::to_value(report()).expect("plain data");
    let size = &mut json["sizes"][0];
    size["limit"] = "asked".into();
    size["throughput"]["found"][0] = serde_json::json!({"lower_pps": 4e5, "end": "above-maximum"});
    size["loss"]["void_pps"] = serde_json::json!([7.76e5]);
    size["loss"]["clean"] = false.into();
    size["back_to_back"]["corrected_at_most"] = true.into();
    size["missing"] = serde_json::json!(["loss: 1 load is void: the sender or the sink did not keep up"]);
    let time = 1.234e-4;
    size["latency_frames"] = serde_json::json!({"count": 9, "mean_s": time, "p50_s": time, "p90_s": time, "p99_s": time,
        "p999_s": time, "min_s": time, "max_s": time, "counts_ns": []});
    serde_json::from_value(json).expect("the documented form")
}

#[test]
fn limits_and_void_loads_are_in_every_form() {
    let page = terminal::rfc2544(&limited(), Style { width: 80, ..Style::default() });
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let row = |heading: &str, at: usize| cells(&page, heading, at);
    assert_eq!(row("THROUGHPUT", 2)[..2], ["64B", ">= 400 kpps"], "{page}");
    assert_eq!(row("FRAME LOSS", 3), ["64B", "776 kpps", "80.0 %", "void"], "{page}");
    assert_eq!(row("BACK-TO-BACK", 2).last().map(String::as_str), Some("<= 999 us"), "{page}");
    assert_eq!(row("LATENCY OF ALL", 2), ["64B", "123 us", "123 us", "123 us", "123 us"], "{page}");
    let rows = csv::rfc2544(&limited());
    for row in [
        "64B,64.0,throughput,,limit,asked\n",
        "imix,358.8,throughput,,limit,tester\n",
        "64B,64.0,tester,,void_trials,1\n",
        "64B,64.0,loss,776000.0,void,1\n",
        "64B,64.0,loss,,clean,0\n",
        "64B,64.0,back-to-back,1000000.0,corrected_buffer_at_most_s,0.000999\n",
        "64B,64.0,loss,,missing,1 load is void: the sender or the sink did not keep up\n",
        "imix,358.8,throughput,,missing,the tester is the limit\n",
    ] {
        assert!(rows.contains(row), "{row} in {rows}");
    }
}

/// A report of a run that ended during the search of the first size; the second size was not begun.
fn interrupted() -> Rfc2544Report {
    let mut json = serde_json::to_value(report()).expect("plain data");
    json["partial"] = "stopped before it was done".into();
    let mut turn = json["sizes"][0]["throughput"].take();
    turn["found"] = serde_json::json!([{"lower_pps": 3e5, "upper_pps": 5e5, "end": "interrupted"}]);
    turn["round"] = 1.into();
    turn["sender_pps"] = 1e6.into();
    turn["max_pps"] = 9.7e5.into();
    let seen = serde_json::json!({"trials": 2, "void_trials": 1, "sent": 24000000, "duplicates": 0, "reordered": 0, "corrupt": 0});
    let missing = ["throughput: the search ended early after 2 trials; its bounds so far are no throughput"];
    json["sizes"] = serde_json::json!([{"frame": "64B", "mean_bytes": 64.0, "sender_pps": 1e6, "max_pps": 9.7e5,
        "unfinished": turn, "seen": seen, "missing": missing}]);
    serde_json::from_value(json).expect("the documented form")
}

#[test]
fn a_search_that_ended_early_shows_its_bounds_and_trials_and_no_throughput() {
    let report = interrupted();
    assert_eq!(report.sizes[0].forwarded_pps(), None);
    for width in [80, 120] {
        let style = Style { width, ..Style::default() };
        for page in [terminal::rfc2544_brief(&report, style), terminal::rfc2544(&report, style)] {
            assert!(page.lines().all(|line| line.chars().count() <= width), "{page}");
            let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
            for part in [
                "PARTIAL: ended early after 2 trials: stopped before it was done. Results up to then are shown.",
                "Throughput without loss: 64B - (search ended early)",
                "64B: throughput: the search ended early after 2 trials",
                "imix: not begun",
            ] {
                assert!(words.contains(part), "{part}: {page}");
            }
            let row = cells(&page, "SEARCH ENDED EARLY", 2);
            assert_eq!(row, ["64B", "1", "1", "300 kpps", "500 kpps"], "{page}");
            assert!(!page.contains("THROUGHPUT ("), "{page}");
        }
    }
    let page = terminal::rfc2544(&report, Style::default());
    assert_eq!(cells(&page, "TRIALS", 2), ["64B", "400 kpps", "60.0 s", "24000000", "none"], "{page}");
    let page = html::rfc2544(&report);
    for part in ["ended early after 2 trials: stopped", "bounds so far, no throughput", "300 kpps", "imix: not begun"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let rows = csv::rfc2544(&report);
    for row in [
        "64B,64.0,unfinished search,,lower_pps,300000.0\n",
        "64B,64.0,unfinished search,,upper_pps,500000.0\n",
        "64B,64.0,unfinished search,400000.0,loss_ratio,0.0\n",
    ] {
        assert!(rows.contains(row), "{row} in {rows}");
    }
    assert!(!rows.contains(",throughput,,lower_pps"), "{rows}");
}

/// The page has the terminal's first sentence, and the terminal's doubt if there is one.
#[test]
fn the_page_has_the_answer_and_its_doubt() {
    let mut report = report();
    let sure = html::rfc2544(&report);
    assert!(sure.contains("<strong>Throughput without loss: 64B"), "{sure}");
    assert!(!sure.contains("In doubt"), "{sure}");
    for size in &mut report.sizes {
        size.seen.trials = 3;
        size.seen.void_trials = 2;
    }
    let page = html::rfc2544(&report);
    let words = page.split("In doubt: ").nth(1).expect("a doubt");
    assert!(words.contains("trials do not count") && words.contains("the result uses 2."), "{words}");
    assert!(terminal::rfc2544(&report, Style::default()).contains("In doubt: "));
}
