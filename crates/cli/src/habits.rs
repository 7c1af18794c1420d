//! Options of other tools: recognizes a word and names the equivalent option of netcliff.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::{Cli, numbers};

/// Options of other tools that have another name here: the commands, the option, and what to write.
///
/// | source | options |
/// | --- | --- |
/// | iperf3 | -Z, -A, -k, -B, -f, -D, -1, -4, -6, -T, -d, --logfile, and all others of 3.18 that `stream` lacks |
/// | netperf | -H |
/// | tcpdump, dropwatch, watch | -i, -n, -c, -w, -f, -d |
/// | wrk, wrk2, hey | -d, -R, --duration, --connections, --threads, --latency |
const OTHER: &[(&[&str], &[&str], &str)] = &[
    (&["stream"], &["-Z", "--zerocopy"], "--path zerocopy (MSG_ZEROCOPY) or --path sendfile"),
    (&["stream", "rr"], &["-A", "--affinity"], "--cpu SENDER,RECEIVER, such as --cpu 0,1"),
    (&["stream"], &["-k", "--blockcount"], "--bytes SIZE (-n), such as -n 1G"),
    (&["rr"], &["-n", "--num"], "-t TIME: a repeat has a time, not a number of requests"),
    (&["stream"], &["--num"], "--bytes SIZE (-n)"),
    (&["stream"], &["--set-mss"], "--mss SIZE (-M)"),
    (
        &["stream", "rr"],
        &["-B", "--bind"],
        "--data-to ADDRESS for data to an agent, --namespaces for ends on this host; of a server `netcliff agent --listen ADDRESS:PORT`",
    ),
    (&["stream", "rr"], &["-f", "--format"], "chosen by size; --json has bit/s and bytes"),
    (
        &["stream", "rr"],
        &["-D", "--daemon", "-1", "--one-off"],
        "`netcliff agent`, by its systemd unit (docs/how-to/agent.md)",
    ),
    (&["stream", "rr"], &["-4", "--version4"], "the family of the address that --to names"),
    (&["find"], &["--version6"], "--ipv6 (-6)"),
    (&["stream", "rr"], &["-6", "--version6"], "--ipv6 on this host; with --to the family of the address"),
    (&["stream", "rr"], &["-T", "--title"], "--name NAME with --save"),
    (&["stream", "rr"], &["-d", "--debug"], "NETCLIFF_LOG=debug; a time is -t"),
    (&["stream", "rr"], &["--logfile"], "--json > FILE"),
    (&["stream"], &["-L", "--flowlabel"], "not there: packets have the kernel's flow label"),
    (&["stream"], &["-F"], "--path sendfile --file FILE"),
    (&["stream"], &["-X", "--xbind", "--sctp", "--nstreams"], "not there: no SCTP; --channel mptcp has several paths"),
    (&["stream"], &["--bind-dev"], "--namespaces NEAR,FAR for ends on this host; a route for a far end"),
    (&["stream"], &["--cport"], "not there: the kernel chooses the sender's ports; --flows N has as many"),
    (&["stream", "rr"], &["--dscp"], "--tos (-S), four times the DSCP, such as --tos 0xb8 for EF"),
    (&["stream"], &["--fq-rate"], "--rate (-b): the kernel paces TCP"),
    (&["stream"], &["--pacing-timer"], "not there: --paced-by says who paces"),
    (&["stream"], &["--mptcp", "-m"], "--channel mptcp"),
    (&["stream"], &["--skip-rx-copy"], "--receive trunc"),
    (
        &["stream"],
        &["--connect-timeout", "--rcv-timeout", "--snd-timeout"],
        "--stall TIME: a transfer without progress ends",
    ),
    (&["stream"], &["--get-server-output"], "not needed: the result has both ends"),
    (&["stream", "rr"], &["--json-stream"], "--live"),
    (
        &["stream", "rr"],
        &["--verbose-server", "--timestamps", "--forceflush"],
        "--live: a JSON line as things happen, with its time",
    ),
    (&["stream"], &["--udp-counters-64bit"], "always 64 bits"),
    (
        &["stream"],
        &["--repeating-payload", "--extra-data"],
        "not there: the payload is netcliff's; --name NAME with --save names a run",
    ),
    (
        &["stream"],
        &["--dont-fragment"],
        "not there: datagrams longer than the MTU go as fragments; --block (-l) below the MTU avoids them",
    ),
    (
        &["stream"],
        &["--server-bitrate-limit", "--idle-timeout", "--server-max-duration"],
        "`netcliff agent` and its limits (`netcliff agent --help`)",
    ),
    (
        &["stream", "rr"],
        &["--username", "--rsa-public-key-path", "--rsa-private-key-path", "--authorized-users-path"],
        "--key FILE, made by `netcliff agent --make-key FILE`",
    ),
    (&["stream", "rr"], &["-I", "--pidfile"], "`netcliff agent`, by its systemd unit (docs/how-to/agent.md)"),
    (&["stream", "rr"], &["-H", "--host"], "--to HOST (-c)"),
    (&["rr"], &["-R", "-b", "--bitrate"], "--rate N, requests a second, such as --rate 20k"),
    (&["rr"], &["-l", "--length", "-r"], "--request SIZE and --response SIZE"),
    (&["rr", "stream"], &["--duration"], "--time (-t), such as -t 10"),
    (&["rr"], &["--connections", "--parallel"], "--flows N (-P)"),
    (&["rr"], &["--threads"], "--flows N (-P): a thread each"),
    (&["rr"], &["--latency"], "always measured; -v prints it in full"),
    (&["drops", "watch", "headroom", "inspect", "find"], &["-i", "--interface"], "--if NAME"),
    (&["drops"], &["-f", "--expression"], "--filter 'EXPRESSION', such as --filter 'udp port 53'"),
    (&["drops"], &["-c", "--count"], "--time TIME, after which it ends; --once: one interval"),
    (&["drops"], &["-w"], "--json > FILE; headers by --by flow, no packets are written"),
    (&["drops"], &["-n"], "always so: addresses and ports are numbers"),
    (&["drops"], &["--top"], "--rows N"),
    (&["watch", "headroom"], &["-n", "-d"], "--interval TIME, such as --interval 1"),
    (&["agent", "serve"], &["-p", "--port"], "--listen ADDRESS:PORT"),
    (&["find"], &["--rate", "-b"], "not needed: `find` searches the load; --max-rate bounds it"),
    (&["find"], &["-t", "--time", "--for", "--duration"], "--trial TIME, of each trial; --quick is short"),
    (&["rr"], &["--connect", "-C"], "--crr: a connection for each request"),
    (&["simulate"], &["--time", "--duration"], "--packets N, or --precision: it simulates packets, not a time"),
];

/// Names that netcliff's own commands have for one thing. A command that refuses a name of a group names the one that
/// it has.
const ALIKE: &[&[&str]] = &[
    &["--for", "--time", "--duration", "--seconds"],
    &["--if", "--interface", "--interfaces", "--iface", "--device", "--dev", "--nic", "-i", "-I"],
    &["--port", "--listen"],
    &["--size", "--sizes", "--frames", "--frame-size"],
    &["--no-store", "--no-save"],
    &["--warmup", "--warm-up"],
    &["--netns", "--namespace", "--namespaces"],
    &["--max-rate", "--max"],
];

/// Commands that accept no bare word, with the option for the word that users of other tools write there.
const WORDS: &[(&str, &str)] = &[
    ("drops", "--filter, in quotes, such as --filter 'udp port 53'"),
    ("find", "--if NAME for an interface of this host"),
    ("watch", "--if NAME for an interface, --interval TIME for a time"),
    ("headroom", "--if NAME for an interface, --interval TIME for a time"),
    ("stream", "--to HOST (-c)"),
    ("rr", "--to HOST (-c), where `netcliff agent` runs"),
    ("agent", "--listen ADDRESS:PORT"),
    ("serve", "--listen ADDRESS:PORT"),
];

/// The words of a command line with `--csv NAME.csv` joined to `--csv=NAME.csv`, and `--wait TIME` to `--wait=TIME`: both
/// options may stand without a value. Any other word after them is a separate argument (in `run --csv fig-7a` it is the
/// experiment).
pub fn joined(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for word in words {
        let text = word.to_str().unwrap_or_default();
        let is_file = text.ends_with(".csv") && !text.starts_with('-');
        let is_time = numbers::seconds(text).is_ok();
        match joined.last_mut().filter(|last| is_file && *last == "--csv" || is_time && *last == "--wait") {
            Some(flag) => {
                flag.push("=");
                flag.push(word);
            }
            None => joined.push(word),
        }
    }
    joined
}

/// Removes commands that the help does not list from the proposals for a wrong command. The most similar proposal comes
/// first.
pub fn without_hidden(mut error: clap::Error) -> clap::Error {
    let proposed = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::String(one)) => vec![one],
        Some(ContextValue::Strings(several)) => several,
        _ => return error,
    };
    let all = Cli::command();
    let is_hidden = |name: &String| all.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
    let shown: Vec<String> = proposed.into_iter().rev().filter(|name| !is_hidden(name)).collect();
    if !shown.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
    }
    error
}

/// The word after `--csv`, which takes a file as `--csv=FILE` only. `None` if there is no such word.
pub fn after_csv(words: &[OsString]) -> Option<&OsString> {
    let at = words.iter().position(|word| *word == "--csv")?;
    words.get(at + 1)
}

/// Hint on how to write CSV to a file.
pub fn csv_to(file: &str) -> String {
    format!("--csv alone prints to stdout; for a file write --csv={file}")
}

/// The equivalent option, for a command line that was refused because of another tool's option. `None` if no such
/// option is in it. For invalid UTF-8, names the word.
pub fn hint(words: &[OsString], error: &clap::Error) -> Option<String> {
    if error.kind() == ErrorKind::InvalidUtf8
        && let Some(word) = words.iter().find(|word| word.to_str().is_none())
    {
        let word = word.to_string_lossy();
        return Some(format!(
            "{word}: words here are UTF-8; rename the file, or give a link to it (ln -s) whose name is"
        ));
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidArg) else { return None };
    if after_csv(words).is_some_and(|next| *next == **refused) {
        return Some(csv_to(refused));
    }
    if !refused.starts_with('-') {
        let command = words.iter().skip(1).find(|word| !word.to_string_lossy().starts_with('-'))?;
        let (_, here) = WORDS.iter().find(|(name, _)| *command == **name)?;
        return Some(format!(
            "{refused:?}: `netcliff {}` takes no word alone; write {here}",
            command.to_string_lossy()
        ));
    }
    let refused = refused.split('=').next().unwrap_or(refused);
    let of = |commands: &&[&str]| words.iter().skip(1).any(|word| commands.iter().any(|command| *word == **command));
    let row = OTHER.iter().find(|(commands, options, _)| of(commands) && options.contains(&refused));
    row.map(|row| format!("{refused} of other tools is here: {}", row.2)).or_else(|| alike(words, refused))
}

/// The option of the command that another command calls `refused`: `` `netcliff drops` has --time instead of --for ``.
fn alike(words: &[OsString], refused: &str) -> Option<String> {
    let group = ALIKE.iter().find(|group| group.contains(&refused))?;
    let all = Cli::command();
    let (mut command, mut name) = (&all, "netcliff".to_owned());
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        if let Some(found) = command.find_subcommand(word) {
            (command, name) = (found, format!("{name} {word}"));
        }
    }
    let longs: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    let own = group.iter().find(|own| own.strip_prefix("--").is_some_and(|own| longs.contains(&own)))?;
    Some(format!("`{name}` has {own} instead of {refused}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn optional_values_are_joined_and_nothing_else() {
        for (line, expected) in [
            ("netcliff run fig-7a --csv sw.csv", "netcliff run fig-7a --csv=sw.csv"),
            ("netcliff run --csv sw.csv fig-7a", "netcliff run --csv=sw.csv fig-7a"),
            ("netcliff run --csv fig-7a", "netcliff run --csv fig-7a"),
            ("netcliff predict --csv --rate 1kpps", "netcliff predict --csv --rate 1kpps"),
            ("netcliff predict --size sizes.csv", "netcliff predict --size sizes.csv"),
            ("netcliff find --wait 10min", "netcliff find --wait=10min"),
            ("netcliff run --wait fig-7a", "netcliff run --wait fig-7a"),
        ] {
            assert_eq!(joined(words(line)), words(expected), "{line}");
            if !line.contains("sizes") {
                Cli::try_parse_from(joined(words(line))).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }

    /// Each option of another tool works, or its refusal names the equivalent option.
    #[test]
    fn options_of_other_tools_work_or_are_named() {
        for works in [
            "stream -c 10.0.0.1 -p 5201 -t 10 -i 1 -P 4 -b 10M -R -J",
            "stream -u -b 1G -l 1400 -w 256K -n 10M -C cubic -M 1400 -N -O 1 -S 16",
            "stream -s",
            "stream -s -p 5201 --key k",
            "stream --client h --parallel 4 --bitrate 10M --length 64K",
            "stream -b 0 -l 128k -w 256k -n 1m -S 0x10",
            "stream -b 10m -t 5",
            "rr -c h -u -t 10 -P 8 -J",
            "rr -s",
            "find -6 --vlan 5 --if eth0 --from h",
        ] {
            Cli::try_parse_from(words(&format!("netcliff {works}"))).unwrap_or_else(|error| panic!("{works}: {error}"));
        }
        for (commands, options, _) in OTHER {
            for (command, option) in
                commands.iter().flat_map(|command| options.iter().map(move |option| (command, option)))
            {
                let words = words(&format!("netcliff {command} {option}"));
                let error = Cli::try_parse_from(&words).expect_err("no option of netcliff");
                let hint = hint(&words, &error).unwrap_or_else(|| panic!("{command} {option}: {error}"));
                assert!(hint.contains(option), "{hint}");
            }
        }
        let line = words("netcliff predict --rate 1kpps --csv out.txt");
        let error = Cli::try_parse_from(&line).expect_err("out.txt is not taken for a file");
        assert!(hint(&line, &error).is_some_and(|hint| hint.contains("--csv=out.txt")));
        for (line, part) in [
            ("drops udp port 53", "--filter 'udp port 53'"),
            ("drops --filter udp port 53", "in quotes"),
            ("find eth0", "--if NAME"),
            ("stream 192.0.2.1", "--to HOST (-c)"),
            ("serve 8080", "--listen ADDRESS:PORT"),
        ] {
            let words = words(&format!("netcliff {line}"));
            let error = Cli::try_parse_from(&words).expect_err("no word alone");
            assert!(hint(&words, &error).is_some_and(|hint| hint.contains(part)), "{line}: {error}");
        }
        let word = std::os::unix::ffi::OsStringExt::from_vec(b"--size=\xff.pcap".to_vec());
        let line = ["netcliff".into(), "predict".into(), word];
        let error = Cli::try_parse_from(&line).expect_err("not UTF-8");
        assert!(hint(&line, &error).is_some_and(|hint| hint.contains("\u{fffd}.pcap") && hint.contains("ln -s")));
        let line = words("netcliff stream --no-such");
        let error = Cli::try_parse_from(&line).expect_err("no option");
        assert_eq!(hint(&line, &error), None);
    }

    #[test]
    fn a_name_that_another_command_has_is_translated() {
        for (line, says) in [
            ("drops --for 3s", "`netcliff drops` has --time instead of --for"),
            ("learn --time 3s", "`netcliff learn` has --for instead of --time"),
            ("profile --duration=3s", "`netcliff profile` has --for instead of --duration"),
            ("learn --interface eth0", "`netcliff learn` has --if instead of --interface"),
            ("tune plan --iface eth0", "`netcliff tune plan` has --if instead of --iface"),
        ] {
            let words = words(&format!("netcliff {line}"));
            let error = Cli::try_parse_from(&words).expect_err("no option of this command");
            assert_eq!(hint(&words, &error).as_deref(), Some(says), "{error}");
        }
    }

    #[test]
    fn only_commands_of_the_help_are_proposed() {
        let proposed = |word: &str| {
            let error = Cli::try_parse_from(["netcliff", word]).expect_err("no command");
            without_hidden(error).render().to_string()
        };
        let said = proposed("result");
        assert!(said.contains("exist: 'results'") && !said.contains("guest"), "{said}");
        let said = proposed("gues");
        assert!(!said.contains("tip") && said.contains("unrecognized subcommand 'gues'"), "{said}");
        let said = proposed("list");
        assert!(!said.contains("guest"), "{said}");
    }
}
