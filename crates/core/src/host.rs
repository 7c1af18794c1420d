//! [`Host`]: what one CPU's receive path costs and how much it can hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::error::{Invalid, ParseError};
use crate::queues::Queues;
use crate::units;

mod applications;
mod pauses;
mod service;
mod sides;

pub use applications::{Applications, MOST_APPLICATIONS, OneApplication};
pub use pauses::{PauseTimes, Pauses, Recorded};
pub use service::{Empirical, MeasuredTimes, Service};
pub use sides::{TransmitLoad, TransmitPriority};

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
    pub interrupt_s: f64,
    /// The same of one that finds NAPI polling already, as only NICs that do not mask have them ([`crate::scheme::Gap`]): those of QEMU; where
    /// `interrupt_resume` is given, also of one that comes as NAPI unmasks. None: as `interrupt` (s).
    #[serde(rename = "interrupt_polling", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub interrupt_polling_s: Option<f64>,
    /// Of `interrupt` and `mask`, what the application that was hit pays only when it goes on (cold caches, leaving a virtual machine), and what came meanwhile
    /// does not wait for (s). `napi` in the simulator; elsewhere it is paid before the poll. None: nothing.
    #[serde(rename = "interrupt_resume", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub interrupt_resume_s: Option<f64>,
    /// From the cause of an interrupt to its handler (s); the CPU does other work meanwhile (in a virtual machine,
    /// what the hypervisor takes to deliver it).
    #[serde(rename = "interrupt_latency", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub interrupt_latency_s: f64,
    /// Protocol processing a packet, without the per-byte part (s).
    #[serde(rename = "protocol", with = "units::time_s")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub protocol_s: f64,
    /// Protocol processing a byte of frame (s).
    #[serde(rename = "per_byte", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub per_byte_s: f64,
    /// m: one write to a NIC register, to mask or to unmask (s).
    #[serde(rename = "mask", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub mask_s: f64,
    /// o: overhead of one poll (s).
    #[serde(rename = "poll", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub poll_s: f64,
    /// t_a: the application's time a packet (s); None: no application is modelled.
    #[serde(rename = "application", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub application_s: Option<f64>,
    /// Several applications that share the CPU, each with a socket; None: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applications: Option<Applications>,
    /// t_sw: from a blocked application, or from another application, to a running one, on the application's account (s).
    #[serde(rename = "context_switch", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub context_switch_s: f64,
    /// What protocol processing spends to wake a blocked application (s).
    #[serde(rename = "wakeup", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub wakeup_s: f64,
    /// What protocol processing of a packet costs more when the socket buffer is full than when it is empty, linear
    /// between: packets that wait long have left the caches (s).
    #[serde(rename = "cold_protocol", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cold_protocol_s: f64,
    /// The same for the application's time a packet (s).
    #[serde(rename = "cold_application", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cold_application_s: f64,
    /// Protocol time of a packet that finds the socket buffer full over that of a delivered one, 0 to [`MOST_DROP_COST`]: above 1 where the
    /// queue between the CPUs is contended when most is dropped.
    #[serde(default = "one")]
    pub socket_drop_cost: f64,
    /// B: slots of the receive ring or backlog, the packet in service included.
    #[serde(default = "default_ring")]
    pub ring: u64,
    /// Packets the application's socket holds.
    #[serde(default = "default_socket_buffer")]
    pub socket_buffer: u64,
    /// Period of the scheduler's tick, at which waiting threads and pending softirqs get the CPU (s).
    #[serde(rename = "tick", with = "units::time_s", default = "default_tick")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub tick_s: f64,
    /// Distribution of the times above, of which they are the means; timers and tick excepted.
    #[serde(default = "default_service")]
    pub service: Service,
    /// R: mean length of the pauses in which the CPU is taken away (s); None: of none, or of those that `pause_times` measured.
    #[serde(rename = "pause", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub pause_s: Option<f64>,
    /// U: mean time between the end of one pause and the start of the next, by the clock, exponential (s).
    #[serde(rename = "pause_every", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub pause_every_s: Option<f64>,
    /// Distribution of the lengths of pauses; None: exponential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_times: Option<PauseTimes>,
    /// Receive queues with a core each, of which the costs above are one's; None: one queue and one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues>,
    /// Packets in the ring at which the sender is told to stop (802.3 pause); None: no flow control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xoff: Option<u64>,
    /// Packets in the ring at which a stopped sender may go on; None: half of `xoff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xon: Option<u64>,
    /// Packets a stopped sender holds back, beyond which it drops; None: [`Host::SENDER_QUEUE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_queue: Option<u64>,
    /// What one transmit completion costs, at the protocol's level (s); None: nothing is sent.
    #[serde(rename = "transmit", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub transmit_s: Option<f64>,
    /// How much is sent; None: as much as is delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_load: Option<TransmitLoad>,
    /// Whether completions go before or after received packets; None: before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_priority: Option<TransmitPriority>,
    /// Slots of the transmit ring, each held until its completion is done; None: [`Host::TRANSMIT_RING`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_ring: Option<u64>,
}

/// What a host file has where it names nothing: packets that cost nothing, in the usual sizes. Costs of a machine are for a preset, a file
/// or calibration; this is what they are set on.
impl Default for Host {
    fn default() -> Self {
        Self {
            name: String::new(),
            interrupt_s: 0.0,
            interrupt_polling_s: None,
            interrupt_resume_s: None,
            interrupt_latency_s: 0.0,
            protocol_s: 0.0,
            per_byte_s: 0.0,
            mask_s: 0.0,
            poll_s: 0.0,
            application_s: None,
            applications: None,
            context_switch_s: 0.0,
            wakeup_s: 0.0,
            cold_protocol_s: 0.0,
            cold_application_s: 0.0,
            socket_drop_cost: one(),
            ring: default_ring(),
            socket_buffer: default_socket_buffer(),
            tick_s: default_tick(),
            service: default_service(),
            pause_s: None,
            pause_every_s: None,
            pause_times: None,
            queues: None,
            xoff: None,
            xon: None,
            sender_queue: None,
            transmit_s: None,
            transmit_load: None,
            transmit_priority: None,
            transmit_ring: None,
        }
    }
}

fn one() -> f64 {
    1.0
}
fn default_ring() -> u64 {
    1024
}
fn default_socket_buffer() -> u64 {
    256
}
fn default_tick() -> f64 {
    4e-3
}
fn default_service() -> Service {
    Service::Exponential
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

/// Names of the presets, for help texts.
pub const PRESETS: &[&str] = &["pentium4-2530mhz"];

/// The keys of `--set` and of a host file.
pub const KEYS: &[&str] = &[
    "interrupt",
    "interrupt_polling",
    "interrupt_resume",
    "interrupt_latency",
    "protocol",
    "per_byte",
    "mask",
    "poll",
    "application",
    "applications",
    "context_switch",
    "wakeup",
    "cold_protocol",
    "cold_application",
    "socket_drop_cost",
    "ring",
    "socket_buffer",
    "tick",
    "service",
    "pause",
    "pause_every",
    "pause_times",
    "queues",
    "xoff",
    "xon",
    "sender_queue",
    "transmit",
    "transmit_load",
    "transmit_priority",
    "transmit_ring",
];

/// The keys of [`KEYS`] whose value is no figure.
pub const TEXT_KEYS: &[&str] =
    &["service", "pause_times", "applications", "queues", "transmit_load", "transmit_priority"];

impl Host {
    /// A preset by name, None if there is no such preset.
    pub fn preset(name: &str) -> Option<Self> {
        (name == "pentium4-2530mhz").then(Self::pentium4_2530mhz)
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
        let (key, value) = (key.trim(), value.trim());
        let named = |error: ParseError| error.within(&format!("--set {key}"));
        let time = || units::parse_time_s(value).map_err(named);
        let count = || units::parse_count(key, value).map_err(named);
        let some = || if value == "none" { Ok(None) } else { count().map(Some) };
        let some_time = || if value == "none" { Ok(None) } else { time().map(Some) };
        match key {
            "interrupt" => self.interrupt_s = time()?,
            "interrupt_polling" => self.interrupt_polling_s = some_time()?,
            "interrupt_resume" => self.interrupt_resume_s = some_time()?,
            "interrupt_latency" => self.interrupt_latency_s = time()?,
            "protocol" => self.protocol_s = time()?,
            "per_byte" => self.per_byte_s = time()?,
            "mask" => self.mask_s = time()?,
            "poll" => self.poll_s = time()?,
            "application" => self.application_s = some_time()?,
            "applications" => {
                self.applications = if value == "none" { None } else { Some(value.parse().map_err(named)?) }
            }
            "context_switch" => self.context_switch_s = time()?,
            "wakeup" => self.wakeup_s = time()?,
            "cold_protocol" => self.cold_protocol_s = time()?,
            "cold_application" => self.cold_application_s = time()?,
            "tick" => self.tick_s = time()?,
            "socket_drop_cost" => self.socket_drop_cost = units::parse_share(value).map_err(named)?,
            "ring" => self.ring = count()?,
            "socket_buffer" => self.socket_buffer = count()?,
            "service" => self.service = value.parse().map_err(named)?,
            "pause" => self.pause_s = some_time()?,
            "pause_every" => self.pause_every_s = some_time()?,
            "pause_times" => {
                self.pause_times = if value == "none" { None } else { Some(value.parse().map_err(named)?) }
            }
            "queues" => self.queues = if value == "none" { None } else { Some(value.parse().map_err(named)?) },
            "xoff" => self.xoff = some()?,
            "xon" => self.xon = some()?,
            "sender_queue" => self.sender_queue = some()?,
            "transmit" => self.transmit_s = some_time()?,
            "transmit_load" => self.transmit_load = Some(value.parse().map_err(named)?),
            "transmit_priority" => self.transmit_priority = Some(value.parse().map_err(named)?),
            "transmit_ring" => self.transmit_ring = some()?,
            _ => return Err(ParseError::new("--set", assignment, form())),
        }
        Ok(())
    }

    /// The figure behind a key of [`KEYS`] (s, packets or a share); None for the keys of [`TEXT_KEYS`], what is not
    /// modelled, and what is no key.
    pub fn get(&self, key: &str) -> Option<f64> {
        Some(match key {
            "interrupt" => self.interrupt_s,
            "interrupt_polling" => self.interrupt_polling_s?,
            "interrupt_resume" => self.interrupt_resume_s?,
            "interrupt_latency" => self.interrupt_latency_s,
            "protocol" => self.protocol_s,
            "per_byte" => self.per_byte_s,
            "mask" => self.mask_s,
            "poll" => self.poll_s,
            "application" => self.application_s?,
            "context_switch" => self.context_switch_s,
            "wakeup" => self.wakeup_s,
            "cold_protocol" => self.cold_protocol_s,
            "cold_application" => self.cold_application_s,
            "tick" => self.tick_s,
            "socket_drop_cost" => self.socket_drop_cost,
            "ring" => self.ring as f64,
            "socket_buffer" => self.socket_buffer as f64,
            "pause" => self.pause_s.or_else(|| Some(self.pauses()?.mean_s))?,
            "pause_every" => self.pause_every_s?,
            "xoff" => self.xoff? as f64,
            "xon" => self.xon_packets()? as f64,
            "sender_queue" => self.sender_queue_packets() as f64,
            "transmit" => self.transmit_s?,
            "transmit_ring" => self.transmit_ring_slots() as f64,
            _ => return None,
        })
    }

    /// Checks every figure against its range.
    pub fn validate(&self) -> Result<(), Invalid> {
        for (name, seconds) in [
            ("interrupt", self.interrupt_s),
            ("interrupt_polling", self.interrupt_polling_s.unwrap_or(0.0)),
            ("interrupt_resume", self.interrupt_resume_s.unwrap_or(0.0)),
            ("interrupt_latency", self.interrupt_latency_s),
            ("protocol", self.protocol_s),
            ("per_byte", self.per_byte_s),
            ("mask", self.mask_s),
            ("poll", self.poll_s),
            ("application", self.application_s.unwrap_or(0.0)),
            ("context_switch", self.context_switch_s),
            ("wakeup", self.wakeup_s),
            ("cold_protocol", self.cold_protocol_s),
            ("cold_application", self.cold_application_s),
            ("transmit", self.transmit_s.unwrap_or(0.0)),
        ] {
            bounds::time_or_none(name, seconds)?;
        }
        if self.protocol_s + self.per_byte_s <= 0.0 {
            return Err(Invalid::new("protocol", "0s", "must be above 0 (or per_byte must be)"));
        }
        bounds::time("tick", self.tick_s)?;
        bounds::packets("ring", self.ring, "slots")?;
        bounds::packets("socket_buffer", self.socket_buffer, "packets")?;
        if !(0.0..=MOST_DROP_COST).contains(&self.socket_drop_cost) {
            return Err(Invalid::new("socket_drop_cost", self.socket_drop_cost, "must be a ratio from 0 to 10"));
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
