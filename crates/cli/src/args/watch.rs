//! `netcliff watch`.

use std::path::PathBuf;
use std::time::Duration;

use super::numbers;
use clap::Args;

/// What to watch, and how often.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff watch
  netcliff watch --all  # containers' and netcliff's namespaces, too
  netcliff watch --if eth0 --interval 500ms --record load.jsonl
  netcliff watch --once --json | jq -r .bottleneck

Keys: ? explains keys and columns, q quit, p pause, s sort by load or number, r start and stop recording
(with --record), arrows, PgUp, PgDn and Home move the rows of tables that do not fit.
Packets a softirq are counted by the kernel's tables: several polls may share one."
)]
pub struct WatchArgs {
    /// Interface (repeatable) [default: hardware that is up, else every link that is up]
    #[arg(long = "if", value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// Also the devices of all other network namespaces: the named ones, and those of running netcliffs; others' need root
    #[arg(long)]
    pub all: bool,
    /// Time between readings, 100ms to 60s
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "TIME", allow_hyphen_values = true)]
    pub interval: Duration,
    /// One moment, then end
    #[arg(long)]
    pub once: bool,
    /// One JSON object a moment instead of the screen
    #[arg(long)]
    pub json: bool,
    /// The same as events of --live, which a reader that is slow or gone does not hold up (docs/json.md)
    #[arg(long, conflicts_with = "json")]
    pub live: bool,
    /// Append each moment as a line of JSON to this file; on the screen `r` starts and stops it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = numbers::seconds(text)?;
    let fits = (0.1..=60.0).contains(&seconds);
    if fits { Ok(Duration::from_secs_f64(seconds)) } else { Err("must be 100ms to 60s".into()) }
}
