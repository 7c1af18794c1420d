//! What `predict` and `simulate` share, and `netcliff predict`.

use std::path::PathBuf;

use clap::Args;
use netcliff_core::experiment::{PACKETS_RANGE, Rates};
use netcliff_core::{Arrivals, Flows, FrameSizes, Load, Queues, Scheme, units};
use netcliff_model::Fidelity;

/// The point or the sweep.
#[derive(Debug, Args)]
pub struct ComputeArgs {
    /// Costs and sizes of the host: a preset, a TOML file, find:3 or learn:4 (runs of the store), last-find or
    /// last-learn [default: this host's calibration, see `netcliff results calibrate`, else pentium4-2530mhz]
    #[arg(long, value_name = "PRESET|FILE|find:N|learn:N", help_heading = "Host")]
    pub host: Option<String>,
    /// Change one cost or size of the host, such as application=2us (repeatable)
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Host")]
    pub set: Vec<String>,
    // How packets reach the CPU.
    #[arg(long, value_name = "NAME[:key=value,...]", help_heading = "Host", help = scheme_help())]
    pub scheme: Option<Scheme>,
    /// Offered load: 100kpps, 300Mbit/s or 40% of line rate
    #[arg(long, conflicts_with = "rates", value_name = "RATE", allow_hyphen_values = true, help_heading = "Load")]
    pub rate: Option<Load>,
    /// Offered loads: a list, or a range such as 10kpps..300kpps:30
    #[arg(long, value_name = "LOW..HIGH:COUNT", allow_hyphen_values = true, help_heading = "Load")]
    pub rates: Option<Rates>,
    /// Arrival process: poisson, constant, batch:size=8, mmpp:..., onoff:... or trace:FILE[,speed=2][,once] (pcap,
    /// pcapng; without --rate as fast as recorded)
    #[arg(long, default_value = "poisson", help_heading = "Load")]
    pub arrivals: Arrivals,
    /// Frame sizes, FCS included: 64B (the default), imix, mci1998-like, a CSV file of bytes,weight, a capture
    /// (.pcap, .pcapng), or trace: the captured packets' own (the default with trace arrivals)
    #[arg(long, help_heading = "Load")]
    pub size: Option<FrameSizes>,
    /// Link speed, which no load may exceed [default: 1Gbit/s, for loads in % of line rate]
    ///
    /// Each frame takes 20 B more on the link, for preamble and gap.
    #[arg(long, value_parser = super::numbers::bit_rate_bps, allow_hyphen_values = true, help_heading = "Load")]
    pub link: Option<f64>,
    /// Receive queues: how many, with a core each or options such as 4:on=0/0/1/1 (the core of each queue) or
    /// 4:map=spread,cold=1.3,transmit=1us (docs/theory/queues.md), or the share of the load that each gets
    #[arg(
        long,
        value_name = "N[:key=value,...]|SHARE,...",
        allow_hyphen_values = true,
        help_heading = "Host",
        hide_short_help = true
    )]
    pub queues: Option<QueuesArg>,
    /// Flows that RSS spreads over the queues, the k-th with a weight of k^-zipf, or those of a capture (.pcap,
    /// .pcapng)
    #[arg(
        long,
        value_name = "N[:zipf=S]|FILE",
        requires = "queues",
        allow_hyphen_values = true,
        help_heading = "Load",
        hide_short_help = true
    )]
    pub flows: Option<Flows>,
    /// One JSON object, or one a line with --rates
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// CSV: to stdout, or to a file by --csv=FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "json", help_heading = "Output")]
    pub csv: Option<Option<PathBuf>>,
    /// Keep the records in the store
    #[arg(long, help_heading = "Output")]
    pub save: bool,
}

/// The help text of `--scheme`, with the names of all schemes.
fn scheme_help() -> String {
    let names = Scheme::names();
    let (last, others) = names.split_last().expect("schemes");
    format!(
        "How packets reach the CPU: {} or {last}, with parameters after a colon [default: that of the host's `find`, else napi]",
        others.join(", ")
    )
}

/// `netcliff predict`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff predict --scheme interrupt:drops_interrupt=false --rate 100kpps
  netcliff predict --scheme interrupt --fidelity paper --rates 10kpps..90kpps:9
  netcliff predict --host my.toml --set application=2us --rate 40%
  netcliff predict --scheme polling:period=20us,quota=3 --cliff --loss 1e-3
  netcliff predict --sensitivities --rate 100kpps --json
  netcliff predict --queues 40%,30%,20%,10% --cliff"
)]
pub struct PredictArgs {
    /// What to compute.
    #[command(flatten)]
    pub compute: ComputeArgs,
    /// Formulas: exact (exact for the model's assumptions), paper (approximations of the papers in docs/theory) or
    /// printed (the papers' formulas as printed, with misprints)
    #[arg(long, default_value = "exact", value_name = "exact|paper|printed", help_heading = "Analysis")]
    pub fidelity: Fidelity,
    /// Find the cliff and the throughput left at twice the cliff; without --rate the other figures are those at half
    /// the cliff
    #[arg(long, conflicts_with_all = ["rates", "csv"], help_heading = "Analysis")]
    pub cliff: bool,
    /// Loss fraction that defines the cliff
    #[arg(long, default_value = "1e-4", value_parser = super::loss, allow_negative_numbers = true, help_heading = "Analysis")]
    pub loss: f64,
    /// With the cliff, show how the cliff, the latency and the CPU left change with each cost of the host
    #[arg(long, conflicts_with_all = ["rates", "csv"], help_heading = "Analysis")]
    pub sensitivities: bool,
}

pub(super) fn packets(text: &str) -> Result<u64, String> {
    let count = units::parse_count("packets", text).ok().filter(|count| PACKETS_RANGE.contains(count));
    count.ok_or_else(|| "expected a whole number from 1000 to 100000000000, such as 1_000_000".into())
}

/// Value of `--queues`: a number of queues with options (`4:map=spread`), or the share of the load that each queue gets
/// (`40%,30%,30%`).
#[derive(Debug, Clone, PartialEq)]
pub struct QueuesArg(pub Queues);

impl std::str::FromStr for QueuesArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(':') || !text.contains([',', '%', '.']) {
            let queues: Queues = text.parse().map_err(|error: netcliff_core::ParseError| {
                format!("{error}; or the share of each such as 40%,30%,30%")
            })?;
            return queues.validate().map(|()| Self(queues)).map_err(|error| error.to_string());
        }
        let form = "expected a number of queues such as 4, or the share of each such as 40%,30%,30%";
        let shares: Result<Vec<f64>, _> = text.split(',').map(units::parse_share).collect();
        let shares = shares.map_err(|error| format!("{error}; {form}"))?;
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(format!("the shares sum to {}, not to 100%; {form}", units::print_share(sum)));
        }
        // Shares of three digits, such as a third each, need not sum to 1 to the last bit.
        let queues = Queues::with_shares(shares.into_iter().map(|share| share / sum).collect());
        queues.validate().map(|()| Self(queues)).map_err(|error| error.to_string())
    }
}
