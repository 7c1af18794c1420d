//! The far end of all tests: listens for clients, admits them, and serves each in a separate thread.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::channel::POLL_INTERVAL;
use super::connections::ConnectionTable;
use super::memory::Memory;
pub use super::memory::{give_back_to_the_kernel, hold_freed};
pub use super::serve::{Event, Log, Settings};
use super::stream::Stream;
use super::{ControlError, handshake, peer, serve};

/// A listening agent.
pub struct Agent {
    listeners: Vec<TcpListener>,
    settings: Settings,
    log: Log,
    memory: Arc<Memory>,
}

impl Agent {
    /// Listens on these addresses. Without a key, all of them must be loopback addresses, and only clients of this
    /// process's user and root are served.
    ///
    /// # Errors
    /// An address can be reached by other hosts and there is no key, or listening fails.
    pub fn bind(addresses: &[SocketAddr], settings: Settings, log: Log) -> Result<Self, ControlError> {
        let mut listeners = Vec::new();
        for &address in addresses {
            // Check first: an unprotected address must not be open even for a moment.
            protected(address, &settings)?;
            listeners.push(TcpListener::bind(address).map_err(ControlError::system(format!("listen on {address}")))?);
        }
        Self::of(listeners, settings, log)
    }

    /// Takes over sockets that are listening already, under the conditions of [`Agent::bind`].
    ///
    /// # Errors
    /// A socket can be reached by other hosts and there is no key, or the kernel does not report its address.
    pub fn of(listeners: Vec<TcpListener>, settings: Settings, log: Log) -> Result<Self, ControlError> {
        for listener in &listeners {
            let address = listener.local_addr().map_err(ControlError::system("ask for the own address"))?;
            protected(address, &settings)?;
            listener.set_nonblocking(true).map_err(ControlError::system(format!("listen on {address}")))?;
        }
        let memory = Memory::of(settings.limits.memory_bytes);
        Ok(Self { listeners, settings, log, memory })
    }

    /// The addresses that the agent listens on.
    ///
    /// # Errors
    /// The kernel does not report an address.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, ControlError> {
        let ask = |listener: &TcpListener| listener.local_addr();
        self.listeners
            .iter()
            .map(ask)
            .collect::<Result<_, _>>()
            .map_err(ControlError::system("ask for the own address"))
    }

    /// Serves clients until `stop` is set. Then ends all tests, and returns once they have ended.
    ///
    /// # Errors
    /// The listening sockets fail.
    pub fn run(&self) -> Result<(), ControlError> {
        let connections = Arc::new(ConnectionTable::default());
        thread::scope(|scope| {
            while !self.settings.stop.load(Ordering::Relaxed) {
                for (stream, _) in self.arrivals()? {
                    self.admit(stream, &connections, scope);
                }
            }
            // Do not wait for pending handshakes.
            connections.close_pending();
            Ok(())
        })
    }

    /// Accepts new connections. Waits at most [`POLL_INTERVAL`] for the first.
    fn arrivals(&self) -> Result<Vec<(TcpStream, SocketAddr)>, ControlError> {
        let mut waiting: Vec<PollFd<'_>> =
            self.listeners.iter().map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN)).collect();
        let timeout = PollTimeout::try_from(POLL_INTERVAL).unwrap_or(PollTimeout::ZERO);
        match poll(&mut waiting, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(e) => return Err(ControlError::system("wait for connections")(e.into())),
        }
        let mut arrived = Vec::new();
        for listener in &self.listeners {
            match listener.accept() {
                Ok(connection) => arrived.push(connection),
                Err(e) if is_passing(&e) => {}
                Err(e) if is_shortage(&e) => thread::sleep(POLL_INTERVAL),
                Err(e) => return Err(ControlError::system("accept a connection")(e)),
            }
        }
        Ok(arrived)
    }

    fn admit<'scope>(
        &'scope self,
        stream: TcpStream,
        connections: &Arc<ConnectionTable>,
        scope: &'scope thread::Scope<'scope, '_>,
    ) {
        let local = stream.local_addr().map(|address| address.ip()).ok();
        let slot = ConnectionTable::slot(connections, &self.settings.limits, &stream);
        let refused = if self.settings.key.is_none() { other_user(&stream) } else { None };
        let Ok(stream) = Stream::tcp(stream) else { return };
        if let Some(error) = refused {
            (self.log)(&Event::Refused(&error));
            handshake::turn_away_user(stream);
            return;
        }
        let Some(mut slot) = slot else {
            (self.log)(&Event::Refused(&ControlError::Busy { peer: format!("to {}: this agent", stream.peer) }));
            handshake::turn_away(stream, self.settings.key.is_some());
            return;
        };
        let started = thread::Builder::new().name("control".into()).spawn_scoped(scope, move || {
            let agent = serve::AgentContext { settings: &self.settings, log: &self.log, memory: &self.memory };
            let peer = stream.peer.clone();
            let came = || {
                if let Some(clients) = slot.authenticated() {
                    (self.log)(&Event::Came { peer: &peer, clients });
                }
            };
            if let Err(error) = serve::serve(stream, local, agent, came) {
                (self.log)(&Event::Refused(&error));
            }
            if slot.leave() {
                (self.log)(&Event::Left);
            }
        });
        if let Err(error) = started {
            (self.log)(&Event::Refused(&ControlError::system("start a thread for a client")(error)));
        }
    }
}

/// Refuses an address that other hosts can reach, unless clients need a key.
fn protected(address: SocketAddr, settings: &Settings) -> Result<(), ControlError> {
    let is_open = settings.key.is_none() && !address.ip().to_canonical().is_loopback();
    if is_open { Err(ControlError::Unprotected { address }) } else { Ok(()) }
}

/// Serves one client over stdin and stdout. The program that started this one (such as ssh) protects them. Data
/// connections are accepted at `data_at`, or at any of this host's addresses.
///
/// # Errors
/// Any error of a client's session.
pub fn serve_pipes(
    stream: Stream,
    data_at: Option<IpAddr>,
    settings: &Settings,
    log: &Log,
) -> Result<(), ControlError> {
    let memory = Memory::of(settings.limits.memory_bytes);
    serve::serve(stream, data_at, serve::AgentContext { settings, log, memory: &memory }, || ())
}

/// Returns why a client without a key is refused: every local user can reach loopback, and an agent acts with its own
/// user's rights. `None` if the client is served.
fn other_user(stream: &TcpStream) -> Option<ControlError> {
    let own = nix::unistd::geteuid().as_raw();
    let (local, from) = (stream.local_addr().ok(), stream.peer_addr().ok());
    let user = local.zip(from).and_then(|(local, from)| peer::user_of(local, from));
    if peer::is_served(user) {
        return None;
    }
    let user =
        user.map_or_else(|| "of a user that the kernel does not report".to_owned(), |user| format!("of user {user}"));
    let peer = from.map_or_else(|| "a client".to_owned(), |from| from.to_string());
    Some(ControlError::OtherUser { peer, user, own })
}

fn is_passing(error: &std::io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

/// Whether the error is a shortage of descriptors or memory. It is temporary: it ends when a client leaves.
fn is_shortage(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
