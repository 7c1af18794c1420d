//! What a kind of test implements to have its far end run by an agent.

use std::net::IpAddr;

use serde_json::Value;

use super::key::Token;
use netcliff_packets::error::Refusal;

/// A kind of test, such as `rr`. One value serves all clients.
pub trait Kind: Send + Sync {
    /// Name of the kind on the control channel.
    fn name(&self) -> &'static str;

    /// Optional features of the kind, for [`super::message::Hello::features`].
    fn features(&self) -> &'static [&'static str] {
        &[]
    }

    /// Memory that the far end of a test with these settings will need for buffers and files (bytes). Invalid settings
    /// are refused later, by [`Kind::start`].
    fn memory_bytes(&self, _settings: &Value) -> u64 {
        0
    }

    /// Starts the far end of a test, in new threads. Returns once it can accept data connections.
    ///
    /// # Errors
    /// The settings cannot be used or the kernel refuses something.
    fn start(&self, settings: &Value, context: &Context) -> Result<Box<dyn FarEnd>, Refusal>;

    /// Summarises a last report in a few words for the agent's log, because a client that is gone cannot show it.
    /// `None` if the kind has no summary.
    fn summary(&self, _report: &Value) -> Option<String> {
        None
    }
}

/// A facility of the agent's host that a client may use in addition to its tests, for the length of its session. One
/// value serves all clients.
pub trait Service: Send + Sync {
    /// Name of the service on the control channel.
    fn name(&self) -> &'static str;

    /// Features that later versions of the service added, for [`super::message::Hello::features`].
    fn features(&self) -> &'static [&'static str] {
        &[]
    }

    /// Opens the service for a client.
    ///
    /// # Errors
    /// The service is not available; a message for the client's user.
    fn open(&self) -> Result<Box<dyn Opened>, String>;
}

/// A service opened for a client. Dropping it undoes its changes.
pub trait Opened: Send {
    /// Answers a request.
    ///
    /// # Errors
    /// The request is refused or fails; a message for the client's user.
    fn ask(&mut self, request: Value) -> Result<Value, String>;
}

/// Information about the session in which a far end starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The address by which the client reached this host. `None` over pipes, where any address may be meant.
    pub local: Option<IpAddr>,
    /// The token that each data connection must prove first.
    pub token: Token,
    /// Whether the client offers [`netcliff_packets::error::SETTINGS`].
    pub settings: bool,
}

/// The far end of a running test. Dropping it ends its threads.
pub trait FarEnd: Send {
    /// Ports that accept data: one for all flows, or one for each flow.
    fn ports(&self) -> Vec<u16>;

    /// Further information for the near end, in the test's own form.
    fn info(&self) -> Value {
        Value::Null
    }

    /// Counts since the start. They are totals, so that the near end can compute differences over its own window.
    ///
    /// # Errors
    /// What failed, as a message; the test is then over.
    fn report(&mut self) -> Result<Value, String>;

    /// Accepts information that the client sends during the test.
    ///
    /// # Errors
    /// The test expects no such information; the test is then over.
    fn tell(&mut self, _said: Value) -> Result<(), String> {
        Err("this test takes nothing from its client while it runs".into())
    }

    /// Whether the test has ended by itself. Called several times a second.
    fn finished(&mut self) -> bool {
        false
    }

    /// Ends the test and returns the last report, as complete as possible.
    fn stop(self: Box<Self>) -> Value;
}
