//! `netcliff compare`.

use std::path::PathBuf;

use clap::Args;
use netcliff_core::units;

/// `netcliff compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff compare last~1 last  # the last two runs of the store
  netcliff compare 12 15 --html diff.html
  netcliff compare old-kernel new-kernel  # runs stored with --name
  netcliff compare before.json after.json --fail-if-slower 5%  # in a build
  netcliff compare before.json after.json --fail-if-slower 5% --junit out.xml
  netcliff stream --json > before.json  # writes such a file

B is compared with A. Measured rates and latencies count for --fail-if-slower. Exit code 1: one is shown to be slower \
by more than that share (Welch's t, corrected by Holm for many points); 0: each is shown to be slower by less, if \
at all; 3: inconclusive, the repeats show neither. ./12 is a file of that name."
)]
pub struct CompareArgs {
    /// What to compare against: a run of the store by its number, its name, last or last~1, or a file of JSON that
    /// netcliff wrote
    #[arg(value_name = "A", value_parser = named)]
    pub a: String,
    /// The run that is judged against A
    #[arg(value_name = "B", value_parser = named)]
    pub b: String,
    /// Exit with 1 if a rate or latency is shown to be worse by more than this share, with 3 if the repeats do not
    /// decide
    #[arg(long, value_name = "5%", value_parser = share, allow_hyphen_values = true)]
    pub fail_if_slower: Option<f64>,
    /// Print everything: also every figure and change, how it was tested, and notes
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Write JUnit XML with one test case per figure, which build servers show
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the figures of B for which more is better as JSON for github-action-benchmark (tool: customBiggerIsBetter)
    #[arg(long, value_name = "FILE")]
    pub benchmark_bigger: Option<PathBuf>,
    /// Write the figures of B for which less is better as JSON for github-action-benchmark (tool:
    /// customSmallerIsBetter)
    #[arg(long, value_name = "FILE")]
    pub benchmark_smaller: Option<PathBuf>,
    /// Write a self-contained HTML page to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = units::parse_share(text).ok().filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "expected a share from 0 to below 1, such as 5%".into())
}

fn named(text: &str) -> Result<String, String> {
    let wanted = "expected a run of the store (12, last, last~1, its name) or a file of JSON that netcliff wrote";
    if text.trim().is_empty() { Err(wanted.into()) } else { Ok(text.to_owned()) }
}
