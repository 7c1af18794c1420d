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
  netcliff headroom --host find:3  # against the cliff of that run
  netcliff headroom --json | jq .share

The cliff is that of the newest `find` of this machine in the store that measured one with standard settings, or
of the run that `netcliff results calibrate` names; without any it learns from this host's traffic for 15 s and says so. A CPU's share is the largest of three: its packets/s over the
cliff; its time in interrupts and softirqs over that time at the cliff (packets that cost more than the calibrated
ones count by their time); and its time that is not idle, which programs use, too. A thread cannot have more than
one CPU: one of a program with sockets that has all of it is at 100 %. The programs with most CPU time are named with
their sockets. The host's share is the largest of these, of its links (what they carry over their speed, or over the
rate that a token bucket of tc leaves them), of the CPU quotas (cpu.max) of cgroups whose programs run and of
connection tracking. Losses are those of sockets, protocols, connection tracking, queueing disciplines, backlogs,
devices and rings of this network namespace.
`watch --metrics` answers with the same shares."
)]
pub struct HeadroomArgs {
    /// Interface whose queues are counted (repeatable) [default: hardware that is up, else every link that is up]
    #[arg(long = "if", value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// Time over which the load is counted, 500ms to 1h
    #[arg(long, default_value = "2s", value_parser = interval, value_name = "TIME", allow_hyphen_values = true)]
    pub interval: Duration,
    /// The cliff: a run of the store, last-find, last-learn, what `find --json` wrote, or a preset or TOML file of costs (the model's
    /// cliff) [default: this host's calibration, see `netcliff results calibrate`]
    #[arg(long, value_name = "find:N|learn:N|FILE|PRESET")]
    pub host: Option<String>,
    /// Exit with 1 where the nearest CPU, link or CPU quota is above this share of its cliff or limit, or packets are lost
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
