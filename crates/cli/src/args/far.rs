//! Where the far end of a test between hosts is.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::output;

/// An agent, or none.
#[derive(Debug, Clone, Args)]
pub struct FarArgs {
    /// An agent, HOST or HOST:PORT [default port: 9940]; several start together
    #[arg(long, value_name = "HOST[:PORT]", help_heading = "Far end")]
    pub to: Vec<String>,
    /// Run the agent there by ssh; data goes to the same host, or to --data-to
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
        if let (Some(address), [_, _, ..]) = (&self.data_to, &self.to[..]) {
            return Err(output::usage(format!(
                "--data-to {address}: with several agents the data goes where each is reached; leave it out"
            )));
        }
        if self.to.iter().any(|to| to.trim().is_empty()) {
            return Err(output::usage("--to is empty: expected a host, HOST:PORT or [ADDRESS]:PORT"));
        }
        Ok(())
    }

    /// Refuses several agents, for a command that has one far end; and what cannot be.
    pub fn check_one(&self) -> anyhow::Result<()> {
        self.check()?;
        match &self.to[..] {
            [_, second, ..] => Err(output::usage(format!(
                "--to {second}: this has one far end; `netcliff stream` and `netcliff rr` take several agents"
            ))),
            _ => Ok(()),
        }
    }

    /// Each agent by itself, where there are several.
    pub fn several(&self) -> Vec<Self> {
        if self.to.len() < 2 {
            return Vec::new();
        }
        let one = |to: &String| Self { to: vec![to.clone()], ..self.clone() };
        self.to.iter().map(one).collect()
    }

    /// True where an agent is asked for.
    pub fn is_asked(&self) -> bool {
        !self.to.is_empty() || self.ssh.is_some()
    }

    /// As another netcliff takes them.
    pub fn as_arguments(&self) -> Vec<OsString> {
        let path = |path: &PathBuf| path.as_os_str().to_owned();
        let given = [
            ("--to", self.to.first().map(OsString::from)),
            ("--ssh", self.ssh.as_ref().map(OsString::from)),
            ("--data-to", self.data_to.as_ref().map(OsString::from)),
            ("--key", self.key.as_ref().map(path)),
        ];
        given.into_iter().filter_map(|(flag, value)| Some([flag.into(), value?])).flatten().collect()
    }
}
