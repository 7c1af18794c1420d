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
  netcliff compare old-kernel new-kernel  # runs kept with --name
  netcliff compare before.json after.json --fail-if-slower 5%  # in a build
  netcliff compare before.json after.json --fail-if-slower 5% --junit out.xml
  netcliff stream --json > before.json  # what such a file is

B is judged against A. Measured rates and latencies count for --fail-if-slower. Exit code 1: one is shown to be \
slower by more than that (Welch's t, corrected by Holm for many points); 0: each is shown to be slower by less, if \
at all; 3: inconclusive, the repeats show neither. ./12 is a file of that name."
)]
pub struct CompareArgs {
    /// What to compare against: a run of the store by its number, its name, last or last~1, or a file of JSON that netcliff wrote
    #[arg(value_name = "A", value_parser = named)]
    pub a: String,
    /// The run to judge
    #[arg(value_name = "B", value_parser = named)]
    pub b: String,
    /// Exit with 1 if a figure of speed is shown to be slower by more than this share, with 3 if the repeats do not tell
    #[arg(long, value_name = "5%", value_parser = share, allow_hyphen_values = true)]
    pub fail_if_slower: Option<f64>,
    /// Print all that was found: every figure and change, how it was tested, notes
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// Write a test case a figure in JUnit's XML, which build servers show
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the figures of B that are better when more as JSON for github-action-benchmark (tool: customBiggerIsBetter)
    #[arg(long, value_name = "FILE")]
    pub benchmark_bigger: Option<PathBuf>,
    /// Write the figures of B that are better when less as JSON for github-action-benchmark (tool:
    /// customSmallerIsBetter)
    #[arg(long, value_name = "FILE")]
    pub benchmark_smaller: Option<PathBuf>,
    /// Write a self-contained page
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
