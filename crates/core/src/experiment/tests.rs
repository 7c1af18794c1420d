use super::*;
use crate::engine::{EngineKind, Fidelity};
use crate::outcome::{Dimension, Figure, Outcome};
use crate::traffic::Load;

const FILE: &str = r#"
title = "Figure 7"
engines = ["model", "sim"]
schemes = ["ideal", "polling:period=20us,quota=3"]
seed = 7
precision = "5%"

[host]
preset = "pentium4-2530mhz"
set = ["ring=64"]

[traffic]
arrivals = "poisson"
sizes = ["64B", "1518B"]
rates = "10kpps..300kpps:30"

[figure]
y = "throughput_pps"
x_range = "0pps..300kpps"

[[mark]]
x = "128kpps"
y = "127kpps"
label = "cliff"
source = "eq. (13)"
on = "ideal, 64B"
tolerance = "1%"
"#;

fn grid(text: &str) -> Grid {
    let Experiment::Grid(grid) = Experiment::from_toml("f.toml", text).unwrap() else { panic!("not a grid") };
    *grid
}

#[test]
fn a_file_becomes_a_grid_of_tasks() {
    let grid = grid(FILE);
    let tasks = grid.tasks().unwrap();
    assert_eq!(tasks.len(), 2 * 2 * 2 * 30);
    assert!(tasks.iter().enumerate().all(|(place, task)| task.index == place));
    assert_eq!(tasks[0].point.host.ring, 64);
    assert_eq!(tasks[1].point.load, Load::Pps(20e3));
    assert_eq!((tasks[29].x, tasks[29].curve.as_str()), (300e3, "ideal, 64B"));
    assert_eq!(tasks[0].answerer, Answerer { engine: EngineKind::Model, fidelity: Some(Fidelity::Exact) });
    assert_eq!(tasks[30].answerer, Answerer { engine: EngineKind::Sim, fidelity: None });
    let again = Experiment::from_toml("f.toml", &toml::to_string(&grid).unwrap()).unwrap();
    assert_eq!(again, Experiment::Grid(Box::new(grid)));
}

#[test]
fn what_varies_makes_curves_and_what_is_along_x_does_not() {
    let text = FILE
        .replace("set = [\"ring=64\"]", "vary = [\"interrupt=3.73us,7.46us\", \"ring=16,64,256\"]")
        .replace("\"64B\", \"1518B\"", "\"64B\"")
        .replace("10kpps..300kpps:30", "100kpps,150kpps")
        .replace(
            "schemes = [\"ideal\", \"polling:period=20us,quota=3\"]",
            "fidelity = [\"paper\", \"exact\"]\nschemes = [\"interrupt\"]",
        )
        .replace(
            "y = \"throughput_pps\"\nx_range = \"0pps..300kpps\"",
            "x = \"ring\"\ny = \"loss_fraction\"\ny_scale = \"log\"",
        );
    let marks = text.find("[[mark]]").unwrap();
    let grid = grid(&text[..marks]);
    let tasks = grid.tasks().unwrap();
    assert_eq!(tasks.len(), 2 * 2 * 3 * 3);
    let xs: Vec<f64> = tasks[..3].iter().map(|task| task.x).collect();
    assert_eq!(xs, [16.0, 64.0, 256.0]);
    assert_eq!(tasks[0].curve, "interrupt 3.73us, 100kpps");
    let names: std::collections::BTreeSet<&str> = tasks.iter().map(|task| task.curve.as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(grid.axes().unwrap().x.name, "ring");
}

/// An axis of packets, slots or a ratio has no unit; the others are times.
#[test]
fn axes_of_host_keys_have_their_unit() {
    for key in ["ring", "socket_buffer", "xoff", "xon", "sender_queue", "transmit_ring", "socket_drop_cost"] {
        assert_eq!(grid::host_dimension(key), Dimension::Number, "{key}");
    }
    for key in ["tick", "interrupt", "poll", "pause_every"] {
        assert_eq!(grid::host_dimension(key), Dimension::Seconds, "{key}");
    }
}

#[test]
fn errors_show_file_line_value_and_accepted_form() {
    for (from, to, parts) in [
        ("seed = 7", "sede = 7", vec!["f.toml", "line 5", "sede", "seed"]),
        ("period=20us", "period=20", vec!["line 4", "\"20\"", "20us"]),
        ("\"sim\"", "\"simulator\"", vec!["line 3", "simulator", "sim"]),
        ("10kpps..300kpps:30", "0pps..300kpps:30", vec!["0pps..300kpps:30", "10kpps..300kpps:30"]),
        ("ring=64", "ring=0", vec!["line 10", "ring = 0", "at least 1"]),
        ("ring=64", "rung=0", vec!["line 10", "rung=0", "socket_buffer"]),
        ("quota=3", "quota=0", vec!["line 4", "quota = 0", "at least 1"]),
        ("\"5%\"", "\"500%\"", vec!["500%", "below 100%"]),
        ("pentium4-2530mhz", "pentium5", vec!["line 9", "pentium5", "pentium4-2530mhz"]),
        ("[\"ideal\", \"polling:period=20us,quota=3\"]", "[]", vec!["at least one"]),
        ("seed = 7", "kind = \"gird\"", vec!["line 5", "gird", "grid"]),
        ("seed = 7", "packets = 3", vec!["line 5", "packets = 3", "1000"]),
        ("seed = 7", "names = [\"one\"]", vec!["line 5", "1 names for 2 schemes"]),
        ("seed = 7", "fidelity = \"rough\"", vec!["line 5", "rough", "exact, paper or printed"]),
        ("\"throughput_pps\"", "\"troughput\"", vec!["line 18", "troughput", "throughput_pps"]),
        ("0pps..300kpps", "0pps..300us", vec!["line 19", "300us", "120kpps"]),
        ("0pps..300kpps", "9kpps..3kpps", vec!["line 19", "9kpps..3kpps", "LOW..HIGH"]),
        ("x_range = \"0pps", "x_scale = \"log\"\nx_range = \"0pps", vec!["line 20", "above 0"]),
        ("x_range = \"0pps..300kpps\"", "x = \"ring\"", vec!["line 19", "ring", "vary"]),
        ("x_range = \"0pps..300kpps\"", "x = \"rong\"", vec!["line 19", "rong", "ring"]),
        ("set = [\"ring=64\"]", "vary = [\"ring=\"]", vec!["line 10", "ring=", "KEY=VALUE,VALUE"]),
        ("set = [\"ring=64\"]", "vary = [\"ring=64,0\"]", vec!["line 10", "ring = 0"]),
        ("x = \"128kpps\"", "x = \"128\"", vec!["line 22", "128", "120kpps"]),
        ("x = \"128kpps\"\ny = \"127kpps\"\n", "", vec!["cliff", "expected x, y or both"]),
        ("rates = \"10kpps..300kpps:30\"", "rates = \"10kpps,40%\"", vec!["line 15", "same unit"]),
        ("tolerance = \"1%\"", "tolerance = \"0%\"", vec!["line 27", "0%"]),
    ] {
        let text = FILE.replace(from, to);
        assert_ne!(text, FILE);
        let error = Experiment::from_toml("f.toml", &text).expect_err(to).to_string();
        for part in parts {
            assert!(error.contains(part), "{to}: {part}: {error}");
        }
    }
}

#[test]
fn a_mark_is_held_against_its_curve() {
    let experiment = Experiment::from_toml("f.toml", FILE).unwrap();
    let grid = grid(FILE);
    let tasks = grid.tasks().unwrap();
    let answers: Vec<Outcome> = tasks
        .iter()
        .map(|task| Outcome { throughput_pps: Some(Figure::exact(0.999 * task.x)), ..Outcome::default() })
        .collect();
    let curves = grid.curves(&tasks, |task| answers.get(task.index));
    assert_eq!(curves.len(), 8);
    let marks = experiment.marks().unwrap();
    let found = checks(&marks[0], &curves);
    assert_eq!(found.len(), 2, "model and sim");
    assert!((found[0].value - 0.999 * 128e3).abs() < 1e-6);
    assert!((found[0].error.unwrap() - (0.999 * 128.0 / 127.0 - 1.0)).abs() < 1e-9);
    assert_eq!(found[0].within, Some(true));
    let off = Mark { y: Some(150e3), ..marks[0].clone() };
    assert_eq!(checks(&off, &curves)[0].within, Some(false));
    let highest = Mark { x: None, y: Some(300e3), ..marks[0].clone() };
    assert!((checks(&highest, &curves)[0].value - 299.7e3).abs() < 1e-6);
    assert!(curves[0].at(1e3).is_none() && curves[0].at(301e3).is_none());
}

#[test]
fn rates_are_lists_or_ranges() {
    assert_eq!("10kpps,20kpps".parse::<Rates>().unwrap().0.len(), 2);
    let mixed: Vec<f64> = "10kpps..30kpps:3,127kpps".parse::<Rates>().unwrap().0.iter().map(Load::amount).collect();
    assert_eq!(mixed, [10e3, 20e3, 30e3, 127e3]);
    for text in ["", "10kpps,", "10kpps..", "10kpps..5kpps:3", "10kpps..20%:3", "1kpps..2kpps:1", "1kpps..2kpps:x"] {
        assert!(text.parse::<Rates>().is_err(), "{text}");
    }
}

const MLFRR: &str = r#"
kind = "mlfrr"
title = "Figure 1"

[host]
preset = "pentium4-2530mhz"
set = ["application=2us"]

[traffic]
rates = "10kpps..200kpps:20"

[[polling]]
period = "20us"
quota = 3
"#;

#[test]
fn formulas_are_the_same_format() {
    let Experiment::Mlfrr(mlfrr) = Experiment::from_toml("f.toml", MLFRR).unwrap() else { panic!("not mlfrr") };
    assert_eq!(mlfrr.polled().unwrap(), [Polled { period_s: 20e-6, quota: 3, batch: 3 }]);
    assert_eq!(mlfrr.loads_pps().unwrap().len(), 20);
    assert_eq!(mlfrr.hosts().unwrap()[0].1.application_s, Some(2e-6));
    for (from, to, parts) in [
        ("quota = 3", "quota = 0", vec!["line 14", "quota = 0", "at least 1"]),
        ("quota = 3", "quota = 3\nbatch = 9", vec!["line 15", "batch = 9", "the quota (3)"]),
        ("\"20us\"", "\"20\"", vec!["line 13", "\"20\"", "20us"]),
        ("\"20us\"", "\"0us\"", vec!["line 13", "0us", "above 0"]),
        ("[host]", "schemes = [\"ideal\"]\n[host]", vec!["line 5", "schemes", "polling"]),
        ("[traffic]", "[traffic]\nsize = \"s.csv\"", vec!["line 10", "s.csv", "64B"]),
    ] {
        let error = Experiment::from_toml("f.toml", &MLFRR.replacen(from, to, 1)).expect_err(to).to_string();
        for part in parts {
            assert!(error.contains(part), "{to}: {part}: {error}");
        }
    }
}

#[test]
fn a_roofline_is_the_same_format() {
    let text = "kind = \"roofline\"\nlink = \"10Gbit/s\"\nbus = \"pci-x-133\"\nsizes = [\"1518B\", \"64B\"]\n";
    let Experiment::Roofline(roofline) = Experiment::from_toml("f.toml", text).unwrap() else {
        panic!("not a roofline")
    };
    assert_eq!(roofline.sizes_bytes().unwrap(), [64.0, 1518.0]);
    assert_eq!(roofline.hosts().unwrap(), [(String::new(), None)]);
    for (from, to, parts) in [
        ("10Gbit/s", "10kpps", vec!["line 2", "10kpps", "1.5Gbit/s"]),
        ("pci-x-133", "vesa", vec!["line 3", "vesa", "pcie-3x8"]),
        ("\"64B\"", "\"imix\"", vec!["line 4", "imix", "64B"]),
        ("[\"1518B\", \"64B\"]", "\"64B\"\nheaders = \"70B\"", vec!["line 5", "70B", "smallest frame (64 B)"]),
        ("sizes", "offloads = [\"magic\"]\nsizes", vec!["line 4", "magic", "checksum"]),
        ("sizes", "seizes", vec!["line 4", "seizes", "sizes"]),
    ] {
        let error = Experiment::from_toml("f.toml", &text.replacen(from, to, 1)).expect_err(to).to_string();
        for part in parts {
            assert!(error.contains(part), "{to}: {part}: {error}");
        }
    }
}

#[test]
fn forwarding_is_the_same_format() {
    let text = "kind = \"forwarding\"\nsizes = [\"1518B\", \"64B\"]\n[[set-up]]\nname = \"plain\"\n[[set-up]]\n\
                name = \"tuned\"\nforwarding = \"netfilter\"\nrules = 7\ntune = \"throughput\"\n";
    let Experiment::Forwarding(forwarding) = Experiment::from_toml("f.toml", text).unwrap() else {
        panic!("not of its kind")
    };
    assert_eq!(forwarding.sizes_bytes().unwrap(), [64.0, 1518.0]);
    assert_eq!((forwarding.set_ups[0].forwarding.as_str(), forwarding.set_ups[0].tune), ("route", None));
    assert_eq!(forwarding.set_ups[1].rules, Some(7));
    assert_eq!((forwarding.rounds, forwarding.loss_ratio().unwrap()), (3, 0.0));
    for (from, to, parts) in [
        ("\"64B\"", "\"imix\"", vec!["line 2", "imix", "64B"]),
        ("\"tuned\"", "\"plain\"", vec!["line 6", "plain", "a name of its own"]),
        ("netfilter", "bridge", vec!["line 8", "bridge", "netfilter"]),
        ("\"throughput\"", "\"speed\"", vec!["line 9", "speed", "latency"]),
        ("sizes", "trial = \"9\"\nsizes", vec!["line 2", "\"9\"", "20us"]),
        ("sizes", "rounds = 0\nsizes", vec!["line 2", "rounds = 0", "1 to"]),
        ("[[set-up]]\nname = \"plain\"\n", "", vec![]),
    ] {
        let read = Experiment::from_toml("f.toml", &text.replacen(from, to, 1));
        if parts.is_empty() {
            assert!(read.is_ok(), "{to}: {read:?}");
            continue;
        }
        let error = read.expect_err(to).to_string();
        for part in parts {
            assert!(error.contains(part), "{to}: {part}: {error}");
        }
    }
}
