//! Errors between this host and an agent.

use super::Refusal;
use netcliff_core::endpoint::BadEndpoint;
use std::io;

/// Version of the control protocol. Ends of different versions refuse each other, because a test that both interpret
/// differently gives wrong results.
pub const PROTOCOL: u16 = 2;

/// A failure of the control channel.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The text is not a host with an optional port.
    #[error("{target}: {why}")]
    NotAnEndpoint {
        /// The text as given.
        target: String,
        /// What is wrong with it.
        why: BadEndpoint,
    },
    /// The name has no address.
    #[error("{host} has no address: {source}; give a name that resolves here, or an address")]
    NotResolved {
        /// The name as given.
        host: String,
        /// The resolver's answer.
        #[source]
        source: io::Error,
    },
    /// No program answers at the address.
    #[error(
        "cannot reach an agent at {peer}: {source}; start `netcliff agent` there and check address, port and firewall"
    )]
    Unreachable {
        /// The address.
        peer: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The program that answers is not a netcliff agent.
    #[error("{peer} is not a netcliff agent: it answered {answer}; check the port (default 9940)")]
    NotAnAgent {
        /// The other end.
        peer: String,
        /// The first bytes of the answer.
        answer: String,
    },
    /// The other end speaks another version.
    #[error(
        "{peer} speaks control protocol {theirs}, this netcliff {PROTOCOL}: install the same version on both hosts"
    )]
    OtherVersion {
        /// The other end.
        peer: String,
        /// The other end's version of the protocol.
        theirs: u16,
    },
    /// The agent has no key, so it serves only its own user and root.
    #[error(
        "{peer} is {user}: without a key this agent serves user {own} and root of its host only; start it with --key FILE"
    )]
    OtherUser {
        /// The other end.
        peer: String,
        /// The user at the other end, as text.
        user: String,
        /// The agent's own user id.
        own: u32,
    },
    /// The agent has no key and serves another user.
    #[error(
        "{peer} has no key, and serves its own user and root only: run this as that user, or start the agent with --key FILE and give \
         the same here"
    )]
    NotServed {
        /// The other end.
        peer: String,
    },
    /// The agent demands a key and none was given.
    #[error("{peer} demands a key: give --key FILE with the file made there by `netcliff agent --make-key`")]
    KeyNeeded {
        /// The other end.
        peer: String,
    },
    /// A key was given, but the agent has none: the connection would be unprotected.
    #[error("{peer} has no key, so that nothing would be protected: start it with --key FILE, or leave --key out here")]
    KeyUnused {
        /// The other end.
        peer: String,
    },
    /// The keys of both ends differ.
    #[error("{peer} does not have the same key: copy the key file from one host to the other")]
    WrongKey {
        /// The other end.
        peer: String,
    },
    /// The agent has reached its limit of connections.
    #[error("{peer} has no room for another connection: wait for a test to end, or start it with larger limits")]
    Busy {
        /// The other end.
        peer: String,
    },
    /// The agent does not offer this kind of test.
    #[error("{peer} cannot do `{kind}` (it can: {can}): install the same version on both hosts")]
    NoSuchTest {
        /// The other end.
        peer: String,
        /// The test requested.
        kind: String,
        /// The tests it offers.
        can: String,
    },
    /// The agent refused or ended the test, with its message.
    #[error("{peer}: {message}")]
    Refused {
        /// The other end.
        peer: String,
        /// The agent's reason.
        message: Refusal,
    },
    /// A message exceeds the size limit.
    #[error("{peer} sent a message of {bytes} bytes: at most {most} are taken")]
    TooLarge {
        /// The other end.
        peer: String,
        /// Size of the message (bytes).
        bytes: usize,
        /// The limit (bytes).
        most: usize,
    },
    /// A message cannot be parsed.
    #[error("{peer} sent what is no message of the control protocol: {why}")]
    Malformed {
        /// The other end.
        peer: String,
        /// What is wrong with it.
        why: String,
    },
    /// A message that is not expected in this state.
    #[error("{peer} said `{said}` where {expected} was due")]
    OutOfTurn {
        /// The other end.
        peer: String,
        /// The message received.
        said: String,
        /// The messages expected.
        expected: &'static str,
    },
    /// A handshake or message took too long.
    #[error("{peer} took more than {limit_s} s for {what}")]
    Slow {
        /// The other end.
        peer: String,
        /// What took too long.
        what: &'static str,
        /// The limit (s).
        limit_s: f64,
    },
    /// No heartbeat arrived in time.
    #[error("{peer} is gone: nothing heard for {silence_s} s")]
    Silent {
        /// The other end.
        peer: String,
        /// The limit (s).
        silence_s: f64,
    },
    /// The connection ended.
    #[error("{peer} closed the connection")]
    Closed {
        /// The other end.
        peer: String,
    },
    /// The kernel refused a call.
    #[error("could not {action}: {source}{}", hint(source))]
    System {
        /// The action and its object.
        action: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A key file cannot be used.
    #[error("key file {path}: {why}")]
    Key {
        /// The file.
        path: String,
        /// What is wrong and how to fix it.
        why: String,
    },
    /// The agent must not listen on this address without a key.
    #[error(
        "{address} can be reached from other hosts: give --key FILE (`netcliff agent --make-key FILE` writes one), or listen on 127.0.0.1 or [::1]"
    )]
    Unprotected {
        /// The address.
        address: std::net::SocketAddr,
    },
}

impl ControlError {
    /// Turns the kernel's refusal of `action` into an error.
    pub fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::System { action, source }
    }
}

fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EADDRINUSE) => " (another program listens there: choose another port)",
        Some(libc::EADDRNOTAVAIL) => " (the address is not configured on this host)",
        Some(libc::EACCES) => " (ports below 1024 need CAP_NET_BIND_SERVICE: choose another port)",
        _ => "",
    }
}
