//! What to do while another run measures this host.

use std::time::Duration;

use super::numbers;
use clap::Args;
use netcliff_host::journal::{HostLock, JournalError, StateDir};

use crate::output;

/// The longest that is waited for (s): a week.
const LONGEST_S: f64 = 604_800.0;

/// What is done while another run measures or changes this host: of this user or, where it is seen, of another.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Wait for another run that measures or changes this host, at most this long [without a time: 600s; default: do
    /// not wait; root waits 10s for another user's run, then starts at the same time]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "600s",
        value_parser = limit, help_heading = "Other runs", hide_short_help = true)]
    pub wait: Option<f64>,
    /// Start even if another user is measuring: both are disturbed, and the result says so
    #[arg(long, conflicts_with = "wait", help_heading = "Other runs", hide_short_help = true)]
    pub no_wait: bool,
}

fn limit(text: &str) -> Result<f64, String> {
    let seconds = numbers::seconds(text)?;
    if seconds <= LONGEST_S {
        Ok(seconds)
    } else {
        Err("expected at most a week, such as 100 (seconds) or 5min".into())
    }
}

impl WaitArgs {
    /// From now on, in this process.
    pub fn begin(&self) {
        if self.no_wait {
            HostLock::go_on_beside_others();
        }
        let told = |told: &str| output::say(format!("netcliff: {told}"));
        HostLock::wait_for_others(self.wait.map(Duration::from_secs_f64), told);
    }

    /// Keeps other runs away from a measurement that changes nothing of this host, as long as what comes back lives;
    /// what else is said of it. Nothing has to be cleaned up after it, so that it goes on where no lock is available
    /// for want of a directory, and with --no-wait beside a run of the same user.
    pub fn hold(&self) -> anyhow::Result<(Option<HostLock>, Vec<String>)> {
        match StateDir::default_for_user().and_then(|state| HostLock::acquire_and_replay(&state)) {
            Ok((lock, replayed)) => Ok((Some(lock), replayed.left_over())),
            Err(JournalError::Busy { holder }) if self.no_wait => Ok((
                None,
                vec![format!("another netcliff run ({holder}) measures or changes this host at the same time")],
            )),
            Err(error @ JournalError::Io { .. }) => {
                Ok((None, vec![format!("other runs on this host are not seen: {error}")]))
            }
            Err(error) => Err(error.into()),
        }
    }
}
