//! The command line.

mod advise;
mod agent;
mod bed;
mod compare;
mod compute;
mod drops;
mod far;
mod find;
mod inspect;
mod learn;
mod limits;
pub(crate) mod numbers;
mod profile;
mod rfc2544;
mod rr;
mod run;
#[cfg(target_os = "linux")]
mod service;
mod simulate;
mod stream;
pub mod tune;
pub mod wait;
mod watch;

use std::path::PathBuf;

use clap::{Arg, Args, Parser, Subcommand};
use netcliff_lab::store::KINDS;

pub use advise::AdviseArgs;
pub use agent::AgentArgs;
pub use bed::{LinkArgs, Testbed};
pub use compare::CompareArgs;
pub use compute::{ComputeArgs, PredictArgs, QueuesArg};
pub use drops::{DropsArgs, DropsBy, DropsMethod};
pub use far::FarArgs;
pub use find::{FindArgs, Meter};
pub use guest::GuestArgs;
pub use headroom::HeadroomArgs;
pub use inspect::InspectArgs;
pub use learn::LearnArgs;
pub use limits::LimitsArgs;
pub use metrics::MetricsArgs;
pub use numbers::{Cpus, Since, run_name};
pub use profile::ProfileArgs;
pub use repeats::RepeatArgs;
pub use rfc2544::{Frames, Rfc2544Args, Test};
pub use rr::{BusyPoll, RrArgs};
pub use run::RunArgs;
pub use serve::ServeArgs;
#[cfg(target_os = "linux")]
pub use service::ServiceArgs;
pub use simulate::SimulateArgs;
pub use stream::{Carrier, PacedBy, PathName, ProbeBy, ReceiveName, StreamArgs, Way};
pub use trend::TrendArgs;
pub use tune::{PlanArgs, TryArgs, TuneAction, TuneArgs};
pub use watch::WatchArgs;

/// Finds the offered load past which a host loses packets, explains it, and predicts it.
#[derive(Debug, Parser)]
#[command(name = "netcliff", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff find --quick  # this host's cliff in about one minute
  netcliff predict --scheme interrupt --rate 100kpps
  netcliff simulate --scheme napi:weight=64 --rates 10kpps..300kpps:30 --json
  netcliff run fig-7a    # figure 7(a) of Salah et al. (2007), computed again
  netcliff advise --rate 100kpps --objective cpu
  netcliff inspect       # what this host is, and what looks wrong with it
  netcliff results list

Times are written 20us, rates 120kpps or 300Mbit/s or 40% (of line rate), sizes 64B or 4MiB.
NETCLIFF_LOG=debug shows more on stderr."
)]
pub struct Cli {
    /// Where records are kept.
    #[command(flatten)]
    pub store: StoreArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The record store.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// File of stored runs [default: netcliff/records.db in the XDG data directory]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Store")]
    pub db: Option<PathBuf>,
    /// Name of the stored run [default: none; `run`: the experiment's]
    #[arg(long, global = true, value_name = "NAME", value_parser = numbers::run_name, help_heading = "Store")]
    pub name: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure this host's cliff, the load past which it loses packets; predict it by model and simulation
    Find(Box<FindArgs>),
    /// Run an experiment from a file: by the model, in simulation or with real packets
    Run(RunArgs),
    /// Predict one load or a sweep by the model
    Predict(PredictArgs),
    /// Simulate one load or a sweep
    Simulate(Box<SimulateArgs>),
    /// Find the scheme and parameters that serve an objective best: screen candidates by the model, then simulate them
    Advise(AdviseArgs),
    /// Show this host's hardware and settings along the path of a packet, and what looks wrong
    Inspect(InspectArgs),
    /// Show CPUs, interrupts, queues and drops live, and name the bottleneck
    Watch(WatchArgs),
    /// Show which packets this host drops, by reason and place, with remedies; trace paths of packets
    Drops(DropsArgs),
    /// Show how near this host is now to its calibrated cliff, by CPU and queue
    Headroom(HeadroomArgs),
    /// Estimate the cliff of a host in service, and how near it is, from its own traffic; send nothing
    Learn(LearnArgs),
    /// Show the CPU time of a packet by stage of its path, from samples of live traffic; send nothing
    Profile(ProfileArgs),
    /// Propose, try, apply and undo settings for an objective
    Tune(TuneArgs),
    /// Compute upper bounds of the packet rate by link, bus, memory and CPU for each frame size
    Limits(LimitsArgs),
    /// Measure request/response: latency, rate and CPU time of a transaction
    Rr(RrArgs),
    /// Run the far end of tests between hosts
    Agent(AgentArgs),
    /// Measure bulk transfers: goodput and CPU time at both ends
    Stream(Box<StreamArgs>),
    /// Measure forwarding by RFC 2544: throughput, latency, frame loss, back-to-back frames
    Rfc2544(Box<Rfc2544Args>),
    /// Compare two runs: differences with their significance, and what else changed
    Compare(CompareArgs),
    /// List, show, export, import and remove stored runs
    Results(ResultsArgs),
    /// Serve the explorer, a web page for what-if questions, with this machine's results
    Serve(ServeArgs),
    /// What runs in a guest of `--testbed vm:...`
    #[command(hide = true)]
    Guest,
    /// Print a completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page a command into a directory
    Man {
        /// Directory for netcliff.1, netcliff-find.1 and so on
        dir: Option<PathBuf>,
    },
}

/// `netcliff results`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff results list --kind find --last 5
  netcliff results show before -v
  netcliff results show --json | jq .cliff_pps
  netcliff results rename 3 new-kernel
  netcliff results list --kind find --since 7d --state done
  netcliff results export 3 -o before.json
  netcliff results export --all -o runs/
  netcliff results rm 1 2

A RUN is a number from `results list`, a name (the newest run of that name), last, or last~2 or name~2 for the second \
run before it."
)]
pub struct ResultsArgs {
    /// What to do with them
    #[command(subcommand)]
    pub action: ResultsAction,
}

/// Actions on results.
#[derive(Debug, Subcommand)]
pub enum ResultsAction {
    /// Runs, newest first
    #[command(
        after_help = "The column records: results at one load each, of find, predict, simulate and run; -: a single result."
    )]
    List {
        /// Only runs of this kind, as the list shows it; experiments of `run` have the kind forwarding, transfer or run
        #[arg(long, value_name = "KIND", value_parser = KINDS)]
        kind: Option<String>,
        /// Only runs of this name; --name does the same here
        #[arg(long, value_name = "NAME")]
        named: Option<String>,
        /// Only runs in this state
        #[arg(long, value_name = "STATE", value_parser = ["done", "partial", "interrupted", "failed", "running"])]
        state: Option<String>,
        /// Only runs that began since a UTC date (2026-11-22) or date and time (2026-11-22 10:00), or in the last 90m,
        /// 12h or 7d
        #[arg(long, value_name = "WHEN", value_parser = numbers::since)]
        since: Option<numbers::Since>,
        /// Only runs of a machine whose fingerprint contains this text, such as its CPU or kernel, or whose id begins
        /// with it
        #[arg(long, value_name = "TEXT")]
        host: Option<String>,
        /// Show only the newest N
        #[arg(long, value_name = "N")]
        last: Option<usize>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// The runs of one name over time, and when a figure changed its level
    Trend(TrendArgs),
    /// One run: its page, or its records as a table
    Show {
        /// The run [default: the newest]
        #[arg(value_name = "RUN")]
        run: Option<String>,
        /// Print everything: all figures and notes
        #[arg(short, long, conflicts_with_all = ["csv", "html", "json", "svg"])]
        verbose: bool,
        /// Print the result as one JSON object, or its records, one a line
        #[arg(long, conflicts_with_all = ["csv", "html", "svg"])]
        json: bool,
        /// The figures as CSV: to stdout, or to a file by --csv=FILE
        #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
        csv: Option<Option<PathBuf>>,
        /// Write the page of the run to this file
        #[arg(long, value_name = "FILE", conflicts_with = "csv")]
        html: Option<PathBuf>,
        /// Write the figure of the run as SVG to this file
        #[arg(long, value_name = "FILE", conflicts_with = "csv")]
        svg: Option<PathBuf>,
    },
    /// Write a run to a file, or all to a directory, as JSON that `compare`, `--host` and `results import` read
    Export {
        /// The run; every run with --all
        #[arg(value_name = "RUN", required_unless_present = "all")]
        run: Option<String>,
        /// Export every run, each to its own file
        #[arg(long, conflicts_with = "run")]
        all: bool,
        /// File to write; with --all a directory, which is created
        #[arg(short, long, value_name = "PATH")]
        output: PathBuf,
        /// Overwrite existing files
        #[arg(long)]
        force: bool,
    },
    /// Store results from files that `export` or a command's --json wrote
    Import {
        /// The files
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Give a run a name
    Rename {
        /// Which
        #[arg(value_name = "RUN")]
        run: String,
        /// Its new name
        #[arg(value_name = "NAME", value_parser = numbers::run_name)]
        to: String,
    },
    /// Show which `find` is this host's calibration, and why; with a RUN, use that run from now on
    #[command(
        after_help = "headroom, watch --metrics, limits, tune and predict compute with it unless --host names another run. If \
you name none, it is the newest `find` of this machine that measured a cliff with standard settings: no what-if \
(--work), not stopped early, and at least half of its trials count."
    )]
    Calibrate {
        /// The run: a number, a name or last
        #[arg(value_name = "RUN")]
        run: Option<String>,
        /// Let netcliff choose the calibration again
        #[arg(long, visible_alias = "none", conflicts_with = "run")]
        auto: bool,
    },
    /// Remove runs permanently
    Rm {
        /// Which
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
    },
    /// Remove runs without a record or result, and shrink the file by the space of removed runs
    Gc {
        /// Show what would be removed; remove nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Adds the note on slow readers to the long help of `--live`.
fn live_note(arg: Arg) -> Arg {
    let note = "docs/json.md describes the events. A reader that is slow or gone does not disturb the measurement: \
                lines that do not fit into the buffer are dropped and counted.";
    with_note(arg, "live", note)
}

/// Adds the note on NICs of this host to the long help of `--testbed`.
fn testbed_note(arg: Arg) -> Arg {
    let note = "No packet of a testbed passes a NIC of this host, so that the settings of such a NIC (ethtool, \
                `netcliff tune`) have no effect there.";
    with_note(arg, "testbed", note)
}

/// Adds a last paragraph to the long help of the option with this id; returns other options unchanged.
fn with_note(arg: Arg, id: &str, note: &str) -> Arg {
    if arg.get_id() != id {
        return arg;
    }
    let help = arg.get_long_help().or(arg.get_help()).map_or_else(String::new, ToString::to_string);
    arg.long_help(format!("{help}\n\n{note}"))
}

/// Reads `--seed`.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a whole number of at least 0, such as 1".into())
}

/// Reads `--loss`.
fn loss(text: &str) -> Result<f64, String> {
    let share = netcliff_core::units::parse_share(text).ok().filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| "expected a fraction above 0 and below 1, such as 1e-4".into())
}

mod choice {
    //! Options whose values are a domain's enum, by the rows of its [`Choice`].

    use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
    use netcliff_core::Choice;

    /// Reads one of the values that the rows of `T` name.
    pub fn one_of<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
        let rows = T::CHOICES.iter().map(|(_, name, help)| PossibleValue::new(*name).help(*help));
        // The parser above accepts only these names.
        PossibleValuesParser::new(rows).try_map(|name| T::named(&name).ok_or("no such value"))
    }
}

mod guest {
    //! Options of a guest.

    use std::path::PathBuf;

    use clap::Args;
    use netcliff_host::testbed::vm::{Model, VmOptions};

    /// What a guest of QEMU is made of.
    #[derive(Debug, Args)]
    pub struct GuestArgs {
        /// Kernel of the guest (--testbed vm:DRIVER), a bzImage [default: the newest in /boot]
        #[arg(long, value_name = "FILE", help_heading = "Testbed", hide_short_help = true)]
        pub vm_kernel: Option<PathBuf>,
        /// Directory of the guest kernel's modules [default: next to the kernel, or /lib/modules/RELEASE]
        #[arg(long, value_name = "DIR", help_heading = "Testbed", hide_short_help = true)]
        pub vm_modules: Option<PathBuf>,
        /// QEMU's program, or a script that runs it [default: qemu-system-x86_64 in the PATH]
        #[arg(long, value_name = "PROGRAM", help_heading = "Testbed", hide_short_help = true)]
        pub vm_qemu: Option<PathBuf>,
    }

    impl GuestArgs {
        /// A guest of one CPU with this NIC.
        pub fn of(&self, model: Model) -> VmOptions {
            VmOptions {
                model,
                qemu: self.vm_qemu.clone(),
                monitor: None,
                kernel: self.vm_kernel.clone(),
                modules: self.vm_modules.clone(),
                parameters: String::new(),
                cpus: 1,
                sender_cpu: None,
                whole_segments: false,
                router: false,
            }
        }
    }
}

mod metrics {
    //! `--metrics`, of `watch` and `agent`.

    use std::net::{Ipv4Addr, SocketAddr};

    use clap::Args;
    use netcliff_core::endpoint::{BadEndpoint, socket_address};

    /// Where a monitoring system asks.
    #[derive(Debug, Clone, Default, Args)]
    pub struct MetricsArgs {
        /// Serve metrics at /metrics by HTTP, in the text format of OpenMetrics or Prometheus: a port (of 127.0.0.1),
        /// or an address and port. Everyone who reaches it can read the host's load
        #[arg(long, value_name = "[ADDR:]PORT", value_parser = address)]
        pub metrics: Option<SocketAddr>,
    }

    fn address(text: &str) -> Result<SocketAddr, String> {
        let port = text.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        port.or_else(|_| socket_address(text)).map_err(|error| match error {
            BadEndpoint::Address => {
                "expected a port such as 9942, or an address such as 192.0.2.7:9942 or [::1]:9942".into()
            }
            error => error.to_string(),
        })
    }
}

mod repeats {
    //! How often a configuration is measured.

    use clap::Args;
    use netcliff_core::experiment::Share;
    use netcliff_core::repeats::Repeats;

    use super::numbers::whole;
    use crate::output;

    /// Repeats, and what ends them.
    #[derive(Debug, Args)]
    pub struct RepeatArgs {
        /// Repeats of a configuration; with --precision the minimum
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<1, 1000>, allow_negative_numbers = true, help_heading = "Measurement")]
        pub repeats: u32,
        /// Repeat until the 95 % interval of the mean has this relative half width, or --max-repeats is reached
        #[arg(long, value_name = "2%", allow_hyphen_values = true, help_heading = "Measurement")]
        pub precision: Option<Share>,
        /// Maximum number of repeats with --precision [default: 5 times --repeats]
        #[arg(long, value_name = "N", value_parser = whole::<1, 1000>, requires = "precision", allow_negative_numbers = true, help_heading = "Measurement", hide_short_help = true)]
        pub max_repeats: Option<u32>,
    }

    impl RepeatArgs {
        /// Converts the options for the measurement.
        pub fn repeats(&self) -> anyhow::Result<Repeats> {
            let precision = self.precision.map(|share| share.0);
            Repeats::new(self.repeats, precision, self.max_repeats).map_err(|said| {
                let option = if self.max_repeats.is_some() { "--max-repeats" } else { "--repeats" };
                output::usage(format!("{option}: {said}"))
            })
        }
    }
}

mod headroom {
    //! `netcliff headroom`.

    use std::time::Duration;

    use super::numbers;
    use clap::Args;
    use netcliff_core::units;

    /// `netcliff headroom`.
    #[derive(Debug, Args)]
    #[command(
        after_help = "`--help` has examples and rarer options.",
        after_long_help = "Examples:
  netcliff headroom
  netcliff headroom --if eth0 --interval 10s
  netcliff headroom --fail-above 80%  # exit code 1 above it, or with losses
  netcliff headroom --host find:3  # against the cliff of find run 3
  netcliff headroom --json | jq .share

The cliff is that of the newest `find` of this machine in the store that measured one with standard settings, or of \
the run that `netcliff results calibrate` names. Without any, the command estimates the cliff from 15 s of this \
host's traffic.

A CPU's share is the largest of three: its packets/s over those at the cliff; its time in interrupts and softirqs \
over that time at the cliff, which counts packets that cost more than the calibrated ones; and its busy time. A \
thread of a program with sockets that uses a whole CPU is at 100 %. The output names the programs with most CPU \
time, with their sockets. The host's share is the largest share of its CPUs, its links (bits/s over their speed, or \
over the rate that a token bucket of tc leaves them), the CPU quotas (cpu.max) of cgroups whose programs run, and \
connection tracking.

Losses are counted at sockets, protocols, connection tracking, queueing disciplines, backlogs, devices and rings. \
Run on the host, the command counts sockets, protocols and connection tracking of all network namespaces; run in a \
namespace, only of that one. `watch --metrics` exports the same shares."
    )]
    pub struct HeadroomArgs {
        /// Interface whose queues are counted (repeatable) [default: hardware that is up, else every link that is up]
        #[arg(long = "if", value_name = "NAME")]
        pub interfaces: Vec<String>,
        /// Time over which the load is counted, 500ms to 1h
        #[arg(long, default_value = "2s", value_parser = interval, value_name = "TIME", allow_hyphen_values = true)]
        pub interval: Duration,
        /// The cliff: a run of the store, last-find, last-learn, what `find --json` wrote, or a preset or TOML file of
        /// costs (the model's cliff) [default: this host's calibration, see `netcliff results calibrate`]
        #[arg(long, value_name = "find:N|learn:N|FILE|PRESET")]
        pub host: Option<String>,
        /// Exit with 1 if the host's share (CPU, link, CPU quota or connection tracking) is above this, or if packets
        /// are lost
        #[arg(long, value_name = "80%", value_parser = share, allow_hyphen_values = true)]
        pub fail_above: Option<f64>,
        /// One JSON object
        #[arg(long)]
        pub json: bool,
    }

    fn interval(text: &str) -> Result<Duration, String> {
        let seconds = numbers::seconds(text)?;
        let fits = (0.5..=3600.0).contains(&seconds);
        if fits { Ok(Duration::from_secs_f64(seconds)) } else { Err("must be 500ms to 1h".into()) }
    }

    fn share(text: &str) -> Result<f64, String> {
        let share = units::parse_share(text).ok().filter(|share| *share > 0.0);
        share.ok_or_else(|| "expected a share above 0, such as 80%".into())
    }
}

mod serve {
    //! `netcliff serve`.

    use std::net::SocketAddr;
    use std::path::PathBuf;

    use clap::Args;

    /// Where the page is served.
    #[derive(Debug, Args)]
    #[command(
        after_help = "`--help` has examples and rarer options.",
        after_long_help = "Examples:
  netcliff serve --open
  netcliff serve --listen 127.0.0.1:8080
  netcliff agent --make-key netcliff.key  # once
  netcliff serve --listen 0.0.0.0:9941 --key netcliff.key

The page runs the model and the simulator in the browser; the server gives it the runs of the store, which it only \
reads, and what `watch` shows. Without a key only this user and root may read the page. With a key the page's address \
has a token derived from it: everyone who knows the address can read the page. It serves 256 connections at once; a \
further one replaces a connection of the source that has the most."
    )]
    pub struct ServeArgs {
        /// Address and port; port 0 takes a free one. Addresses that other hosts reach need --key
        #[arg(long, default_value = "127.0.0.1:9941", value_name = "ADDRESS", value_parser = super::numbers::listening)]
        pub listen: SocketAddr,
        /// File with the key from which the token in the page's address is derived; only its owner may be able to read
        /// it
        #[arg(long, value_name = "FILE")]
        pub key: Option<PathBuf>,
        /// Open the page in a browser
        #[arg(long)]
        pub open: bool,
    }
}

mod trend {
    //! `netcliff results trend`.

    use std::path::PathBuf;

    use clap::Args;
    use netcliff_core::units;

    /// `netcliff results trend`.
    #[derive(Debug, Args)]
    #[command(
        after_help = "`--help` has examples and rarer options.",
        after_long_help = "Examples:
  netcliff stream --save --name nightly  # every night
  netcliff results trend nightly
  netcliff results trend nightly --fail-if-slower 5%  # in a build
  netcliff results trend nightly --svg nightly.svg --point 'tcp 1 flow'

A figure changes its level where the runs before and after differ by more than chance explains (E-divisive means, by \
permutation, level 0.05 over all figures). Fewer than 8 runs cannot show a change. Exit code 1 with \
--fail-if-slower: the newest change of a rate or latency made it worse by more than that share."
    )]
    pub struct TrendArgs {
        /// Name of the runs
        // Not `name`: that is the id of the store's --name, and clap would take one for the other.
        #[arg(value_name = "NAME")]
        pub of: String,
        /// Exit with 1 if the newest change of a rate or latency made it worse by more than this share
        #[arg(long, value_name = "5%", value_parser = share, allow_hyphen_values = true)]
        pub fail_if_slower: Option<f64>,
        /// The point that is drawn, by its name or a part of it [default: the first whose level changed, else the
        /// first]
        #[arg(long, value_name = "TEXT")]
        pub point: Option<String>,
        /// The figure that is drawn, such as goodput_bps [default: the first whose level changed, else the first]
        #[arg(long, value_name = "NAME")]
        pub figure: Option<String>,
        /// Print also figures whose level did not change
        #[arg(short, long, conflicts_with = "json")]
        pub verbose: bool,
        /// One JSON object
        #[arg(long)]
        pub json: bool,
        /// Write a self-contained page of the figure that is drawn
        #[arg(long, value_name = "FILE")]
        pub html: Option<PathBuf>,
        /// Write the figure that is drawn as SVG to this file
        #[arg(long, value_name = "FILE")]
        pub svg: Option<PathBuf>,
    }

    fn share(text: &str) -> Result<f64, String> {
        let share = units::parse_share(text).ok().filter(|share| (0.0..1.0).contains(share));
        share.ok_or_else(|| "expected a share from 0 to below 1, such as 5%".into())
    }
}
