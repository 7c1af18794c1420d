//! What to do while another run measures this host.

use std::time::Duration;

use clap::Args;
use netcliff_core::units;
use netcliff_host::journal::HostLock;

use crate::output;

/// The longest that is waited for (s): a week.
const LONGEST_S: f64 = 604_800.0;

/// Waiting for other runs.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Wait for another run that measures or changes this host, at most so long [without a time: 10min; default: not at
    /// all; root waits 10s for another user's, then goes on beside it]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "600s",
        value_parser = units::parse_time_s, help_heading = "Other runs", hide_short_help = true)]
    pub wait: Option<f64>,
}

impl WaitArgs {
    /// From now on, in this process.
    pub fn begin(&self) -> anyhow::Result<()> {
        let Some(limit_s) = self.wait else { return Ok(()) };
        if !(0.0..=LONGEST_S).contains(&limit_s) {
            return Err(output::usage(format!("--wait={limit_s}s: expected at most a week")));
        }
        HostLock::wait_for_others(Duration::from_secs_f64(limit_s), |told| output::say(format!("netcliff: {told}")));
        Ok(())
    }
}
