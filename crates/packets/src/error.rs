//! Errors, each with the offending value and a remedy.

mod control;

use std::io;

use netcliff_core::quote::shell;
use serde::{Deserialize, Serialize};

pub use control::{ControlError, PROTOCOL};

/// Why another end refuses or fails. In JSON it is a sentence, or `{what, value, accepted}` for a client that offers
/// [`SETTINGS`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(untagged)]
pub enum Refusal {
    /// A setting has a value that cannot be used.
    #[error("{what} is {value}: expected {accepted}")]
    Setting {
        /// The setting, by its field name.
        what: String,
        /// The value given.
        value: String,
        /// The accepted form.
        accepted: String,
    },
    /// A sentence: the refusal does not concern a setting, or the other end does not name settings.
    #[error("{0}")]
    Sentence(String),
}

/// Feature that a client offers in its hello: it understands refusals that name the setting.
pub const SETTINGS: &str = "refused-settings";

impl Refusal {
    /// Returns the refusal unchanged if the client offers [`SETTINGS`] (`settings`), otherwise as a sentence.
    #[must_use]
    pub fn for_client(self, settings: bool) -> Self {
        if settings { self } else { Self::Sentence(self.to_string()) }
    }

    /// Appends `more` to the accepted form or to the sentence.
    #[must_use]
    pub fn and(self, more: &str) -> Self {
        match self {
            Self::Setting { what, value, accepted } => Self::Setting { what, value, accepted: accepted + more },
            Self::Sentence(sentence) => Self::Sentence(sentence + more),
        }
    }
}

impl From<String> for Refusal {
    fn from(sentence: String) -> Self {
        Self::Sentence(sentence)
    }
}

impl From<&str> for Refusal {
    fn from(sentence: &str) -> Self {
        Self::Sentence(sentence.to_owned())
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Setting { what, value, accepted } => Self::Setting { what: what.to_owned(), value, accepted },
            other => Self::Sentence(other.to_string()),
        }
    }
}

/// A failure of the generator or the sink.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A setting has a value that cannot be used.
    #[error("{what} is {value}: expected {accepted}")]
    Setting {
        /// The setting, by its field name.
        what: &'static str,
        /// The value given.
        value: String,
        /// The accepted form.
        accepted: String,
    },
    /// The kernel refused a call.
    #[error("could not {action}: {source}{}", hint(source))]
    System {
        /// What was being done, and to what.
        action: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The interface or its peer is down: frames would vanish in the sender.
    #[error("interface {interface} has no carrier: bring it and its peer up (`ip link set dev {} up`)", shell(.interface))]
    NoCarrier {
        /// The interface.
        interface: String,
    },
    /// The interface has disappeared.
    #[error("interface {interface} is gone: it was removed, or moved to another network namespace")]
    Gone {
        /// The interface.
        interface: String,
    },
    /// Another tool's XDP program is attached to the interface.
    #[error(
        "interface {interface} has an XDP program{} of another tool, which is left where it is: end that tool or detach it \
         (`ip link set dev {} xdp off`), or receive by AF_PACKET (--receive-by packet)", named(*id, name.as_deref()), shell(.interface)
    )]
    OtherProgram {
        /// The interface.
        interface: String,
        /// The program's identifier. `None` if the program is gone by now.
        id: Option<u32>,
        /// The program's name. `None` if it has none.
        name: Option<String>,
    },
    /// A port does not offer the timestamps requested.
    #[error(
        "interface {interface} cannot put {stamps} time stamps on what {what}: it offers {offered}; choose --stamps {instead}"
    )]
    NoStamps {
        /// The interface.
        interface: String,
        /// The timestamps requested.
        stamps: crate::clock::Stamps,
        /// `leaves` or `arrives`.
        what: &'static str,
        /// The timestamps that the port offers, as text.
        offered: String,
        /// A value of --stamps that works here.
        instead: &'static str,
    },
    /// The kernel refused an XDP program.
    #[error("could not attach an XDP program to interface {interface}: {source}{}", program_hint(source))]
    Program {
        /// The interface.
        interface: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A measuring thread ended by a panic.
    #[error("the {thread} thread died: {message}")]
    Died {
        /// Name of the thread, such as `generator` or `sink`.
        thread: &'static str,
        /// The panic's message.
        message: String,
    },
    /// The far end of a test failed, with its message.
    #[error("the far end: {0}")]
    Far(Refusal),
    /// The conditions of a measurement changed while it ran; a complete sentence.
    #[error("{0}")]
    Changed(String),
    /// An error of the control channel to the far end.
    #[error(transparent)]
    Control(#[from] Box<ControlError>),
    /// The start time had passed before the generator was ready.
    #[error("the start time is {late_s:.6} s in the past: choose one at least 0.01 s after Generator::prepare returns")]
    StartMissed {
        /// How far the start time is in the past \[s\].
        late_s: f64,
    },
}

impl From<ControlError> for WireError {
    fn from(error: ControlError) -> Self {
        Self::Control(Box::new(error))
    }
}

impl WireError {
    /// Wraps the last error of the C library.
    pub fn last_os(action: impl Into<String>) -> Self {
        Self::system(action, io::Error::last_os_error())
    }

    /// Wraps a kernel error.
    pub fn system(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { action: action.into(), source: source.into() }
    }

    /// Makes an error about a setting that cannot be used.
    pub fn setting(what: &'static str, value: impl ToString, accepted: impl Into<String>) -> Self {
        Self::Setting { what, value: value.to_string(), accepted: accepted.into() }
    }

    /// Makes an error about a thread that ended by a panic, from the result of `JoinHandle::join`.
    pub fn died(thread: &'static str, panic: &(dyn std::any::Any + Send + 'static)) -> Self {
        let message = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "it panicked without a message".to_owned());
        Self::Died { thread, message }
    }
}

fn named(id: Option<u32>, name: Option<&str>) -> String {
    match (id, name) {
        (Some(id), Some(name)) => format!(" (id {id}, \"{name}\")"),
        (Some(id), None) => format!(" (id {id})"),
        (None, _) => String::new(),
    }
}

fn program_hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            " (needs CAP_BPF and CAP_NET_ADMIN outside any user namespace of one's own: run as root)"
        }
        Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP) => " (this kernel or driver may lack XDP or AF_XDP)",
        _ => "",
    }
}

fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            " (needs CAP_NET_RAW and CAP_NET_ADMIN: run as root or inside an own user namespace)"
        }
        Some(libc::ENODEV) => " (no such interface in this network namespace)",
        Some(libc::EADDRINUSE) => " (another program holds this port: choose another)",
        Some(libc::EMFILE | libc::ENFILE) => " (more descriptors than allowed: fewer flows, or raise `ulimit -n`)",
        Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ENOPROTOOPT) => {
            " (this kernel does not have it, or it is switched off)"
        }
        Some(libc::EADDRNOTAVAIL) => " (the address is not configured in this network namespace)",
        _ => "",
    }
}
