//! `netcliff agent`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, builder::ArgPredicate};
use netcliff_core::units;

use super::MetricsArgs;
use super::numbers::{self, whole};

/// `netcliff agent`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff agent  # clients of this user on this host
  netcliff agent --make-key netcliff.key  # once; copy it to the other host
  # clients of other hosts, with the key
  netcliff agent --listen 0.0.0.0:9940 --key netcliff.key
  # the same; clients may change settings of eth0
  netcliff agent --listen 0.0.0.0:9940 --key netcliff.key --allow-settings eth0
  # clients may send by eth1, at most 200 kpps
  netcliff agent --key netcliff.key --allow-find eth1 --max-rate 200kpps
  ssh HOST netcliff agent --stdio  # what `netcliff rr --ssh HOST` runs

The control channel is encrypted with the key (Noise NNpsk0); test data is not. Data connections must prove a random \
token that only the test's own client gets. Without a key the agent serves its own user and root only. Ctrl-C ends \
all tests; clients keep the results so far."
)]
pub struct AgentArgs {
    /// Where to listen (repeatable); addresses that other hosts reach need --key [default: 127.0.0.1:9940 and
    /// [::1]:9940]
    #[arg(long, value_name = "ADDR:PORT", value_parser = numbers::listening, conflicts_with = "stdio")]
    pub listen: Vec<SocketAddr>,
    /// File with the key that clients must have too; only its owner may be able to read it
    #[arg(long, value_name = "FILE", conflicts_with = "stdio")]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Write a new key to this file and end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "stdio"])]
    pub make_key: Option<PathBuf>,
    /// Serve one client over stdin and stdout
    #[arg(long)]
    pub stdio: bool,
    /// Receive test data only at this address of this host [default with --stdio: at all addresses]
    #[arg(long, value_name = "ADDRESS", value_parser = numbers::address, requires = "stdio")]
    pub data_at: Option<IpAddr>,
    /// Let clients change offloads, coalescing, MTU, speed and duplex of this device, one client at a time, and with
    /// --allow-find the settings that `find --check` names; all are set back when the client disconnects. Needs root,
    /// and --key or --stdio
    #[arg(long, value_name = "IF", value_parser = numbers::device)]
    pub allow_settings: Option<String>,
    /// Let `netcliff find` of clients load this interface: send by it (--from), or measure this host's cliff at it
    /// (--of) (repeatable). Needs root and --key; with --stdio all interfaces may be used
    #[arg(long, value_name = "IF", value_parser = numbers::device, conflicts_with = "stdio")]
    pub allow_find: Vec<String>,
    /// Highest rate of packets that `netcliff find` of all clients together may send by an interface from here, or that
    /// a client may send to this host; a client's own --max-rate may be lower
    #[arg(long, value_name = "200kpps", value_parser = units::parse_pps, allow_hyphen_values = true)]
    pub max_rate: Option<f64>,
    /// Let clients use this congestion control of TCP in addition to those of the sysctl
    /// net.ipv4.tcp_allowed_congestion_control (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with = "stdio")]
    pub allow_congestion: Vec<String>,
    /// Maximum number of clients at the same time
    #[arg(long, default_value_t = 64, value_parser = whole::<1, 4096>, allow_negative_numbers = true)]
    pub clients: u32,
    /// Memory that all tests together may use: buffers, files that they send, threads, reports; a test has at most 1GiB
    /// of buffers and of files [default: half of this host's memory]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<u64>,
    /// Maximum duration of a test
    #[arg(long, default_value = "1h", value_parser = longest, allow_hyphen_values = true)]
    pub longest: f64,
    /// Disconnect a client that is silent for this long; 20s with --allow-settings, since a link that changes is down
    /// for seconds
    #[arg(long, default_value = "5s", default_value_if("allow_settings", ArgPredicate::IsPresent, "20s"))]
    #[arg(value_parser = silence, allow_hyphen_values = true)]
    pub silence: f64,
}

fn memory(text: &str) -> Result<u64, String> {
    let bytes = numbers::bytes(text)?;
    if bytes >= 1 << 20 { Ok(bytes) } else { Err("expected at least 1MiB".into()) }
}

fn longest(text: &str) -> Result<f64, String> {
    let seconds = numbers::seconds(text)?;
    if (1.0..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("expected 1s to 24h".into()) }
}

fn silence(text: &str) -> Result<f64, String> {
    let seconds = numbers::seconds(text)?;
    if (1.0..=300.0).contains(&seconds) { Ok(seconds) } else { Err("expected 1s to 300s".into()) }
}
