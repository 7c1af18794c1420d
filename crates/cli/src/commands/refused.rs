//! Settings that were refused, in the words of the command line: who typed `--time` knows of no `time_s`.

use netcliff_core::units;
use netcliff_wire::WireError;

use crate::output;

/// Settings of a transfer and the options of `netcliff stream` that set them.
pub const STREAM: &[(&str, &str)] = &[
    ("time_s", "--time"),
    ("warm_up_s", "--warmup"),
    ("interval_s", "--interval"),
    ("stall_s", "--stall"),
    ("block_bytes", "--block"),
    ("read_bytes", "--read"),
    ("low_water_bytes", "--low-water"),
    ("bytes", "--bytes"),
    ("flows", "--flows"),
    ("threads", "--threads"),
    ("cpu", "--cpu"),
    ("cpus", "--cpu"),
    ("congestion", "--congestion"),
    ("file", "--file"),
    ("temporary files", "--file-size"),
    ("path", "--path"),
    ("channel", "--channel"),
];

/// Those of `netcliff rr`.
pub const RR: &[(&str, &str)] = &[
    ("request", "--request"),
    ("response", "--response"),
    ("flows", "--flows"),
    ("depth", "--depth"),
    ("rate", "--rate"),
    ("warm-up", "--warm-up"),
    ("time", "--time"),
    ("timeout", "--timeout"),
    ("cpu", "--cpu"),
    ("client_cpus", "--cpu"),
    ("server_cpus", "--cpu"),
    ("connect each time", "--crr"),
];

/// Those of an experiment of transfers, which are in its file.
pub const EXPERIMENT: &[(&str, &str)] = &[
    ("time_s", "time"),
    ("warm_up_s", "warmup"),
    ("block_bytes", "block"),
    ("flows", "flows"),
    ("threads", "threads"),
    ("congestion", "congestion"),
    ("bytes", "bytes"),
];

/// A setting that cannot be is the user's mistake, and named as the user named it; the rest is a failed measurement.
pub fn explained(error: WireError, names: &[(&str, &str)]) -> anyhow::Error {
    let WireError::Setting { what, value, accepted } = &error else { return error.into() };
    match names.iter().find(|(setting, _)| setting == what) {
        Some((_, "--crr")) => output::usage(format!("--crr is {accepted}")),
        Some((_, name)) => output::usage(format!("{name} {}: expected {accepted}", with_unit(what, value))),
        None => output::usage(error),
    }
}

/// A value as it would be typed.
fn with_unit(what: &str, value: &str) -> String {
    let time = what.ends_with("_s") || ["time", "warm-up", "timeout"].contains(&what);
    let bytes = what.ends_with("bytes") || ["request", "response", "temporary files"].contains(&what);
    match (time, bytes) {
        (true, _) => value.parse().map_or_else(|_| value.to_owned(), units::print_time_s),
        (_, true) => value.parse().map_or_else(|_| value.to_owned(), units::print_bytes),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_named_as_it_was_typed() {
        let refused = |what, value: &str| {
            let error = WireError::Setting { what, value: value.into(), accepted: "another".into() };
            explained(error, STREAM).to_string()
        };
        assert_eq!(refused("time_s", "0.000001"), "--time 1us: expected another");
        assert_eq!(refused("block_bytes", "1048576"), "--block 1MiB: expected another");
        assert_eq!(refused("cpu", "99"), "--cpu 99: expected another");
        assert_eq!(refused("memory for buffers", "5"), "memory for buffers is 5: expected another");
    }
}
