//! Commands that measure by what only Linux's kernel has, refused on another system before they begin.

use crate::args::Command;

/// Why a command line is refused on a system (named as by [`std::env::consts::OS`]). `None` if it is not refused.
pub fn refusal(command: &Command, system: &str) -> Option<String> {
    let what = needs_linux(command).filter(|_| system != "linux")?;
    Some(format!(
        "`netcliff {what}` needs Linux's kernel, and this is {system}: here netcliff has predict, simulate, advise, run, limits, stream, rr, \
         agent, compare, results and serve"
    ))
}

/// The command, with the option that needs Linux if only an option does. `None` if neither needs it.
fn needs_linux(command: &Command) -> Option<&'static str> {
    match command {
        Command::Find(_) => Some("find"),
        Command::Advise(args) => args.try_in.as_ref().map(|_| "advise --try"),
        Command::Inspect(args) => args.from.is_none().then_some("inspect (without --from)"),
        Command::Watch(_) => Some("watch"),
        Command::Drops(_) => Some("drops"),
        Command::Headroom(_) => Some("headroom"),
        Command::Learn(_) => Some("learn"),
        Command::Profile(_) => Some("profile"),
        Command::Tune(_) => Some("tune"),
        Command::Limits(args) => args.this_host.then_some("limits --this-host"),
        Command::Rfc2544(_) => Some("rfc2544"),
        Command::Guest => Some("guest"),
        Command::Run(_)
        | Command::Predict(_)
        | Command::Simulate(_)
        | Command::Rr(_)
        | Command::Agent(_)
        | Command::Stream(_)
        | Command::Compare(_)
        | Command::Results(_)
        | Command::Serve(_)
        | Command::Completions { .. }
        | Command::Man { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    fn refused(words: &str, system: &str) -> Option<String> {
        let cli = Cli::try_parse_from(format!("netcliff {words}").split_whitespace()).expect(words);
        refusal(&cli.command, system)
    }

    #[test]
    fn what_measures_this_host_is_refused_elsewhere_by_name() {
        for words in [
            "find",
            "inspect",
            "watch",
            "drops",
            "headroom",
            "learn",
            "profile",
            "tune undo",
            "rfc2544 throughput",
            "limits --this-host",
        ] {
            let why = refused(words, "freebsd").expect(words);
            let name = words.split_whitespace().next().expect("a word");
            assert!(why.contains(&format!("`netcliff {name}")) && why.contains("this is freebsd"), "{why}");
            assert_eq!(refused(words, "linux"), None, "{words}");
        }
    }

    #[test]
    fn what_needs_no_kernel_of_linux_goes_on() {
        for words in ["predict", "simulate", "stream", "rr", "agent", "limits", "inspect --from x", "results list"] {
            assert_eq!(refused(words, "openbsd"), None, "{words}");
        }
    }
}
