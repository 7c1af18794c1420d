//! Changes at an agent's host while a test runs, reported to its client: a service of every agent. The client starts the watch before a
//! test and requests the changes after it.

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::Ordering;

use netcliff_core::quote::in_short;
use netcliff_host::ground::{Cpus, Ground, Scope, told};
use netcliff_host::nic::path::with_address;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::client::Session;
use crate::control::far::{Opened, Service};

/// Name of the service, and of the feature in an agent's hello.
pub const GROUND: &str = "ground";

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum Request {
    /// From now on, the CPUs and the device that has this address of the agent's host, with those below it.
    Watch { data_to: IpAddr },
    /// What has changed since it was last asked, or since it began.
    Changes,
}

/// The answer to [`Request::Changes`].
#[derive(Debug, Default, Serialize, Deserialize)]
struct Changes {
    /// A phrase each.
    changes: Vec<String>,
}

/// Watches its host for one client.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroundService;

impl Service for GroundService {
    fn name(&self) -> &'static str {
        GROUND
    }

    fn open(&self) -> Result<Box<dyn Opened>, String> {
        Ok(Box::new(Watched(None)))
    }
}

/// What is watched, from the first request on.
#[derive(Debug)]
struct Watched(Option<(Ground, Cpus)>);

impl Opened for Watched {
    fn ask(&mut self, request: Value) -> Result<Value, String> {
        match serde_json::from_value(request).map_err(|e| format!("{GROUND}: {e}"))? {
            Request::Watch { data_to } => {
                self.0 = Some((watch(data_to)?, Cpus::watch(Path::new("/"))));
                Ok(Value::Null)
            }
            Request::Changes => {
                let Some((ground, cpus)) = &mut self.0 else {
                    return Err(format!("{GROUND}: nothing is watched yet: ask to watch first"));
                };
                let mut changes = ground.changes();
                changes.extend(cpus.changes());
                serde_json::to_value(Changes { changes }).map_err(|e| e.to_string())
            }
        }
    }
}

fn watch(data_to: IpAddr) -> Result<Ground, String> {
    let interfaces: Vec<String> = if data_to.is_loopback() {
        vec!["lo".to_owned()]
    } else {
        let found = with_address(data_to, Path::new("/sys")).map_err(|e| format!("{GROUND}: {e}"))?;
        found.into_iter().map(|nic| nic.name).collect()
    };
    if interfaces.is_empty() {
        return Err(format!("{GROUND}: {data_to} is no address of the agent's host: it is translated on the way"));
    }
    let scope = Scope { interfaces: Some(interfaces), addresses: Some(vec![data_to]) };
    Ground::watch(scope).map_err(|e| format!("{GROUND}: {e}"))
}

/// A watch at an agent's host for the length of a test.
#[derive(Debug)]
pub struct FarGround {
    /// Why nothing is watched, a sentence.
    refused: Option<String>,
}

impl FarGround {
    /// Starts a watch at the host that data is sent to at this address.
    pub fn on(session: &mut Session, data_to: IpAddr) -> Self {
        let why = match session.offers(GROUND) {
            false => Some(session.lacks(GROUND)),
            true => session.ask(GROUND, &Request::Watch { data_to }).err().map(|error| error.to_string()),
        };
        let told = |why| format!("changes of the far end's devices, addresses and CPUs: not watched: {why}");
        Self { refused: why.map(told) }
    }

    /// Why nothing is watched, as a line for the report; None where it is.
    pub fn refusal(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// What changed there, in a sentence, without the phrases that are `known` here; None where nothing did, or nothing was watched. An
    /// agent that is gone is reported elsewhere.
    pub fn changed(&self, session: &mut Session, known: Option<&str>) -> Option<String> {
        if self.refused.is_some() || session.gone().load(Ordering::Relaxed) {
            return None;
        }
        let answer = session.ask(GROUND, &Request::Changes).ok()?;
        let Changes { mut changes } = serde_json::from_value(answer).ok()?;
        changes.retain(|change| !known.is_some_and(|known| known.contains(change.as_str())));
        // An agent is another host's program.
        told(changes.iter().map(|change| in_short(change)).collect())
            .map(|told| format!("the far host changed during the measurement: {told}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_of_changes_or_what_is_wrong_with_its_question() {
        let mut opened = GroundService.open().expect("it needs nothing");
        let changes = || serde_json::to_value(Request::Changes).expect("JSON");
        let error = opened.ask(changes()).expect_err("nothing is watched");
        assert!(error.contains("ask to watch first"), "{error}");
        let watch = |data_to: &str| serde_json::json!({ "watch": { "data_to": data_to } });
        assert_eq!(opened.ask(watch("127.0.0.1")), Ok(Value::Null));
        assert_eq!(opened.ask(changes()), Ok(serde_json::json!({ "changes": [] })));
        for (request, word) in [
            (watch("nowhere"), "IP address"),
            (watch("192.0.2.77"), "translated on the way"),
            (serde_json::json!({ "watch": { "data_to": "127.0.0.1", "file": "/etc/shadow" } }), "unknown field"),
            (Value::Null, "ground: "),
        ] {
            let error = opened.ask(request).expect_err("no question");
            assert!(error.contains(word), "{error}");
        }
    }
}
