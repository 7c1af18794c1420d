//! `netcliff stream`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use netcliff_core::units;
use netcliff_host::testbed::vm::Model;
use netcliff_transfer::bulk::MOST_FLOWS;
use netcliff_transfer::stream::Method;

use super::bed::Testbed;
use super::guest::GuestArgs;
use super::numbers::{self, whole};
use super::wait::WaitArgs;
use super::{FarArgs, LinkArgs, Meter, RepeatArgs};

/// `netcliff stream`.
#[derive(Debug, Args)]
#[command(
    mut_args(super::live_note),
    mut_args(super::testbed_note),
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff stream  # TCP over loopback, 1 MiB blocks, 5 repeats
  # a sweep over powers of two, ends pinned
  netcliff stream --block 1..1MiB --cpu 0,1
  netcliff stream --block 64B --nodelay --congestion cubic
  netcliff stream --method lmbench3 --block 8KiB  # as a tool of 2003 would
  netcliff stream --path write,sendfile,zerocopy --file big.bin
  netcliff stream --channel udp --block 64B --path single,batch,gso
  netcliff stream --namespaces left,right --address 10.0.0.2
  netcliff stream --channel udp --block 1KiB --rate 100Mbit/s
  netcliff stream --precision 2%  # repeats until the mean is known to 2 %
  netcliff stream --testbed netns --offloads off --mtu 1500 --congestion cubic
  netcliff stream --testbed vm:e1000e --reverse  # the guest's driver sends
  # against `netcliff agent` there; the options of iperf3 work, too
  netcliff stream --to 192.0.2.7 --key netcliff.key --bidir
  netcliff stream --ssh root@db1 --reverse  # starts the agent by ssh; it sends
  # many to one: agents send, and start together; incast
  netcliff stream --to 192.0.2.7 --to 192.0.2.8 --key netcliff.key --reverse
  netcliff stream --to a --to b --reverse --burst 64KiB --every 10ms
  # request latency before, during and after, and the queueing delay
  netcliff stream --to 192.0.2.7 --key netcliff.key --probe
  # 64 flows, two pinned threads an end
  netcliff stream --flows 64 --threads 2 --cpu 0-1,2-3

Without --to or --ssh both ends run on this host. Each flow has a thread at either end, or several share one \
(--threads); paths in which a thread waits for one flow (a pipe, zerocopy, io_uring, --method acked) cannot share. \
Repeats are \
interleaved across all block sizes and paths. Paths and settings that the kernel refuses are named and skipped. \
Methods: default \
(time-bounded, warm-up discarded), lmbench2, lmbench3, ttcp, acked; docs/how-to/transfers.md says how they differ."
)]
pub struct StreamArgs {
    /// Where the far end is.
    #[command(flatten)]
    pub far: FarArgs,
    /// What carries the bytes; -u is short for --channel udp
    #[arg(long, value_enum, default_value_t = Carrier::Tcp, help_heading = "Transfer")]
    pub channel: Carrier,
    /// UDP: --channel udp
    #[arg(long, short = 'u', conflicts_with = "channel", help_heading = "Transfer", hide_short_help = true)]
    pub udp: bool,
    /// Be the far end: `netcliff agent`, with --key for other hosts
    #[arg(long, short = 's', conflicts_with_all = ["to", "ssh"], help_heading = "Far end", hide_short_help = true)]
    pub server: bool,
    /// Address of the far end [default: 127.0.0.1; ::1 with --ipv6]
    #[arg(long, value_name = "ADDRESS", value_parser = numbers::address, conflicts_with_all = ["to", "ssh"], help_heading = "Ends", hide_short_help = true)]
    pub address: Option<IpAddr>,
    /// IPv6 over loopback, or in the testbed
    #[arg(long, conflicts_with_all = ["address", "to", "ssh"], help_heading = "Ends", hide_short_help = true)]
    pub ipv6: bool,
    /// Network namespaces of near and far end, by name (`ip netns`) or path
    #[arg(
        long,
        value_name = "NEAR,FAR",
        value_delimiter = ',',
        requires = "address",
        help_heading = "Ends",
        hide_short_help = true
    )]
    pub namespaces: Vec<String>,
    /// netns: ends in namespaces joined by veth, a CPU each; vm:DRIVER: to a guest with that NIC [default: loopback]
    ///
    /// Also loopback, and best: netns where permitted, else loopback. vm:e1000, vm:e1000e, vm:igb, vm:virtio-net and
    /// vm:vmxnet3 are the NIC of a guest of QEMU (docs/how-to/vm.md), the far end.
    #[arg(long, value_name = "TESTBED", value_parser = Testbed::parser(), hide_possible_values = true, conflicts_with_all = ["to", "ssh", "address", "namespaces"], help_heading = "Ends")]
    pub testbed: Option<Testbed>,
    /// What a guest is made of.
    #[command(flatten)]
    pub guest: GuestArgs,
    /// The link of --testbed netns, and of vm.
    #[command(flatten)]
    pub bed: LinkArgs,
    /// Who sends: the near end connects, the far end accepts
    #[arg(long, value_enum, help_heading = "Ends", hide_short_help = true)]
    pub direction: Option<Way>,
    /// The far end sends: --direction receive
    #[arg(long, conflicts_with = "direction", short = 'R', help_heading = "Ends")]
    pub reverse: bool,
    /// Both ends send at once: --direction both
    #[arg(long, conflicts_with_all = ["direction", "reverse"], help_heading = "Ends")]
    pub bidir: bool,
    /// Flows of each direction
    #[arg(long, alias = "parallel", default_value_t = 1, value_parser = whole::<1, MOST_FLOWS>, allow_negative_numbers = true, short = 'P', help_heading = "Transfer")]
    pub flows: u32,
    /// Threads of each end, which serve its flows by turns (epoll) [default: a thread for each flow]
    #[arg(long, value_name = "N", value_parser = whole::<1, { 2 * MOST_FLOWS }>, allow_negative_numbers = true, help_heading = "Transfer", hide_short_help = true)]
    pub threads: Option<u32>,
    /// CPUs of sender and receiver, such as 0,1, or any
    ///
    /// Of near and far end with --direction both. Several for the threads in turn: 0-3,4-7 or 0+2,1+3. Default: with
    /// both ends here the first and the last CPU, of several flows the first half and the last; any with an agent,
    /// --bidir and the old methods. rx+N: each thread N CPUs from the one on which the kernel handles its flow's
    /// packets (SO_INCOMING_CPU), such as 0,rx+1; -v tells which.
    #[arg(long, value_name = "SENDER,RECEIVER", value_parser = numbers::cpus_or_any, help_heading = "Transfer")]
    pub cpu: Option<(numbers::Cpus, numbers::Cpus)>,
    /// Block sizes: 64KiB, a list, or powers of two such as 1..1MiB [default: 1MiB; UDP: 1472B, IPv6 1452B; old
    /// methods: 64KiB]
    #[arg(long, alias = "length", value_parser = blocks, value_name = "SIZE|LIST|FROM..TO", short = 'l', help_heading = "Transfer")]
    pub block: Option<Blocks>,
    /// Size of one read [default: the block, at most 128KiB; 128KiB with --receive zerocopy or uring]
    #[arg(long, value_parser = bytes, value_name = "SIZE", help_heading = "Transfer", hide_short_help = true)]
    pub read: Option<u64>,
    /// SO_RCVLOWAT: a waiting receiver is woken when this many bytes have arrived, and reads up to 128KiB [default: at
    /// any byte]
    #[arg(long, value_parser = bytes, value_name = "SIZE", help_heading = "Transfer", hide_short_help = true)]
    pub low_water: Option<u64>,
    /// How the receiver takes bytes from the kernel; UDP: read (recv, recvmmsg or UDP_GRO as --path says), trunc or
    /// uring
    #[arg(long, value_enum, default_value_t = ReceiveName::Read, help_heading = "Transfer", hide_short_help = true)]
    pub receive: ReceiveName,
    /// How blocks are sent [default: write; UDP: single, one datagram a call]; gso: UDP_SEGMENT and UDP_GRO; gso-tx and
    /// gro-rx: one of the two
    #[arg(long, value_delimiter = ',', value_name = "PATH,...", help_heading = "Transfer")]
    pub path: Vec<PathName>,
    /// File or block device for --path sendfile [default: each sender makes a temporary file of --file-size; an agent
    /// opens no other]
    #[arg(long, value_name = "FILE", help_heading = "Transfer", hide_short_help = true)]
    pub file: Option<PathBuf>,
    /// Size of the temporary file [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = bytes, conflicts_with = "file", help_heading = "Transfer", hide_short_help = true)]
    pub file_size: Option<u64>,
    /// Drop the file from the page cache before each pass, and measure what its storage reads without a network
    #[arg(long, help_heading = "Transfer", hide_short_help = true)]
    pub cold: bool,
    /// Method: default; old: lmbench2, lmbench3, ttcp, acked
    #[arg(long, default_value_t = Method::Default, help_heading = "Measurement")]
    pub method: Method,
    /// Measured time of a repeat, after the warm-up (--warmup)
    #[arg(long, default_value = "1s", value_parser = numbers::seconds, allow_hyphen_values = true, short = 't', help_heading = "Measurement")]
    pub time: f64,
    /// Bytes of a repeat instead of a time [default for the old methods: 256 Ki blocks, at most 1 GiB]
    #[arg(long, value_parser = bytes, value_name = "SIZE", short = 'n', help_heading = "Measurement", hide_short_help = true)]
    pub bytes: Option<u64>,
    /// Warm-up, not measured [default: 500ms; 5s for lmbench2 and lmbench3; none for ttcp and acked]
    #[arg(long, alias = "omit", value_parser = numbers::seconds, allow_hyphen_values = true, short = 'O', help_heading = "Measurement", hide_short_help = true)]
    pub warmup: Option<f64>,
    /// How often each configuration is measured.
    #[command(flatten)]
    pub repeats: RepeatArgs,
    /// Time between progress lines, such as 1 or 500ms [default: no lines]
    ///
    /// A line has bytes and rate at each end on this host; for TCP also segments retransmitted and round-trip time, for
    /// UDP datagrams sent but not received. With --json the lines go to stderr. TCP_INFO is read at each line and every
    /// 100ms.
    #[arg(long, value_name = "TIME", value_parser = numbers::line_interval, allow_hyphen_values = true, short = 'i', help_heading = "Measurement")]
    pub interval: Option<numbers::LineInterval>,
    /// Incast: every --every, all flows send this many bytes at once; agents send (needs --reverse)
    ///
    /// A burst is a whole number of blocks [default of --block: the burst, at most 1MiB]. The result is the time from
    /// the common beginning of a burst until its last byte was read.
    #[arg(long, value_parser = bytes, value_name = "SIZE", requires_all = ["to", "every"], conflicts_with = "bytes", help_heading = "Transfer", hide_short_help = true)]
    pub burst: Option<u64>,
    /// Time from the beginning of one burst to that of the next
    #[arg(long, value_name = "TIME", value_parser = numbers::seconds, allow_hyphen_values = true, requires = "burst", help_heading = "Transfer", hide_short_help = true)]
    pub every: Option<f64>,
    /// Measure request latency before and during the transfer, and the queueing delay that the transfer causes
    ///
    /// A request of 64 bytes is sent every --probe-every on a separate flow, by udp (or tcp), before, during and after
    /// each repeat. An agent answers the requests in a separate session.
    #[arg(long, value_enum, value_name = "udp|tcp", num_args = 0..=1, require_equals = true, default_missing_value = "udp", hide_possible_values = true, help_heading = "Measurement")]
    pub probe: Option<ProbeBy>,
    /// Gap between two requests, 1ms to 1s [default: 20ms]
    #[arg(long, value_name = "TIME", value_parser = numbers::seconds, allow_hyphen_values = true, requires = "probe", help_heading = "Measurement", hide_short_help = true)]
    pub probe_every: Option<f64>,
    /// Time in which only requests are sent, before and after each repeat [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = numbers::seconds, allow_hyphen_values = true, requires = "probe", help_heading = "Measurement", hide_short_help = true)]
    pub probe_around: Option<f64>,
    /// End a transfer after this long without progress
    #[arg(long, default_value = "5s", value_parser = numbers::seconds, allow_hyphen_values = true, help_heading = "Measurement", hide_short_help = true)]
    pub stall: f64,
    /// Send small blocks at once (TCP_NODELAY)
    #[arg(long, alias = "no-delay", short = 'N', help_heading = "Socket")]
    pub nodelay: bool,
    /// Congestion control, such as cubic or bbr [default: the kernel's]
    #[arg(long, value_name = "NAME", short = 'C', help_heading = "Socket")]
    pub congestion: Option<String>,
    /// Send and receive buffer of both ends
    #[arg(long, value_parser = window, value_name = "SIZE", short = 'w', conflicts_with_all = ["send_buffer", "receive_buffer"], help_heading = "Socket", hide_short_help = true)]
    pub window: Option<u32>,
    /// Send buffer (SO_SNDBUF)
    #[arg(long, value_parser = buffer, value_name = "SIZE", help_heading = "Socket", hide_short_help = true)]
    pub send_buffer: Option<u32>,
    /// Receive buffer (SO_RCVBUF)
    #[arg(long, value_parser = buffer, value_name = "SIZE", help_heading = "Socket", hide_short_help = true)]
    pub receive_buffer: Option<u32>,
    /// Largest segment (TCP_MAXSEG), 88B to 32767B
    #[arg(long, value_parser = segment, value_name = "SIZE", short = 'M', help_heading = "Socket", hide_short_help = true)]
    pub mss: Option<u32>,
    /// Type of service or traffic class, 0 to 255
    #[arg(long, value_parser = numbers::byte, allow_negative_numbers = true, short = 'S', help_heading = "Socket", hide_short_help = true)]
    pub tos: Option<u8>,
    /// Rate of each flow, paced by the kernel for TCP, by the sender itself for UDP [default: unlimited]
    #[arg(long, aliases = ["bitrate", "bandwidth"], value_parser = rate, value_name = "1Gbit/s", allow_hyphen_values = true, short = 'b', help_heading = "Transfer")]
    pub rate: Option<Pace>,
    /// Who paces a flow over TCP or another byte stream [default: kernel]
    #[arg(long, value_enum, value_name = "WHO", requires = "rate", help_heading = "Transfer", hide_short_help = true)]
    pub paced_by: Option<PacedBy>,
    /// The link's rate, to show the share of it that is used
    #[arg(long, value_parser = link, value_name = "10Gbit/s", allow_hyphen_values = true, help_heading = "Measurement", hide_short_help = true)]
    pub link: Option<f64>,
    /// How CPU time is measured in addition to getrusage and /proc/stat
    #[arg(long, value_enum, default_value_t = Meter::Best, help_heading = "Measurement", hide_short_help = true)]
    pub cpu_meter: Meter,
    /// Print everything: also CPUs, the wire, devices and configuration
    #[arg(short, long, conflicts_with = "json", help_heading = "Output")]
    pub verbose: bool,
    /// One JSON object
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

impl StreamArgs {
    /// Pacing of each flow (bit/s). `None`: no pacing.
    pub fn pace_bps(&self) -> Option<u64> {
        self.rate.and_then(|pace| pace.0)
    }

    /// True if the far end is another host or a guest.
    pub fn between_hosts(&self) -> bool {
        self.far.is_asked() || self.model().is_some()
    }

    /// The NIC of the guest that is the far end. `None` if the far end is not a guest.
    pub fn model(&self) -> Option<Model> {
        self.testbed.and_then(Testbed::model)
    }

    /// What carries the bytes.
    pub fn carrier(&self) -> Carrier {
        if self.udp { Carrier::Udp } else { self.channel }
    }
}

/// Channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Carrier {
    /// TCP
    Tcp,
    /// Multipath TCP
    Mptcp,
    /// UDP, a datagram a block
    Udp,
    /// A pair of Unix sockets: no network
    Unix,
    /// A pipe: no network
    Pipe,
}

/// What carries the requests that are sent during a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProbeBy {
    /// Datagrams
    Udp,
    /// A connection
    Tcp,
}

/// Who paces a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PacedBy {
    /// The kernel: SO_MAX_PACING_RATE
    Kernel,
    /// The sending thread: it hands over each block when it is due, never several at once
    Sender,
}

/// Directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Near end to far end
    Send,
    /// Far end to near end
    Receive,
    /// Both at once, on flows of their own
    Both,
}

/// Send paths by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PathName {
    /// write(2)
    Write,
    /// writev(2)
    Writev,
    /// sendfile(2)
    Sendfile,
    /// vmsplice(2) and splice(2)
    Splice,
    /// TLS by the kernel at both ends (AES-128-GCM)
    Ktls,
    /// MSG_ZEROCOPY
    Zerocopy,
    /// io_uring, many blocks a call
    Uring,
    /// io_uring without a copy
    UringZc,
    /// One datagram a call
    Single,
    /// sendmmsg(2) and recvmmsg(2)
    Batch,
    /// UDP_SEGMENT and UDP_GRO
    Gso,
    /// UDP_SEGMENT; received datagram by datagram
    GsoTx,
    /// UDP_GRO; sent datagram by datagram
    GroRx,
}

/// Ways of receiving by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReceiveName {
    /// read(2)
    Read,
    /// MSG_TRUNC: no copy
    Trunc,
    /// TCP_ZEROCOPY_RECEIVE: pages mapped, where they can be
    Zerocopy,
    /// io_uring, one receive that goes on by itself
    Uring,
}

/// Block sizes (bytes).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks(pub Vec<usize>);

fn blocks(text: &str) -> Result<Blocks, String> {
    let size = |text: &str| {
        let largest = netcliff_transfer::bulk::LARGEST_BLOCK_BYTES;
        let bytes = numbers::bytes(text).map_err(|error| format!("{error}; from 1B to 16MiB"))?;
        let fits = usize::try_from(bytes).ok().filter(|bytes| (1..=largest).contains(bytes));
        fits.ok_or(format!("{text}: expected 1B to 16MiB"))
    };
    let Some((from, to)) = text.split_once("..") else {
        return text.split(',').map(size).collect::<Result<_, _>>().map(Blocks);
    };
    let (from, to) = (size(from)?, size(to)?);
    if from > to {
        return Err("expected the smaller size first, such as 1..1MiB".to_owned());
    }
    Ok(Blocks(
        std::iter::successors(Some(from), |block| block.checked_mul(2)).take_while(|block| *block <= to).collect(),
    ))
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = numbers::bytes(text)?;
    if bytes > 0 { Ok(bytes) } else { Err("expected at least 1B".into()) }
}

fn buffer(text: &str) -> Result<u32, String> {
    numbers::size(text, 1..=1 << 30, "4MiB")
}

fn window(text: &str) -> Result<u32, String> {
    numbers::size(text, 1..=1 << 30, "256K")
}

/// Parses the size of the largest segment. The range is that of the kernel: TCP_MIN_MSS to MAX_TCP_WINDOW in net/tcp.h.
fn segment(text: &str) -> Result<u32, String> {
    numbers::size(text, 88..=32_767, "1460B")
}

fn link(text: &str) -> Result<f64, String> {
    let bps = units::parse_bps(text).map_err(|error| error.to_string())?;
    if bps > 0.0 { Ok(bps) } else { Err("expected more than 0, such as 10Gbit/s".into()) }
}

/// A pace. `None` for 0, which means unpaced, as in iperf3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace(pub Option<u64>);

fn rate(text: &str) -> Result<Pace, String> {
    let bps = numbers::bit_rate_bps(text)?;
    match bps {
        0.0 => Ok(Pace(None)),
        bps if (64e3..=1e13).contains(&bps) => Ok(Pace(Some(bps as u64))),
        _ => Err("expected 64kbit/s to 10000Gbit/s, or 0 for no pace".into()),
    }
}
