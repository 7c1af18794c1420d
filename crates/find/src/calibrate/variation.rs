//! Variation of a packet's protocol time, from polls that took the same number of packets.
//!
//! If packets take independent times, each further packet of a poll adds the variance of one packet's time to the
//! variance of the poll's time, so this variance is a straight line over the number of packets. A pause within one poll
//! makes the variance for its number of packets many times larger. Pauses are modelled separately, so the slope of the
//! line is the median over all pairs of poll sizes (Theil 1950, Sen 1968), which a few such sizes hardly change; the
//! result is the median over the trials.

use netcliff_core::{Figure, Service};

use netcliff_stats as stats;
use netcliff_trial::bench::{Counts, PollTime};

/// Smallest number of polls of a size for a usable variance.
const FEWEST_POLLS: f64 = 30.0;
/// Smallest number of different poll sizes for an estimate, so that a single size with a pause in it does not decide.
const FEWEST_KINDS: usize = 4;
/// Largest number of packets of a poll that is used: the meter counts larger polls of different sizes together.
const LARGEST_POLL: f64 = 64.0;
/// Times with more Erlang stages are drawn as constants.
const MOST_STAGES: f64 = 64.0;
/// Largest coefficient of variation that counts as exponential; above it, times are hyperexponential.
const LITTLE_ABOVE_ONE: f64 = 1.1;

/// Coefficient of variation of a packet's protocol time, whose mean is `protocol_s` (s); `None` if there are too few
/// polls.
pub fn of(trials: &[Counts], protocol_s: f64) -> Option<Figure> {
    let each: Vec<f64> =
        trials.iter().filter_map(|trial| Some(packet_s2(&trial.poll_times)?.sqrt() / protocol_s)).collect();
    stats::median(&each)
}

/// Returns a distribution with this coefficient of variation that can be drawn quickly: Erlang below 1,
/// hyperexponential above. The cliff hardly depends on the distribution (docs/theory/application.md), and lognormal
/// times would slow the simulator down by a factor of five.
pub fn times(variation: f64) -> Service {
    let stages = (1.0 / variation.powi(2)).round();
    if stages > MOST_STAGES {
        Service::Deterministic
    } else if stages > 1.0 {
        Service::Erlang { stages: stages as u32 }
    } else if variation > LITTLE_ABOVE_ONE {
        Service::Hyperexponential { cv: variation }
    } else {
        Service::Exponential
    }
}

/// The coefficient of variation with which all times are drawn, from that of a packet's time. Packets pass the `backlog`
/// of a CPU, or else a NIC's ring: with a NIC most of a poll's time is independent of its packets. `(protocol_s,
/// poll_s)`: times of a packet and of a poll's overhead (s).
pub fn of_all(packet: f64, backlog: bool, (protocol_s, poll_s): (f64, f64)) -> f64 {
    if backlog { packet } else { of_polls(packet, protocol_s, poll_s) }
}

/// Converts `packet`, the coefficient of variation of a packet's time, to the coefficient of the time of a poll of
/// several packets (`protocol_s` each) with its overhead `poll_s`. All times are drawn with the result. If a packet is
/// a small part of a poll, its own coefficient would give polls of many times their mean.
fn of_polls(packet: f64, protocol_s: f64, poll_s: f64) -> f64 {
    packet * protocol_s * POLL_PACKETS.sqrt() / poll_s.hypot(protocol_s * POLL_PACKETS.sqrt())
}

/// Number of packets assumed for a poll in [`of_polls`]: a batch of `gro_normal_batch`.
const POLL_PACKETS: f64 = 8.0;

/// Estimates the variance of a packet's time (s^2) from one trial; `None` if it has polls of too few sizes.
fn packet_s2(times: &[PollTime]) -> Option<f64> {
    let tells = |cell: &&PollTime| !cell.from_idle && cell.polls >= FEWEST_POLLS && cell.packets <= LARGEST_POLL;
    let kinds: Vec<&PollTime> = times.iter().filter(tells).collect();
    if kinds.len() < FEWEST_KINDS {
        return None;
    }
    let mut slopes = Vec::new();
    for (place, a) in kinds.iter().enumerate() {
        for b in &kinds[place + 1..] {
            slopes.push((b.variance_s2 - a.variance_s2) / (b.packets - a.packets));
        }
    }
    stats::median(&slopes).map(|slope| slope.value.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_stats::chance::Chance;

    /// Polls of `1..=kinds` packets, 400 of each size. A poll takes 0.5 us plus 1 us per packet on average; a packet's
    /// time is the sum of `stages` exponential times, so its coefficient of variation is 1 / sqrt(`stages`). For every
    /// sixth size one poll also contains a pause of 200 us.
    fn trial(stages: u32, kinds: u32, chance: &mut Chance) -> Counts {
        let mut kind = |packets: u32| {
            let mut time_s = || {
                let stages = packets * stages;
                0.5e-6
                    - (0..stages).map(|_| (1.0 - chance.uniform()).ln()).sum::<f64>() * 1e-6 * f64::from(packets)
                        / f64::from(stages)
            };
            let mut times: Vec<f64> = (0..400).map(|_| time_s()).collect();
            if packets.is_multiple_of(6) {
                times[0] += 200e-6;
            }
            let mean_s = times.iter().sum::<f64>() / 400.0;
            let variance_s2 = times.iter().map(|time_s| (time_s - mean_s).powi(2)).sum::<f64>() / 400.0;
            PollTime { packets: f64::from(packets), polls: 400.0, mean_s, variance_s2, from_idle: false }
        };
        Counts { poll_times: (1..=kinds).map(&mut kind).collect(), ..Counts::default() }
    }

    #[test]
    fn the_variation_of_a_packet_is_found_beside_pauses() {
        for stages in [1, 4, 16] {
            let mut chance = Chance::new(u64::from(stages));
            let trials: Vec<Counts> = (0..20).map(|_| trial(stages, 12, &mut chance)).collect();
            let truth = 1.0 / f64::from(stages).sqrt();
            let found = of(&trials, 1e-6).expect("polls of twelve sizes").value;
            assert!((found / truth - 1.0).abs() < 0.1, "{found} where packets have {truth}");
        }
    }

    #[test]
    fn polls_of_few_sizes_tell_nothing() {
        let trials: Vec<Counts> = (0..20).map(|_| trial(4, 3, &mut Chance::new(1))).collect();
        assert_eq!(of(&trials, 1e-6), None);
    }

    #[test]
    fn each_variation_has_a_distribution_of_its_own() {
        for (variation, service) in [
            (0.0, Service::Deterministic),
            (0.1, Service::Deterministic),
            (0.25, Service::Erlang { stages: 16 }),
            (0.5, Service::Erlang { stages: 4 }),
            (1.0, Service::Exponential),
            (1.6, Service::Hyperexponential { cv: 1.6 }),
        ] {
            assert_eq!(times(variation), service, "{variation}");
        }
    }
}
