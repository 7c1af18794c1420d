//! How a skip is reported, and when it is a failure.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

use crate::Need;

/// Environment variable with the needs whose absence fails a test, separated by commas; `programs` for every listed
/// program, `all` for programs and every need that is not optional ([`Need::is_optional`]).
pub const REQUIRE: &str = "NETCLIFF_REQUIRE";
/// Environment variable with the file to which each `SKIPPED` line is appended.
pub const SKIPPED_FILE: &str = "NETCLIFF_SKIPPED_FILE";

/// Reports that a need of the running test, or of a part of it, is missing.
///
/// # Panics
///
/// If `NETCLIFF_REQUIRE` has the need.
pub fn skip(need: Need, reason: impl Display) {
    missing(need.name(), need.is_optional(), &reason.to_string());
}

/// Reports that a test does not apply to this host, for instance a test of a port to a host without a network. Never
/// fails the test, because nothing could be installed or granted.
pub fn not_applicable(reason: impl Display) {
    print(&format!("NOT APPLICABLE: {}: {}", test_name(), one_line(&reason.to_string())));
}

pub(crate) fn missing(need: &str, optional: bool, reason: &str) {
    let line = format!("SKIPPED: {}: {need}: {}", test_name(), one_line(reason));
    let required = std::env::var(REQUIRE).unwrap_or_default();
    assert!(!requires(&required, need, optional), "{line}\n{REQUIRE}={required} makes this a failure");
    print(&line);
}

fn requires(list: &str, need: &str, optional: bool) -> bool {
    list.split(',').map(str::trim).any(|name| name == need || (name == "all" && !optional))
}

/// Joins the lines of a reason, because the reports are collected line by line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Name of the running test: from cargo-nextest, or else the name of the thread, which libtest names after the test.
fn test_name() -> String {
    let of_runner = std::env::var("NEXTEST_TEST_NAME").ok().map(|test| {
        let binary = std::env::var("NEXTEST_BINARY_ID").unwrap_or_default();
        format!("{binary} {test}").trim_start().to_owned()
    });
    of_runner.or_else(|| std::thread::current().name().map(str::to_owned)).unwrap_or_else(|| "?".to_owned())
}

fn print(line: &str) {
    // Written directly to stderr, which the test harness does not capture, so that a skip is always visible.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
    if let Some(file) = std::env::var_os(SKIPPED_FILE) {
        // One write for the line, because tests in other processes append at the same time.
        let _ = OpenOptions::new()
            .append(true)
            .create(true)
            .open(file)
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_required() {
        for (list, need, optional, expected) in [
            ("", "netns", false, false),
            ("netns, xdp", "xdp", false, true),
            ("netns", "programs", false, false),
            ("programs", "programs", false, true),
            ("all", "netns", false, true),
            ("all", "vlan", true, false),
            ("all,vlan", "vlan", true, true),
            ("netnsx", "netns", false, false),
        ] {
            assert_eq!(requires(list, need, optional), expected, "{list:?} {need}");
        }
    }

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(one_line("no\n  right\tto"), "no right to");
    }
}
