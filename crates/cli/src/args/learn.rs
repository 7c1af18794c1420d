//! `netcliff learn`.

use std::time::Duration;

use super::{Meter, numbers};
use clap::Args;

/// `netcliff learn`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff learn --port 53           # the cliff of the program with port 53
  netcliff learn --if eth0 --for 1h  # quiet and busy times: a narrower interval
  netcliff learn --pid 4711 --json | jq '.parts[0].share'
  netcliff headroom --host last-learn  # the load now against the learnt cliff
  netcliff predict --host last-learn --set application=2us --cliff
  netcliff learn --port 53 --repeat --name resolver  # from now on

It sends nothing. Time is cut into slices; what a packet costs in softirqs and in the program follows from slices \
whose load differs; the model says at which load each receive CPU, and each thread of the program, reaches its limit \
if the same mix of packets arrives faster. The interval is wider the further this is from the loads seen: watch at a \
higher load, or longer, to narrow it. Costs that the traffic cannot separate are named. docs/how-to/learn.md explains \
the \
page."
)]
pub struct LearnArgs {
    /// Interface (repeatable) [default: hardware that is up, else every link that is up]
    #[arg(long = "if", value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// The program, by a port that it has open in this network namespace (UDP, or TCP that listens)
    #[arg(long, value_name = "N", value_parser = port, allow_hyphen_values = true)]
    pub port: Option<u16>,
    /// The program, by process number [default: that of --port, else the programs with sockets that use most CPU time]
    #[arg(long, value_name = "P", value_parser = pid, allow_hyphen_values = true)]
    pub pid: Option<u32>,
    /// How long to watch, 3s to 7d
    #[arg(long = "for", default_value = "5m", value_parser = length, value_name = "TIME", allow_hyphen_values = true)]
    pub length: Duration,
    /// How CPU time is measured: best, ebpf or procfs
    #[arg(long, default_value = "best", value_name = "METHOD", value_parser = super::find::host_meter)]
    pub meter: Meter,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Store nothing
    #[arg(long)]
    pub no_save: bool,
    /// Watch repeatedly until Ctrl-C: print a line for each watch, and one when the cliff (the load past which packets
    /// are lost) has changed by more than chance explains
    ///
    /// Each watch is stored under --name [default: learn], so that `watch --metrics 9942 --host last-learn` exports the
    /// current cliff, and `results trend NAME` shows its levels over time and how a change is tested. Fewer than 8
    /// watches cannot show a change. With --port a program that is restarted is recognised.
    #[arg(long, conflicts_with = "no_save")]
    pub repeat: bool,
    /// With --repeat: maximum number of stored watches with this --name; the oldest are removed
    #[arg(long, value_name = "N", default_value_t = 2016, value_parser = clap::value_parser!(u32).range(8..=1_000_000), requires = "repeat", allow_negative_numbers = true)]
    pub keep: u32,
}

/// A time; in addition to the units of all times, `m` is a minute and `d` a day.
fn length(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let of = |number: &str, unit_s: f64| number.trim().parse::<f64>().ok().map(|number| number * unit_s);
    let (minutes, days) = (text.strip_suffix('m'), text.strip_suffix('d'));
    let own = minutes.and_then(|text| of(text, 60.0)).or_else(|| days.and_then(|text| of(text, 86_400.0)));
    let seconds = own.map_or_else(|| numbers::seconds(text), Ok)?;
    let fits = (3.0..=7.0 * 86_400.0).contains(&seconds);
    let refused = || "must be 3s to 7d, such as 5m: a shorter watch has too few slices".to_owned();
    if fits { Ok(Duration::from_secs_f64(seconds)) } else { Err(refused()) }
}

fn port(text: &str) -> Result<u16, String> {
    let port = text.trim().parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| "expected a port from 1 to 65535, such as 53".into())
}

fn pid(text: &str) -> Result<u32, String> {
    let pid = text.trim().parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "expected the number of a process, such as 4711; `pgrep NAME` finds one".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_and_days_are_lengths_of_a_watch() {
        for (text, seconds) in
            [("5m", 300.0), ("3s", 3.0), ("1h", 3600.0), ("2min", 120.0), ("7d", 604_800.0), ("5000ms", 5.0)]
        {
            assert_eq!(length(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["0", "2s", "8d", "-5m", "NaNm", "m", "inf d"] {
            assert!(length(text).is_err(), "{text}");
        }
    }
}
