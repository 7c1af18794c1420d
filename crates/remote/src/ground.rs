//! Reports changes at an agent's host during a test to its client: a service of every agent. The client starts the
//! watch before a test and requests the changes after it.

use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::Ordering;

use netcliff_core::quote::in_short;
use netcliff_host::ground::{Cpus, Ground, Scope, sentence};
use netcliff_host::nic::path::with_address;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::client::Session;
use crate::control::far::{Opened, Service};

/// Name of the service, and of the feature in an agent's hello.
pub const GROUND: &str = "ground";

/// A client's request to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum Request {
    /// Watch the agent's CPUs, and the device with this address together with the devices below it.
    Watch { data_to: IpAddr },
    /// Report the changes since the last report, or since the watch started.
    Changes,
}

/// The answer to [`Request::Changes`].
#[derive(Debug, Default, Serialize, Deserialize)]
struct Changes {
    /// Changes, one phrase each.
    changes: Vec<String>,
}

/// Watches the agent's host for one client.
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

/// The active watch. `None` before the first request.
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

/// A watch at an agent's host for the duration of a test.
#[derive(Debug)]
pub struct FarGround {
    /// Why nothing is watched, a sentence. `None` if the watch runs.
    refused: Option<String>,
}

impl FarGround {
    /// Starts a watch at the agent's host, whose device with the address `data_to` receives the data.
    pub fn on(session: &mut Session, data_to: IpAddr) -> Self {
        let why = match session.offers(GROUND) {
            false => Some(session.lacks(GROUND)),
            true => session.ask(GROUND, &Request::Watch { data_to }).err().map(|error| error.to_string()),
        };
        let refusal = |why| format!("changes of the far end's devices, addresses and CPUs: not watched: {why}");
        Self { refused: why.map(refusal) }
    }

    /// Explains why nothing is watched, as a line for the report. `None` if the watch runs.
    pub fn refusal(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Describes what changed at the agent's host, in a sentence without the phrases of `known`. `None` if nothing
    /// changed or nothing was watched. The loss of the agent is reported elsewhere.
    pub fn changed(&self, session: &mut Session, known: Option<&str>) -> Option<String> {
        if self.refused.is_some() || session.gone().load(Ordering::Relaxed) {
            return None;
        }
        let answer = session.ask(GROUND, &Request::Changes).ok()?;
        let Changes { mut changes } = serde_json::from_value(answer).ok()?;
        changes.retain(|change| !known.is_some_and(|known| known.contains(change.as_str())));
        // The phrases come from another host, so they are shortened to a safe length.
        sentence(changes.iter().map(|change| in_short(change)).collect())
            .map(|changes| format!("the far host changed during the measurement: {changes}"))
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
