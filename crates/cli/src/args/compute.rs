//! `netcliff predict` and `netcliff simulate`.

use clap::Args;
use netcliff_core::experiment::{PACKETS_RANGE, Rates, Share};
use netcliff_core::{Arrivals, FrameSizes, Load, Scheme, units};
use netcliff_model::Fidelity;

/// The point or the sweep.
#[derive(Debug, Args)]
pub struct ComputeArgs {
    /// Costs and sizes: a preset or a TOML file
    #[arg(long, default_value = "pentium4-2530mhz", value_name = "PRESET|FILE.toml")]
    pub host: String,
    /// Change one cost or size of the host, such as application=2us (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// How packets reach the CPU: ideal, interrupt, disable-enable, polling, napi-2007, napi, coalesce, hybrid
    /// or dim, with parameters after a colon
    #[arg(long, default_value = "napi", value_name = "NAME[:key=value,...]")]
    pub scheme: Scheme,
    /// Offered load: 100kpps, 300Mbit/s or 40% of line rate
    #[arg(long, conflicts_with = "rates", value_name = "RATE", allow_hyphen_values = true)]
    pub rate: Option<Load>,
    /// Offered loads: a list, or a range such as 10kpps..300kpps:30
    #[arg(long, value_name = "LOW..HIGH:COUNT", allow_hyphen_values = true)]
    pub rates: Option<Rates>,
    /// Arrival process: poisson, constant, batch:size=8, mmpp:..., onoff:... or trace:FILE
    #[arg(long, default_value = "poisson")]
    pub arrivals: Arrivals,
    /// Frame sizes, FCS included: 64B, imix, mci1998-like or a CSV file of bytes,weight
    #[arg(long, default_value = "64B")]
    pub size: FrameSizes,
    /// Link speed, for shares of line rate
    #[arg(long, default_value = "1Gbit/s", value_parser = units::parse_bps, allow_hyphen_values = true)]
    pub link: f64,
    /// One JSON object, or one a line with --rates
    #[arg(long)]
    pub json: bool,
    /// CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Keep the records in the store
    #[arg(long)]
    pub save: bool,
}

/// `netcliff predict`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  netcliff predict --scheme interrupt:drops_interrupt=false --rate 100kpps
  netcliff predict --scheme interrupt --fidelity paper --rates 10kpps..300kpps:30 --json
  netcliff predict --host my.toml --set application=2us --rate 40%
  netcliff predict --scheme polling:period=20us,quota=3 --cliff --loss 1e-3
  netcliff predict --sensitivities --rate 100kpps --json")]
pub struct PredictArgs {
    /// What to compute.
    #[command(flatten)]
    pub compute: ComputeArgs,
    /// The papers' approximation, or the chain that is exact for its assumptions
    #[arg(long, default_value = "exact", value_name = "paper|exact")]
    pub fidelity: Fidelity,
    /// Find the cliff and what is left of the throughput at twice its load; without --rate the figures are those at
    /// half the cliff
    #[arg(long, conflicts_with_all = ["rates", "csv"])]
    pub cliff: bool,
    /// Loss fraction that defines the cliff
    #[arg(long, default_value = "1e-4", value_parser = super::loss, allow_negative_numbers = true)]
    pub loss: f64,
    /// With the cliff, how it, the latency and the CPU move with each cost of the host
    #[arg(long, conflicts_with_all = ["rates", "csv"])]
    pub sensitivities: bool,
}

/// `netcliff simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  netcliff simulate --scheme napi:weight=64,budget=300 --rate 100kpps
  netcliff simulate --set application=2us --rates 10kpps..300kpps:30 --precision 1% --json")]
pub struct SimulateArgs {
    /// What to compute.
    #[command(flatten)]
    pub compute: ComputeArgs,
    /// Seed of every random stream
    #[arg(long, default_value_t = 1, value_parser = super::seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// Arrivals to simulate, over all replications
    #[arg(long, default_value = "1000000", conflicts_with = "precision", value_parser = packets)]
    #[arg(allow_negative_numbers = true)]
    pub packets: u64,
    /// Simulate until the figures are known to this relative half width
    #[arg(long)]
    pub precision: Option<Share>,
    /// Confidence of the intervals
    #[arg(long, default_value = "95%")]
    pub confidence: Share,
}

pub(super) fn packets(text: &str) -> Result<u64, String> {
    let count = units::parse_count("packets", text).ok().filter(|count| PACKETS_RANGE.contains(count));
    count.ok_or_else(|| "expected a whole number from 1000 to 100000000000, such as 1_000_000".into())
}
