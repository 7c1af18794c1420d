//! Fingerprint of an agent's host for its clients: the facts that explain differences to another host. A service of
//! every agent.

use std::net::IpAddr;

use netcliff_core::Fingerprint;
use netcliff_host::fingerprint;
use netcliff_host::inventory::Inventory;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::client::Session;
use crate::control::far::{Opened, Service};

/// Name of the service, and of the feature in an agent's hello.
pub const FINGERPRINT: &str = "fingerprint";

/// Selects the device whose facts are wanted in addition to the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Address of the agent's host that receives the data.
    data_to: IpAddr,
}

/// Collects the host's facts at each request, because an agent runs for long.
#[derive(Debug, Clone, Copy, Default)]
pub struct FingerprintService;

impl Service for FingerprintService {
    fn name(&self) -> &'static str {
        FINGERPRINT
    }

    fn open(&self) -> Result<Box<dyn Opened>, String> {
        Ok(Box::new(*self))
    }
}

impl Opened for FingerprintService {
    fn ask(&mut self, request: Value) -> Result<Value, String> {
        let Request { data_to } = serde_json::from_value(request).map_err(|e| format!("{FINGERPRINT}: {e}"))?;
        let facts = fingerprint::of_address(&Inventory::of_this_host(), data_to);
        serde_json::to_value(facts).map_err(|e| e.to_string())
    }
}

/// The facts of an agent's host and of its device with the address that receives the data. The device's facts are
/// missing if the address is translated on the path.
///
/// # Errors
/// The agent does not have the service, or is gone; a message for the user.
pub fn far_fingerprint(session: &mut Session, data_to: IpAddr) -> Result<Fingerprint, String> {
    if !session.offers(FINGERPRINT) {
        return Err(session.lacks(FINGERPRINT));
    }
    let answer = session.ask(FINGERPRINT, &Request { data_to }).map_err(|error| error.to_string())?;
    serde_json::from_value(answer).map_err(|error| format!("{} said something else: {error}", session.peer()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_of_the_host_or_what_is_wrong_with_its_question() {
        let mut opened = FingerprintService.open().expect("it needs nothing");
        let answer = opened.ask(serde_json::json!({ "data_to": "127.0.0.1" })).expect("the host's facts");
        let facts: Fingerprint = serde_json::from_value(answer).expect("a map");
        assert!(facts.facts.contains_key("kernel.release"), "{facts:?}");
        for (request, word) in [
            (serde_json::json!({ "data_to": "nowhere" }), "IP address"),
            (serde_json::json!({ "data_to": "127.0.0.1", "file": "/etc/shadow" }), "unknown field"),
            (Value::Null, "fingerprint: "),
        ] {
            let error = opened.ask(request).expect_err("no address");
            assert!(error.contains(word), "{error}");
        }
    }
}
