//! `netcliff simulate`.

use std::path::PathBuf;

use clap::Args;
use netcliff_core::experiment::Share;
use netcliff_core::{Aims, Scheme, units};

use super::compute::{ComputeArgs, packets};

/// `netcliff simulate`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff simulate --scheme napi:weight=64,budget=300 --rate 100kpps
  netcliff simulate --set application=2us --rates 10kpps,90kpps --precision 1%
  netcliff simulate --rate 150kpps --precision 2% --for p99,loss
  netcliff simulate --scheme interrupt --rate 120kpps --distributions
  netcliff simulate --arrivals onoff --rate 60kpps --series 1ms --csv
  netcliff simulate --arrivals onoff --rate 60kpps --traffic offered
  netcliff simulate --scheme interrupt --rate 400kpps --trace livelock.json
  netcliff simulate --scheme napi --against coalesce:usecs=50us --rate 100kpps"
)]
pub struct SimulateArgs {
    /// What to compute.
    #[command(flatten)]
    pub compute: ComputeArgs,
    /// Seed of every random stream
    #[arg(long, default_value_t = 1, value_parser = super::seed, allow_negative_numbers = true, help_heading = "Simulation")]
    pub seed: u64,
    /// Packets to simulate, over all replications; up to 64 times this number if a figure needs longer replications
    #[arg(long, default_value = "1000000", conflicts_with = "precision", value_parser = packets)]
    #[arg(allow_negative_numbers = true, help_heading = "Simulation")]
    pub packets: u64,
    /// Simulate until the interval of each figure of --for has this relative half width (shares of the CPU: of one CPU)
    #[arg(long, help_heading = "Simulation")]
    pub precision: Option<Share>,
    /// Which figures: throughput, goodput, loss, latency, p50, p90, p99, p999, cpu, interrupts, or columns of --csv
    #[arg(
        long = "for",
        value_name = "FIGURE,...",
        default_value = "throughput,latency,cpu",
        help_heading = "Simulation",
        hide_short_help = true
    )]
    pub aims: Aims,
    /// Maximum number of arrivals per load with --precision
    #[arg(long, default_value = "200000000", value_parser = packets, value_name = "PACKETS")]
    #[arg(allow_negative_numbers = true, help_heading = "Simulation", hide_short_help = true)]
    pub packets_at_most: u64,
    /// Confidence of the intervals
    #[arg(long, default_value = "95%", help_heading = "Simulation")]
    pub confidence: Share,
    /// Also show distributions: of the number of packets that wait, and of the CPU's busy periods
    #[arg(long, conflicts_with_all = ["rates", "csv", "against"], help_heading = "Detail")]
    pub distributions: bool,
    /// Also show the latencies as a histogram; in JSON it is mergeable with that of other runs
    #[arg(long, conflicts_with_all = ["rates", "csv", "against"], help_heading = "Detail", hide_short_help = true)]
    pub histogram: bool,
    /// Also show the first replication in time slices of this length
    #[arg(long, value_name = "TIME", value_parser = slice, conflicts_with_all = ["rates", "against"])]
    #[arg(allow_hyphen_values = true, help_heading = "Detail")]
    pub series: Option<f64>,
    /// Write a timeline of the first packets to this file, in Chrome's trace format (opens in Perfetto)
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["rates", "against"], help_heading = "Detail")]
    pub trace: Option<PathBuf>,
    /// Packets in the trace
    #[arg(long, default_value = "2000", requires = "trace", value_parser = trace_packets, value_name = "PACKETS")]
    #[arg(allow_negative_numbers = true, help_heading = "Detail", hide_short_help = true)]
    pub trace_packets: u64,
    /// Write graphs of the offered traffic into this directory: load over time by source (load.svg, load.csv), frame
    /// sizes (sizes.svg, sizes.csv), and both with the Hurst parameter as traffic.json
    #[arg(long, value_name = "DIR", conflicts_with_all = ["rates", "against"], help_heading = "Detail", hide_short_help = true)]
    pub traffic: Option<PathBuf>,
    /// Length of a time slice of --traffic [default: a power of ten in which some tens of packets arrive]
    #[arg(long, value_name = "TIME", requires = "traffic", value_parser = slice, allow_hyphen_values = true)]
    #[arg(help_heading = "Detail", hide_short_help = true)]
    pub traffic_slice: Option<f64>,
    /// Simulate this scheme as well, on the same packets, and show the differences
    #[arg(long, value_name = "SCHEME", conflicts_with_all = ["rates", "precision", "csv", "save"], help_heading = "Detail")]
    pub against: Option<Scheme>,
}

fn slice(text: &str) -> Result<f64, String> {
    let width_s = units::parse_time_s(text).ok().filter(|width_s| *width_s > 0.0);
    width_s.ok_or_else(|| "expected a time above zero, such as 1ms".into())
}

/// Largest number of arrivals in a trace. Such a trace is about 500 MB of JSON.
const LONGEST_TRACE: u64 = 1_000_000;

fn trace_packets(text: &str) -> Result<u64, String> {
    let count = units::parse_count("packets", text).ok().filter(|count| (100..=LONGEST_TRACE).contains(count));
    count.ok_or_else(|| format!("expected a whole number from 100 to {LONGEST_TRACE}, such as 5000"))
}
