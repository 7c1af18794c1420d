//! `netcliff headroom`.

use std::time::Duration;

use super::numbers;
use clap::Args;
use netcliff_core::units;

/// `netcliff headroom`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff headroom
  netcliff headroom --if eth0 --interval 10s
  netcliff headroom --fail-above 80%  # exit code 1 above it, or with losses
  netcliff headroom --json | jq .share

The cliff is that of the newest `find` of this machine in the store. A CPU's share of it is the larger of its
packets/s over the cliff, and its time in interrupts and softirqs over that time at the cliff: packets that
cost more than the calibrated ones count by their time. `watch --metrics` answers with the same shares."
)]
pub struct HeadroomArgs {
    /// Interface whose queues are counted (repeatable) [default: hardware that is up, else every link that is up]
    #[arg(long = "if", value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// Time over which the load is counted, 500ms to 1h
    #[arg(long, default_value = "2s", value_parser = interval, value_name = "TIME", allow_hyphen_values = true)]
    pub interval: Duration,
    /// Exit with 1 where the nearest CPU is above this share of its cliff, or packets are lost
    #[arg(long, value_name = "80%", value_parser = share, allow_hyphen_values = true)]
    pub fail_above: Option<f64>,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = numbers::seconds(text)?;
    let fits = (0.5..=3600.0).contains(&seconds);
    if fits { Ok(Duration::from_secs_f64(seconds)) } else { Err("must be 500ms to 1h".into()) }
}

fn share(text: &str) -> Result<f64, String> {
    let share = units::parse_share(text).ok().filter(|share| *share > 0.0);
    share.ok_or_else(|| "expected a share above 0, such as 80%".into())
}
