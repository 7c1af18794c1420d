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

A figure changes its level where the runs before and after differ beyond what chance explains (E-divisive means, by
permutation, level 0.05 over all figures). Fewer than 8 runs cannot show a change. Exit code 1 with --fail-if-slower: the
newest change of a figure of speed made it slower by more than that, and nothing has mended it since."
)]
pub struct TrendArgs {
    /// Name of the runs
    // Not `name`: that is the id of the store's --name, and clap would take one for the other.
    #[arg(value_name = "NAME")]
    pub of: String,
    /// Exit with 1 where the newest change made a figure of speed slower by more than this share
    #[arg(long, value_name = "5%", value_parser = share, allow_hyphen_values = true)]
    pub fail_if_slower: Option<f64>,
    /// The point that is drawn, by its name or a part of it [default: the first whose level changed, else the first]
    #[arg(long, value_name = "TEXT")]
    pub point: Option<String>,
    /// The figure that is drawn, such as goodput_bps [default: the first whose level changed, else the first]
    #[arg(long, value_name = "NAME")]
    pub figure: Option<String>,
    /// Also figures whose level did not change
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Write a self-contained page of the figure that is drawn
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the figure
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = units::parse_share(text).ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "expected a share from 0 to below 1, such as 5%".into())
}
