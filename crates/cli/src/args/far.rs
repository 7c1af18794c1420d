//! Where the far end of a test between hosts is.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::output;

/// An agent, or none.
#[derive(Debug, Args)]
pub struct FarArgs {
    /// An agent, HOST or HOST:PORT [default port: 9940]
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "Far end")]
    pub to: Option<String>,
    /// Run `netcliff agent --stdio` on this host by ssh; the data goes to the same host, or to --data-to
    #[arg(long, value_name = "HOST", conflicts_with = "to", help_heading = "Far end")]
    pub ssh: Option<String>,
    /// Address the data goes to, where it is not that of the control connection
    #[arg(long, value_name = "ADDRESS", help_heading = "Far end", hide_short_help = true)]
    pub data_to: Option<String>,
    /// File with the agent's key
    #[arg(long, value_name = "FILE", requires = "to", help_heading = "Far end")]
    pub key: Option<PathBuf>,
}

impl FarArgs {
    /// Refuses what would be ignored or cannot be.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.data_to.is_some() && !self.is_asked() {
            return Err(output::usage("--data-to is for data to an agent: add --to or --ssh"));
        }
        if self.to.as_ref().is_some_and(|to| to.trim().is_empty()) {
            return Err(output::usage("--to is empty: expected a host, HOST:PORT or [ADDRESS]:PORT"));
        }
        Ok(())
    }

    /// True where an agent is asked for.
    pub fn is_asked(&self) -> bool {
        self.to.is_some() || self.ssh.is_some()
    }

    /// As another netcliff takes them.
    pub fn as_arguments(&self) -> Vec<OsString> {
        let path = |path: &PathBuf| path.as_os_str().to_owned();
        let given = [
            ("--to", self.to.as_ref().map(OsString::from)),
            ("--ssh", self.ssh.as_ref().map(OsString::from)),
            ("--data-to", self.data_to.as_ref().map(OsString::from)),
            ("--key", self.key.as_ref().map(path)),
        ];
        given.into_iter().filter_map(|(flag, value)| Some([flag.into(), value?])).flatten().collect()
    }
}
