//! `netcliff find`.

use std::path::PathBuf;

use super::bed::Testbed;
use super::choice::one_of;
use super::guest::GuestArgs;
use super::numbers;
use super::wait::WaitArgs;
use crate::output;
use clap::builder::ArgPredicate;
use clap::{ArgGroup, Args, ValueEnum};
use netcliff_core::units;
use netcliff_find::{FindOptions, Idle, Settings};
use netcliff_packets::schedule::Arrivals;
use netcliff_packets::transmit::Method;
use netcliff_trial::rig::{LinkOptions, MOST_QUEUES, Place, RigOptions, Sending};

/// `netcliff find`.
#[derive(Debug, Args)]
#[command(
    mut_args(super::live_note),
    mut_args(super::testbed_note),
    group = ArgGroup::new("two_hosts").multiple(true),
    // The interface under test, and the load's other end.
    group = ArgGroup::new("under_test").multiple(true),
    group = ArgGroup::new("load").multiple(true),
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff find --quick  # about one minute on two CPUs
  netcliff find --json >cliff.json  # everything as one record
  # other frames, an application that works 2 us a packet
  netcliff find --size 512B --work 2us
  # predict other set-ups, then measure them
  netcliff find --check size=512B --check work=2us --check backlog=200
  # the cliff of your own service: 99% of its answers within 5 ms
  netcliff find --service 'nginx -c /srv/n.conf' --request http:/ --p99 5ms
  # how much this host receives at eth0, from a host where an agent runs
  netcliff find --if eth0 --from 10.1.0.2 --key netcliff.key
  # two generators share the load, none of it above 500 kpps
  netcliff find --if eth0 --from db1 --from db2 --ssh --max-rate 500kpps
  # how much db3 receives from db1 and db2, started from a fourth host
  netcliff find --of db3 --if eth1 --from db1 --from db2 --key netcliff.key
  # the same host with other interrupt coalescing, predicted and measured
  netcliff find --if eth0 --from db1 --ssh --check rx-frames=32,rx-usecs=50

Without --if and --of test traffic stays in network namespaces that netcliff makes and removes, or on loopback. With \
them, frames go straight to the hardware address of a neighbour, and all hosts stop within 5 s when one is gone; \
`netcliff agent --allow-find IF` lets a host take part. A run that was killed is cleaned up by the next one. Ctrl-C \
stops cleanly and keeps what was measured."
)]
pub struct FindArgs {
    /// About one minute instead of three to six: shorter and fewer measurements
    #[arg(long)]
    pub quick: bool,
    /// Loss fraction that defines the cliff
    #[arg(long, default_value = default_of(|of| format!("{:e}", of.loss)), value_parser = super::loss, allow_negative_numbers = true, help_heading = "Load and application")]
    pub loss: f64,
    /// Frame size, FCS included
    #[arg(long, default_value = default_of(|of| units::print_bytes(of.frame_bytes.into())), default_value_if("ipv6", ArgPredicate::IsPresent, least6()), value_parser = frame_bytes, help_heading = "Load and application")]
    pub size: u32,
    /// Use IPv6: frames have 84B or more, the default of --size then
    ///
    /// In a testbed and on loopback, its addresses; between two hosts, both interfaces need IPv6 addresses of one
    /// subnet on one link, other than those of the link alone (fe80::). UDP over IPv6 has a checksum: where no NIC
    /// verifies it, as on veth, the host under test does, and its costs include that. With --service, its address.
    #[arg(
        short = '6',
        long,
        conflicts_with = "traffic",
        help_heading = "Load and application",
        hide_short_help = true
    )]
    pub ipv6: bool,
    /// Traffic of your own: times, sizes and flows of a capture (pcap, pcapng), repeated, with its gaps scaled to each
    /// load
    ///
    /// Frames have the test's headers: each flow of the capture becomes a source port, up to 256 flows. Frames longer
    /// than 1518 bytes are cut. The simulator uses the same capture.
    #[arg(long, value_name = "pcap:FILE", value_parser = own_traffic, conflicts_with_all = ["size", "arrivals", "interface", "of", "check", "try_suggestions"], help_heading = "Load and application", hide_short_help = true)]
    pub traffic: Option<PathBuf>,
    /// Arrival process [default: poisson, or that of a capture]
    #[arg(long, value_parser = one_of::<Arrivals>(), help_heading = "Load and application")]
    pub arrivals: Option<Arrivals>,
    /// CPU time that the application spends on each packet after reading it
    #[arg(long, default_value = default_of(|of| units::print_time_s(of.work_s)), value_parser = units::parse_time_s, allow_hyphen_values = true, help_heading = "Load and application")]
    pub work: f64,
    /// Receive buffer of the application's socket (SO_RCVBUF); 1MiB has room for about 2500 packets of 64B
    #[arg(long, default_value = default_of(|of| units::print_bytes(of.receive_buffer_bytes)), value_parser = socket_buffer, help_heading = "Load and application")]
    pub socket_buffer: u64,
    /// Repeats of each load of the sweep [default: 5; 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Search")]
    pub repeats: Option<u32>,
    /// Length of a trial [default: 1s, in the sweep 0.5s; 0.4s with --quick]
    #[arg(long, value_parser = trial, allow_hyphen_values = true, help_heading = "Search")]
    pub trial: Option<f64>,
    /// Total length of the trials that decide about a load in a search (RFC 9971: duration sum) [default: three trials;
    /// one with --quick]
    #[arg(long, value_name = "TIME", value_parser = trial, allow_hyphen_values = true, help_heading = "Search", hide_short_help = true)]
    pub duration_sum: Option<f64>,
    /// Share of the trials at the cliff that may lose more than --loss (RFC 9971: exceed ratio)
    #[arg(long, value_name = "SHARE", default_value = default_of(|_| units::print_share(Settings::EXCEED)), value_parser = units::parse_share, allow_hyphen_values = true, help_heading = "Search", hide_short_help = true)]
    pub exceed: f64,
    /// Relative distance between the bounds of the cliff at which a search ends [default: 2%; 4% with --quick]
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share, allow_hyphen_values = true, help_heading = "Search", hide_short_help = true)]
    pub width: Option<f64>,
    /// Searches for the cliff, whose spread gives its interval [default: 6; services 5, or 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), allow_negative_numbers = true, help_heading = "Search")]
    pub searches: Option<u32>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = Settings::default().seed, value_parser = super::seed, allow_negative_numbers = true, help_heading = "Search", hide_short_help = true)]
    pub seed: u64,
    /// Where the traffic goes: netns, loopback, or vm:DRIVER, such as vm:e1000e; best: netns if permitted, else
    /// loopback
    ///
    /// netns is two network namespaces joined by veth; loopback is 127.0.0.1, where the sender's CPU also does
    /// the receive path's work. vm:e1000, vm:e1000e, vm:igb, vm:virtio-net and
    /// vm:vmxnet3 are the NIC of a guest of QEMU.
    #[arg(long, value_name = "TESTBED", default_value = "best", value_parser = Testbed::parser(), hide_possible_values = true, help_heading = "Testbed")]
    pub testbed: Testbed,
    /// Open QEMU's monitor at this abstract UNIX socket: `socat - ABSTRACT-CONNECT:NAME`
    #[arg(long, value_name = "NAME", value_parser = socket_name, help_heading = "Testbed", hide_short_help = true)]
    pub vm_monitor: Option<String>,
    /// What a guest is made of.
    #[command(flatten)]
    pub guest: GuestArgs,
    /// Parameters of the guest's driver, as modprobe takes them, such as RxIntDelay=32
    #[arg(
        long,
        value_name = "PARAMETERS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Testbed",
        hide_short_help = true
    )]
    pub vm_driver: String,
    /// CPUs of a guest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Testbed", hide_short_help = true)]
    pub vm_cpus: u32,
    /// CPU of the sender [default: the first]
    #[arg(long, value_name = "CPU", value_parser = cpu, allow_negative_numbers = true, help_heading = "Testbed", hide_short_help = true)]
    pub sender_cpu: Option<u32>,
    /// CPU of the host under test and its application [default: the last]
    #[arg(long, value_name = "CPU", value_parser = cpu, allow_negative_numbers = true, help_heading = "Testbed")]
    pub host_cpu: Option<u32>,
    /// Interface of this host that receives the load (--from) or sends it (--of)
    ///
    /// With --from and --of together, it is the interface of the host of --of that receives the load [default: the one
    /// that leads to the address of the first --from].
    #[arg(long = "if", value_name = "IF", value_parser = super::numbers::device, conflicts_with = "testbed", groups = ["two_hosts", "under_test", "load"], help_heading = "Two hosts")]
    pub interface: Option<String>,
    /// Host that sends the load; `netcliff agent` runs there (repeatable)
    ///
    /// It sends to this host, or with --of to that one; this host then only directs both.
    #[arg(long, value_name = "HOST[:PORT]", requires = "under_test", group = "load", help_heading = "Two hosts")]
    pub from: Vec<String>,
    /// Host under test, if not this one; `netcliff agent` runs there
    ///
    /// This host sends the load, or with --from those hosts do.
    #[arg(long, value_name = "HOST[:PORT]", requires = "load", conflicts_with = "testbed", groups = ["two_hosts", "under_test"], help_heading = "Two hosts")]
    pub of: Option<String>,
    /// File with the key of the agents
    #[arg(long, value_name = "FILE", requires = "two_hosts", help_heading = "Two hosts", hide_short_help = true)]
    pub key: Option<PathBuf>,
    /// Start the agents on these hosts by ssh instead of using running ones
    #[arg(long, requires = "two_hosts", conflicts_with = "key", help_heading = "Two hosts", hide_short_help = true)]
    pub ssh: bool,
    /// Interface by which the hosts of --from send [default: chosen by its routes]
    #[arg(long, value_name = "IF", value_parser = super::numbers::device, requires = "from", help_heading = "Two hosts", hide_short_help = true)]
    pub their_if: Option<String>,
    /// Maximum offered load; an agent's own --max-rate may be lower
    #[arg(long, value_name = "200kpps", value_parser = units::parse_pps, requires = "under_test", allow_hyphen_values = true, help_heading = "Two hosts", hide_short_help = true)]
    pub max_rate: Option<f64>,
    /// Number of receive queues to spread the load over: flows are chosen by what the queues count in short trials, and
    /// each queue has an application of its own [default: 1, one flow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_QUEUES)), requires = "under_test", allow_negative_numbers = true, help_heading = "Two hosts", hide_short_help = true)]
    pub queues: Option<u32>,
    /// How frames are sent
    #[arg(long, value_enum, default_value_t = SendBy::Packet, requires = "under_test", help_heading = "Two hosts", hide_short_help = true)]
    pub send_by: SendBy,
    /// 802.1Q tag of the frames sent: the route to the host under test uses this VLAN's device, and frames leave by the
    /// device below it, such as a NIC that AF_XDP can use; the tag's 4 bytes are added to --size
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094), requires = "under_test", allow_negative_numbers = true, help_heading = "Two hosts", hide_short_help = true)]
    pub vlan: Option<u16>,
    /// Load the interface even if it carries the control connection, which the load may break
    #[arg(long, requires = "under_test", help_heading = "Two hosts", hide_short_help = true)]
    pub i_know: bool,
    /// A service of the user's own instead of netcliff's receiver.
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    pub service: super::ServiceArgs,
    /// Keep the idle CPU under test awake, or let it halt; a short trial shows the difference
    #[arg(long, value_parser = one_of::<Idle>(), default_value = Idle::Awake.name(), help_heading = "Testbed")]
    pub idle: Idle,
    /// How CPU time is measured
    #[arg(long, value_enum, default_value_t = Meter::Best, help_heading = "Testbed", hide_short_help = true)]
    pub cpu_meter: Meter,
    /// Another set-up to predict, then to measure, such as size=512B (repeatable)
    ///
    /// size=512B, work=2us, backlog=200 or budget=64, with --if also rx-usecs=100.
    ///
    /// It is predicted with this calibration. backlog and budget change sysctls for the length of the check, and
    /// settings of the interface under test are changed in the same way, with --if: rx-usecs=100, rx-frames=32,
    /// adaptive-rx=off (coalescing), rx=1024 (ring), gro=off, lro=off, rx-checksum=off, gro_flush_timeout=20us,
    /// napi_defer_hard_irqs=2, threaded=on. All is set back; after a kill the next netcliff does it. Needs root; with
    /// --of the agent needs --allow-settings IF, too. Several joined by commas are one set-up.
    ///
    /// With --service: socket-buffer=1MiB (net.core.rmem_default), backlog=200, budget=64, busy-poll=50us, rps=off,
    /// threaded=on, gro=on, gro_flush_timeout=20us, napi_defer_hard_irqs=2 (of the testbed's interface), or
    /// service=COMMAND, another command, which is measured, not predicted, and must come last.
    #[arg(long, value_name = "SETUP", help_heading = "More measurements")]
    pub check: Vec<String>,
    /// Also measure the most promising suggestion, by searches alternately with it and without it
    ///
    /// 3 rounds with --quick (half a minute more), else 5. Settings of the host are changed during a search only.
    #[arg(long, help_heading = "More measurements")]
    pub try_suggestions: bool,
    /// Print everything: also costs, disturbances, CPU time, losses, and values that could not be measured, with
    /// reasons
    #[arg(short, long, conflicts_with = "json", help_heading = "Output")]
    pub verbose: bool,
    /// Print the result as one JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Also profile a trial at the cliff: CPU time of packets by stage (docs/how-to/profile.md); with --json one more
    /// line
    #[arg(long, conflicts_with = "live", help_heading = "Output", hide_short_help = true)]
    pub profile: bool,
    /// Print events as JSON lines as they happen, result last; to stderr with --json
    #[arg(long, conflicts_with = "verbose", help_heading = "Output")]
    pub live: bool,
    /// Write the HTML page to this file [default: a file in netcliff/reports of the XDG data directory; none with
    /// --no-store]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Write the figure (delivered over offered load, or response times) as SVG
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Store nothing of this run; write only the files of --html and --svg
    #[arg(long, conflicts_with = "db", help_heading = "Output")]
    pub no_store: bool,
    /// While another run goes on.
    #[command(flatten)]
    pub wait: WaitArgs,
}

impl FindArgs {
    /// The settings that the options give, of a run that begins now.
    pub fn settings(&self) -> Settings {
        let default = Settings::default();
        Settings {
            quick: self.quick,
            loss: self.loss,
            frame_bytes: self.size,
            ipv6: self.ipv6,
            arrivals: self.arrivals.unwrap_or(default.arrivals),
            work_s: self.work,
            receive_buffer_bytes: self.socket_buffer,
            repeats: self.repeats,
            trial_s: self.trial,
            duration_sum_s: self.duration_sum,
            exceed: Some(self.exceed),
            width: self.width,
            searches: self.searches,
            seed: self.seed,
            try_suggestions: self.try_suggestions,
            command: output::command_line(),
            started_unix_s: output::now_unix_s(),
            ..default
        }
    }

    /// The options of a run that begins now, without a capture, checks and a link to another host.
    pub fn options(&self) -> FindOptions {
        let place = match self.testbed {
            // A guest's tap is in its own namespace.
            Testbed::Vm(_) => Place::Netns,
            Testbed::Here(place) => place,
        };
        let (sender_cpu, host_cpu) = (self.sender_cpu, self.host_cpu);
        FindOptions {
            settings: self.settings(),
            idle: self.idle,
            cpu: self.cpu_meter.preference(),
            rig: RigOptions {
                place,
                sender_cpu,
                host_cpu,
                link: LinkOptions { ipv6: self.ipv6, ..LinkOptions::default() },
                ..RigOptions::default()
            },
            ..FindOptions::default()
        }
    }

    /// Whether the load goes from host to host.
    pub fn is_between_hosts(&self) -> bool {
        self.interface.is_some() || self.of.is_some()
    }

    /// How the load is sent between two hosts.
    pub fn sending(&self) -> Sending {
        let method = match self.send_by {
            SendBy::Packet => None,
            SendBy::Xdp => Some(Method::Xdp { zero_copy: None }),
            SendBy::Socket => Some(Method::Socket),
        };
        Sending { queues: self.queues.unwrap_or(1), most_pps: self.max_rate, method, vlan: self.vlan }
    }

    /// Name of the first given option that only netcliff's own receiver has; `--service` and `--to` refuse it.
    #[cfg(target_os = "linux")]
    pub fn of_own_receiver(&self) -> Option<&'static str> {
        let default = Settings::default();
        let given = [
            ("--traffic", self.traffic.is_some()),
            ("--try-suggestions", self.try_suggestions),
            ("--repeats", self.repeats.is_some()),
            ("--size", self.size != Settings::least_frame_bytes(self.ipv6)),
            ("--work", self.work != default.work_s),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }
}

/// Writes a setting's default as its option is read. The text lasts as long as the process.
fn default_of(written: fn(&Settings) -> String) -> &'static str {
    written(&Settings::default()).leak()
}

/// The default of `--size` with `--ipv6`, as the option is read. The text lasts as long as the process.
fn least6() -> &'static str {
    units::print_bytes(Settings::least_frame_bytes(true).into()).leak()
}

/// Ways to send to another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SendBy {
    /// AF_PACKET transmit ring
    Packet,
    /// AF_XDP on the first queue, zero-copy where the driver can; each trial sets that queue up anew, and the link may
    /// be down while that happens
    Xdp,
    /// UDP socket: one flow, the kernel makes the headers
    Socket,
}

/// Reads a name that QEMU's options and the address of a UNIX socket accept.
fn socket_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err("expected up to 64 letters, digits, '-', '_' or '.', such as cable".to_owned())
}

fn own_traffic(text: &str) -> Result<PathBuf, String> {
    let file = text.strip_prefix("pcap:").filter(|file| !file.is_empty());
    file.map(PathBuf::from).ok_or_else(|| "expected pcap: and a capture, such as pcap:own.pcapng".to_owned())
}

/// Meters of CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Meter {
    /// eBPF where it works, else procfs
    Best,
    /// Kernel tracepoints: exact
    Ebpf,
    /// The kernel's ticks: coarse
    Procfs,
    /// A SCHED_IDLE thread that uses and counts the remaining CPU time, so that the CPU is never idle
    Soaker,
}

impl Meter {
    /// Converts the preference into that of the host's CPU meters.
    pub fn preference(self) -> netcliff_host::cpu::Preference {
        use netcliff_host::cpu::{Method, Preference};
        match self {
            Self::Best => Preference::Best,
            Self::Ebpf => Preference::Only(Method::Ebpf),
            Self::Procfs => Preference::Only(Method::Procfs),
            Self::Soaker => Preference::Only(Method::Soaker),
        }
    }
}

/// Reads `best`, `ebpf` or `procfs`. Refuses the soaker, because it changes the CPU time that it measures.
pub(super) fn host_meter(text: &str) -> Result<Meter, String> {
    match text {
        "best" => Ok(Meter::Best),
        "ebpf" => Ok(Meter::Ebpf),
        "procfs" => Ok(Meter::Procfs),
        _ => Err("expected best, ebpf or procfs".into()),
    }
}

fn cpu(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected the number of a CPU, such as 1".into())
}

fn frame_bytes(text: &str) -> Result<u32, String> {
    let bytes = numbers::bytes(text).ok().and_then(|bytes| u32::try_from(bytes).ok());
    let fits = bytes.filter(|bytes| (64..=9018).contains(bytes));
    fits.ok_or_else(|| "expected one frame size, 64B to 9018B with FCS".into())
}

fn socket_buffer(text: &str) -> Result<u64, String> {
    let bytes = numbers::bytes(text)?;
    if (4096..=1 << 30).contains(&bytes) { Ok(bytes) } else { Err("expected 4KiB to 1GiB".into()) }
}

fn trial(text: &str) -> Result<f64, String> {
    let seconds = numbers::seconds(text)?;
    if (0.05..=600.0).contains(&seconds) { Ok(seconds) } else { Err("expected 50ms to 600s".into()) }
}
