//! What to do while another run measures this host.

use std::time::Duration;

use super::numbers;
use clap::Args;
use netcliff_core::record::OtherRun;
use netcliff_host::journal::{HostLock, JournalError, StateDir};

use crate::output;

/// Longest time that `--wait` accepts (s): a week.
const LONGEST_S: f64 = 604_800.0;

/// What is done while another run measures or changes this host: of this user or, where it is seen, of another.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// If another run measures or changes this host, wait until it ends, at most this long [without a time: 600s].
    /// Without --wait the command then does not start; root waits 10s for another user's run, and runs next to it
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
    /// Applies the options to this process, for every later lock of the host.
    pub fn begin(&self) {
        if self.no_wait {
            HostLock::go_on_beside_others();
        }
        let say = |line: &str| output::say(format!("netcliff: {line}"));
        HostLock::wait_for_others(self.wait.map(Duration::from_secs_f64), say);
    }

    /// Takes the host's lock for a measurement that changes nothing of this host. Other runs wait while the returned
    /// lock exists. The strings are notes for the result.
    ///
    /// Such a measurement leaves nothing to restore. Therefore it also runs without a lock if the lock's directory
    /// cannot be used, or if `--no-wait` is given and a run of the same user has the lock.
    pub fn hold(&self) -> anyhow::Result<(Option<HostLock>, Vec<String>)> {
        match StateDir::default_for_user().and_then(|state| HostLock::acquire_and_replay(&state)) {
            Ok((lock, replayed)) => Ok((Some(lock), replayed.left_over())),
            Err(JournalError::Busy { holder }) if self.no_wait => {
                Ok((None, vec![OtherRun { process: holder }.to_string()]))
            }
            Err(error @ JournalError::Io { .. }) => {
                Ok((None, vec![format!("other runs on this host are not seen: {error}")]))
            }
            Err(error) => Err(error.into()),
        }
    }
}
