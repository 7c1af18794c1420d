//! Suggested settings: the two with the highest simulated cliffs, compared with the simulated cliff of the present
//! settings.

use std::sync::atomic::AtomicBool;

use netcliff_core::finding::{Change, Setup, Suggestion};
use netcliff_core::{Figure, Finding};

use super::engines::Predictor;

/// Smallest relative gain for a suggestion: smaller gains disappear in the noise of a measurement.
const WORTHWHILE: f64 = 0.03;
/// Largest number of suggestions.
const MOST_NAMED: usize = 2;
/// Factor by which a larger queue is suggested.
const LARGER: u64 = 4;
/// If the throughput at twice the cliff, divided by the peak, is below this, a remedy against livelock is suggested.
const LIVELOCK: f64 = 0.7;

struct Candidate {
    setting: String,
    why: String,
    changed: Predictor,
    change: Option<Change>,
}

/// Returns at most two settings, those with the largest gain of the simulated cliff over `without`, the simulated cliff
/// of the present settings. Intervals are those of the simulator only, because the uncertainty of the costs affects
/// both cliffs equally. Empty if nothing helps or `without` is `None`. After `stop`, only settings that were already
/// simulated. Expected cliffs are reduced by the effect of disturbances, as the report's cliff is.
pub fn settings(now: &Predictor, finding: &Finding, without: Option<Figure>, stop: &AtomicBool) -> Vec<Suggestion> {
    let livelocks = finding.livelock.wire.or(finding.livelock.sim).is_some_and(|figure| figure.value < LIVELOCK);
    let Some(without) = without else { return Vec::new() };
    let left = finding.cliff_pps.sim.map_or(1.0, |page| page.value / without.value);
    // Cliffs are simulated, because the computing time of the model's Markov chain grows with the queue that a
    // candidate enlarges.
    let begun: Vec<_> = candidates(now, &finding.setup, livelocks, cpus(finding))
        .into_iter()
        .map(|candidate| (candidate.changed.begin(Predictor::sim_cliff), candidate))
        .collect();
    let mut ranked: Vec<(f64, Suggestion)> = begun
        .into_iter()
        .filter_map(|(cliff, Candidate { setting, why, change, .. })| {
            let with = cliff.unless(stop)?.ok()??;
            let gain = gain(&with, &without);
            let expected_cliff_pps = Some(with.scaled(left));
            let suggestion = Suggestion { setting, why, expected_cliff_pps, gain: Some(gain), change, tried: None };
            is_worthwhile(&gain).then_some((gain.value, suggestion))
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().map(|(_, suggestion)| suggestion).take(MOST_NAMED).collect()
}

/// Returns `with` / `without` - 1; its interval results from the ends of both intervals, and is at least as wide as the
/// interval for independent figures.
fn gain(with: &Figure, without: &Figure) -> Figure {
    let value = with.value / without.value - 1.0;
    if with.interval.is_none() && without.interval.is_none() {
        return Figure::exact(value);
    }
    let ends = |figure: &Figure| figure.interval.map_or((figure.value, figure.value), |i| (i.low, i.high));
    let ((low, high), (base_low, base_high)) = (ends(with), ends(without));
    let confidence = [with, without].iter().filter_map(|f| f.interval).map(|i| i.confidence).fold(1.0, f64::min);
    Figure::between(value, low / base_high - 1.0, high / base_low - 1.0, confidence)
}

/// True if the gain is large enough and its interval, if any, is above zero.
fn is_worthwhile(gain: &Figure) -> bool {
    gain.value > WORTHWHILE && gain.interval.is_none_or(|interval| interval.low > 0.0)
}

/// Number of CPUs of this host. `None` if it is not known, or another host or a guest takes part.
fn cpus(finding: &Finding) -> Option<usize> {
    let online = finding.fingerprint.facts.get("cpu.online").filter(|_| finding.generator.flows.is_none());
    online.map(|online| online.split(',').count())
}

fn candidates(now: &Predictor, setup: &Setup, livelocks: bool, cpus: Option<usize>) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut add = |setting: String, why: &str, change: Option<Change>, apply: &dyn Fn(&mut Predictor)| {
        let mut changed = now.clone();
        apply(&mut changed);
        all.push(Candidate { setting, why: why.to_owned(), changed, change });
    };
    let gives = if livelocks {
        "softirq work then no longer takes the application's CPU, which also ends the livelock"
    } else {
        "softirq and application then no longer share one CPU"
    };
    let has = cpus.map_or(String::new(), |cpus| format!(" (this host has {cpus})"));
    let why = format!("{gives}; this needs two CPUs, and a third one for a sender on the same host{has}");
    add(
        "run the application on another CPU than the one that receives (taskset -c CPU PROGRAM, or RPS/IRQ affinity)"
            .to_owned(),
        &why,
        None,
        &|c| {
            // Softirq and application run on two CPUs, and the slower one limits the rate. The candidate's host
            // therefore has no application, and its protocol time is the longer of the two times.
            let bytes_s = c.host.bytes_s(1.0, c.mean_frame_bytes());
            c.host.protocol_s = c.host.protocol_s.max(c.host.application_s.unwrap_or(0.0) - bytes_s);
            c.host.application_s = None;
        },
    );
    let bytes = LARGER * setup.socket_buffer_bytes;
    add(
        format!("a socket buffer of {} packets (SO_RCVBUF, net.core.rmem_max)", LARGER * now.host.socket_buffer),
        "bursts and pauses of the application then fit",
        Some(Change::ReceiveBufferBytes(bytes)),
        &|c| c.host.socket_buffer *= LARGER,
    );
    let backlog = LARGER * now.host.ring;
    add(
        format!("sysctl net.core.netdev_max_backlog={backlog}"),
        "bursts then fit the backlog",
        u32::try_from(backlog).ok().map(Change::NetdevMaxBacklog),
        &|c| c.host.ring *= LARGER,
    );
    all
}

#[cfg(test)]
mod tests {
    use netcliff_core::Host;

    use super::*;

    #[test]
    fn no_change_is_no_gain_whatever_the_engines_disagree_by() {
        let (model, sim) = (Figure::exact(412e3), Figure::between(383e3, 383e3, 393e3, 0.95));
        for same in [model, sim] {
            let gain = gain(&same, &same);
            assert_eq!(gain.value, 0.0);
            assert!(!is_worthwhile(&gain));
        }
        assert!(is_worthwhile(&gain(&Figure::exact(500e3), &model)));
        let unsure = Figure::between(400e3, 380e3, 420e3, 0.95);
        assert!(!is_worthwhile(&gain(&unsure, &sim)), "a gain of 4 % whose interval holds no gain");
    }

    /// The report's cliff is reduced by the effects of disturbances. The cliff with the setting is reduced equally, so
    /// that the gain refers to the report's cliff.
    #[test]
    fn a_gain_is_over_the_cliff_of_the_page() {
        let host = Host {
            interrupt_latency_s: 0.0,
            application_s: Some(3e-6),
            ..Host::preset("pentium4-2530mhz").expect("a preset")
        };
        let now = Predictor::of(host, "napi:weight=64,budget=300,backlog=true");
        let stop = AtomicBool::new(false);
        let without = now.sim_cliff(&stop).expect("it is simulated").expect("a cliff");
        let setup = Setup { scheme: now.scheme.clone(), traffic: now.traffic.clone(), ..Setup::default() };
        let mut finding = Finding::blank(setup, 1e-4);
        let page = without.scaled(0.9);
        finding.cliff_pps.sim = Some(page);
        let suggestions = settings(&now, &finding, Some(without), &stop);
        let first = suggestions.first().unwrap_or_else(|| panic!("no suggestion over {without:?}"));
        let over = first.expected_cliff_pps.unwrap().value / (1.0 + first.gain.unwrap().value);
        assert!((over / page.value - 1.0).abs() < 1e-9, "{over} {page:?}: {first:?}");
    }
}
