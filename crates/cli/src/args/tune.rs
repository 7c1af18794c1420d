//! `netcliff tune`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use netcliff_core::inspection::Objective;
use netcliff_core::units;
use netcliff_host::tune::{Wish, affinity::Design, named::Named};

use super::FarArgs;
use super::choice::one_of;
use super::numbers;
use super::wait::WaitArgs;

/// `netcliff tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// What to do
    #[command(subcommand)]
    pub action: TuneAction,
}

/// Actions on settings.
#[derive(Debug, Subcommand)]
pub enum TuneAction {
    /// Propose settings, each with its reason, source and expected effect; changes nothing
    Plan(PlanArgs),
    /// Apply the proposed settings; they stay until undo or the next boot
    Apply(ApplyArgs),
    /// Set settings of a device by name; they stay until undo or the next boot
    Set(SetArgs),
    /// Restore everything that apply and set changed
    Undo {
        /// One JSON object a setting
        #[arg(long)]
        json: bool,
        /// While another run goes on.
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Follow the load: interrupts while it is low, polling while it is high; everything is set back at the end
    #[command(alias = "govern")]
    Adapt(AdaptArgs),
    /// Measure with a command, alternately with and without the proposed settings, and say which is better
    Try(TryArgs),
}

/// Default of `--rtt`, as it is written.
const DEFAULT_RTT: &str = "1ms";

/// What is wanted.
#[derive(Debug, Args)]
pub struct WishArgs {
    /// What to optimise for
    #[arg(long, value_parser = one_of::<Objective>(), required_unless_present = "plan")]
    pub objective: Option<Objective>,
    /// Interface (repeatable) [default: hardware that is up]
    #[arg(long = "if", value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// CPUs for the receive and transmit interrupts of a queue [default: pairing; smt if the two are separate
    /// interrupts and cores have siblings]
    #[arg(long, value_parser = one_of::<Design>())]
    pub design: Option<Design>,
    /// Round-trip time of the longest path that TCP has to fill
    #[arg(long, default_value = DEFAULT_RTT, value_parser = units::parse_time_s, value_name = "TIME", allow_hyphen_values = true)]
    pub rtt: f64,
    /// MTU to set; every device of the network segment needs the same
    #[arg(long, value_parser = clap::value_parser!(u32).range(68..=65535), value_name = "BYTES", allow_negative_numbers = true)]
    pub mtu: Option<u32>,
    /// CPUs reserved for other work: no interrupts or packet work of the interfaces are placed there
    #[arg(long, value_name = "0,1", value_delimiter = ',', allow_negative_numbers = true)]
    pub spare: Vec<u32>,
    /// A plan that `tune plan --json` wrote, instead of an objective
    #[arg(long, value_name = "FILE", conflicts_with_all = ["objective", "interfaces", "design", "mtu", "spare"])]
    pub plan: Option<PathBuf>,
}

/// `netcliff tune plan`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff tune plan --objective latency
  netcliff tune plan --objective throughput --if eth0 --script > tune.sh
  netcliff tune plan --objective cpu --json > plan.json
  netcliff tune apply --plan plan.json
  netcliff tune plan --objective cpu --from /tmp/host  # for a captured host

To make it permanent, since a reboot forgets what apply sets:
  netcliff tune plan --objective latency --sysctl-d > 90-netcliff.conf
  netcliff tune plan --objective latency --udev > 90-netcliff.rules
  netcliff tune plan --objective latency --tuned /etc/tuned/netcliff
  tuned-adm profile netcliff

Expected effects are those of the model with the costs of the newest `netcliff find` in the store; without one the \
plan says so."
)]
pub struct PlanArgs {
    /// What is wanted
    #[command(flatten)]
    pub wish: WishArgs,
    /// Costs that effects are predicted with: a run of the store, last-find, last-learn, what `find --json` wrote, or a
    /// preset or TOML file of costs [default: this host's calibration, see `netcliff results calibrate`]
    #[arg(long, value_name = "find:N|learn:N|FILE|PRESET")]
    pub host: Option<String>,
    /// Plan for a capture (`netcliff inspect --capture`) instead of this host
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// One JSON object
    #[arg(long, group = "form")]
    pub json: bool,
    /// A shell script
    #[arg(long, group = "form")]
    pub script: bool,
    /// A file for /etc/sysctl.d with the sysctls of the plan
    #[arg(long, group = "form")]
    pub sysctl_d: bool,
    /// Rules for /etc/udev/rules.d that set interfaces and CPUs as they appear
    #[arg(long, group = "form")]
    pub udev: bool,
    /// Write a profile for tuned into this directory, such as /etc/tuned/netcliff
    #[arg(long, value_name = "DIR", group = "form")]
    pub tuned: Option<PathBuf>,
}

/// `netcliff tune apply`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each old value is written to a journal before the change. A step that fails takes all back; so does the next \
netcliff after a kill. What the driver made of each value is read back and reported. `netcliff tune undo` sets \
everything back."
)]
pub struct ApplyArgs {
    /// What is wanted
    #[command(flatten)]
    pub wish: WishArgs,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// One JSON object a setting
    #[arg(long)]
    pub json: bool,
    /// While another run goes on.
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// `netcliff tune set`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  netcliff tune set pause-rx=off pause-tx=off --if eth0 --dry-run
  netcliff tune set hash-udp4=sdfn --if eth0     # ports choose the queue, too
  netcliff tune set rx-usecs@2=8 --if eth0       # of queue 2 only
  netcliff tune set steer-udp4-53=2 --if eth0    # port 53 to queue 2

Each old value is written to a journal before the change; a setting that fails takes all back. `netcliff tune undo` \
sets everything back. docs/tune.md lists the keys.")]
pub struct SetArgs {
    /// Settings: pause-rx, pause-tx, pause-autoneg, header-split, rx-usecs, rx-usecs@QUEUE, hash-udp4, rss-key,
    /// steer-udp4-PORT, ...
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub settings: Vec<Named>,
    /// Interface
    #[arg(long = "if", value_name = "NAME", required = true)]
    pub interface: String,
    /// Print the settings that would be set, with the commands; change nothing
    #[arg(long, conflicts_with = "json")]
    pub dry_run: bool,
    /// One JSON object a setting
    #[arg(long)]
    pub json: bool,
    /// While another run goes on.
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// `netcliff tune adapt`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff tune adapt --if eth0 --dry-run --for 60s  # when it would switch
  netcliff tune adapt --if eth0 --up 300kpps --down 200kpps
  netcliff tune adapt --if eth0 --interrupt rx-usecs=8 --poll rx-usecs=200
  netcliff tune adapt --if eth0 --up 300kpps --poll threaded=on

The load is packets received plus packets lost in the ring, as a moving average: the newest --window counts half, all \
earlier ones together the other half. Above --up the device polls, below --down packets interrupt again, and in \
between the mode stays. Without --up the threshold is the load at which interrupts would saturate this host, eq. (13) \
of Salah, El-Badawi and Khalid (2007), with the costs of --host and the current mean frame size.

Each old value is written to a journal before the change. At the end, at Ctrl-C and SIGTERM everything is set back; \
after a kill the next netcliff does it, or `netcliff tune undo`. docs/how-to/adapt.md says what to expect."
)]
pub struct AdaptArgs {
    /// Interface (repeatable)
    #[arg(long = "if", value_name = "NAME", required = true)]
    pub interfaces: Vec<String>,
    /// Load above which the device polls [default: where interrupts would saturate this host, with the costs of --host]
    #[arg(long, value_name = "300kpps", value_parser = rate, allow_hyphen_values = true)]
    pub up: Option<f64>,
    /// Load below which packets interrupt again [default: a tenth lower than --up]
    #[arg(long, value_name = "200kpps", value_parser = rate, allow_hyphen_values = true)]
    pub down: Option<f64>,
    /// Settings while packets are polled, as `tune set` takes them (repeatable, or with commas)
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', default_values = POLL)]
    pub poll: Vec<Named>,
    /// Settings while packets interrupt [default: the values at the start]
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub interrupt: Vec<Named>,
    /// End after this long [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = numbers::seconds, allow_hyphen_values = true)]
    pub length: Option<f64>,
    /// Time between two readings of the counters, 10ms to 10s; the load is a moving average of them
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = window, allow_hyphen_values = true, hide_short_help = true)]
    pub window: f64,
    /// Minimum time between two switches, and between the start and the first switch
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = numbers::seconds, allow_hyphen_values = true, hide_short_help = true)]
    pub hold: f64,
    /// Costs from which the default of --up and the forecast are computed (latency, CPU time left and loss of both
    /// modes, printed at the start): a run of the store, last-find, last-learn, what `find --json` wrote, or a preset
    /// or TOML file of costs [default: this host's calibration, see `netcliff results calibrate`]
    #[arg(long, value_name = "find:N|learn:N|FILE|PRESET", hide_short_help = true)]
    pub host: Option<String>,
    /// Print what would be switched, and when; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON object an event
    #[arg(long)]
    pub json: bool,
    /// While another run goes on.
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// Default of `--poll`. With these settings a device polls by a timer while packets arrive. Its interrupt is enabled
/// again after two empty polls, 50 us apart. `tune plan --objective cpu` proposes the same settings.
const POLL: [&str; 2] = ["gro_flush_timeout=50us", "napi_defer_hard_irqs=2"];

fn rate(text: &str) -> Result<f64, String> {
    let pps = units::parse_pps(text).map_err(|error| error.to_string())?;
    if pps > 0.0 { Ok(pps) } else { Err("expected a load above 0, such as 300kpps".to_owned()) }
}

fn window(text: &str) -> Result<f64, String> {
    let seconds = numbers::seconds(text)?;
    let fits = (0.01..=10.0).contains(&seconds);
    if fits { Ok(seconds) } else { Err("expected 10ms to 10s, such as 100ms".to_owned()) }
}

/// `netcliff tune try`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff tune try --objective latency --metric /latency/p99_s -- \\
    netcliff rr --to server --json
  netcliff tune try --objective throughput --higher --keep -- ./bench.sh
  netcliff tune try --objective cpu --metric /bps:higher --metric /cpu:lower \\
    -- ./bench.sh
  netcliff tune try --objective throughput --experiment block-sweep --keep
  netcliff tune try --objective cpu --experiment block-sweep --to server

The figure is the last number that the command prints, or with --metric the number at that place of its JSON. For an \
experiment it is the figure that its file draws (y), as the mean over its measured points. Several figures are \
compared at a confidence that holds for all of them together; the settings are better if at least one figure is \
better and none is worse. Exit code 0: better; 1: worse, not decided, or the command failed.

The settings of a NIC affect only traffic through that NIC. A COMMAND that measures in network namespaces or on \
loopback, as `netcliff rr` and `find` do by default, cannot show their effect, nor can an experiment without --to or \
--ssh: it is measured in a testbed on this host."
)]
pub struct TryArgs {
    /// What is wanted
    #[command(flatten)]
    pub wish: WishArgs,
    /// Rounds, each once with and once without the settings
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000), allow_negative_numbers = true)]
    pub rounds: u32,
    /// Place (JSON pointer) of a figure in the JSON that the command prints, such as /latency/p99_s; append :higher or
    /// :lower to say which is better (repeatable: all figures decide together)
    #[arg(long, value_name = "POINTER[:higher]", conflicts_with = "experiment", value_parser = metric)]
    pub metric: Vec<Metric>,
    /// Higher figures are better [default: lower ones; for an experiment by its figure]
    #[arg(long, conflicts_with = "experiment")]
    pub higher: bool,
    /// Measure with an experiment of points, transfers or forwarding, run in each round with real packets, instead of a
    /// command
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub experiment: Option<PathBuf>,
    /// Where the far end of an experiment of transfers is.
    #[command(flatten)]
    pub far: FarArgs,
    /// Leave the settings applied if they are better
    #[arg(long)]
    pub keep: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// While another run goes on.
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// An entry of `--metric`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// JSON pointer to the value.
    pub pointer: String,
    /// Whether higher values are better. `None`: as `--higher` says.
    pub higher_is_better: Option<bool>,
}

fn metric(text: &str) -> Result<Metric, String> {
    let (pointer, higher_is_better) = match text.rsplit_once(':') {
        Some((pointer, "higher")) => (pointer, Some(true)),
        Some((pointer, "lower")) => (pointer, Some(false)),
        _ => (text, None),
    };
    match pointer.starts_with('/') {
        true => Ok(Metric { pointer: pointer.to_owned(), higher_is_better }),
        false => Err("expected a place in JSON such as /latency/p99_s or /goodput_bps:higher".to_owned()),
    }
}

impl WishArgs {
    /// The options as words of a command line, without those that have their default.
    pub fn words(&self) -> Vec<String> {
        let spare: Vec<String> = self.spare.iter().map(ToString::to_string).collect();
        let spare = (!spare.is_empty()).then(|| spare.join(","));
        let rtt = Some(units::print_time_s(self.rtt)).filter(|rtt| rtt != DEFAULT_RTT);
        let interfaces = self.interfaces.iter().map(|name| ("--if", Some(name.clone())));
        [("--objective", self.objective.map(|objective| objective.name().to_owned()))]
            .into_iter()
            .chain(interfaces)
            .chain([
                ("--design", self.design.map(|design| design.name().to_owned())),
                ("--rtt", rtt),
                ("--mtu", self.mtu.map(|bytes| bytes.to_string())),
                ("--spare", spare),
                ("--plan", self.plan.as_ref().map(|path| path.display().to_string())),
            ])
            .filter_map(|(option, value)| Some([option.to_owned(), value?]))
            .flatten()
            .collect()
    }

    /// The options in the form that the planner needs. `None` if the options name a plan (`--plan`) instead of an
    /// objective.
    pub fn wish(&self) -> Option<Wish> {
        Some(Wish {
            objective: self.objective?,
            interfaces: self.interfaces.clone(),
            design: self.design,
            rtt_s: self.rtt,
            mtu_bytes: self.mtu,
            spared: self.spare.clone(),
            channels_as_they_are: false,
        })
    }
}
