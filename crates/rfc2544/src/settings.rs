//! Settings of `netcliff rfc2544`.

mod frames;
mod pcap;

use crate::tester::frame::least_bytes;
use crate::tester::stamps::Stamps;
use netcliff_core::{Invalid, units};
use netcliff_packets::port::{ReceiveBy, SendBy};
use serde::{Deserialize, Serialize};

use super::procedures::Bursts;
use netcliff_mlrsearch::Goal;

pub use frames::FrameSize;
pub use pcap::Pcap;

/// Frame sizes that RFC 2544 (9.1) lists for Ethernet (bytes, FCS included).
pub const STANDARD_BYTES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// Size of a jumbo frame (bytes, FCS included), for an MTU of 9000.
pub const JUMBO_BYTES: u32 = 9018;
/// Longest live frame (bytes).
const LONGEST_LIVE_BYTES: u32 = 3300;

/// The requested tests of RFC 2544.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tests {
    /// Throughput (RFC 2544, section 26.1). It is also searched if only latency or back-to-back is requested.
    pub throughput: bool,
    /// Latency (RFC 2544, section 26.2).
    pub latency: bool,
    /// Frame loss rate (RFC 2544, section 26.3).
    pub loss: bool,
    /// Back-to-back frames (RFC 2544, section 26.4, and RFC 9004).
    pub back_to_back: bool,
}

impl Tests {
    /// Whether a requested test needs the throughput.
    pub fn needs_search(self) -> bool {
        self.throughput || self.latency || self.back_to_back
    }
}

/// Method of searching the throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SearchBy {
    /// RFC 2544's bisection: every trial has the full duration.
    Binary,
    /// MLRsearch (RFC 9971) with RFC 2544's goal: only the trials that decide the result have the full duration.
    Mlr,
    /// MLRsearch with a goal of 21 short trials per load, of which half may lose frames: for a host that other work
    /// disturbs.
    MlrTypical,
}

impl netcliff_core::Choice for SearchBy {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Binary, "binary", "RFC 2544's bisection: every trial has the full duration"),
        (Self::Mlr, "mlr", "MLRsearch (RFC 9971) with RFC 2544's goal: full-length trials only near the result"),
        (
            Self::MlrTypical,
            "typical",
            "MLRsearch with 21 trials a load, of 1 s or --trial, of which half may lose frames: for a machine that other work disturbs",
        ),
    ];
}

/// All settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The tests to run.
    pub tests: Tests,
    /// Frame sizes, in the order of testing; a single entry for a capture.
    pub frames: Vec<FrameSize>,
    /// Capture whose frames are sent, with its gaps scaled to each load, instead of frames at a constant rate; absent:
    /// no capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcap: Option<Pcap>,
    /// True: IPv6; false: IPv4.
    pub ipv6: bool,
    /// True if both directions are loaded at once. Loads are per direction.
    pub both_ways: bool,
    /// Number of flows in each direction, which differ in addresses and ports.
    pub flows: u32,
    /// Number of destination addresses of the flows.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub destinations: u32,
    /// Number of destination ports of the flows.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub destination_ports: u32,
    /// VLAN of the 802.1Q tag; absent: no tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// How frames are sent.
    #[serde(default)]
    pub send_by: SendBy,
    /// How frames are received.
    #[serde(default)]
    pub receive_by: ReceiveBy,
    /// Clock that measures the latency of the tagged frames.
    #[serde(default, skip_serializing_if = "is_application")]
    pub stamps: Stamps,
    /// Method of searching the throughput.
    pub search: SearchBy,
    /// Goals of the search; empty: the one goal that `search`, `trial_s`, `loss_ratio` and `width` define. The other
    /// tests use the throughput of the first goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<Goal>,
    /// Number of searches for each frame size. Several searches are made round by round over the sizes, so that drift
    /// affects all sizes alike.
    #[serde(default = "one")]
    pub searches: u32,
    /// Trial duration (s); RFC 2544, section 24, requires 60. Searches by [`SearchBy::MlrTypical`] use at most 1.
    pub trial_s: f64,
    /// Highest frame loss ratio with which a trial passes.
    pub loss_ratio: f64,
    /// A search ends when its bounds are at most this far apart, relative to the upper bound.
    pub width: f64,
    /// Longest wait for frames that are still on the path after a trial (s); RFC 2544, section 23, requires 2.
    pub settle_s: f64,
    /// Pause in which the device recovers before the next trial (s); RFC 2544, section 23, requires 5.
    pub rest_s: f64,
    /// Highest load to try (pps); absent: 97 % of the sender's highest rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pps: Option<f64>,
    /// Step of the loss curve, as a share of its highest load.
    pub loss_step: f64,
    /// Number of repeats of the latency test.
    pub latency_repeats: u32,
    /// Number of repeats of the back-to-back test.
    pub burst_repeats: u32,
}

impl Default for Settings {
    /// RFC 2544's throughput test as specified, except for the rest between trials.
    fn default() -> Self {
        Self {
            tests: Tests { throughput: true, latency: false, loss: false, back_to_back: false },
            frames: STANDARD_BYTES.map(FrameSize::Fixed).to_vec(),
            pcap: None,
            ipv6: false,
            both_ways: false,
            flows: 1,
            destinations: 1,
            destination_ports: 1,
            vlan: None,
            send_by: SendBy::default(),
            receive_by: ReceiveBy::default(),
            stamps: Stamps::default(),
            search: SearchBy::Mlr,
            goals: Vec::new(),
            searches: one(),
            trial_s: 60.0,
            loss_ratio: 0.0,
            width: 0.005,
            settle_s: 2.0,
            rest_s: 0.5,
            max_pps: None,
            loss_step: 0.1,
            latency_repeats: 20,
            burst_repeats: 50,
        }
    }
}

/// Largest number of goals of a search.
const MOST_GOALS: usize = 8;

/// Default for records of earlier versions, which lack the key.
fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// Largest number of destination addresses: slightly less than a side of the testbed has outside the link's own
/// network.
const MOST_DESTINATIONS: u32 = 32_000;
/// Largest number of destination ports, counted from the first one.
const MOST_DESTINATION_PORTS: u32 = 10_000;
/// Largest number of searches of a frame size: more than any interval needs.
pub const MOST_SEARCHES: u32 = 1000;

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_application(stamps: &Stamps) -> bool {
    *stamps == Stamps::Application
}

impl Settings {
    /// The longest frame that is sent (bytes, FCS included).
    pub fn largest_frame_bytes(&self) -> u32 {
        let sizes = self.frames.iter().flat_map(|frame| frame.sizes());
        sizes.max().map_or(0, |bytes| bytes as u32)
    }

    /// Refuses invalid values.
    ///
    /// # Errors
    /// There is no frame size, a frame size is too small for the headers, or a number is out of its range.
    pub fn check(&self) -> Result<(), Invalid> {
        let bad = |name: &str, value: String, range: &str| Err(Invalid::new(name, value, range));
        if self.frames.is_empty() {
            return bad("frames", "empty".to_owned(), "at least one size");
        }
        let least = least_bytes(self.ipv6, self.vlan.is_some());
        if let Some(small) = self.frames.iter().find(|frame| frame.sizes().iter().any(|size| *size < least)) {
            let range = format!("at least {least}B: the headers and 18 bytes that name each frame");
            return bad("frame size", small.to_string(), &range);
        }
        let twice = |(at, frame): (usize, &FrameSize)| self.frames[..at].contains(frame);
        if let Some((_, frame)) = self.frames.iter().enumerate().find(|one| twice(*one)) {
            return bad("frame size", format!("{frame} twice"), "each size once");
        }
        if !(1..=65_536).contains(&self.flows) {
            return bad("flows", self.flows.to_string(), "1 to 65536");
        }
        self.check_destinations()?;
        self.check_searches()?;
        self.check_goals()?;
        let (time, share) = (units::print_time_s, units::print_share);
        let max_pps = self.max_pps.unwrap_or(1.0);
        let ranges = [
            ("trial", self.trial_s, time(self.trial_s), 0.01..=86_400.0, "10ms to 86400s"),
            ("settle", self.settle_s, time(self.settle_s), 0.0..=60.0, "0s to 60s"),
            ("rest", self.rest_s, time(self.rest_s), 0.0..=600.0, "0s to 600s"),
            ("width", self.width, share(self.width), 1e-4..=0.5, "0.01% to 50%"),
            ("loss step", self.loss_step, share(self.loss_step), 0.001..=0.1, "0.1% to 10%, as RFC 2544 has it"),
            ("loss", self.loss_ratio, share(self.loss_ratio), 0.0..=0.5, "0% to 50%"),
            ("max", max_pps, units::print_pps(max_pps), 1.0..=1e9, "1pps to 1000Mpps"),
        ];
        for (name, value, printed, range, accepted) in ranges {
            if !range.contains(&value) {
                return bad(name, printed, accepted);
            }
        }
        if self.stamps != Stamps::Application && !self.tests.latency {
            let accepted =
                "application, or together with the latency test: no other takes the latency of tagged frames";
            return bad("stamps", self.stamps.to_string(), accepted);
        }
        if self.latency_repeats == 0 || self.burst_repeats == 0 {
            return bad("repeats", "0".to_owned(), "at least 1");
        }
        Ok(())
    }

    fn check_destinations(&self) -> Result<(), Invalid> {
        let (addresses, ports) = (self.destinations, self.destination_ports);
        if !(1..=MOST_DESTINATIONS).contains(&addresses) {
            return Err(Invalid::new("destinations", addresses, format!("1 to {MOST_DESTINATIONS}")));
        }
        if !(1..=MOST_DESTINATION_PORTS).contains(&ports) {
            return Err(Invalid::new("destination ports", ports, format!("1 to {MOST_DESTINATION_PORTS}")));
        }
        if !self.flows.is_multiple_of(addresses.saturating_mul(ports)) {
            let accepted = format!("a multiple of {addresses} destinations times {ports} destination ports");
            return Err(Invalid::new("flows", self.flows, accepted));
        }
        Ok(())
    }

    fn check_searches(&self) -> Result<(), Invalid> {
        if !(1..=MOST_SEARCHES).contains(&self.searches) {
            return Err(Invalid::new("searches", self.searches, format!("1 to {MOST_SEARCHES}")));
        }
        if self.searches > 1 && !self.tests.needs_search() {
            return Err(Invalid::new(
                "searches",
                self.searches,
                "only with throughput, latency, back-to-back or all; the loss test searches for nothing",
            ));
        }
        Ok(())
    }

    fn check_goals(&self) -> Result<(), Invalid> {
        let bad = |value: String, range: &str| Err(Invalid::new("goal", value, range));
        for (at, goal) in self.goals.iter().enumerate() {
            goal.check()
                .map_err(|error| Invalid { parameter: format!("goal {}, {}", at + 1, error.parameter), ..error })?;
            if self.search == SearchBy::Binary {
                return bad(
                    goal.to_string(),
                    "only with MLRsearch: a bisection has one goal, by --trial, --loss and --width",
                );
            }
            if !self.tests.needs_search() {
                return bad(goal.to_string(), "only with throughput, latency, back-to-back or all");
            }
            if goal.initial_trial_s < 0.01
                || goal.duration_sum_s > 86_400.0
                || goal.loss_ratio > 0.5
                || goal.width < 1e-4
            {
                return bad(
                    goal.to_string(),
                    "trials of at least 10ms, sum at most 86400s, loss at most 50%, width at least 0.01%",
                );
            }
            if self.goals[..at].contains(goal) {
                return bad(format!("{goal} twice"), "each goal once");
            }
        }
        if self.goals.len() > MOST_GOALS {
            return bad(format!("{} of them", self.goals.len()), &format!("{MOST_GOALS} at most"));
        }
        Ok(())
    }

    /// The goals of a search; there is at least one.
    pub fn goals(&self) -> Vec<Goal> {
        if self.goals.is_empty() { vec![self.own_goal()] } else { self.goals.clone() }
    }

    /// The goal whose throughput the other tests use.
    pub fn goal(&self) -> Goal {
        self.goals.first().copied().unwrap_or_else(|| self.own_goal())
    }

    fn own_goal(&self) -> Goal {
        match self.search {
            SearchBy::Binary | SearchBy::Mlr => Goal::rfc2544(self.trial_s, self.loss_ratio, self.width),
            SearchBy::MlrTypical => Goal::typical(self.loss_ratio, self.width).with_trials_of(self.trial_s.min(1.0)),
        }
    }

    /// Whether live frames were not requested, and can have this size.
    pub fn may_send_live(&self, frame: FrameSize) -> bool {
        let fits = matches!(frame, FrameSize::Fixed(bytes) if bytes <= LONGEST_LIVE_BYTES);
        let plain = !self.ipv6 && !self.both_ways && self.pcap.is_none() && self.stamps == Stamps::Application;
        self.send_by != SendBy::Live && fits && plain
    }

    /// The bursts to try with a sender of `burst_pps`.
    pub fn bursts(&self, burst_pps: f64) -> Bursts {
        let longest = (burst_pps * BURST_S.min(self.trial_s)).max(64.0) as u64;
        Bursts { longest, resolution: (longest / 10_000).max(8), repeats: self.burst_repeats }
    }
}

/// Length of the longest burst (s); RFC 2544, section 26.4, asks for trials of at least 2 s.
const BURST_S: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_that_cannot_be_are_refused() {
        let goal = Goal::rfc2544(60.0, 0.0, 0.005);
        let with = |goals: &[Goal]| Settings { goals: goals.to_vec(), ..Settings::default() };
        let only_loss = Tests { throughput: false, loss: true, ..Settings::default().tests };
        for (settings, what) in [
            (
                with(&[goal, Goal { duration_sum_s: 1.0, ..goal }]),
                "goal 2, duration sum = 1s: at least the final trial",
            ),
            (with(&[Goal { exceed_ratio: 1.0, ..goal }]), "goal 1, exceed ratio = 100%"),
            (with(&[Goal { loss_ratio: 0.7, ..goal }]), "loss=70%"),
            (with(&[goal, goal]), "twice: each goal once"),
            (Settings { search: SearchBy::Binary, ..with(&[goal]) }, "only with MLRsearch"),
            (Settings { tests: only_loss, ..with(&[goal]) }, "only with throughput"),
        ] {
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_mix_has_room_for_what_names_each_frame() {
        let mix = FrameSize::Imix.with_room_for(84);
        assert_eq!(
            (mix.to_string().as_str(), mix.sizes()[..2].to_vec(), mix.sizes()[6]),
            ("imix-84", vec![84, 594], 1518)
        );
        assert_eq!("imix-84".parse::<FrameSize>().unwrap(), mix);
        assert!((mix.mean_bytes() - (7.0 * 84.0 + 4.0 * 594.0 + 1518.0) / 12.0).abs() < 1e-9);
        assert!((Settings { frames: vec![mix], ipv6: true, ..Settings::default() }).check().is_ok());
        assert_eq!(FrameSize::Imix.with_room_for(64), FrameSize::Imix);
        assert!(["imix-64", "imix-595", "imix-"].iter().all(|text| text.parse::<FrameSize>().is_err()));
    }
}
