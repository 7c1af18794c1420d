//! Lets a client change a device of the agent's host, if the agent's owner allows it: the service behind `agent
//! --allow-settings`.

use netcliff_host::device::{DeviceError, DeviceHold, DeviceState};
use netcliff_host::journal::{JournalError, StateDir};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::client::Session;
use crate::control::far::{Opened, Service};
use netcliff_packets::error::ControlError;

/// Name of the service, and of the feature in an agent's hello.
pub const DEVICE_SETTINGS: &str = "device-settings";
/// Feature of an agent whose device's flow control can be changed, too. Older clients cannot read flow control in a
/// [`DeviceState`].
const FLOW_CONTROL: &str = "device-flow-control";

/// A client's request about the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    /// Report the current settings.
    Find,
    /// Report the current settings with flow control, in this answer and in all later ones.
    FindAll,
    /// Change the settings that this state names.
    BringTo(DeviceState),
    /// Restore the original settings.
    SetBack,
}

/// The device's settings after the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    interface: String,
    state: DeviceState,
    /// Settings that could not be restored, after this client or (for `Find`) after earlier runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

/// Lets clients change one device, one client at a time.
#[derive(Debug)]
pub struct DeviceService {
    interface: String,
    state: StateDir,
    left_over: Vec<String>,
}

impl DeviceService {
    /// Opens the service for a device. Changes are recorded in the directory `state`, and changes left by a killed
    /// agent are undone.
    ///
    /// # Errors
    /// There is no such device, or this process may not change it.
    pub fn new(interface: &str, state: StateDir) -> Result<Self, DeviceError> {
        let left_over = match DeviceHold::take(interface, &state) {
            // Another run uses the host now. Clients get this error if that still holds when they connect.
            Err(DeviceError::Journal(JournalError::Busy { .. })) => {
                DeviceHold::check(interface)?;
                Vec::new()
            }
            taken => taken?.left_over().to_vec(),
        };
        Ok(Self { interface: interface.to_owned(), state, left_over })
    }

    /// Settings that earlier agents and runs left changed and that could not be restored, in sentences.
    pub fn left_over(&self) -> &[String] {
        &self.left_over
    }
}

impl Service for DeviceService {
    fn name(&self) -> &'static str {
        DEVICE_SETTINGS
    }

    fn open(&self) -> Result<Box<dyn Opened>, String> {
        let hold = DeviceHold::take(&self.interface, &self.state).map_err(|error| error.to_string())?;
        Ok(Box::new(Taken { hold, knows_pause: false }))
    }

    fn features(&self) -> &'static [&'static str] {
        &[FLOW_CONTROL]
    }
}

/// The device while a client uses it.
struct Taken {
    hold: DeviceHold,
    /// Whether the client can read flow control in a [`DeviceState`].
    knows_pause: bool,
}

impl Opened for Taken {
    fn ask(&mut self, request: Value) -> Result<Value, String> {
        let request: Request = serde_json::from_value(request).map_err(|e| format!("{DEVICE_SETTINGS}: {e}"))?;
        let mut problems = Vec::new();
        let wanted = match request {
            Request::BringTo(wanted) => wanted,
            find @ (Request::Find | Request::FindAll) => {
                self.knows_pause = find == Request::FindAll;
                problems = self.hold.left_over().to_vec();
                DeviceState::default()
            }
            Request::SetBack => {
                problems = self.hold.set_back();
                DeviceState::default()
            }
        };
        let mut state = self.hold.bring_to(&wanted).map_err(|error| error.to_string())?;
        if !self.knows_pause {
            state.pause.clear();
        }
        let interface = self.hold.interface().to_owned();
        serde_json::to_value(Answer { interface, state, problems }).map_err(|e| e.to_string())
    }
}

/// The device of an agent's host, used by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarDevice {
    /// Name of the device on that host.
    pub interface: String,
    /// The device's settings when the client took the device.
    pub found: DeviceState,
    /// Settings that earlier runs on that host left changed and that could not be restored, in sentences.
    pub left_over: Vec<String>,
}

impl FarDevice {
    /// Takes the device for the duration of the session. When the session ends, in whatever way, the agent restores the
    /// settings.
    ///
    /// # Errors
    /// The agent was not started with permission, its host is in use, or it is gone.
    pub fn take(session: &mut Session) -> Result<Self, ControlError> {
        if !session.offers(DEVICE_SETTINGS) {
            let message = format!(
                "{}, and start the agent there, as root, with --allow-settings IF to let its device be changed",
                session.lacks(DEVICE_SETTINGS)
            );
            return Err(ControlError::Refused { peer: session.peer().to_owned(), message: message.into() });
        }
        let find = if session.offers(FLOW_CONTROL) { Request::FindAll } else { Request::Find };
        let Answer { interface, state, problems } = asked(session, &find)?;
        Ok(Self { interface, found: state, left_over: problems })
    }

    /// Changes the settings that `wanted` names. Returns the state after the change.
    ///
    /// # Errors
    /// The driver refuses the change, or the agent is gone.
    pub fn bring_to(&self, session: &mut Session, wanted: &DeviceState) -> Result<DeviceState, ControlError> {
        Ok(asked(session, &Request::BringTo(wanted.clone()))?.state)
    }

    /// Makes the agent restore the settings. Returns a sentence for each setting that could not be restored.
    ///
    /// # Errors
    /// The agent is gone: it restores the settings by itself.
    pub fn set_back(&self, session: &mut Session) -> Result<Vec<String>, ControlError> {
        Ok(asked(session, &Request::SetBack)?.problems)
    }
}

fn asked(session: &mut Session, request: &Request) -> Result<Answer, ControlError> {
    let answer = session.ask(DEVICE_SETTINGS, request)?;
    let malformed =
        |e: serde_json::Error| ControlError::Malformed { peer: session.peer().to_owned(), why: e.to_string() };
    serde_json::from_value(answer).map_err(malformed)
}
