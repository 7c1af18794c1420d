//! `netcliff profile`.

use std::path::PathBuf;
use std::time::Duration;

use super::{Meter, numbers};
use clap::Args;

/// `netcliff profile`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff profile                     # ten seconds of the traffic that runs
  netcliff profile --if eth0 --cpu 2,3 --for 1m
  netcliff profile --pid 4711 --locks  # of one program; who waits for locks
  netcliff profile --svg flame.svg --folded stacks.txt
  netcliff profile --name before; sysctl -w ...; netcliff profile --name after
  netcliff compare before after        # by stage, with significance

It sends nothing. The kernel's stack is sampled on each CPU, a table of kernel functions gives each sample its \
stage, and the stage's time is divided by the packets that the interface counted. --if says whose packets are \
counted, --cpu which CPUs are sampled, --pid which process is the application: without it, every program that spends \
1 % of its time in the network. Interrupts and softirqs are counted whatever program they interrupt. It needs root, or \
CAP_PERFMON and CAP_SYSLOG. docs/how-to/profile.md explains the page."
)]
pub struct ProfileArgs {
    /// Interface whose packets are counted (repeatable) [default: hardware that is up, else all packets that enter the
    /// network stack]
    #[arg(long = "if", value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// CPUs that are sampled, such as 2 or 0,4-7 [default: all]
    #[arg(long, value_name = "CPUS", value_parser = numbers::cpu_set, allow_negative_numbers = true)]
    pub cpu: Option<numbers::CpuSet>,
    /// The process that is the application [default: programs that work for the network]
    #[arg(long, value_name = "P", value_parser = numbers::whole::<1, 4_194_304>, allow_negative_numbers = true)]
    pub pid: Option<u32>,
    /// How long to sample, 1s to 1h
    #[arg(long = "for", default_value = "10s", value_parser = length, value_name = "TIME", allow_hyphen_values = true)]
    pub length: Duration,
    /// Samples a second on each CPU [default: 999, or fewer if these would take more than 0.45 % of it]
    #[arg(long, value_parser = numbers::whole::<10, 20_000>, value_name = "N", allow_negative_numbers = true, hide_short_help = true)]
    pub rate: Option<u32>,
    /// Also show which programs wait for which locks, by the tracepoints of lock contention
    #[arg(long)]
    pub locks: bool,
    /// Compare the samples with this meter of CPU time: best, ebpf or procfs [default: no comparison]
    #[arg(long, value_name = "METHOD", value_parser = super::find::host_meter, hide_short_help = true)]
    pub meter: Option<Meter>,
    /// One JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// The stages as CSV: to stdout, or to a file by --csv=FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub csv: Option<Option<PathBuf>>,
    /// Write a flame graph, coloured by stage, to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write folded stacks for other tools to this file: a stack and its samples a line
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Store nothing
    #[arg(long)]
    pub no_save: bool,
}

fn length(text: &str) -> Result<Duration, String> {
    let minutes = text.trim().strip_suffix('m').and_then(|number| number.trim().parse::<f64>().ok());
    let seconds = minutes.map_or_else(|| numbers::seconds(text), |minutes| Ok(60.0 * minutes))?;
    let fits = (1.0..=3600.0).contains(&seconds);
    let refused = || "must be 1s to 1h, such as 10s: a shorter profile has too few samples".to_owned();
    if fits { Ok(Duration::from_secs_f64(seconds)) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_lasts_a_second_to_an_hour() {
        for (text, seconds) in [("10s", 10.0), ("1m", 60.0), ("1h", 3600.0), ("1500ms", 1.5)] {
            assert_eq!(length(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["0", "900ms", "2h", "-5s", "NaNm", "m"] {
            assert!(length(text).is_err(), "{text}");
        }
    }
}
