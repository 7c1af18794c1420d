use super::*;

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
"#;

#[test]
fn a_file_becomes_a_grid_of_points() {
    let experiment = Experiment::from_toml("f.toml", FILE).unwrap();
    let points = experiment.points().unwrap();
    assert_eq!(points.len(), 2 * 2 * 30);
    assert_eq!(points[0].host.ring, 64);
    assert_eq!(points[1].traffic.rate, Load::Pps(20e3));
    assert_eq!(points[29].traffic.rate, Load::Pps(300e3));
    let again = Experiment::from_toml("f.toml", &toml::to_string(&experiment).unwrap()).unwrap();
    assert_eq!(again, experiment);
}

#[test]
fn errors_show_file_line_value_and_accepted_form() {
    for (from, to, parts) in [
        ("seed = 7", "sede = 7", vec!["f.toml", "line 5", "sede", "seed"]),
        ("period=20us", "period=20", vec!["line 4", "\"20\"", "20us"]),
        ("\"sim\"", "\"simulator\"", vec!["line 3", "simulator", "sim"]),
        ("10kpps..300kpps:30", "0pps..300kpps:30", vec!["0pps..300kpps:30", "10kpps..300kpps:30"]),
        ("ring=64", "ring=0", vec!["ring = 0", "at least 1"]),
        ("ring=64", "rung=0", vec!["rung=0", "socket_buffer"]),
        ("quota=3", "quota=0", vec!["quota = 0", "at least 1"]),
        ("\"5%\"", "\"500%\"", vec!["500%", "below 100%"]),
        ("pentium4-2530mhz", "pentium5", vec!["pentium5", "pentium4-2530mhz"]),
        ("[\"ideal\", \"polling:period=20us,quota=3\"]", "[]", vec!["at least one"]),
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
fn rates_are_lists_or_ranges() {
    assert_eq!("10kpps,20kpps".parse::<Rates>().unwrap().0.len(), 2);
    for text in ["", "10kpps..", "10kpps..5kpps:3", "10kpps..20%:3", "1kpps..2kpps:1", "1kpps..2kpps:x"] {
        assert!(text.parse::<Rates>().is_err(), "{text}");
    }
}
