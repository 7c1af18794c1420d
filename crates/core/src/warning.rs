//! Warnings of values that are possible but probably a mistake: with them the scheme works, but probably not as
//! intended.
//!
//! An impossible value is an [`Invalid`](crate::Invalid) instead. Engines add these warnings to the notes of an
//! outcome.

use crate::engine::Point;
use crate::host::{Host, Preset};
use crate::note::Note;
use crate::scheme::{Coalesce, Napi, Scheme};
use crate::traffic::Traffic;

pub use crate::note::Warning;

impl Point {
    /// One note per suspicious parameter; empty if no parameter is suspicious.
    pub fn warnings(&self) -> Vec<Note> {
        warnings(&self.host, &self.scheme, &self.traffic, self.rate_pps())
    }
}

/// Returns the warnings for a point with this host, scheme and traffic. `offered_pps`: its load; `None` if it has no
/// load or its frame sizes have not been read.
pub fn warnings(host: &Host, scheme: &Scheme, traffic: &Traffic, offered_pps: Option<f64>) -> Vec<Note> {
    let service_s = host.mean_service_s(&traffic.size);
    let mut found = match scheme {
        Scheme::Napi(napi) => linux(host, napi),
        Scheme::Coalesce(coalesce) => coalesced(host, coalesce, offered_pps),
        other => other.properties().polls.map_or_else(Vec::new, |polls| polled(host, service_s, polls)),
    };
    found.extend(measured(host, service_s));
    let assumed = Preset::named(&host.name).and_then(|preset| preset.assumed);
    found.extend(assumed.map(|assumed| Warning::Preset(host.name.clone(), assumed)));
    if host.ring == 1 {
        found.push(Warning::OneSlot);
    }
    found.extend(traffic.capture_notes().into_iter().map(Warning::Capture));
    for capture in traffic.captures() {
        let name = capture.file.rsplit('/').next().unwrap_or_default();
        let no_flow = capture.packets.iter().filter(|packet| packet.flow.is_none()).count();
        if no_flow > 0 && host.queues.is_some() {
            found.push(Warning::NoHeader(name.to_owned(), no_flow, capture.packets.len()));
        }
    }
    found.dedup();
    found.into_iter().map(Note::Warning).collect()
}

fn polled(host: &Host, service_s: f64, (period_s, quota): (f64, u64)) -> Vec<Warning> {
    let mut found = Vec::new();
    if period_s < service_s {
        found.push(Warning::ShortPeriod(period_s, service_s));
    }
    if host.poll_s > 0.5 * period_s {
        found.push(Warning::LittleBetweenPolls(period_s, host.poll_s));
    }
    if quota > host.ring {
        found.push(Warning::QuotaAboveRing(quota, host.ring));
    }
    found
}

/// Warns that only the distribution of measured times is used, not their mean. `None` if the mean is within 10 % of the
/// host's, or the times are not measured.
fn measured(host: &Host, service_s: f64) -> Option<Warning> {
    let mean_s = host.service.measured()?.mean_s();
    let differs = (mean_s / service_s - 1.0).abs() > 0.1;
    differs.then(|| Warning::OtherMean(host.service.to_string(), mean_s, service_s))
}

fn linux(host: &Host, napi: &Napi) -> Vec<Warning> {
    let mut found = Vec::new();
    if napi.weight > napi.budget {
        found.push(Warning::WeightAboveBudget(napi.weight, napi.budget));
    }
    if napi.weight > host.ring && !napi.backlog {
        found.push(Warning::WeightAboveRing(napi.weight, host.ring));
    }
    found
}

fn coalesced(host: &Host, coalesce: &Coalesce, offered_pps: Option<f64>) -> Vec<Warning> {
    let mut found = Vec::new();
    let ring = host.ring as f64;
    if let Some(frames) = coalesce.frames.filter(|frames| *frames > 1 && 2 * *frames > host.ring) {
        found.push(Warning::FramesOfTheRing(frames, host.ring));
    }
    let timers = [("usecs", coalesce.absolute_timer_s), ("min_gap", coalesce.min_gap_s)];
    for (key, seconds) in timers.into_iter().filter_map(|(key, timer)| Some((key, timer?))) {
        let counted = key == "usecs" && coalesce.frames.is_some();
        if let Some(pps) = offered_pps.filter(|pps| !counted && pps * seconds >= ring) {
            found.push(Warning::GathersARing(key, seconds, host.ring, pps));
        }
    }
    if let (Some(quiet_s), Some(limit_s)) = (coalesce.packet_timer_s, coalesce.absolute_timer_s)
        && quiet_s >= limit_s
        && limit_s > 0.0
    {
        found.push(Warning::NeverEnds(quiet_s, limit_s));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(scheme: &str, ring: u64) -> Vec<Note> {
        let host = Host { ring, ..Host::pentium4_2530mhz() };
        let point = Point::poisson(host, scheme.parse().unwrap(), 100e3);
        point.validate().unwrap();
        point.warnings()
    }

    #[test]
    fn near_impossible_parameters_work_and_are_named() {
        for (scheme, ring, part) in [
            ("polling:period=4us", 1024, "period = 4us is shorter than the service of one packet (5.33"),
            ("napi-2007:period=3us", 1024, "period = 3us leaves less than half"),
            ("hybrid:quota=64", 32, "quota = 64 is above the ring (32 slots)"),
            ("napi:weight=64,budget=32", 1024, "weight = 64 is above budget = 32"),
            ("napi:weight=64", 32, "weight = 64 is above the ring"),
            ("coalesce:frames=20", 32, "frames = 20 is more than half the ring"),
            ("coalesce:usecs=1ms", 64, "usecs = 1ms gathers more than the ring (64 slots) at 100kpps"),
            ("coalesce:packet_timer=50us,usecs=20us", 64, "packet_timer = 50us never ends before usecs = 20us"),
            ("ideal", 1, "ring = 1 holds only"),
        ] {
            let found = warnings(scheme, ring);
            assert!(found.iter().all(|note| matches!(note, Note::Warning(_))), "{scheme}: {found:?}");
            assert!(
                found.iter().any(|note| note.to_string().starts_with(&format!("warning: {part}"))),
                "{scheme}: {found:?}"
            );
        }
    }

    #[test]
    fn sound_points_have_none() {
        for scheme in Scheme::names().into_iter().chain(["coalesce:frames=8,usecs=50us"]) {
            assert_eq!(warnings(scheme, 1024), [] as [Note; 0], "{scheme}");
        }
    }
}
