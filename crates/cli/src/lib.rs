//! `netcliff`: arguments, progress and exit codes. The work is done in the other crates.
//!
//! stdout carries data only; progress, hints and errors go to stderr. Exit code 0: done; 1: the measurement failed
//! or was stopped; 2: wrong usage; 3: inconclusive.
//!
//! A library, so that fuzz targets and tests reach the parser of command lines ([`points_of`]). The program is [`run`].

// The comments of arguments are their help texts, in which [,X] marks an optional part and is not a link.
#[allow(rustdoc::broken_intra_doc_links)]
mod args;
#[cfg(test)]
mod book;
mod commands;
mod habits;
mod live;
mod outlet;
mod output;
mod progress;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use netcliff_core::{EngineKind, Point};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use args::{Cli, Command};

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let words = habits::joined(std::env::args_os());
    let cli = Cli::try_parse_from(&words).unwrap_or_else(|error| {
        let error = habits::without_hidden(error);
        output::refuse(&error, habits::hint(&words, &error).as_deref());
    });
    let messages = tracing_subscriber::fmt::layer().with_writer(|| output::Messages).with_filter(logged());
    tracing_subscriber::registry().with(messages).init();
    let outcome = match commands::linux_only::refusal(&cli.command, std::env::consts::OS) {
        Some(why) => Err(output::usage(why)),
        None => done(&cli),
    };
    live::end(&outcome);
    let code = match outcome {
        Ok(code) => code,
        Err(error) => output::fail(&error),
    };
    output::settle();
    code
}

/// The levels in NETCLIFF_LOG: a level, or targets with levels (`debug`, `netcliff_lab=trace`). Without the variable,
/// only errors.
fn logged() -> Targets {
    let wanted = std::env::var("NETCLIFF_LOG").unwrap_or_default();
    let errors = || Targets::new().with_default(LevelFilter::ERROR);
    if wanted.is_empty() {
        return errors();
    }
    wanted.parse().unwrap_or_else(|_| {
        output::say(format!("NETCLIFF_LOG is {wanted:?}: expected off, error, warn, info, debug or trace, or TARGET=LEVEL; only errors are logged"));
        errors()
    })
}

fn done(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Find(args) => commands::find::run(args, &cli.store),
        Command::Run(args) => commands::run::run(args, &cli.store),
        Command::Predict(args) => commands::compute::predict(args, &cli.store),
        Command::Simulate(args) => commands::simulate::simulate(args, &cli.store),
        Command::Advise(args) => commands::advise::run(args, &cli.store),
        Command::Inspect(args) => commands::inspect::run(args),
        Command::Drops(args) => commands::drops::run(args),
        Command::Watch(args) => commands::watch::run(args, &cli.store),
        Command::Headroom(args) => commands::headroom::run(args, &cli.store),
        Command::Learn(args) => commands::learn::run(args, &cli.store),
        Command::Profile(args) => commands::profile::run(args, &cli.store),
        Command::Tune(args) => commands::tune::run(args, &cli.store),
        Command::Limits(args) => commands::limits::run(args, &cli.store),
        Command::Rr(args) => commands::rr::run(args, &cli.store),
        Command::Agent(args) => commands::agent::run(args, &cli.store),
        Command::Stream(args) => commands::stream::run(args, &cli.store),
        Command::Rfc2544(args) => commands::rfc2544::run(args, &cli.store),
        Command::Compare(args) => commands::compare::run(args, &cli.store),
        Command::Results(args) => commands::results::run(args, &cli.store),
        Command::Serve(args) => commands::serve::run(args, &cli.store),
        Command::Guest => commands::guest::run(),
        Command::Completions { shell } => commands::shell::completions(*shell),
        Command::Man { dir } => commands::shell::man(dir.as_deref()),
    }
}

/// The points that a command line of `predict` or `simulate` computes, as those commands read it on a machine without a
/// store, including files that it names; none for any other command. `words` begin with the name of the program.
///
/// # Errors
/// The message that the user would get: it is no command line, or its values are invalid.
pub fn points_of<W: Into<OsString> + Clone>(words: impl IntoIterator<Item = W>) -> Result<Vec<Point>, String> {
    let mut cli = Cli::try_parse_from(words).map_err(|error| error.render().to_string())?;
    // No store can exist at this path, so that the answer depends on the words and the files that they name, but not on
    // runs stored on this machine.
    cli.store.db = Some("/dev/null/none".into());
    let (compute, engine) = match &cli.command {
        Command::Predict(args) => (&args.compute, EngineKind::Model),
        Command::Simulate(args) => (&args.compute, EngineKind::Sim),
        _ => return Ok(Vec::new()),
    };
    commands::compute::points(compute, &cli.store, engine).map_err(|error| error.to_string())
}
