//! What people read: help, tables, completions and manual pages. A snapshot that changes is a change of the
//! surface; `cargo insta review` accepts it.

use crate::common::{Home, entries};

#[test]
fn help_of_every_command() {
    let home = Home::new();
    for command in [
        &[][..],
        &["find"],
        &["run"],
        &["predict"],
        &["simulate"],
        &["advise"],
        &["inspect"],
        &["watch"],
        &["tune"],
        &["tune", "plan"],
        &["tune", "apply"],
        &["tune", "undo"],
        &["tune", "try"],
        &["limits"],
        &["rr"],
        &["agent"],
        &["stream"],
        &["rfc2544"],
        &["compare"],
        &["results"],
        &["results", "list"],
        &["results", "show"],
        &["completions"],
        &["man"],
    ] {
        let help = home.stdout([command, &["--help"]].concat());
        let name = if command.is_empty() { "help".to_owned() } else { format!("help_{}", command.join("_")) };
        insta::assert_snapshot!(name, help);
    }
}

/// `-h` is for a screen, by topic, with what every command has at the end; `--help` is complete.
#[test]
fn short_help_is_short() {
    let home = Home::new();
    for command in [
        "find", "run", "predict", "simulate", "advise", "inspect", "watch", "tune", "limits", "rr", "agent", "stream",
        "rfc2544", "compare", "results",
    ] {
        let [short, long] = ["-h", "--help"].map(|option| home.stdout([command, option]));
        assert!(short.lines().count() <= 60, "{command}: {} lines\n{short}", short.lines().count());
        let at = |heading: &str| short.find(heading);
        assert!(
            at("Store:").is_none_or(|store| at("\nOutput:").is_none_or(|output| output < store)),
            "{command}: {short}"
        );
        let options = |text: &str| text.split_whitespace().filter(|word| word.starts_with("--")).count();
        assert!(options(&short) <= options(&long), "{command}");
    }
}

#[test]
fn predictions_for_people() {
    let home = Home::new();
    insta::assert_snapshot!("predict_one", home.stdout(["predict", "--scheme", "interrupt", "--rate", "100kpps"]));
    insta::assert_snapshot!(
        "predict_sweep",
        home.stdout(["predict", "--scheme", "napi", "--set", "application=2us", "--rates", "50kpps..200kpps:4"])
    );
    insta::assert_snapshot!(
        "limits",
        home.stdout([
            "limits",
            "--link",
            "10Gbit/s",
            "--bus",
            "pcie-3x8",
            "--host",
            "pentium4-2530mhz",
            "--memory",
            "6.4GB/s"
        ])
    );
    let ascii = home.netcliff(["predict", "--scheme", "ideal", "--rates", "1kpps,2kpps"]).env("LC_ALL", "C").output();
    assert!(ascii.unwrap().stdout.is_ascii(), "no box drawing where the terminal cannot show it");
}

/// Simulations are the same on every machine and number of cores, so that they can be shown to the letter.
#[test]
fn simulations_for_people() {
    let home = Home::new();
    let simulate = |more: &[&str]| {
        let common = ["simulate", "--scheme", "interrupt", "--rate", "110kpps", "--packets", "20000"];
        home.stdout([&common[..], more].concat())
    };
    let queues = ["--queues", "2:map=spread,transmit=1us,cold=1.2", "--flows", "50:zipf=1.2"];
    insta::assert_snapshot!("simulate_queues", simulate(&queues));
    let shared = ["--queues", "3:on=0/0/1", "--flows", "50:zipf=1.2"];
    insta::assert_snapshot!("simulate_queues_on_one_core", simulate(&shared));
    insta::assert_snapshot!("simulate_distributions", simulate(&["--distributions", "--set", "application=1us"]));
    insta::assert_snapshot!("simulate_histogram", simulate(&["--histogram"]));
    insta::assert_snapshot!("simulate_series", simulate(&["--series", "5ms"]));
    insta::assert_snapshot!("simulate_series_csv", simulate(&["--series", "10ms", "--csv"]));
    insta::assert_snapshot!("simulate_against", simulate(&["--against", "coalesce:usecs=50us,masked=true"]));
}

#[test]
fn the_version_is_the_packages() {
    let home = Home::new();
    for args in [&["--version"][..], &["find", "--version"]] {
        assert!(home.stdout(args).trim_end().ends_with(env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn completions_for_the_usual_shells() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.stdout(["completions", shell]);
        for word in ["netcliff", "simulate", "cpu-meter", "loopback"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn manual_pages() {
    let home = Home::new();
    let page = home.stdout(["man"]);
    assert!(page.contains(".TH ") && page.contains(".SH SYNOPSIS"), "{page}");
    let dir = home.text("man/man1");
    assert_eq!(home.stdout(["man", &dir]), "");
    let pages = entries(&home.path("man/man1"));
    for name in [
        "netcliff.1",
        "netcliff-find.1",
        "netcliff-run.1",
        "netcliff-predict.1",
        "netcliff-simulate.1",
        "netcliff-advise.1",
        "netcliff-results-show.1",
    ] {
        assert!(pages.iter().any(|page| page == name), "{name} in {pages:?}");
    }
    let find = std::fs::read_to_string(home.path("man/man1/netcliff-find.1")).unwrap();
    assert!(find.contains(".TH ") && find.contains("namespaces"), "{find}");
}
