//! `netcliff inspect`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use netcliff_core::inspection::Objective;
use netcliff_core::units;

use super::choice::one_of;
use super::numbers;

/// What to look at, and for what.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff inspect
  netcliff inspect --if eth0 --objective latency
  # store the values read, anonymised, to look at them elsewhere
  netcliff inspect --capture /tmp/host
  netcliff inspect --from /tmp/host --json | jq '.remarks[] | {rule, evidence}'

Needs no root; values that only root may read are left out, which the page says. docs/inspect.md lists the rules. \
Exit code 0 whatever is found."
)]
pub struct InspectArgs {
    /// Interface, as with --if
    #[arg(value_name = "NAME", conflicts_with = "interface")]
    device: Option<String>,
    /// This interface only
    #[arg(long = "if", value_name = "NAME")]
    interface: Option<String>,
    /// What the host is used for: some rules then report more, others less
    #[arg(long, value_parser = one_of::<Objective>())]
    pub objective: Option<Objective>,
    /// Round-trip time of the longest path that TCP has to fill
    #[arg(long, default_value = "1ms", value_parser = rtt, value_name = "TIME", allow_hyphen_values = true)]
    pub rtt: f64,
    /// Time between two readings of the counters, to see which ones grow; 0s reads them once
    #[arg(long, default_value = "1s", value_parser = watch, value_name = "TIME", allow_hyphen_values = true)]
    pub watch: Duration,
    /// Write the values read, anonymised, into this new directory instead of printing the page
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "json"])]
    pub capture: Option<PathBuf>,
    /// Read a capture instead of this host
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Print everything: also the host and its network stack
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

impl InspectArgs {
    /// The interface to look at, by `--if` or as an argument. `None`: all interfaces.
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref().or(self.device.as_deref())
    }
}

fn rtt(text: &str) -> Result<f64, String> {
    let seconds = units::parse_time_s(text).map_err(|error| error.to_string())?;
    if seconds > 0.0 && seconds <= 100.0 { Ok(seconds) } else { Err("must be above 0 and at most 100s".into()) }
}

fn watch(text: &str) -> Result<Duration, String> {
    let seconds = numbers::seconds(text)?;
    let fits = (0.0..=3600.0).contains(&seconds);
    if fits { Ok(Duration::from_secs_f64(seconds)) } else { Err("must be 0s to 3600s".into()) }
}
