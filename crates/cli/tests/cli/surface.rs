//! What people read: help, tables, completions and manual pages. A changed snapshot is a changed surface; accept it by
//! `cargo insta review`.

use crate::common::{Home, commands_in, entries};

/// The help of every command on one page, which docs/reference/commands.md includes.
#[test]
fn help_of_every_command() {
    let home = Home::new();
    let mut page = String::new();
    for command in [
        &[][..],
        &["find"],
        &["run"],
        &["predict"],
        &["simulate"],
        &["advise"],
        &["limits"],
        &["inspect"],
        &["watch"],
        &["drops"],
        &["headroom"],
        &["learn"],
        &["profile"],
        &["tune"],
        &["tune", "plan"],
        &["tune", "apply"],
        &["tune", "set"],
        &["tune", "undo"],
        &["tune", "adapt"],
        &["tune", "try"],
        &["stream"],
        &["rr"],
        &["agent"],
        &["rfc2544"],
        &["compare"],
        &["results"],
        &["results", "list"],
        &["results", "trend"],
        &["results", "show"],
        &["serve"],
        &["completions"],
        &["man"],
    ] {
        let help = home.stdout([command, &["--help"]].concat());
        let title = [&["netcliff"], command].concat().join(" ");
        page += &format!("## {title}\n\n```text\n{}\n```\n\n", help.trim_end());
    }
    insta::assert_snapshot!("help", page);
}

/// Examples can be pasted: on 80 columns none of their lines is wrapped, and text that is not a command follows `#`.
#[test]
fn examples_can_be_pasted() {
    let home = Home::new();
    let mut seen = 0;
    for command in [
        "",
        "find",
        "run",
        "predict",
        "simulate",
        "advise",
        "inspect",
        "watch",
        "drops",
        "headroom",
        "learn",
        "profile",
        "results trend",
        "tune plan",
        "tune set",
        "tune adapt",
        "tune try",
        "limits",
        "rr",
        "agent",
        "stream",
        "rfc2544",
        "compare",
        "results",
        "serve",
    ] {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let help = home.stdout(&args);
        let examples = help.split("\nExamples:\n").nth(1).unwrap_or_else(|| panic!("{command}: no examples"));
        let mut goes_on = false;
        for line in examples.lines().take_while(|line| !line.is_empty()) {
            assert!(line.chars().count() <= 80, "{command}: {line}");
            let code = line.split(" # ").next().expect("a beginning").trim();
            let is_comment = line.trim_start().starts_with("# ");
            // Several spaces separate a command from its explanation; within a command, words have one space between
            // them.
            assert!(is_comment || !code.contains("  "), "{command}: a comment without #: {line}");
            let begins =
                ["netcliff ", "netcliff", "ssh HOST netcliff ", "tuned-adm "].iter().any(|word| code.starts_with(word));
            assert!(is_comment || goes_on || begins, "{command}: {line}");
            goes_on = line.ends_with(" \\");
            seen += 1;
        }
        assert!(!goes_on, "{command}: the last example goes on");
    }
    assert!(seen > 60, "only {seen} examples");
}

/// The book's table of rights has a row for each command.
#[test]
fn rights_of_every_command() {
    let commands = commands_in(&Home::new().stdout(["--help"]));
    assert!(commands.len() > 15, "{commands:?}");
    let table = include_str!("../../../../docs/reference/rights.md");
    let rows: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next()).collect();
    let is_there = |command: &str| rows.iter().any(|row| row.contains(&format!("`{command}")));
    let absent: Vec<_> = commands.iter().filter(|command| !is_there(command)).collect();
    assert!(absent.is_empty(), "docs/reference/rights.md has no row for {absent:?}");
}

/// `-h` is short: options by topic, those of every command at the end. `--help` is complete.
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
    let one = home.stdout(["predict", "--scheme", "interrupt", "--rate", "100kpps"]);
    let sweep =
        home.stdout(["predict", "--scheme", "napi", "--set", "application=2us", "--rates", "50kpps..200kpps:4"]);
    insta::assert_snapshot!("predict", format!("#### one\n{one}\n#### several\n{sweep}"));
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

/// Simulations are equal on every machine and number of cores, so that they can be shown to the letter.
#[test]
fn simulations_for_people() {
    let home = Home::new();
    let simulate = |more: &[&str]| {
        let common = ["simulate", "--scheme", "interrupt", "--rate", "110kpps", "--packets", "20000"];
        home.stdout([&common[..], more].concat())
    };
    let pages: Vec<String> = [
        &["--queues", "2:map=spread,transmit=1us,cold=1.2", "--flows", "50:zipf=1.2"][..],
        &["--queues", "3:on=0/0/1", "--flows", "50:zipf=1.2"],
        &["--distributions", "--set", "application=1us"],
        &["--histogram"],
        &["--series", "5ms"],
        &["--series", "10ms", "--csv"],
        &["--against", "coalesce:usecs=50us,masked=true"],
    ]
    .into_iter()
    .map(|more| format!("#### {}\n{}", more.join(" "), simulate(more)))
    .collect();
    insta::assert_snapshot!("simulate", pages.join("\n"));
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
