//! Where the far end of a test between hosts is.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use netcliff_core::endpoint::Endpoint;

use crate::output;

/// An agent, or none.
#[derive(Debug, Clone, Args)]
pub struct FarArgs {
    /// Agent at the far end [default port: 9940] (repeatable: flows to all start together)
    #[arg(long, short = 'c', alias = "client", value_name = "HOST[:PORT]", help_heading = "Far end")]
    pub to: Vec<String>,
    /// Port of agents for which --to gives no port
    #[arg(long, short = 'p', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Far end", hide_short_help = true)]
    pub port: Option<u16>,
    /// Start the agent on this host by ssh; test data goes to the same host, or to --data-to
    #[arg(long, value_name = "HOST", conflicts_with = "to", help_heading = "Far end")]
    pub ssh: Option<String>,
    /// Address for test data, if it differs from the address of the control connection
    #[arg(long, value_name = "ADDRESS", help_heading = "Far end", hide_short_help = true)]
    pub data_to: Option<String>,
    /// File with the agent's key
    #[arg(long, value_name = "FILE", conflicts_with = "ssh", help_heading = "Far end")]
    pub key: Option<PathBuf>,
}

impl FarArgs {
    /// Refuses options that would be ignored, and combinations that are impossible.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.data_to.is_some() && !self.is_asked() {
            return Err(output::usage("--data-to is for data to an agent: add --to or --ssh"));
        }
        if let Some(key) = self.key.as_ref().filter(|_| self.to.is_empty()) {
            return Err(output::usage(format!("--key {}: a key is for an agent: add --to HOST[:PORT]", key.display())));
        }
        if let Some(port) = self.port {
            match self.to.iter().find(|to| has_port(to)) {
                Some(to) => {
                    return Err(output::usage(format!("--port {port}: --to {to} names a port already; leave one out")));
                }
                None if self.to.is_empty() => {
                    return Err(output::usage(format!("--port {port}: a port is for an agent: add --to HOST")));
                }
                None => {}
            }
        }
        if let (Some(address), [_, _, ..]) = (&self.data_to, &self.to[..]) {
            return Err(output::usage(format!(
                "--data-to {address}: with several agents the data goes where each is reached; leave it out"
            )));
        }
        if self.to.iter().any(|to| to.trim().is_empty()) {
            return Err(output::usage("--to is empty: expected a host, HOST:PORT or [ADDRESS]:PORT"));
        }
        let wrong = |to: &String| Some(format!("--to {to}: {}", to.parse::<Endpoint>().err()?));
        self.to.iter().find_map(wrong).map_or(Ok(()), |error| Err(output::usage(error)))
    }

    /// Does the checks of [`Self::check`] for a command that has one far end. Also refuses several agents.
    pub fn check_one(&self) -> anyhow::Result<()> {
        self.check()?;
        match &self.to[..] {
            [_, second, ..] => Err(output::usage(format!(
                "--to {second}: this has one far end; `netcliff stream` and `netcliff rr` take several agents"
            ))),
            _ => Ok(()),
        }
    }

    /// The options of each agent, if there are several. Empty if there are fewer than two.
    pub fn several(&self) -> Vec<Self> {
        if self.to.len() < 2 {
            return Vec::new();
        }
        let one = |to: &String| Self { to: vec![to.clone()], ..self.clone() };
        self.to.iter().map(one).collect()
    }

    /// True if the options name an agent.
    pub fn is_asked(&self) -> bool {
        !self.to.is_empty() || self.ssh.is_some()
    }

    /// The first agent of `--to`, with the port of `--port` if one is given. `None` without `--to`.
    pub fn target(&self) -> Option<String> {
        let to = self.to.first()?;
        Some(match (self.port, to.parse::<Endpoint>()) {
            (Some(port), Ok(Endpoint { host, .. })) => Endpoint { host, port: Some(port) }.to_string(),
            _ => to.clone(),
        })
    }

    /// The options as arguments for another netcliff process.
    pub fn as_arguments(&self) -> Vec<OsString> {
        let path = |path: &PathBuf| path.as_os_str().to_owned();
        let given = [
            ("--to", self.target().map(OsString::from)),
            ("--ssh", self.ssh.as_ref().map(OsString::from)),
            ("--data-to", self.data_to.as_ref().map(OsString::from)),
            ("--key", self.key.as_ref().map(path)),
        ];
        given.into_iter().filter_map(|(flag, value)| Some([flag.into(), value?])).flatten().collect()
    }
}

/// Whether `--to` names a port.
fn has_port(to: &str) -> bool {
    to.parse::<Endpoint>().is_ok_and(|endpoint| endpoint.port.is_some())
}
