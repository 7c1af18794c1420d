//! `netcliff rr`.

use clap::Args;
use netcliff_core::{Choice, units};
use netcliff_host::testbed::vm::Model;
use netcliff_packets::schedule::Arrivals;
use netcliff_transfer::exchange::{MOST_RATE_PER_S, Transport};
use netcliff_trial::rig::Place;

use super::bed::Testbed;
use super::choice::one_of;
use super::guest::GuestArgs;
use super::numbers::{self, cpu_lists, whole};
use super::wait::WaitArgs;
use super::{FarArgs, LinkArgs, Meter, RepeatArgs};

/// Time without a response after which a request is lost (s), and the same for a guest, whose CPU may pause for a
/// second if QEMU emulates it.
const TIMEOUT_S: f64 = 1.0;
const GUEST_TIMEOUT_S: f64 = 10.0;

/// `netcliff rr`.
#[derive(Debug, Args)]
#[command(
    mut_args(super::live_note),
    mut_args(super::testbed_note),
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff rr  # TCP on this host, one request in flight
  # without wake-ups: the difference is their cost
  netcliff rr --transport udp --busy-poll
  # every combination, repeats interleaved
  netcliff rr --flows 1,4 --depth 1,8 --save
  # open loop: latency from when a request was due
  netcliff rr --rate 20k --arrivals poisson
  # against `netcliff agent` there
  netcliff rr --to 192.0.2.7 --key netcliff.key
  netcliff rr --ssh root@db1 --crr  # starts the agent by ssh
  netcliff rr --to db1 --to db2 --key netcliff.key  # both agents start together

Without --to or --ssh both ends are on this host. With --rate a slow answer does not delay later requests, and the \
latency of each request includes its wait (no coordinated omission). Repeats of a configuration are shown together, \
with an interval from their spread. Ctrl-C keeps what was measured."
)]
pub struct RrArgs {
    /// Where the far end is.
    #[command(flatten)]
    pub far: FarArgs,
    /// What carries requests and responses
    #[arg(long, value_parser = one_of::<Transport>(), default_value = Transport::Tcp.name(), help_heading = "Transactions")]
    pub transport: Transport,
    /// UDP: --transport udp
    #[arg(long, short = 'u', conflicts_with = "transport", help_heading = "Transactions", hide_short_help = true)]
    pub udp: bool,
    /// Be the far end: `netcliff agent`, with --key for other hosts
    #[arg(long, short = 's', conflicts_with_all = ["to", "ssh"], help_heading = "Far end", hide_short_help = true)]
    pub server: bool,
    /// Connect, request, response: a new TCP connection for each
    #[arg(long, help_heading = "Transactions")]
    pub crr: bool,
    /// Size of a request: 1B to 1MiB, for UDP 8B to 65507B
    #[arg(long, default_value = "64B", value_parser = bytes, allow_hyphen_values = true, help_heading = "Transactions")]
    pub request: usize,
    /// Size of a response: 1B to 1MiB, for UDP 8B to 65507B; from 24B on it holds the times of the one-way delays
    #[arg(long, default_value = "64B", value_parser = bytes, allow_hyphen_values = true, help_heading = "Transactions")]
    pub response: usize,
    /// Flows, each with a thread at both ends; each number of a list is measured
    #[arg(long, default_value = "1", value_name = "N,...", value_delimiter = ',', value_parser = whole::<1, 256>, allow_negative_numbers = true, short = 'P', help_heading = "Transactions")]
    pub flows: Vec<u32>,
    /// Requests in flight per flow; each number of a list is combined with each number of flows
    #[arg(long, default_value = "1", value_name = "N,...", value_delimiter = ',', value_parser = whole::<1, 4096>, allow_negative_numbers = true, help_heading = "Transactions")]
    pub depth: Vec<u32>,
    /// How often each configuration is measured.
    #[command(flatten)]
    pub repeats: RepeatArgs,
    /// Open loop: requests a second over all flows
    #[arg(long, value_parser = rate, allow_hyphen_values = true, value_name = "20k", conflicts_with_all = ["depth", "crr"], help_heading = "Transactions")]
    pub rate: Option<f64>,
    /// Gaps of the open loop [default: poisson]
    #[arg(long, value_parser = one_of::<Arrivals>(), help_heading = "Transactions")]
    pub arrivals: Option<Arrivals>,
    /// Measured time of a repeat
    #[arg(long, default_value = "1s", value_parser = numbers::seconds, allow_hyphen_values = true, short = 't', help_heading = "Measurement")]
    pub time: f64,
    /// Time between progress lines, such as 1 or 500ms [default: no lines]
    ///
    /// Responses, rate, mean and longest latency, requests lost; with --json to stderr.
    #[arg(long, value_name = "TIME", value_parser = numbers::line_interval, allow_hyphen_values = true, short = 'i', help_heading = "Measurement")]
    pub interval: Option<numbers::LineInterval>,
    /// Warm-up, not measured
    #[arg(long, default_value = "500ms", value_parser = numbers::seconds, allow_hyphen_values = true, help_heading = "Measurement", hide_short_help = true)]
    pub warm_up: f64,
    /// A request without a response for this long is lost [default: 1s; 10s to a guest, which is emulated]
    #[arg(long, value_parser = numbers::seconds, allow_hyphen_values = true, help_heading = "Measurement", hide_short_help = true)]
    pub timeout: Option<f64>,
    /// Both ends poll for packets without sleeping; with a time the kernel polls the device for that long
    /// (SO_BUSY_POLL)
    #[arg(long, value_name = "50us", num_args = 0..=1, require_equals = true, default_missing_value = "spin", value_parser = busy_poll, help_heading = "Transactions")]
    pub busy_poll: Option<BusyPoll>,
    /// CPUs of client and server, such as 0,1; several for the flows in turn: 0-3,4-7 or 0+2,1+3 [default here: the
    /// first and the last; with an agent: any]
    #[arg(long, value_name = "CLIENT,SERVER", value_parser = cpu_lists, help_heading = "Ends")]
    pub cpu: Option<(Vec<usize>, Vec<usize>)>,
    /// Where the traffic goes without an agent: best, netns, loopback, or vm:DRIVER, to a guest with that NIC
    ///
    /// best is netns where permitted, else loopback. vm:e1000, vm:e1000e, vm:igb, vm:virtio-net and vm:vmxnet3 are the
    /// NIC of a guest of QEMU (docs/how-to/vm.md), in which the server is.
    #[arg(long, value_name = "TESTBED", value_parser = Testbed::parser(), hide_possible_values = true, default_value = Place::Best.name(), conflicts_with_all = ["to", "ssh"], help_heading = "Ends")]
    pub testbed: Testbed,
    /// What a guest is made of.
    #[command(flatten)]
    pub guest: GuestArgs,
    /// IPv6 instead of IPv4; against an agent its address decides
    #[arg(long, conflicts_with_all = ["to", "ssh"], help_heading = "Ends", hide_short_help = true)]
    pub ipv6: bool,
    /// The link of --testbed netns, and of vm.
    #[command(flatten)]
    pub bed: LinkArgs,
    /// How CPU time is measured: procfs costs nothing and is coarse, ebpf is exact and adds some time to each event
    #[arg(long, value_enum, default_value_t = Meter::Procfs, help_heading = "Measurement")]
    pub cpu_meter: Meter,
    /// Seed of random gaps
    #[arg(long, default_value_t = 1, value_parser = super::seed, allow_negative_numbers = true, help_heading = "Measurement", hide_short_help = true)]
    pub seed: u64,
    /// Print everything: also CPUs, the full latency distribution and notes
    #[arg(short, long, conflicts_with = "json", help_heading = "Output")]
    pub verbose: bool,
    /// One JSON object a configuration, with the histograms
    #[arg(long, short = 'J', help_heading = "Output")]
    pub json: bool,
    /// Also profile this host: CPU time of packets by stage (docs/how-to/profile.md); with --json one more line
    #[arg(long, conflicts_with = "live", help_heading = "Output", hide_short_help = true)]
    pub profile: bool,
    /// Print events as JSON lines as they happen, result last; to stderr with --json
    #[arg(long, conflicts_with = "verbose", help_heading = "Output")]
    pub live: bool,
    /// Keep the result in the record store
    #[arg(long, help_heading = "Output")]
    pub save: bool,
    /// While another run goes on.
    #[command(flatten)]
    pub wait: WaitArgs,
}

impl RrArgs {
    /// True if the server is on another host or in a guest.
    pub fn between_hosts(&self) -> bool {
        self.far.is_asked() || self.model().is_some()
    }

    /// A request without a response for this long is lost (s).
    pub fn timeout_s(&self) -> f64 {
        self.timeout.unwrap_or(if self.model().is_some() { GUEST_TIMEOUT_S } else { TIMEOUT_S })
    }

    /// The NIC of the guest in which the server runs. `None` without a guest.
    pub fn model(&self) -> Option<Model> {
        self.testbed.model()
    }

    /// What carries requests and responses.
    pub fn carrier(&self) -> Transport {
        if self.udp { Transport::Udp } else { self.transport }
    }
}

/// Forms of `--busy-poll`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusyPoll {
    /// Both ends poll their sockets without sleeping.
    Spin,
    /// The kernel polls the device for this time (SO_BUSY_POLL, us).
    Kernel(u32),
}

fn bytes(text: &str) -> Result<usize, String> {
    let bytes = numbers::bytes(text)?;
    let fits = usize::try_from(bytes).ok().filter(|bytes| (1..=1 << 20).contains(bytes));
    fits.ok_or_else(|| "expected 1B to 1MiB, such as 64 or 1400B".into())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = units::parse_pps(&format!("{text}pps")).or_else(|_| units::parse_pps(text));
    let rate = rate.ok().filter(|rate| *rate > 0.0 && *rate <= MOST_RATE_PER_S);
    rate.ok_or_else(|| "expected requests a second above 0, at most 1G, such as 500 or 20k".into())
}

fn busy_poll(text: &str) -> Result<BusyPoll, String> {
    if text == "spin" {
        return Ok(BusyPoll::Spin);
    }
    let us = units::parse_time_s(text).map_err(|error| error.to_string())? * 1e6;
    let fits = (1.0..=1e6).contains(&us).then(|| BusyPoll::Kernel(us.round() as u32));
    fits.ok_or_else(|| "expected 1us to 1s, or no value to poll from the program".into())
}
