//! `netcliff advise`.

use clap::{Args, ValueEnum};
use netcliff_core::experiment::{Rates, Share};
use netcliff_core::objective::figure;
use netcliff_core::{Arrivals, Constraint, FrameSizes, Goal, Load, Measure, Scheme, units};
use netcliff_host::testbed::vm::Model;
use netcliff_lab::advise::Indifference;

use super::GuestArgs;

/// `netcliff advise`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff advise --rate 100kpps --if eth0
  netcliff advise --rate 100kpps --minimise p99 --subject-to 'available>=30%'
  netcliff advise --rates 20kpps..160kpps:8 --objective cpu --json
  netcliff advise --rate 40kpps --arrivals onoff --candidates coalesce,napi
  netcliff advise --host last-find --rate 10kpps --try vm:e1000e   # after find

The advice ends in commands for this host (ethtool -C, sysctl, sysfs). `netcliff tune try` measures a setting before \
it is kept. Figures: mean, p50, p90, p99, p999, loss, throughput, goodput, available, interrupts, and every key that \
`predict --csv` prints. Exit code 1: no candidate meets the constraints, or the packets allowed did not suffice to \
decide."
)]
pub struct AdviseArgs {
    /// Costs and sizes of the host: a preset, a TOML file, find:3 or learn:4 (runs of the store), last-find or
    /// last-learn [default: this host's calibration, see `netcliff results calibrate`, else pentium4-2530mhz]
    #[arg(long, value_name = "PRESET|FILE|find:N|learn:N", help_heading = "Host")]
    pub host: Option<String>,
    /// Change one cost or size of the host, such as application=2us (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Host")]
    pub set: Vec<String>,
    /// Offered load: 100kpps, 300Mbit/s or 40% of line rate
    #[arg(long, conflicts_with = "rates", value_name = "RATE", allow_hyphen_values = true, help_heading = "Load")]
    pub rate: Option<Load>,
    /// Offered loads, advised on one by one: a list, or a range such as 20kpps..160kpps:8
    #[arg(long, value_name = "LOW..HIGH:COUNT", allow_hyphen_values = true, help_heading = "Load")]
    pub rates: Option<Rates>,
    /// Arrival process: poisson, constant, batch:size=8, mmpp:..., onoff:... or trace:FILE
    #[arg(long, default_value = "poisson", help_heading = "Load")]
    pub arrivals: Arrivals,
    /// Frame sizes, FCS included: 64B, imix, mci1998-like or a CSV file of bytes,weight
    #[arg(long, default_value = "64B", help_heading = "Load")]
    pub size: FrameSizes,
    /// Link speed, which no load may exceed [default: 1Gbit/s, for loads in % of line rate]
    ///
    /// Each frame takes 20 B more on the link, for preamble and gap.
    #[arg(long, value_parser = super::numbers::bit_rate_bps, allow_hyphen_values = true, hide_short_help = true, help_heading = "Load")]
    pub link: Option<f64>,
    /// The goal by name: latency is --minimise p99, cpu is --maximise available, both with --subject-to 'loss<=1e-4'
    /// unless you give constraints; throughput is --maximise throughput
    #[arg(long, default_value = "latency", conflicts_with_all = ["minimise", "maximise"])]
    pub objective: Policy,
    /// The figure to minimise
    #[arg(long, value_name = "FIGURE", value_parser = figure, conflicts_with = "maximise")]
    pub minimise: Option<Measure>,
    /// The figure to maximise
    #[arg(long, value_name = "FIGURE", value_parser = figure)]
    pub maximise: Option<Measure>,
    /// Constraint (repeatable), such as 'loss<=1e-4'
    #[arg(long, value_name = "FIGURE<=BOUND|FIGURE>=BOUND")]
    pub subject_to: Vec<Constraint>,
    /// Schemes to try, with a grid of parameters each: all that Linux has (with --all-schemes the others, too), or
    /// names such as napi,coalesce [default: all, or none where --scheme is given]
    #[arg(long, value_name = "all|NAME,...", value_delimiter = ',')]
    pub candidates: Vec<String>,
    /// A setting to try (repeatable)
    #[arg(long, value_name = "NAME[:key=value,...]")]
    pub scheme: Vec<Scheme>,
    /// Only what this device's driver can set, with the commands that set it [default: any driver; the commands name
    /// DEV]
    #[arg(long = "if", value_name = "DEVICE")]
    pub interface: Option<String>,
    /// Also schemes that no driver offers, such as polling; they are marked
    #[arg(long, hide_short_help = true)]
    pub all_schemes: bool,
    /// Minimum probability that constraints are judged correctly and the best candidate is picked
    #[arg(long, default_value = "95%", hide_short_help = true)]
    pub confidence: Share,
    /// Smallest difference that matters: a share of the best (of one CPU for CPU shares), or an amount in the figure's
    /// unit
    #[arg(long, default_value = "2%", value_name = "SHARE|AMOUNT", hide_short_help = true)]
    pub indifference: String,
    /// Do not simulate candidates that the model puts further than this from a bound or from the best
    #[arg(long, default_value = "25%", value_parser = units::parse_share, hide_short_help = true)]
    pub margin: f64,
    /// Replications of each candidate before one is selected; candidates that are clearly worse after a quarter of them
    /// get no more
    #[arg(long, default_value = "20", value_parser = replications, hide_short_help = true)]
    pub first_stage: u64,
    /// Packets of a replication
    #[arg(long, default_value = "50000", value_parser = super::compute::packets, hide_short_help = true)]
    pub packets_each: u64,
    /// Maximum number of packets to simulate for each load
    #[arg(long, default_value = "200000000", value_parser = super::compute::packets, hide_short_help = true)]
    pub packets_at_most: u64,
    /// Seed of every random stream
    #[arg(long, default_value_t = 1, value_parser = super::seed, allow_negative_numbers = true, hide_short_help = true)]
    pub seed: u64,
    /// Try the advised setting in a guest of QEMU: vm:e1000e, vm:igb or vm:vmxnet3
    ///
    /// Prints its measured effect next to the predicted one; only settings that the driver supports are advised
    #[arg(long = "try", value_name = "TESTBED", value_parser = guest, conflicts_with_all = ["interface", "all_schemes"], help_heading = "Trial")]
    pub try_in: Option<Model>,
    /// What the guest is made of.
    #[command(flatten)]
    pub guest: GuestArgs,
    /// Print everything: also the figure, settings off the Pareto front, and settings without a result
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// One JSON object, or one a line with --rates
    #[arg(long)]
    pub json: bool,
}

/// Reads `vm:DRIVER`.
pub(super) fn guest(text: &str) -> Result<Model, String> {
    let form = || "expected vm: and a driver, such as vm:e1000e".to_owned();
    text.strip_prefix("vm:").ok_or_else(form)?.parse().map_err(|error: netcliff_core::ParseError| error.to_string())
}

/// A predefined goal with its constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Low latency
    Latency,
    /// CPU time left for other work
    Cpu,
    /// High throughput
    Throughput,
}

impl AdviseArgs {
    /// The goal and its constraints. They come from --minimise or --maximise, otherwise from --objective; --subject-to
    /// replaces the constraints of --objective.
    pub fn objective(&self) -> anyhow::Result<(Goal, Vec<Constraint>)> {
        if let Some((measure, maximise)) = self.minimise.map(|m| (m, false)).or(self.maximise.map(|m| (m, true))) {
            return Ok((Goal { measure, maximise }, self.subject_to.clone()));
        }
        let (goal, constraints) = match self.objective {
            Policy::Latency => ("minimise p99", vec!["loss<=1e-4".parse()?]),
            Policy::Cpu => ("maximise available", vec!["loss<=1e-4".parse()?]),
            Policy::Throughput => ("maximise throughput", Vec::new()),
        };
        Ok((goal.parse()?, if self.subject_to.is_empty() { constraints } else { self.subject_to.clone() }))
    }

    /// The smallest difference that matters (--indifference): a share if the text ends in %, otherwise an amount in the
    /// unit of the goal's figure. Errors: the text is neither, or the value is not above 0.
    pub fn zone(&self, goal: &Goal) -> Result<Indifference, String> {
        let text = self.indifference.trim();
        let form = "expected a share such as 2%, or an amount above 0 in the unit of the figure";
        let refused = |why: String| format!("--indifference {text:?} for {}: {why}; {form}", goal.measure);
        let (zone, value) = match text.ends_with('%') {
            true => units::parse_share(text).map(|share| (Indifference::Share(share), share)),
            false => goal.measure.dimension.parse(text).map(|amount| (Indifference::Absolute(amount), amount)),
        }
        .map_err(|error| refused(error.to_string()))?;
        if value > 0.0 { Ok(zone) } else { Err(refused("it must be above 0".to_owned())) }
    }
}

fn replications(text: &str) -> Result<u64, String> {
    let count = units::parse_count("replications", text).ok().filter(|count| (5..=10_000).contains(count));
    count.ok_or_else(|| "expected a whole number from 5 to 10000, such as 20".into())
}
