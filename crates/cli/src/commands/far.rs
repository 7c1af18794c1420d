//! The connection to an agent, by TCP or by ssh.

use std::net::{IpAddr, ToSocketAddrs};
use std::process::{Child, Command};

use anyhow::Context;
use netcliff_wire::control::Limits;
use netcliff_wire::control::client::Session;
use netcliff_wire::control::key::Key;
use netcliff_wire::control::stream::Stream;

use crate::args::FarArgs;
use crate::output;

/// ssh itself decides how long it tries; once connected, the agent answers at once.
const SSH_HANDSHAKE_S: f64 = 60.0;
/// Silence after which the far end counts as gone where devices are changed (s): a link is down for seconds, and what was sent
/// meanwhile comes late.
const CHANGING_S: f64 = 20.0;

/// An agent that answered.
pub struct FarSession {
    /// The control channel.
    pub session: Session,
    /// Where data goes.
    pub address: IpAddr,
    ssh: Option<Child>,
}

impl FarSession {
    /// Connects as asked.
    pub fn open(args: &FarArgs) -> anyhow::Result<Self> {
        Self::open_changing(args, &[])
    }

    /// Connects as asked, to change these devices: this host's and the far host's, which an agent that is started by ssh then
    /// lets be changed.
    pub fn open_changing(args: &FarArgs, devices: &[String]) -> anyhow::Result<Self> {
        let usual = Limits::default();
        let silence_s = if devices.is_empty() { usual.silence_s } else { CHANGING_S };
        let limits = Limits { silence_s, ..usual };
        let version = env!("CARGO_PKG_VERSION");
        let (session, ssh) = match (&args.to, &args.ssh) {
            (Some(target), _) => {
                let key = args.key.as_deref().map(Key::read).transpose().map_err(output::usage)?;
                (Session::connect(target, key.as_ref(), version, limits)?, None)
            }
            (None, host) => {
                let (stream, child) = ssh(host.as_deref().unwrap_or_default(), devices.get(1).map(String::as_str))?;
                let limits = Limits { handshake_s: SSH_HANDSHAKE_S, ..limits };
                (Session::over(stream, None, None, version, limits)?, Some(child))
            }
        };
        let address = data_address(args, &session)?;
        Ok(Self { session, address, ssh })
    }

    /// Lets the far end go and waits for ssh.
    pub fn close(self) -> anyhow::Result<()> {
        // The far end leaves when its pipes close.
        drop(self.session);
        if let Some(mut child) = self.ssh {
            child.wait().context("cannot wait for ssh")?;
        }
        Ok(())
    }
}

/// Starts an agent by ssh, its pipes as the control channel.
fn ssh(host: &str, device: Option<&str>) -> anyhow::Result<(Stream, Child)> {
    if host.starts_with('-') || host.is_empty() {
        return Err(output::usage(format!("--ssh {host:?}: expected a host as ssh takes it, such as root@db1")));
    }
    let mut command = Command::new("ssh");
    command.args(["-T", "-o", "BatchMode=yes", host, "netcliff", "agent", "--stdio"]);
    command.args(device.into_iter().flat_map(|device| ["--allow-settings", device]));
    Stream::of_command(&mut command, format!("netcliff on {host}")).context("cannot run ssh; is it installed?")
}

fn data_address(args: &FarArgs, session: &Session) -> anyhow::Result<IpAddr> {
    let named = args.data_to.as_deref().or(args.ssh.as_deref().map(|host| host.rsplit('@').next().unwrap_or(host)));
    match (named, session.address) {
        (None, Some(address)) => Ok(address),
        (named, _) => {
            let name = named.unwrap_or_default();
            let found = (name, 0).to_socket_addrs().ok().and_then(|mut found| found.next());
            let hint = "give the address the data shall go to by --data-to";
            Ok(found.with_context(|| format!("{name} has no address here; {hint}"))?.ip())
        }
    }
}
