//! `netcliff watch`.

use std::path::PathBuf;
use std::time::Duration;

use super::{MetricsArgs, numbers};
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
  netcliff watch --metrics 9942  # http://127.0.0.1:9942/metrics, no screen

Keys: ? explains keys and columns, q quit, p pause, s sort by load or number, r start and stop recording (with \
--record), arrows, PgUp, PgDn and Home move the rows of tables that do not fit. Packets a softirq are a mean over \
receive softirqs; one softirq may run several polls."
)]
pub struct WatchArgs {
    /// Interface (repeatable) [default: hardware that is up, else every link that is up]
    #[arg(long = "if", value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// Also show devices of all other network namespaces: named ones and those of running netcliff processes; those of
    /// other users need root
    #[arg(long, conflicts_with_all = ["metrics", "metrics_file"])]
    pub all: bool,
    /// With --metrics or --metrics-file, the cliff: a run of the store, last-find, last-learn, what `find --json`
    /// wrote, or a preset or TOML file of costs [default: this host's calibration, see `netcliff results calibrate`]
    #[arg(long, value_name = "find:N|learn:N|FILE|PRESET")]
    pub host: Option<String>,
    /// Time between readings, 100ms to 60s
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "TIME", allow_hyphen_values = true)]
    pub interval: Duration,
    /// Print one interval and exit
    #[arg(long, conflicts_with = "metrics")]
    pub once: bool,
    /// One JSON object per interval instead of the screen
    #[arg(long, conflicts_with = "metrics")]
    pub json: bool,
    /// JSON events, one per line (docs/json.md); a slow reader does not delay the measurement
    #[arg(long, conflicts_with = "json")]
    pub live: bool,
    /// Append each interval as a line of JSON to this file; on the screen the key r starts and stops this
    #[arg(long, value_name = "FILE", conflicts_with = "metrics")]
    pub record: Option<PathBuf>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Write the metrics to this file at each interval, for a textfile collector (NAME.prom), instead of the screen;
    /// with --once only once
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "record", "metrics"])]
    pub metrics_file: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = numbers::seconds(text)?;
    let fits = (0.1..=60.0).contains(&seconds);
    if fits { Ok(Duration::from_secs_f64(seconds)) } else { Err("must be 100ms to 60s".into()) }
}
