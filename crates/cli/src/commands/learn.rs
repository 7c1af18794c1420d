//! `netcliff learn`, and learning for commands that need a cliff if there is no `find`.

mod repeat;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use netcliff_core::Learned;
use netcliff_core::headroom::CliffSource;
use netcliff_host::cpu::Preference;
use netcliff_lab::costs::Found;
use netcliff_lab::stored::Stored;
use netcliff_learn::{LearnError, Options, Progress};
use netcliff_report as report;

use super::{open_store, refuse_name, stop_on_signal};
use crate::args::{LearnArgs, StoreArgs};
use crate::output::{self, command_line};
use crate::progress::Due;

/// Loss fraction that defines the cliff, as in `find`.
const LOSS: f64 = 1e-4;
/// Time for which a command without a calibrated cliff learns one.
const SHORT: Duration = Duration::from_secs(15);

/// Watches and shows what was learnt.
pub fn run(args: &LearnArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    refuse_name(store, !args.no_save, "leave out --no-save")?;
    let options = Options {
        interfaces: args.interfaces.clone(),
        port: args.port,
        pid: args.pid,
        length: args.length,
        meter: args.meter.preference(),
        loss: LOSS,
        command: command_line(),
    };
    let stop = stop_on_signal()?;
    if args.repeat {
        return repeat::run(args, store, &options, &stop);
    }
    let kept = (!args.no_save).then(|| open_store(store)).transpose()?;
    let mut due = Due::of_a_watch();
    let learned = netcliff_learn::learn(&options, &stop, &mut |progress| {
        if due.is_now() {
            tell(progress);
        }
    })
    .map_err(refused)?;
    let run = kept.map(|store| Stored::Learned(Box::new(learned.clone())).keep(&store, None)).transpose()?;
    if args.json {
        output::json_line(&learned)?;
    } else {
        output::page(&report::terminal::learned(&learned, output::style()))?;
    }
    if let Some(run) = run {
        let next = match learned.first() {
            Some(_) => format!(
                ". Next: `netcliff predict --host learn:{run} --cliff --set KEY=VALUE` for the cliff with another cost, `netcliff headroom --host learn:{run}` for the distance from now on"
            ),
            None => String::new(),
        };
        output::say(format!("netcliff: stored as run {run}{next}"));
    }
    Ok(ExitCode::from(u8::from(learned.first().is_none())))
}

fn tell(progress: &Progress) {
    output::say(format!(
        "netcliff: {:.0} of {:.0} s watched, {:.0} packets/s now",
        progress.elapsed_s, progress.of_s, progress.packets_per_s
    ));
}

fn refused(error: LearnError) -> anyhow::Error {
    match error {
        LearnError::Usage(why) => output::usage(why),
        LearnError::Failed(why) => anyhow::Error::msg(why),
    }
}

/// Learns for a short time the cliff that a command compares this host with. `why` is the reason why there is no
/// calibrated cliff.
///
/// # Errors
/// Nothing could be learned, and what to do.
pub fn instead(interfaces: &[String], why: &str) -> anyhow::Result<(Found, Learned)> {
    output::say(format!(
        "netcliff: {why}; so this command learns from the traffic of the next {:.0} s (it sends nothing; `netcliff learn` does it longer and keeps it)",
        SHORT.as_secs_f64()
    ));
    let options = Options {
        interfaces: interfaces.to_vec(),
        port: None,
        pid: None,
        length: SHORT,
        meter: Preference::Best,
        loss: LOSS,
        command: command_line(),
    };
    let learned = netcliff_learn::learn(&options, &AtomicBool::new(false), &mut |_| {}).map_err(refused)?;
    let name = CliffSource::Named(format!("what was learnt in {:.0} s just now", learned.watched.seconds));
    let found = learned.first_cpu().and_then(|_| Found::of_learned(None, name, &learned)).ok_or_else(|| {
        let lacks = learned.missing.first().map_or("no receive CPU has a cliff", |missing| missing.why.as_str());
        output::usage(format!(
            "{why}; and no cliff follows from this traffic: {lacks} `netcliff find` measures a cliff, `netcliff learn --for 5m` watches longer"
        ))
    })?;
    Ok((found, learned))
}
