//! A host and its traffic, read from the input of a fuzz target. The target chooses the range of each number
//! ([`Numbers`]).

use netcliff_core::host::Service;
use netcliff_core::{Host, Load, Traffic};

use super::bytes::Bytes;

/// The numbers of a target's points. Each function reads one number from the input.
pub struct Numbers {
    /// CPU time of one processing step (s), or zero.
    pub cost_s: fn(&mut Bytes<'_>) -> f64,
    /// Interval of a timer, length of a pause, or stay in a state of the arrival process (s).
    pub time_s: fn(&mut Bytes<'_>) -> f64,
    /// A count of packets, stages or sources.
    pub count: fn(&mut Bytes<'_>) -> u64,
    /// A weight or quota. A model's Markov chain grows with it.
    pub few: fn(&mut Bytes<'_>) -> u64,
    /// Slots of a ring.
    pub ring: fn(&mut Bytes<'_>) -> u64,
    /// A load (packets/s).
    pub load_pps: fn(&mut Bytes<'_>) -> f64,
}

impl Numbers {
    /// Picks one of `texts` and replaces its words `COUNT`, `FEW`, `TIME`, `COST`, `RATE` and `FLAG` by numbers from
    /// the input.
    pub fn filled(&self, bytes: &mut Bytes<'_>, texts: &[&str]) -> String {
        let mut text = bytes.pick(texts).to_owned();
        while let Some((word, value)) = self.word(bytes, &text) {
            text = text.replacen(word, &value, 1);
        }
        text
    }

    fn word(&self, bytes: &mut Bytes<'_>, text: &str) -> Option<(&'static str, String)> {
        let found = ["COUNT", "FEW", "TIME", "COST", "FLAG", "RATE"].into_iter().find(|word| text.contains(word))?;
        let value = match found {
            "COUNT" => (self.count)(bytes).to_string(),
            "FEW" => (self.few)(bytes).to_string(),
            "TIME" => format!("{:e}s", (self.time_s)(bytes)),
            "COST" => format!("{:e}s", (self.cost_s)(bytes)),
            "RATE" => format!("{}pps", bytes.decade(3.0, 7.0)),
            _ => (bytes.byte() % 2 == 0).to_string(),
        };
        Some((found, value))
    }

    /// A host with one of the groups of settings in `sides`. `None` if a setting is invalid.
    pub fn host(&self, bytes: &mut Bytes<'_>, sides: &[&[&str]]) -> Option<Host> {
        let cost_s = self.cost_s;
        let mut host = Host {
            interrupt_s: cost_s(bytes),
            interrupt_latency_s: cost_s(bytes),
            protocol_s: cost_s(bytes),
            per_byte_s: cost_s(bytes) * 1e-3,
            mask_s: cost_s(bytes),
            poll_s: cost_s(bytes),
            application_s: if bytes.byte() < 96 { Some(cost_s(bytes)) } else { None },
            context_switch_s: cost_s(bytes),
            wakeup_s: cost_s(bytes),
            cold_protocol_s: cost_s(bytes),
            cold_application_s: cost_s(bytes),
            socket_drop_cost: f64::from(bytes.byte()) / 255.0,
            ring: (self.ring)(bytes),
            socket_buffer: u64::from(bytes.byte()),
            tick_s: bytes.decade(-5.0, -2.0),
            service: self.service(bytes)?,
            ..Host::pentium4_2530mhz()
        };
        let side = sides[usize::from(bytes.byte()) % sides.len()];
        for setting in side {
            host.set(&self.filled(bytes, &[*setting])).ok()?;
        }
        Some(host)
    }

    fn service(&self, bytes: &mut Bytes<'_>) -> Option<Service> {
        match bytes.pick(SERVICES) {
            "measured" => {
                let times = (0..=bytes.byte() % 8).map(|_| ((self.cost_s)(bytes), f64::from(bytes.byte()))).collect();
                Service::from_times("measured", times).ok()
            }
            text => text.parse().ok(),
        }
    }

    /// Traffic with one of the arrival processes in `arrivals`, and its load. `None` if the arrival process is invalid.
    pub fn traffic(&self, bytes: &mut Bytes<'_>, arrivals: &[&str]) -> Option<(Traffic, Load)> {
        let load = Load::Pps((self.load_pps)(bytes));
        let arrivals = self.filled(bytes, arrivals).parse().ok()?;
        let size = bytes.pick(&["64B", "imix", "1518B"]).parse().ok()?;
        Some((Traffic { arrivals, size, ..Traffic::default() }, load))
    }
}

const SERVICES: &[&str] =
    &["exponential", "deterministic", "erlang:stages=3", "lognormal:cv=0.7", "hyperexponential:cv=2", "measured"];
