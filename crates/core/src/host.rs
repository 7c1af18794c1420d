//! [`Host`]: what one CPU's receive path costs and how much it can hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Invalid, ParseError};
use crate::queues::Queues;
use crate::units;

mod applications;
mod key;
mod pauses;
mod presets;
mod service;
mod sides;

pub use applications::{Applications, MOST_APPLICATIONS, OneApplication};
pub use key::{Key, Unit};
pub use pauses::{PauseTimes, Pauses, Recorded};
pub use presets::{PRESETS, Preset};
pub use service::{Empirical, MeasuredTimes, Service};
pub use sides::{TransmitLoad, TransmitPriority};

use key::{Choice, Kind, Packets, Period, Ratio, Slots, Text, Time};

key::keys! {
/// Costs (s) and sizes (packets) of a host with one CPU for its packets (docs/theory/host.md).
///
/// Written in TOML with one key a field, as for `--set`: `interrupt = "3.73us"`, `ring = 1024`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Where the numbers come from: a preset's name, a file or `calibrated`.
    #[serde(default)]
    pub name: String,
    /// s = 1/r: mean time of one interrupt, overhead and handler (s).
    #[serde(rename = "interrupt", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub interrupt_s: f64 = 0.0 => Time("interrupt"),
    /// Mean time of an interrupt that finds NAPI polling already, as only NICs that do not mask have them (those that QEMU emulates); where
    /// `interrupt_resume` is given, also of one that comes as NAPI unmasks (s). None: as `interrupt`.
    #[serde(rename = "interrupt_polling", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub interrupt_polling_s: Option<f64> = None => Time("interrupt_polling"),
    /// Of `interrupt` and `mask`, what the application that was hit pays only when it goes on (cold caches, leaving a virtual machine), and what came meanwhile
    /// does not wait for (s). `napi` in the simulator; elsewhere it is paid before the poll. None: nothing.
    #[serde(rename = "interrupt_resume", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub interrupt_resume_s: Option<f64> = None => Time("interrupt_resume"),
    /// From the cause of an interrupt to its handler (s); the CPU does other work meanwhile (in a virtual machine,
    /// what the hypervisor takes to deliver it).
    #[serde(rename = "interrupt_latency", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub interrupt_latency_s: f64 = 0.0 => Time("interrupt_latency"),
    /// Protocol processing a packet, without the per-byte part (s).
    #[serde(rename = "protocol", with = "units::time_s")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub protocol_s: f64 = 0.0 => Time("protocol"),
    /// Protocol processing a byte of frame (s).
    #[serde(rename = "per_byte", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub per_byte_s: f64 = 0.0 => Time("per_byte"),
    /// m: one write to a NIC register, to mask or to unmask (s).
    #[serde(rename = "mask", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub mask_s: f64 = 0.0 => Time("mask"),
    /// o: overhead of one poll (s).
    #[serde(rename = "poll", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub poll_s: f64 = 0.0 => Time("poll"),
    /// t_a: the application's time a packet (s); None: no application is modelled.
    #[serde(rename = "application", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub application_s: Option<f64> = None => Time("application"),
    /// Several applications that share the CPU, each with a socket; None: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applications: Option<Applications> = None => Text("applications"),
    /// t_sw: from a blocked application, or from another application, to a running one, on the application's account (s).
    #[serde(rename = "context_switch", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub context_switch_s: f64 = 0.0 => Time("context_switch"),
    /// What protocol processing spends to wake a blocked application (s).
    #[serde(rename = "wakeup", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub wakeup_s: f64 = 0.0 => Time("wakeup"),
    /// What protocol processing of a packet costs more when the socket buffer is full than when it is empty, linear
    /// between: packets that wait long have left the caches (s).
    #[serde(rename = "cold_protocol", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cold_protocol_s: f64 = 0.0 => Time("cold_protocol"),
    /// The same for the application's time a packet (s).
    #[serde(rename = "cold_application", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cold_application_s: f64 = 0.0 => Time("cold_application"),
    /// Protocol time of a packet that finds the socket buffer full over that of a delivered one, 0 to [`MOST_DROP_COST`]: above 1 where the
    /// queue between the CPUs is contended when most is dropped.
    #[serde(default = "defaults::socket_drop_cost")]
    pub socket_drop_cost: f64 = 1.0 => Ratio("socket_drop_cost"),
    /// B: slots of the receive ring or backlog, the packet in service included.
    #[serde(default = "defaults::ring")]
    pub ring: u64 = 1024 => Slots("ring"),
    /// Packets the application's socket holds.
    #[serde(default = "defaults::socket_buffer")]
    pub socket_buffer: u64 = 256 => Packets("socket_buffer"),
    /// Period of the scheduler's tick, at which waiting threads and pending softirqs get the CPU (s).
    #[serde(rename = "tick", with = "units::time_s", default = "defaults::tick_s")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub tick_s: f64 = 4e-3 => Period("tick"),
    /// Distribution of the times above, of which they are the means; timers and tick excepted.
    #[serde(default = "defaults::service")]
    pub service: Service = Service::Exponential => Text("service"),
    /// R: mean length of the pauses in which the CPU is taken away (s); None: of none, or of those that `pause_times` measured.
    #[serde(rename = "pause", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub pause_s: Option<f64> = None => Period("pause", |host| host.pause_s.or_else(|| Some(host.pauses()?.mean_s))),
    /// U: mean time between the end of one pause and the start of the next, by the clock, exponential (s).
    #[serde(rename = "pause_every", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub pause_every_s: Option<f64> = None => Period("pause_every"),
    /// Distribution of the lengths of pauses; None: exponential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_times: Option<PauseTimes> = None => Text("pause_times"),
    /// Receive queues with a core each, of which the costs above are one's; None: one queue and one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues> = None => Text("queues"),
    /// Packets in the ring at which the sender is told to stop (802.3 pause); None: no flow control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xoff: Option<u64> = None => Packets("xoff"),
    /// Packets in the ring at which a stopped sender may go on; None: half of `xoff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xon: Option<u64> = None => Packets("xon", |host| host.xon_packets().map(|packets| packets as f64)),
    /// Packets a stopped sender holds back, beyond which it drops; None: [`Host::SENDER_QUEUE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_queue: Option<u64> = None => Packets("sender_queue", |host| Some(host.sender_queue_packets() as f64)),
    /// What one transmit completion costs, at the protocol's level (s); None: nothing is sent.
    #[serde(rename = "transmit", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub transmit_s: Option<f64> = None => Time("transmit"),
    /// How much is sent; None: as much as is delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_load: Option<TransmitLoad> = None => Choice("transmit_load"),
    /// Whether completions go before or after received packets; None: before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_priority: Option<TransmitPriority> = None => Choice("transmit_priority"),
    /// Slots of the transmit ring, each held until its completion is done; None: [`Host::TRANSMIT_RING`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_ring: Option<u64> = None => Slots("transmit_ring", |host| Some(host.transmit_ring_slots() as f64)),
}
}

/// serde for an optional time.
mod optional_time_s {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &Option<f64>, out: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(seconds) => crate::units::time_s::serialize(seconds, out),
            None => out.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<f64>, D::Error> {
        let text = Option::<String>::deserialize(input)?;
        text.map(|text| crate::units::parse_time_s(&text).map_err(serde::de::Error::custom)).transpose()
    }
}

/// Largest `socket_drop_cost`.
pub const MOST_DROP_COST: f64 = 10.0;

/// The keys of [`KEYS`] whose value is no figure, in the order that the page's engine prints (`about`), which is built apart.
pub const TEXT_KEYS: &[&str] =
    &["service", "pause_times", "applications", "queues", "transmit_load", "transmit_priority"];

/// The key of this name; None: there is no such key.
fn named(name: &str) -> Option<&'static Key> {
    TABLE.iter().find(|key| key.name == name)
}

impl Host {
    /// A preset by name, None if there is no such preset.
    pub fn preset(name: &str) -> Option<Self> {
        Preset::named(name).map(|preset| preset.host)
    }

    /// The 2.53 GHz Pentium 4 of Salah, El-Badawi and Khalid (2007), section 4: s = 3.73 us, 5.25 us + bytes / 748
    /// MB/s, m = 0.5 us, o = 1.59 us, B = 1024.
    pub fn pentium4_2530mhz() -> Self {
        Self {
            name: "pentium4-2530mhz".to_owned(),
            interrupt_s: 3.73e-6,
            protocol_s: 5.25e-6,
            per_byte_s: 1.0 / 748e6,
            mask_s: 0.5e-6,
            poll_s: 1.59e-6,
            ..Self::default()
        }
    }

    /// Mean protocol time of a frame: 1/mu = per packet + per byte x frame bytes (s).
    pub fn service_s(&self, frame_bytes: f64) -> f64 {
        self.protocol_s + self.per_byte_s * frame_bytes
    }

    /// mu: protocol processing rate for frames of `frame_bytes` [packets/s].
    pub fn mu_pps(&self, frame_bytes: f64) -> f64 {
        1.0 / self.service_s(frame_bytes)
    }

    /// Reads a host file; `path` is named in the error, which shows line, value and accepted form.
    pub fn from_toml(path: &str, text: &str) -> Result<Self, crate::experiment::FileError> {
        let host: Self = crate::experiment::parse_toml(path, text)?;
        host.validate().map_err(|error| crate::experiment::FileError::invalid(path, &error))?;
        Ok(host)
    }

    /// What `--set` has to be given to make this host of `other`: `KEY=VALUE` for each key whose value differs. Distributions that were
    /// read from a file are named by it.
    pub fn changes_from(&self, other: &Self) -> Vec<String> {
        let theirs = other.texts();
        let differing = self.texts().into_iter().filter(|(key, text)| theirs.get(key) != Some(text));
        differing.map(|(key, text)| format!("{key}={text}")).collect()
    }

    /// The value of a key of [`KEYS`] as a text for `--set`; None: the host has none, or there is no such key.
    pub fn text(&self, key: &str) -> Option<String> {
        self.texts().remove(key)
    }

    /// The values that this host has, by their keys.
    fn texts(&self) -> BTreeMap<String, String> {
        let text = |value: toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let values = toml::Table::try_from(self).unwrap_or_default().into_iter().filter(|(key, _)| key != "name");
        values.map(|(key, value)| (key, text(value))).collect()
    }

    /// Applies `KEY=VALUE` of `--set`.
    pub fn set(&mut self, assignment: &str) -> Result<(), ParseError> {
        let form = || format!("expected KEY=VALUE with one of the keys {}", KEYS.join(", "));
        let (key, value) = assignment.split_once('=').ok_or_else(|| ParseError::new("--set", assignment, form()))?;
        let (name, value) = (key.trim(), value.trim());
        let key = named(name).ok_or_else(|| ParseError::new("--set", assignment, form()))?;
        (key.set)(self, value).map_err(|error| error.within(&format!("--set {name}")))
    }

    /// The figure behind a key of [`KEYS`] (s, packets or a share); None for the keys of [`TEXT_KEYS`], what is not
    /// modelled, and what is no key.
    pub fn get(&self, key: &str) -> Option<f64> {
        (named(key)?.figure)(self)
    }

    /// Checks every figure against its range.
    pub fn validate(&self) -> Result<(), Invalid> {
        TABLE.iter().try_for_each(|key| (key.check)(self))?;
        if self.protocol_s + self.per_byte_s <= 0.0 {
            return Err(Invalid::new("protocol", "0s", "must be above 0 (or per_byte must be)"));
        }
        if let Some(queues) = &self.queues {
            queues.validate()?;
        }
        self.validate_applications()?;
        self.validate_sides()?;
        self.validate_pauses()?;
        self.service.validate()
    }
}

#[cfg(test)]
mod tests;
