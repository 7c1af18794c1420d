//! Request/response between two ends: latency, rate and cost of a transaction.
//!
//! The near end ([`near::run`]) sends requests, a [`server::Server`] answers. The server runs in this process (in
//! another network namespace or on loopback) or in an agent ([`server::RrKind`]). In a closed loop, each flow always
//! has `depth` requests under way. In an open loop, requests leave on a schedule and latency counts from the time each
//! was due, so that a slow answer also shows in the requests that it delayed.
//!
//! | module | holds |
//! | --- | --- |
//! | [`settings`] | the settings of a test, and their checks |
//! | [`near`] | the requesting end: flows, the measured window, its results |
//! | [`server`] | the answering end |
//! | `live` | interim reports: the transactions of each interval |
//! | [`probe`] | single requests during other traffic, and the queues on their path |
//! | [`report`] | the results |

mod closed;
mod flow;
mod live;
pub mod near;
mod open;
pub mod probe;
mod rendezvous;
pub mod report;
pub mod server;
pub mod settings;
mod socket;

mod connect {
    //! Connects a flow of the near end and proves the token.

    use std::io::Write;
    use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    use netcliff_packets::error::WireError;
    use netcliff_remote::control::key::{Proven, Purpose, Token};

    /// Time limit for a connection.
    const CONNECT: Duration = Duration::from_secs(5);
    /// Time between two attempts to join over UDP.
    const RETRY: Duration = Duration::from_millis(100);

    /// The proof that a flow's connection sends first. `number` counts the connections of the flow.
    pub(super) fn greeting(token: &Token, flow: u32, number: u64) -> [u8; Token::PROOF_BYTES] {
        token.proof(Purpose::Join, Proven { flow, number })
    }

    pub(super) fn tcp(address: SocketAddr, shown: &[u8]) -> Result<OwnedFd, WireError> {
        let failed = |e| WireError::system(format!("connect to {address}"), e);
        let mut stream = TcpStream::connect_timeout(&address, CONNECT).map_err(failed)?;
        stream.set_nodelay(true).and_then(|()| stream.write_all(shown)).map_err(failed)?;
        Ok(stream.into())
    }

    /// Sends the proof until the far end answers with its own: either datagram can be lost.
    pub(super) fn udp(address: SocketAddr, token: &Token, flow: u32) -> Result<OwnedFd, WireError> {
        let failed = |e| WireError::system(format!("send datagrams to {address}"), e);
        let any: IpAddr = match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).map_err(failed)?;
        socket.connect(address).and_then(|()| socket.set_read_timeout(Some(RETRY))).map_err(failed)?;
        let deadline = Instant::now() + CONNECT;
        let mut last = std::io::Error::from(std::io::ErrorKind::TimedOut);
        let shown = greeting(token, flow, 0);
        let mut answer = [0; Token::PROOF_BYTES];
        while Instant::now() < deadline {
            match socket.send(&shown).and_then(|_| socket.recv(&mut answer)) {
                Ok(bytes) if token.proven(Purpose::Answer, &answer[..bytes]).is_some() => return Ok(socket.into()),
                Ok(_) => {}
                Err(e) => last = e,
            }
        }
        Err(failed(last))
    }
}

#[cfg(test)]
mod tests;

pub use live::{Interval, Intervals};
pub use near::{Far, Near, OTHER_GAVE_UP, Target};
pub use rendezvous::Rendezvous;
pub use report::{AgentShare, Report, ServerCount, Together};
pub use server::{RrKind, Server};
pub use settings::{MOST_RATE_PER_S, Receive, Settings, Transport};

/// Smallest response with timestamps: sequence number, arrival time of the request, and departure time of the response
/// (8 bytes each, little-endian, ns).
pub const STAMPED_BYTES: usize = 24;
