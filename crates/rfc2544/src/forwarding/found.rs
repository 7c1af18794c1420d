//! Makes a report of the results so far: rows and warnings.

use std::collections::BTreeSet;

use netcliff_core::experiment::Forwarding;
use netcliff_core::{Fingerprint, Provenance, units};
use netcliff_host::inventory::tells_load;

use super::report::{ForwardingReport, ForwardingRow, ForwardingSample, SetUpReport};
use super::rounds::Found;
use super::{About, SetUp};
use crate::kernel::SHARED;
use crate::settings::{FrameSize, Settings};
use netcliff_trial::alike::folded;

impl Found {
    /// The rows, by frame size and then by set-up.
    pub(super) fn rows(&self) -> Vec<ForwardingRow> {
        let row = |(place, frame): (usize, &FrameSize)| {
            let frame = *frame;
            let first = &self.samples[0][place];
            let one = move |(at, samples): (usize, &Vec<Vec<ForwardingSample>>)| {
                let base = (at > 0).then_some(&first[..]);
                let row = ForwardingRow::of(frame, &self.set_ups[at].0.name, samples[place].clone(), base);
                let shared = self.set_ups[at].1.as_ref().is_some_and(|about| about.shared);
                ForwardingRow { modelled_pps: row.modelled_pps.filter(|_| shared), ..row }
            };
            self.samples.iter().enumerate().map(one).collect::<Vec<_>>()
        };
        self.frames.iter().enumerate().flat_map(row).collect()
    }

    pub(super) fn report(
        &self,
        experiment: &Forwarding,
        settings: &Settings,
        fingerprint: Fingerprint,
        provenance: &Provenance,
    ) -> ForwardingReport {
        let rows = self.rows();
        let whole = |row: &ForwardingRow| row.samples.len() == experiment.rounds as usize;
        let of_set_up = |(set_up, about): &(SetUp, Option<About>)| {
            let limits = about.as_ref().map_or(&[][..], |about| &about.limits[..]);
            let named = |limit: &String| match limit.starts_with(SHARED) {
                true => format!("{}: {limit}", set_up.name),
                false => limit.clone(),
            };
            limits.iter().map(named).collect::<Vec<_>>()
        };
        let limits: BTreeSet<String> = self.set_ups.iter().flat_map(of_set_up).collect();
        // During a run, the host's load is caused by the run itself.
        let limits = limits.into_iter().filter(|limit| !tells_load(limit));
        let mut warnings = folded(limits.chain(self.warnings.iter().cloned()));
        warnings.extend(predicted_of(self));
        let set_ups = self.set_ups.iter().map(|(set_up, about)| SetUpReport {
            name: set_up.name.clone(),
            forwarding: set_up.forwarding.to_string(),
            tune: set_up.tune.map(|objective| objective.to_string()),
            about: about.clone(),
        });
        ForwardingReport {
            kind: "forwarding".to_owned(),
            title: experiment.title.clone(),
            rounds: experiment.rounds,
            asked: asked(experiment, settings),
            set_ups: set_ups.collect(),
            not_had: self.not_had.clone(),
            warnings,
            partial: self.stopped || !rows.iter().all(whole),
            rows,
            provenance: Provenance { fingerprint_id: Some(fingerprint.id()), ..provenance.clone() },
            fingerprint,
        }
    }
}

/// Returns a sentence for each set-up that is not simulated: why, and how it is predicted instead.
fn predicted_of(found: &Found) -> Vec<String> {
    let one = |(at, (set_up, about)): (usize, &(SetUp, Option<About>))| {
        let About { shared, router_cpus, .. } = about.as_ref()?;
        let why = match found.samples[at].iter().flatten().any(|sample| sample.predicted.is_some()) {
            true if *shared => {
                "not simulated, because the CPU that forwards also sends and receives; predicted from the time that this CPU spends on a \
                 frame at a quarter and half of the throughput"
            }
            false if *shared => "not predicted: the CPU that forwards also sends and receives",
            _ if router_cpus.len() > 1 => "not predicted: the model has one CPU, and this work is on several",
            _ => return None,
        };
        Some(format!("{}: {why}", set_up.name))
    };
    found.set_ups.iter().enumerate().filter_map(one).collect()
}

fn asked(experiment: &Forwarding, settings: &Settings) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let frames: Vec<String> = settings.frames.iter().map(ToString::to_string).collect();
    let time = units::print_time_s;
    let to = |count: u32, what: &str| if count > 1 { format!(" to {count} {what}") } else { String::new() };
    let to = [to(settings.destinations, "addresses"), to(settings.destination_ports, "ports")].concat();
    vec![
        fact("rounds", format!("{}, the set-ups in turn, each second round the other way round", experiment.rounds)),
        fact("frames", format!("{}, {} flows{to}, one way", frames.join(" "), settings.flows)),
        fact(
            "search",
            format!(
                "MLRsearch to {}: 21 trials of {} a load, of which half may lose more than {} of the frames",
                units::print_share(settings.width),
                time(settings.trial_s),
                units::print_share(settings.loss_ratio)
            ),
        ),
        fact(
            "simulated",
            "one server, the router's CPU, with the costs measured there at half the throughput".to_owned(),
        ),
    ]
}
