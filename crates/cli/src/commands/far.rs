//! The connection to an agent, by TCP or by ssh.

mod guest;
mod loaded;
mod ssh;

use std::fmt::{self, Debug, Formatter};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::Context;
use netcliff_core::Fingerprint;
use netcliff_core::endpoint::Endpoint;
use netcliff_host::testbed::vm::{Vm, VmOptions};
use netcliff_packets::WireError;
use netcliff_packets::error::ControlError;
use netcliff_remote::control::Limits;
use netcliff_remote::control::PORT;
use netcliff_remote::control::client::Session;
use netcliff_remote::control::key::Key;
use netcliff_remote::load::{Carrier, LoadProgress, LoadReady, LoadReport, LoadRequest};
use netcliff_transfer::guest::{GuestHost, GuestLink};

use crate::args::FarArgs;
use crate::output;
pub use guest::Guest;
pub use loaded::Loaded;
use ssh::Ssh;

/// Silence after which the far end counts as gone while devices are changed (s). A link may be down for seconds, and
/// messages sent during that time arrive late.
const CHANGING_S: f64 = 20.0;
/// Time for which `find` waits for the far end (s). Both ends then end within 5 s, even if a killed process takes long
/// to close its connections.
pub const FIND_S: f64 = 4.0;
/// Time for which `find` waits for a host whose service it overloads (s). The requests of a trial may keep the agent
/// off the CPU for 5 s.
pub const LOADED_S: f64 = 10.0;

/// A session with an agent that has answered.
pub struct FarSession {
    /// The control channel.
    pub session: Session,
    /// Address of the far end for data connections.
    pub address: IpAddr,
    ssh: Option<Ssh>,
    /// The guest in which the agent runs, and what limits measurements in it. It is dropped after the session.
    guest: Option<(Vm, Vec<String>)>,
}

impl FarSession {
    /// Boots a guest and sets up its link. Moves this thread, and the threads that it starts, into the namespace of the
    /// link.
    pub fn in_guest(options: &VmOptions, link: GuestLink) -> anyhow::Result<Self> {
        let Guest { mut session, vm, limits } = Guest::boot(options)?;
        vm.enter()?;
        link.set(&vm, &mut session)?;
        let address = vm.address().into();
        Ok(Self { session, address, ssh: None, guest: Some((vm, limits)) })
    }

    /// The guest in which the agent runs.
    pub fn guest(&self) -> Option<GuestHost<'_>> {
        self.guest.as_ref().map(|(vm, limits)| GuestHost { vm, limits })
    }

    /// The session, and the guest if the agent runs in a guest.
    pub fn parts(&mut self) -> (&mut Session, Option<GuestHost<'_>>) {
        let guest = self.guest.as_ref().map(|(vm, limits)| GuestHost { vm, limits });
        (&mut self.session, guest)
    }

    /// Adds the last lines of QEMU and the guest to an error of the run, if the guest is gone.
    pub fn of_run(&mut self, error: anyhow::Error) -> anyhow::Error {
        match &mut self.guest {
            Some((vm, _)) if self.session.gone().load(Ordering::Relaxed) => {
                anyhow::anyhow!("{error:#}; {}", vm.last_words())
            }
            _ => error,
        }
    }
    /// Connects as the options say.
    pub fn open(args: &FarArgs) -> anyhow::Result<Self> {
        Self::open_changing(args, &[])
    }

    /// Connects to a host, or runs an agent there by ssh, for a test that needs no address for its data.
    pub fn of_host(host: &str, ssh: bool, key: Option<&Path>, silence_s: f64) -> anyhow::Result<Self> {
        let named = host.to_owned();
        let data_to = ssh.then(|| "127.0.0.1".to_owned());
        let (to, ssh) = if ssh { (Vec::new(), Some(named)) } else { (vec![named], None) };
        let args = FarArgs { to, port: None, ssh, data_to, key: key.map(Path::to_owned) };
        Self::within(&args, &[], Limits { silence_s, ..Limits::default() })
    }

    /// Connects as the options say, in order to change `devices` of this host and of the far host. An agent that is
    /// started by ssh then permits changes of the far host's device.
    pub fn open_changing(args: &FarArgs, devices: &[String]) -> anyhow::Result<Self> {
        let usual = Limits::default();
        let silence_s = if devices.is_empty() { usual.silence_s } else { CHANGING_S };
        Self::within(args, devices, Limits { silence_s, ..usual })
    }

    fn within(args: &FarArgs, devices: &[String], limits: Limits) -> anyhow::Result<Self> {
        let version = env!("CARGO_PKG_VERSION");
        let (session, ssh) = match (args.target(), &args.ssh) {
            (Some(target), _) => {
                let key = args.key.as_deref().map(Key::read).transpose().map_err(output::usage)?;
                let session = Session::connect(&target, key.as_ref(), version, limits);
                (session.map_err(|error| without_key(error, &args.to[0], key.is_none()))?, None)
            }
            (None, host) => {
                let host = host.as_deref().unwrap_or_default();
                let (stream, mut ssh) = Ssh::start(host, devices.get(1).map(String::as_str))?;
                let limits = Limits { handshake_s: ssh::HANDSHAKE_S, ..limits };
                match Session::over(stream, None, None, version, limits) {
                    Err(error) => return Err(ssh.failed(error)),
                    Ok(session) => {
                        ssh.answered();
                        (session, Some(ssh))
                    }
                }
            }
        };
        let address = data_address(args, &session)?;
        Ok(Self { session, address, ssh, guest: None })
    }

    /// Splits into the session, and the connection that must be closed after the session is dropped.
    pub fn split(self) -> (Session, FarEnding) {
        (self.session, FarEnding(self.ssh))
    }

    /// Ends the session and waits for ssh.
    pub fn close(self) -> anyhow::Result<()> {
        // The far end leaves when its pipes close.
        drop(self.session);
        self.ssh.map_or(Ok(()), Ssh::close)
    }
}

/// The connection below a session: ssh, if the session uses it.
pub struct FarEnding(Option<Ssh>);

impl FarEnding {
    /// Waits for ssh; the session must have been dropped.
    pub fn close(self) -> anyhow::Result<()> {
        self.0.map_or(Ok(()), Ssh::close)
    }
}

impl Debug for FarSession {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.session.fmt(out)
    }
}

/// Forwards each call to the session. The value also owns the ssh process below the session.
impl Carrier for FarSession {
    fn begin(&mut self, request: &LoadRequest) -> Result<LoadReady, WireError> {
        self.session.begin(request)
    }

    fn ask(&mut self) -> Result<LoadProgress, WireError> {
        Carrier::ask(&mut self.session)
    }

    fn ended(&mut self) -> Result<Option<LoadReport>, WireError> {
        self.session.ended()
    }

    fn stop(&mut self) -> Result<LoadReport, WireError> {
        Carrier::stop(&mut self.session)
    }

    fn shares_clock(&self) -> bool {
        Carrier::shares_clock(&self.session)
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        self.session.fingerprint()
    }

    fn peer(&self) -> String {
        Carrier::peer(&self.session)
    }
}

/// Adds to an agent's refusal of a client without a key the command lines that make and copy a key. A wrong port is an
/// error of usage.
fn without_key(error: ControlError, host: &str, keyless: bool) -> anyhow::Error {
    if let ControlError::NotAnEndpoint { .. } = error {
        return output::usage(error);
    }
    let here = ["127.", "localhost", "::1", "[::1]"].iter().any(|name| host.starts_with(name));
    if !keyless || here {
        return error.into();
    }
    let name = host.parse::<Endpoint>().map_or_else(|_| host.to_owned(), |endpoint| endpoint.host);
    anyhow::anyhow!(
        "{error}\nAn agent admits other hosts by a key only. Start one there by ssh: --ssh {name}. Or, for a private link, paste there:\n  \
         netcliff agent --make-key netcliff.key; netcliff agent --listen 0.0.0.0:{PORT} --key netcliff.key\nand here:\n  \
         scp {name}:netcliff.key . && netcliff stream --to {name} --key netcliff.key"
    )
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
