//! Refused settings under the names of the command line: a user who typed `--time` does not know `time_s`.

use netcliff_core::units;
use netcliff_packets::WireError;
use netcliff_packets::error::ControlError;
use netcliff_packets::error::Refusal;

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
    ("receive", "--receive"),
    ("file size", "--file-size"),
    ("file to be read cold", "--file"),
    ("probe", "--probe"),
    ("burst", "--burst"),
    ("every", "--every"),
    ("probe-every", "--probe-every"),
    ("probe-around", "--probe-around"),
];

/// Settings of a request/response test and the options of `netcliff rr` that set them.
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

/// The names of settings in the file of an experiment of transfers.
pub const EXPERIMENT: &[(&str, &str)] = &[
    ("time_s", "time"),
    ("warm_up_s", "warmup"),
    ("block_bytes", "block"),
    ("flows", "flows"),
    ("threads", "threads"),
    ("congestion", "congestion"),
    ("bytes", "bytes"),
];

/// Converts an error of a test. An invalid setting is wrong usage, under the user's name for it; the rest are failed
/// measurements.
pub fn explained(error: WireError, names: Names<'_>) -> anyhow::Error {
    match error {
        WireError::Setting { what, value, accepted } => match named(what, &value, &accepted, names) {
            Some(sentence) => output::usage(sentence),
            None => output::usage(WireError::Setting { what, value, accepted }),
        },
        WireError::Far(refusal) => WireError::Far(renamed(refusal, names)).into(),
        WireError::Control(error) => WireError::Control(Box::new(by_agent(*error, names))).into(),
        other => other.into(),
    }
}

/// An agent's refusal with the user's names of the settings; the agent knows only its own names. This is for mistakes
/// that only the agent can detect, such as a CPU that the far host does not have.
pub fn by_agent(error: ControlError, names: Names<'_>) -> ControlError {
    match error {
        ControlError::Refused { peer, message } => ControlError::Refused { peer, message: renamed(message, names) },
        other => other,
    }
}

/// The refusal of a setting that has an option, under the option's name.
fn renamed(refusal: Refusal, names: Names<'_>) -> Refusal {
    let renamed = match &refusal {
        Refusal::Setting { what, value, accepted } => named(what, value, accepted, names),
        Refusal::Sentence(_) => None,
    };
    renamed.map_or(refusal, Refusal::Sentence)
}

/// Settings with the options that set them.
type Names<'a> = &'a [(&'a str, &'a str)];

fn named(what: &str, value: &str, accepted: &str, names: Names<'_>) -> Option<String> {
    Some(match names.iter().find(|(setting, _)| *setting == what)? {
        (_, "--crr") => format!("--crr is {accepted}"),
        (_, name) => format!("{name} {}: expected {accepted}", with_unit(what, value)),
    })
}

/// A value in the form in which a user types it, with its unit.
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

    #[test]
    fn what_an_agent_refuses_is_named_as_it_was_typed() {
        let setting = |what: &str, value: &str, accepted: &str| Refusal::Setting {
            what: what.into(),
            value: value.into(),
            accepted: accepted.into(),
        };
        let by_db1 = |message: Refusal| ControlError::Refused { peer: "db1".into(), message };
        let refused = |message: Refusal| explained(WireError::Control(Box::new(by_db1(message))), STREAM).to_string();
        assert_eq!(refused(setting("cpu", "99", "an online one")), "db1: --cpu 99: expected an online one");
        assert_eq!(refused(setting("time_s", "7200", "at most 60 s")), "db1: --time 7200s: expected at most 60 s");
        let unnamed = setting("memory for buffers", "5", "4");
        assert_eq!(refused(unnamed), "db1: memory for buffers is 5: expected 4");
        // If settings were searched in the text of a sentence, this file's name would look like one.
        let file = setting("file", "/tmp/a is 1: expected b", "one that exists");
        assert_eq!(refused(file), "db1: --file /tmp/a is 1: expected b: expected one that exists");
        // An agent of an older version sends sentences.
        let older = "cpu is 99: expected an online one";
        assert_eq!(refused(older.into()), format!("db1: {older}"));
        let far = WireError::Far(setting("congestion", "reno2", "one that this kernel has"));
        let said = "the far end: --congestion reno2: expected one that this kernel has";
        assert_eq!(explained(far, STREAM).to_string(), said);
        assert_eq!(by_agent(by_db1(setting("request", "1", "8")), RR).to_string(), "db1: --request 1B: expected 8");
    }
}
