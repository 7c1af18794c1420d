//! `netcliff drops`.

use std::time::Duration;

use super::numbers;
use clap::{Args, ValueEnum};
use netcliff_core::filter::Filter;

/// Which drops, and how they are shown.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff drops
  netcliff drops --filter 'udp port 53' --by flow
  netcliff drops --once --json --interval 10s | jq '.rows[0]'
  netcliff drops --netns blue --if eth0
  netcliff drops --by stack --filter 'tcp and net 10.0.0.0/8' --time 60s
  netcliff drops --trace 5 --filter 'udp dst port 5201'  # paths of five packets

A filter is written as for tcpdump: host, net, port, portrange, proto, less, greater and names of protocols, with \
src and dst, joined by and, or, not and brackets. It is applied in the kernel. Drops are counted at the kernel's \
tracepoint skb:kfree_skb by eBPF, which needs root (or CAP_BPF and CAP_PERFMON), and what that does not see (full \
accept queues, rings, XDP, answers without a route) by the kernel's counters; without eBPF by counters alone; the \
output then says what these cannot show. Run in the host's network namespace, the command shows drops of all \
namespaces; run in another one, only of that one."
)]
pub struct DropsArgs {
    /// Only packets that match this filter, in tcpdump's syntax
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub filter: Option<Filter>,
    /// Time between tables, 100ms to 60s
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "TIME", allow_hyphen_values = true)]
    pub interval: Duration,
    /// End after this time [default: at Ctrl-C; with --trace 10s]
    #[arg(long, value_parser = time, value_name = "TIME", allow_hyphen_values = true)]
    pub time: Option<Duration>,
    /// Print one interval and exit
    #[arg(long, conflicts_with = "time")]
    pub once: bool,
    /// One JSON object per interval (with --trace per packet) instead of tables
    #[arg(long)]
    pub json: bool,
    /// JSON events, one per line (docs/json.md); a slow reader does not delay the measurement
    #[arg(long, conflicts_with = "json")]
    pub live: bool,
    /// Also group drops by this (repeatable); by netns, device, socket and container unless one of these four is named
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub by: Vec<DropsBy>,
    /// Only drops in this network namespace: a name of `ip netns`, a process, or a path [default: on the host all, else
    /// the current one]
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub netns: Option<String>,
    /// Drops in all network namespaces, also if run inside one
    #[arg(long)]
    pub all: bool,
    /// Only drops at this interface
    #[arg(long = "if", value_name = "DEVICE")]
    pub device: Option<String>,
    /// Only drops at sockets of this process
    #[arg(long, value_name = "PID", value_parser = numbers::whole::<1, 4_194_304>, allow_negative_numbers = true)]
    pub pid: Option<u32>,
    /// Maximum number of rows of a table
    #[arg(long, default_value_t = 20, value_parser = numbers::whole::<1, 10_000>, value_name = "N", allow_negative_numbers = true)]
    pub rows: u32,
    /// How drops are counted
    #[arg(long, value_enum, default_value_t = DropsMethod::Auto, value_name = "METHOD", hide_short_help = true)]
    pub method: DropsMethod,
    /// Show the paths of N packets through the kernel instead, at most 100 new ones a second
    #[arg(long, value_parser = numbers::whole::<1, 1000>, value_name = "N", conflicts_with_all = ["once", "by", "method", "netns", "all", "device", "pid"], allow_negative_numbers = true)]
    pub trace: Option<u32>,
}

/// What drops are grouped by besides reason and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DropsBy {
    /// Addresses, ports and protocol
    Flow,
    /// The task on the CPU; in a softirq, the task that it interrupted
    Process,
    /// The kernel's stack
    Stack,
    /// Network namespace
    Netns,
    /// Interface
    Device,
    /// Socket with its process: the receiving one, else the sending one
    Socket,
    /// Control group
    Container,
}

/// How drops are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DropsMethod {
    /// eBPF if it works here, else counters
    Auto,
    /// eBPF at the tracepoint skb:kfree_skb
    Ebpf,
    /// The kernel's counters
    Counters,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = numbers::seconds(text)?;
    let fits = (0.1..=60.0).contains(&seconds);
    if fits { Ok(Duration::from_secs_f64(seconds)) } else { Err("must be 100ms to 60s".into()) }
}

fn time(text: &str) -> Result<Duration, String> {
    let seconds = numbers::seconds(text)?;
    let fits = (0.1..=86_400.0).contains(&seconds);
    if fits { Ok(Duration::from_secs_f64(seconds)) } else { Err("must be 100ms to 86400s".into()) }
}
