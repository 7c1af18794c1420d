//! `netcliff rfc2544`.

use std::path::PathBuf;

use super::choice::one_of;
use super::guest::GuestArgs;
use super::numbers;
use super::wait::WaitArgs;
use clap::{Args, ValueEnum};
use netcliff_core::{Choice, units};
use netcliff_host::testbed::forward::Forwarding;
use netcliff_host::testbed::vm::Model;
use netcliff_mlrsearch::asked::Asked;
use netcliff_packets::port::{ReceiveBy, SendBy};
use netcliff_rfc2544::settings::{FrameSize, MOST_SEARCHES, SearchBy};
use netcliff_rfc2544::tester::stamps::Stamps;

/// `netcliff rfc2544`.
#[derive(Debug, Args)]
#[command(
    mut_args(super::live_note),
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff rfc2544 throughput  # this kernel as a router, MLRsearch, 60 s trials
  netcliff rfc2544 throughput --frames 64,512,1518 --trial 1s --search typical
  # NDR and PDR by one search
  netcliff rfc2544 throughput --goal loss=0 --goal loss=0.5%
  netcliff rfc2544 throughput --trial 1s --searches 5 --save --name before
  netcliff rfc2544 all --trial 1s --repeats 3 --html report.html
  netcliff rfc2544 throughput --forwarding conntrack --flows 1000
  # the times, sizes and flows of own traffic, at each load
  netcliff rfc2544 throughput --pcap own.pcapng --trial 10s
  # latency without the time that the tester takes to send, which is shown, too
  netcliff rfc2544 latency --stamps kernel
  # between two ports of this machine, through a device with this address
  netcliff rfc2544 loss --tx eth1 --rx eth2 --device-mac 02:00:00:00:00:01
  # a router that a real driver serves, in a guest
  netcliff rfc2544 throughput --testbed vm:e1000e --frames 64 --trial 1s
  # to the letter: bisection, trials of 60 s, 2 s to settle, 5 s between them
  netcliff rfc2544 throughput --search binary --rest 5s

Without --tx and --rx the device is a router in a network namespace of this machine, between two sides of a tester. \
Loads are frames a second in each direction. A trial in which the sender does not reach the load, or the sink cannot \
receive all frames that arrive, is void: it is repeated, and its loss does not count. Ctrl-C keeps what was measured.

With the defaults (seven frame sizes, trials of 60 s) throughput takes about an hour, and all several hours; \
throughput with --frames 64 --trial 1s takes about a minute."
)]
pub struct Rfc2544Args {
    /// The test to run
    #[arg(value_enum)]
    pub test: Test,
    /// Frame sizes with FCS: bytes, jumbo (9018), imix or standard (the seven of RFC 2544); in these two the smallest
    /// size is 64 bytes, with --vlan 68, with --ipv6 84, with both 88 [default: standard]
    #[arg(long, value_name = "64,512,imix", value_delimiter = ',', value_parser = frames, allow_hyphen_values = true, help_heading = "Traffic")]
    pub frames: Vec<Frames>,
    /// Traffic of your own: times, sizes and flows of a capture (pcap, pcapng), repeated, with its gaps scaled to each
    /// load
    ///
    /// Frames have the test's headers; flows differ in their source ports; frames above 1518 bytes are cut to 1518.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["frames", "flows", "destinations", "destination_ports"], help_heading = "Traffic")]
    pub pcap: Option<PathBuf>,
    /// How the device forwards
    #[arg(long, value_parser = one_of::<Forwarding>(), default_value = Forwarding::Route.name(), conflicts_with_all = ["tx", "rx"], help_heading = "Device")]
    pub forwarding: Forwarding,
    /// Rules that --forwarding netfilter compares each frame with, 1 to 500 [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=500), allow_negative_numbers = true, help_heading = "Device", hide_short_help = true)]
    pub rules: Option<u16>,
    /// IPv6 instead of IPv4
    #[arg(long, help_heading = "Traffic", hide_short_help = true)]
    pub ipv6: bool,
    /// Both directions at once
    #[arg(long, help_heading = "Traffic")]
    pub both_ways: bool,
    /// Flows in each direction, over source ports and addresses [default: one to each of --destinations and
    /// --destination-ports]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536), allow_negative_numbers = true, help_heading = "Traffic")]
    pub flows: Option<u32>,
    /// Number of destination addresses of the flows, from 198.19.0.2 (2001:2:0:1::2) upwards, in the other direction
    /// from 198.18.0.2 (2001:2::2); a router at --tx and --rx needs routes for them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32_000), allow_negative_numbers = true, help_heading = "Traffic", hide_short_help = true)]
    pub destinations: u32,
    /// Number of destination UDP ports of the flows at each address
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true, help_heading = "Traffic", hide_short_help = true)]
    pub destination_ports: u32,
    /// 802.1Q tag of the frames sent; the router in a namespace gets interfaces of that VLAN, which the kernel must
    /// support
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094), allow_negative_numbers = true, help_heading = "Traffic", hide_short_help = true)]
    pub vlan: Option<u16>,
    /// How frames are sent
    #[arg(long, value_parser = one_of::<SendBy>(), default_value = SendBy::Auto.name(), help_heading = "Traffic", hide_short_help = true)]
    pub send_by: SendBy,
    /// How frames are received
    #[arg(long, value_parser = one_of::<ReceiveBy>(), default_value = ReceiveBy::Auto.name(), help_heading = "Traffic", hide_short_help = true)]
    pub receive_by: ReceiveBy,
    /// Clock that stamps the tagged frames, for the tests latency and all
    #[arg(long, value_parser = one_of::<Stamps>(), default_value = Stamps::Application.name(), help_heading = "Traffic", hide_short_help = true)]
    pub stamps: Stamps,
    /// How throughput is searched
    #[arg(long, value_parser = one_of::<SearchBy>(), default_value = SearchBy::Mlr.name(), help_heading = "Search")]
    pub search: SearchBy,
    /// Goal of MLRsearch (RFC 9971); repeatable: one search serves all goals, and the other tests use the first one.
    /// Keys: trial (final trial duration) [default: --trial], sum (duration sum of the trials that judge a load)
    /// [trial], initial (initial trial duration) [1s, or trial], loss (ratio that a trial may have) [--loss], exceed
    /// (ratio of the sum that may lose more) [0], width [--width]
    #[arg(long, value_name = "trial=60s,sum=60s,loss=0,exceed=0,width=0.5%", value_parser = goal, conflicts_with = "search", help_heading = "Search", hide_short_help = true)]
    pub goal: Vec<Asked>,
    /// Searches of each frame size, in rounds over all sizes, so that drift affects all sizes equally; throughput is
    /// then their mean, and `compare` can test differences
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SEARCHES)), allow_negative_numbers = true, help_heading = "Search")]
    pub searches: u32,
    /// Trial duration [default: 60s, as RFC 2544, section 24, requires; 1s in searches of --search typical]
    #[arg(long, value_parser = numbers::seconds, allow_hyphen_values = true, help_heading = "Search")]
    pub trial: Option<f64>,
    /// Frame loss ratio that a trial may have; RFC 2544: 0
    #[arg(long, default_value = "0", value_parser = units::parse_share, allow_hyphen_values = true, help_heading = "Search")]
    pub loss: f64,
    /// Relative distance between the bounds of the throughput at which a search ends
    #[arg(long, default_value = "0.5%", value_parser = units::parse_share, allow_hyphen_values = true, help_heading = "Search", hide_short_help = true)]
    pub width: f64,
    /// Settling time: the longest wait for residual frames after a trial [default: 2s, as RFC 2544, section 23,
    /// requires; 200ms with trial durations below 1s]
    #[arg(long, value_parser = numbers::seconds, allow_hyphen_values = true, help_heading = "Search", hide_short_help = true)]
    pub settle: Option<f64>,
    /// Time for the device to restabilize before the next trial; RFC 2544, section 23, requires 5s
    #[arg(long, default_value = "500ms", value_parser = numbers::seconds, allow_hyphen_values = true, help_heading = "Search", hide_short_help = true)]
    pub rest: f64,
    /// Highest load in each direction, except of back-to-back, whose bursts leave as fast as they can [default: what
    /// the sender reaches]
    #[arg(long, value_name = "100kpps", value_parser = units::parse_pps, allow_hyphen_values = true, help_heading = "Search")]
    pub max: Option<f64>,
    /// Step of the loss test over its highest load, at most 10%; below the lowest step loads are halved
    #[arg(long, default_value = "10%", value_parser = units::parse_share, allow_hyphen_values = true, help_heading = "Search", hide_short_help = true)]
    pub step: f64,
    /// Repeats of latency and back-to-back [default: 20 and 50]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true, help_heading = "Search")]
    pub repeats: Option<u32>,
    /// The device under test is a guest of QEMU that forwards between two of these NICs: vm:e1000, vm:e1000e, vm:igb,
    /// vm:virtio-net or vm:vmxnet3
    #[arg(long, value_name = "vm:DRIVER", value_parser = super::advise::guest, conflicts_with_all = ["tx", "rx", "forwarding", "rules", "ipv6", "vlan"], help_heading = "Device")]
    pub testbed: Option<Model>,
    /// What a guest is made of.
    #[command(flatten)]
    pub guest: GuestArgs,
    /// CPUs of tester and router [default: the first and the last]
    #[arg(long, value_name = "TESTER,ROUTER", value_parser = cpus, help_heading = "Device")]
    pub cpu: Option<(u32, u32)>,
    /// Send from this port of this machine
    #[arg(long, value_name = "IF", requires = "rx", help_heading = "Device")]
    pub tx: Option<String>,
    /// Receive on this port of this machine
    #[arg(long, value_name = "IF", requires = "tx", help_heading = "Device")]
    pub rx: Option<String>,
    /// Hardware address of the device's port that is connected to --tx [default: the address of --rx, as for a bridge
    /// or a cable]. The tester answers ARP for 198.18.0.2 at --tx and 198.19.0.2 at --rx
    #[arg(long, value_name = "MAC", value_parser = mac, requires = "tx", help_heading = "Device", hide_short_help = true)]
    pub device_mac: Option<[u8; 6]>,
    /// Use a port although it carries the default route or another tool's XDP program
    #[arg(long, requires = "tx", help_heading = "Device", hide_short_help = true)]
    pub i_know: bool,
    /// Print everything: also the tester, predictions, the loss at every load, and notes
    #[arg(short, long, conflicts_with_all = ["json", "csv"], help_heading = "Output")]
    pub verbose: bool,
    /// Keep the result in the record store
    #[arg(long, help_heading = "Output")]
    pub save: bool,
    /// Write the report with tables and graphs to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// One JSON object
    #[arg(long, conflicts_with = "csv", help_heading = "Output")]
    pub json: bool,
    /// Also profile a trial just below the throughput of each size: CPU time of packets by stage
    /// (docs/how-to/profile.md); with --json one more line a size
    #[arg(long, conflicts_with_all = ["live", "csv", "tx"], help_heading = "Output", hide_short_help = true)]
    pub profile: bool,
    /// Print events as JSON lines as they happen, result last; to stderr with --json
    #[arg(long, conflicts_with_all = ["verbose", "csv"], help_heading = "Output")]
    pub live: bool,
    /// The tables as CSV, a row a frame size and figure: to stdout, or to a file by --csv=FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, help_heading = "Output")]
    pub csv: Option<Option<PathBuf>>,
    /// While another run goes on.
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// Tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// The highest load that is forwarded without loss (26.1)
    Throughput,
    /// Latency at the throughput (26.2), with its distribution
    Latency,
    /// Frame loss at falling loads, down to two clean trials in a row or a thousandth of the highest load (26.3)
    Loss,
    /// The longest burst that is forwarded without loss (RFC 9004), and the buffer it implies
    BackToBack,
    /// All four
    All,
}

/// An entry of `--frames`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frames {
    /// The sizes of RFC 2544.
    Standard,
    /// One size.
    One(FrameSize),
}

fn frames(text: &str) -> Result<Frames, String> {
    match text.trim() {
        "standard" => Ok(Frames::Standard),
        capture if capture.starts_with("pcap") => Err("a capture is given by --pcap FILE".to_owned()),
        other => other.parse().map(Frames::One).map_err(|_: netcliff_core::ParseError| {
            "expected standard, imix, jumbo (9018) or bytes with FCS, 64 to 9018, such as 512".to_owned()
        }),
    }
}

fn goal(text: &str) -> Result<Asked, String> {
    text.parse().map_err(|error: netcliff_core::ParseError| error.to_string())
}

fn cpus(text: &str) -> Result<(u32, u32), String> {
    let pair = text.split_once(',').and_then(|(tester, router)| Some((tester.parse().ok()?, router.parse().ok()?)));
    pair.ok_or_else(|| "expected the numbers of two CPUs, tester and router, such as 0,1".into())
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let parts: Vec<Option<u8>> = text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    let address: Option<Vec<u8>> = parts.into_iter().collect();
    let address = address.and_then(|address| <[u8; 6]>::try_from(address).ok());
    address.ok_or_else(|| "expected a hardware address such as 02:00:00:00:00:01".into())
}
