//! [`Host`]: the costs of one CPU's receive path, and the sizes of its queues.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Invalid, ParseError};
use crate::queues::Queues;
use crate::traffic::FrameSizes;
use crate::units;

mod applications;
mod key;
mod pauses;
mod presets;
mod service;
mod sides;

pub use applications::{Applications, MOST_APPLICATIONS, OneApplication};
pub use key::{Key, Part, Role, Unit};
pub use pauses::{PauseTimes, Pauses, Recorded};
pub use presets::{PRESETS, Preset};
pub use service::{Empirical, MeasuredTimes, Service};
pub use sides::{TransmitLoad, TransmitPriority};

use key::{Choice, Kind, Packets, Period, Ratio, Slots, Text, Time};

key::keys! {
/// Costs (s) and sizes (packets) of a host with one CPU for its packets (docs/theory/host.md).
///
/// In TOML each field has the key that `--set` takes: `interrupt = "3.73us"`, `ring = 1024`.
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
    pub interrupt_s: f64 = 0.0 => Time("interrupt" = "interrupt") as SOFTIRQ,
    /// Mean time of an interrupt that finds NAPI polling already (s). Such interrupts come only from NICs that do not
    /// mask them (those that QEMU emulates). With `interrupt_resume` also the time of an interrupt that comes when NAPI
    /// unmasks. None: equal to `interrupt`.
    #[serde(rename = "interrupt_polling", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub interrupt_polling_s: Option<f64> = None => Time("interrupt_polling" = "interrupt during a poll"),
    /// Part of `interrupt` and `mask` that the interrupted application pays when it continues, as for cold caches or
    /// leaving a virtual machine (s); packets that arrive during the poll do not wait for it. Only `napi` in the
    /// simulator; elsewhere it is paid before the poll. None: no such part.
    #[serde(rename = "interrupt_resume", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub interrupt_resume_s: Option<f64> = None => Time("interrupt_resume" = "program after interrupt") as RESUME,
    /// Time from the cause of an interrupt to its handler (s); the CPU does other work until then. In a virtual machine
    /// it is the hypervisor's time to deliver the interrupt.
    #[serde(rename = "interrupt_latency", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub interrupt_latency_s: f64 = 0.0 => Time("interrupt_latency" = "interrupt latency") as WAIT,
    /// Protocol processing per packet, without the part per byte (s).
    #[serde(rename = "protocol", with = "units::time_s")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub protocol_s: f64 = 0.0 => Time("protocol" = "protocol per packet") as SOFTIRQ,
    /// Protocol processing per byte of the frame (s).
    #[serde(rename = "per_byte", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub per_byte_s: f64 = 0.0 => Time("per_byte" = "protocol per byte") as SOFTIRQ,
    /// m: one write to a NIC register, to mask or to unmask (s).
    #[serde(rename = "mask", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub mask_s: f64 = 0.0 => Time("mask" = "masking of interrupts") as SOFTIRQ,
    /// o: overhead of one poll (s).
    #[serde(rename = "poll", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub poll_s: f64 = 0.0 => Time("poll" = "poll") as SOFTIRQ,
    /// t_a: the application's time per packet (s); None: no application is modelled.
    #[serde(rename = "application", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub application_s: Option<f64> = None => Time("application" = "program per packet") as APPLICATION,
    /// Several applications that share the CPU, each with its own socket; None: one application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applications: Option<Applications> = None => Text("applications"),
    /// t_sw: switch from a blocked application, or from another one, to a running one (s); it counts as the
    /// application's time.
    #[serde(rename = "context_switch", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub context_switch_s: f64 = 0.0 => Time("context_switch" = "switch to the program") as APPLICATION,
    /// Time that protocol processing spends to wake a blocked application (s).
    #[serde(rename = "wakeup", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub wakeup_s: f64 = 0.0 => Time("wakeup" = "wake-up of the program") as SOFTIRQ,
    /// Additional protocol time of a packet when the socket buffer is full, because packets that wait long have left
    /// the caches (s). Proportional to the buffer's filling.
    #[serde(rename = "cold_protocol", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cold_protocol_s: f64 = 0.0 => Time("cold_protocol" = "protocol at full socket") as COLD_SOFTIRQ,
    /// Additional application time of a packet when the socket buffer is full (s). Proportional to the buffer's
    /// filling.
    #[serde(rename = "cold_application", with = "units::time_s", default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub cold_application_s: f64 = 0.0 => Time("cold_application" = "program at full socket") as COLD_APPLICATION,
    /// Protocol time of a packet that is dropped at a full socket buffer, divided by that of a delivered one: 0 to
    /// [`MOST_DROP_COST`]. Above 1 if CPUs contend for the socket's queue while most packets are dropped.
    #[serde(default = "defaults::socket_drop_cost")]
    pub socket_drop_cost: f64 = 1.0 => Ratio("socket_drop_cost" = "drop at full socket"),
    /// B: slots of the receive ring or backlog, the packet in service included.
    #[serde(default = "defaults::ring")]
    pub ring: u64 = 1024 => Slots("ring" = "ring or backlog"),
    /// Packets that the application's socket holds.
    #[serde(default = "defaults::socket_buffer")]
    pub socket_buffer: u64 = 256 => Packets("socket_buffer" = "socket buffer"),
    /// Period of the scheduler's tick (s). At ticks, waiting threads and pending softirqs get the CPU.
    #[serde(rename = "tick", with = "units::time_s", default = "defaults::tick_s")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub tick_s: f64 = 4e-3 => Period("tick" = "scheduler's tick"),
    /// Distribution of the times above, which are its means; timers and the tick are constant.
    #[serde(default = "defaults::service")]
    pub service: Service = Service::Exponential => Text("service"),
    /// R: mean length of pauses, in which the CPU is taken away (s). None: no pauses, or those of `pause_times`.
    #[serde(rename = "pause", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub pause_s: Option<f64> = None =>
        Period("pause" = "length of a pause", |host| host.pause_s.or_else(|| Some(host.pauses()?.mean_s))) as WAIT,
    /// U: mean time from the end of a pause to the start of the next (s), exponentially distributed.
    #[serde(rename = "pause_every", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub pause_every_s: Option<f64> = None => Period("pause_every" = "time between pauses"),
    /// Distribution of the lengths of pauses; None: exponential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_times: Option<PauseTimes> = None => Text("pause_times"),
    /// Receive queues, each with a core of its own to which the costs above apply; None: one queue and one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues> = None => Text("queues"),
    /// Packets in the ring at which the sender is stopped (802.3 pause frame); None: no flow control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xoff: Option<u64> = None => Packets("xoff" = "ring level that stops"),
    /// Packets in the ring at which a stopped sender may continue; None: half of `xoff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xon: Option<u64> = None =>
        Packets("xon" = "ring level that resumes", |host| host.xon_packets().map(|packets| packets as f64)),
    /// Packets that a stopped sender queues before it drops; None: [`Host::SENDER_QUEUE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_queue: Option<u64> = None =>
        Packets("sender_queue" = "sender's queue", |host| Some(host.sender_queue_packets() as f64)),
    /// Cost of one transmit completion, at the priority of protocol processing (s); None: nothing is sent.
    #[serde(rename = "transmit", with = "optional_time_s", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub transmit_s: Option<f64> = None => Time("transmit" = "transmit completion"),
    /// Number of packets sent; None: equal to the number of delivered packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_load: Option<TransmitLoad> = None => Choice("transmit_load"),
    /// Whether transmit completions are processed before or after received packets; None: before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_priority: Option<TransmitPriority> = None => Choice("transmit_priority"),
    /// Slots of the transmit ring, each occupied until its completion is processed; None: [`Host::TRANSMIT_RING`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transmit_ring: Option<u64> = None =>
        Slots("transmit_ring" = "transmit ring", |host| Some(host.transmit_ring_slots() as f64)),
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

/// Keys whose value is not a number, in the order in which the explorer's engine prints them (`about`).
pub const TEXT_KEYS: &[&str] =
    &["service", "pause_times", "applications", "queues", "transmit_load", "transmit_priority"];

/// Returns the key with this name; `None` if no key has it.
fn named(name: &str) -> Option<&'static Key> {
    TABLE.iter().find(|key| key.name == name)
}

impl Host {
    /// Returns the preset with this name; `None` if no preset has it.
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

    /// Mean protocol time of a packet, without the part per byte (s).
    pub fn packet_s(&self) -> f64 {
        self.protocol_s
    }

    /// Mean protocol time of a frame's bytes if the CPU passes over them `passes` times (s).
    pub fn bytes_s(&self, passes: f64, frame_bytes: f64) -> f64 {
        self.per_byte_s * passes * frame_bytes
    }

    /// Mean protocol time of a frame: 1/mu = per packet + per byte x frame bytes (s).
    pub fn service_s(&self, frame_bytes: f64) -> f64 {
        self.packet_s() + self.bytes_s(1.0, frame_bytes)
    }

    /// Mean protocol time of frames of these sizes (s): that of the mean size, because the time is linear in the size.
    /// That of 64 bytes, the smallest, if a file of sizes has not been read.
    pub fn mean_service_s(&self, sizes: &FrameSizes) -> f64 {
        self.service_s(sizes.mean_bytes().unwrap_or(64.0))
    }

    /// Whether a frame's protocol time depends on its size.
    pub fn is_by_size(&self) -> bool {
        self.per_byte_s > 0.0
    }

    /// This host with the protocol time `packet_s` for frames of all sizes (s).
    #[must_use]
    pub fn with_fixed_protocol(self, packet_s: f64) -> Self {
        Self { protocol_s: packet_s, per_byte_s: 0.0, ..self }
    }

    /// This host with `more_s` (s) more protocol time per packet, and then all protocol time multiplied by `factor`.
    #[must_use]
    pub fn with_more_protocol(self, more_s: f64, factor: f64) -> Self {
        Self { protocol_s: (self.protocol_s + more_s) * factor, per_byte_s: self.per_byte_s * factor, ..self }
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

    /// `KEY=VALUE` for each key whose value differs from that of `other`: `--set` with all of them turns `other` into
    /// this host. A distribution that was read from a file is given by the file's name.
    pub fn changes_from(&self, other: &Self) -> Vec<String> {
        let theirs = other.texts();
        let differing = self.texts().into_iter().filter(|(key, text)| theirs.get(key) != Some(text));
        differing.map(|(key, text)| format!("{key}={text}")).collect()
    }

    /// The value of a key of [`KEYS`] as text for `--set`; None: the host has no such value, or there is no such key.
    pub fn text(&self, key: &str) -> Option<String> {
        self.texts().remove(key)
    }

    /// Returns the values that the host has, by key.
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

    /// The numeric value of a key of [`KEYS`] (s, packets or a ratio). None for [`TEXT_KEYS`], for values that the host
    /// does not have, and for unknown keys.
    pub fn get(&self, key: &str) -> Option<f64> {
        (named(key)?.figure)(self)
    }

    /// Multiplies each time by the factor that `by` returns for its role; `None` leaves it unchanged.
    pub fn scale_times(&mut self, by: impl Fn(Role) -> Option<f64>) {
        for key in TABLE {
            if let (Some(factor), Some(time_s)) = (by(key.role), key.time_mut(self)) {
                *time_s *= factor;
            }
        }
    }

    /// Checks the range of each value, and values that depend on each other.
    pub fn validate(&self) -> Result<(), Invalid> {
        TABLE.iter().try_for_each(|key| (key.check)(self))?;
        if self.service_s(1.0) <= 0.0 {
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
