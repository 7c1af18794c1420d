//! What a kind of test implements to have its far end run by an agent.

use std::net::IpAddr;

use serde_json::Value;

use super::key::Token;

/// A kind of test, such as `rr`. One value serves all clients.
pub trait Kind: Send + Sync {
    /// Its name on the control channel.
    fn name(&self) -> &'static str;

    /// Its optional features, for [`super::message::Hello::features`].
    fn features(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the far end of a test will hold in buffers and files (bytes), from its settings; invalid settings are refused by
    /// [`Kind::start`].
    fn memory_bytes(&self, _settings: &Value) -> u64 {
        0
    }

    /// Starts the far end of a test and returns once it can take data connections. It runs in threads of its own.
    ///
    /// # Errors
    /// The settings cannot be used or the kernel refuses something; a message for the client's user, with the offending
    /// value.
    fn start(&self, settings: &Value, context: &Context) -> Result<Box<dyn FarEnd>, String>;

    /// Summary of a last report for the agent's log, in a few words, since a client that is gone cannot show it.
    fn told(&self, _report: &Value) -> Option<String> {
        None
    }
}

/// A facility of the agent's host that a client may use beside its tests, for the length of its session. One value
/// serves all clients.
pub trait Service: Send + Sync {
    /// Its name on the control channel.
    fn name(&self) -> &'static str;

    /// Opens it for a client.
    ///
    /// # Errors
    /// It is not available; a message for the client's user.
    fn open(&self) -> Result<Box<dyn Opened>, String>;
}

/// A service opened for a client. Dropping it undoes its changes.
pub trait Opened: Send {
    /// Answers a request.
    ///
    /// # Errors
    /// It is refused or fails; a message for the client's user.
    fn ask(&mut self, request: Value) -> Result<Value, String>;
}

/// What a far end is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The address by which the client reached this host; `None` over pipes, where any may be meant.
    pub local: Option<IpAddr>,
    /// The token that each data connection must prove first.
    pub token: Token,
}

/// The far end of a running test. Dropping it ends its threads.
pub trait FarEnd: Send {
    /// Where it takes data: one port for all flows, or one each.
    fn ports(&self) -> Vec<u16>;

    /// Further information for the near end, in the test's own form.
    fn info(&self) -> Value {
        Value::Null
    }

    /// What was counted since the start: totals, so that the near end can take differences over its own window.
    ///
    /// # Errors
    /// What failed, in words; the test is then over.
    fn report(&mut self) -> Result<Value, String>;

    /// Takes what the client tells it meanwhile.
    ///
    /// # Errors
    /// It expects nothing like that; the test is then over.
    fn tell(&mut self, _said: Value) -> Result<(), String> {
        Err("this test takes nothing from its client while it runs".into())
    }

    /// True once it has ended by itself. Asked several times a second.
    fn finished(&mut self) -> bool {
        false
    }

    /// Ends it and gives the last report, as complete as it can be.
    fn stop(self: Box<Self>) -> Value;
}
