//! What this program does as the only one of a guest: it serves the `find` that booted it, and powers off.

use std::process::ExitCode;

use clap::Parser;
use netcliff_host::testbed::vm::guest;

use super::agent;
use crate::args::{Cli, Command};
use crate::output;

/// A guest that is emulated is silent for seconds where its CPU is busy.
const AGENT: [&str; 6] = ["netcliff", "agent", "--stdio", "--silence=30s", "--longest=86400s", "--clients=1"];

/// Serves one client; does not return.
pub fn run() -> anyhow::Result<ExitCode> {
    if !guest::is_first_process() {
        return Err(output::usage(
            "guest is for the first process of a guest: `netcliff find --testbed vm:e1000e` boots one",
        ));
    }
    if let Err(error) = serve() {
        output::say(format!("netcliff: {error:#}"));
    }
    guest::power_off();
    Ok(ExitCode::FAILURE)
}

fn serve() -> anyhow::Result<()> {
    let control = guest::prepare().map_err(anyhow::Error::msg)?;
    let Command::Agent(args) = Cli::try_parse_from(AGENT)?.command else { unreachable!("it is the agent") };
    agent::serve_one(&args, &control, &control)
}
