//! How often a configuration is measured.

use clap::Args;
use netcliff_core::experiment::Share;
use netcliff_core::repeats::Repeats;

use super::numbers::whole;
use crate::output;

/// Repeats, and what ends them.
#[derive(Debug, Args)]
pub struct RepeatArgs {
    /// Repeats of each configuration; with --precision the least
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<1, 1000>, allow_negative_numbers = true, help_heading = "Measurement")]
    pub repeats: u32,
    /// Repeat until the mean is known to this relative half width (95 % interval), or say that it is not
    #[arg(long, value_name = "2%", allow_hyphen_values = true, help_heading = "Measurement")]
    pub precision: Option<Share>,
    /// The most repeats with --precision [default: 5 times --repeats]
    #[arg(long, value_name = "N", value_parser = whole::<1, 1000>, requires = "precision", allow_negative_numbers = true, help_heading = "Measurement", hide_short_help = true)]
    pub max_repeats: Option<u32>,
}

impl RepeatArgs {
    /// As the measuring side takes it.
    pub fn repeats(&self) -> anyhow::Result<Repeats> {
        let precision = self.precision.map(|share| share.0);
        Repeats::new(self.repeats, precision, self.max_repeats).map_err(|said| {
            let option = if self.max_repeats.is_some() { "--max-repeats" } else { "--repeats" };
            output::usage(format!("{option}: {said}"))
        })
    }
}
