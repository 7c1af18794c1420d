//! `netcliff run`.

use std::path::{Path, PathBuf};

use clap::Args;
use netcliff_core::experiment::Share;
use netcliff_core::{Choice, EngineKind, FrameSizes};
use netcliff_trial::rig::Place;

use super::FarArgs;
use super::bed::Testbed;
use super::guest::GuestArgs;
use super::numbers::{self, whole};
use super::wait::WaitArgs;

/// `netcliff run`.
#[derive(Debug, Args)]
#[command(
    mut_args(super::live_note),
    mut_args(super::testbed_note),
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff run --list  # the built-in experiments
  netcliff run fig-7a  # the figure in the terminal
  netcliff run fig-7a --html fig-7a.html  # and as a page
  netcliff run fig-10a --packets 100_000  # faster and coarser
  netcliff run sweep.toml --resume  # goes on where it was stopped or killed
  netcliff run block-sweep  # real transfers between two namespaces
  netcliff run block-sweep --ssh root@db1  # or to an agent on another host
  netcliff run coalescing --testbed vm:igb  # a real driver, in a guest
  netcliff run forwarding-optimised  # a router plain, tuned, and by XDP
  netcliff run feature-matrix --ssh root@db1 --devices eth0,eth1
  netcliff run fig-7a roofline --claims claims.md  # checks claims of the files

Every point is stored in the record store as soon as its result is known. A point that an engine cannot compute is \
listed with the reason; the run goes on with the others."
)]
pub struct RunArgs {
    /// The experiment: a TOML file, or the name of a built-in one (those in experiments/)
    ///
    /// Several files are run one after the other; this needs --claims.
    #[arg(value_name = "FILE", required_unless_present = "list", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// List the built-in experiments with their titles; with --json one object a line
    #[arg(long, conflicts_with = "files", help_heading = "Experiment")]
    pub list: bool,
    /// Engines: model, sim or wire (measured) (repeatable) [default: as the file says]
    #[arg(long, value_name = "ENGINE", value_delimiter = ',', help_heading = "Experiment")]
    pub engine: Vec<EngineKind>,
    /// Seed of every random stream [default: the file's, or derived from its text]
    #[arg(long, value_parser = super::seed, allow_negative_numbers = true, help_heading = "Experiment")]
    pub seed: Option<u64>,
    /// Simulate or repeat until the intervals have this relative half width, instead of the file's
    #[arg(long, help_heading = "Experiment")]
    pub precision: Option<Share>,
    /// Packets to simulate per point, instead of the file's number; with --precision the maximum
    #[arg(long, value_parser = super::compute::packets, allow_negative_numbers = true, help_heading = "Experiment")]
    pub packets: Option<u64>,
    /// Go on with the newest unfinished run of this file with the same settings; start anew without such a run
    #[arg(long, help_heading = "Experiment")]
    pub resume: bool,
    /// Only these points, by the number that `--live` gives them, from 0; the others stay open for --resume
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = whole::<0, 1_000_000_000>, allow_negative_numbers = true,
        help_heading = "Experiment", hide_short_help = true)]
    pub points: Vec<u32>,
    /// Points computed at a time; the results do not depend on it [default: the number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Experiment")]
    pub threads: Option<u16>,
    /// Repeats of each configuration in an experiment of transfers, or rounds in one of forwarding, instead of the
    /// file's number
    #[arg(long, value_name = "N", value_parser = whole::<1, 1000>, allow_negative_numbers = true, help_heading = "Experiment")]
    pub repeats: Option<u32>,
    /// Maximum number of repeats with a precision, instead of the file's [default: 5 times the repeats]
    #[arg(long, value_name = "N", value_parser = whole::<1, 1000>, allow_negative_numbers = true, help_heading = "Experiment", hide_short_help = true)]
    pub max_repeats: Option<u32>,
    /// Measured time of a repeat in an experiment of transfers, or length of a trial in one of forwarding, instead of
    /// the file's
    #[arg(long, value_parser = numbers::seconds, allow_hyphen_values = true, help_heading = "Experiment")]
    pub time: Option<f64>,
    /// Frame sizes of an experiment of forwarding, instead of the file's
    #[arg(long, value_name = "64B,512B", value_delimiter = ',', help_heading = "Experiment", hide_short_help = true)]
    pub sizes: Vec<FrameSizes>,
    /// Where an experiment of transfers is measured: best, netns, loopback, or vm:DRIVER, to a guest with that NIC
    ///
    /// best is netns where permitted, else loopback. vm:e1000, vm:e1000e, vm:igb, vm:virtio-net and vm:vmxnet3 are the
    /// NIC of a guest of QEMU (docs/how-to/vm.md): the experiment may change its offloads and coalescing, and the MTU
    /// and rate of its link.
    #[arg(long, value_name = "TESTBED", value_parser = Testbed::parser(), hide_possible_values = true, default_value = Place::Netns.name(), conflicts_with_all = ["to", "ssh"], help_heading = "Ends")]
    pub testbed: Testbed,
    /// Where the far end of an experiment of transfers is.
    #[command(flatten)]
    pub far: FarArgs,
    /// What a guest is made of.
    #[command(flatten)]
    pub guest: GuestArgs,
    /// Devices whose offloads, coalescing, MTU, speed and duplex an experiment to an agent may change: this host's, and
    /// with --ssh the far host's too (with --to it is the agent's --allow-settings). All is set back. Needs root at
    /// both ends
    #[arg(long, value_name = "IF[,FAR_IF]", value_delimiter = ',', value_parser = numbers::device, help_heading = "Ends")]
    pub devices: Vec<String>,
    /// Print the records as JSON, one a line; for transfers one object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Also profile each measured configuration or point in its first turn: CPU time of packets by stage
    /// (docs/how-to/profile.md); with --json one more line each
    #[arg(long, conflicts_with_all = ["live", "csv", "claims"], help_heading = "Output", hide_short_help = true)]
    pub profile: bool,
    /// Print events as JSON lines as they happen, result last; to stderr with --json
    #[arg(long, conflicts_with = "csv", help_heading = "Output")]
    pub live: bool,
    /// The records as CSV: to stdout, or to a file by --csv=FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "json", help_heading = "Output")]
    pub csv: Option<Option<PathBuf>>,
    /// Write a self-contained HTML page with the figure to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Write the figure as SVG to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub svg: Option<PathBuf>,
    /// Write to this file, as Markdown, each claim of the experiments, its result and whether it holds
    ///
    /// Rows of the experiments that are run replace their earlier rows in the file; the rest of the file stays.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub claims: Option<PathBuf>,
    /// While another run goes on.
    #[command(flatten)]
    pub wait: WaitArgs,
}

impl RunArgs {
    /// The experiment's file or name; empty with --list.
    pub fn file(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }
}
