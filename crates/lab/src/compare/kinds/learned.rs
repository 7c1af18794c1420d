//! Converts results of `netcliff learn`: the cliff of the whole traffic, and the cliff and the cost of a packet for
//! each CPU.

use netcliff_core::Figure;
use netcliff_core::learned::{Learned, LearnedPart, PartKind};

use super::super::quantity::{CLIFF, PER_PACKET, Quantity};
use super::super::{Measured, MeasuredPoint, Reading};

/// The learned cliffs, with the intervals from the watched time. Threads and sockets are omitted, because their names
/// contain process numbers, which differ each time.
pub fn learned(name: String, learned: Learned) -> Measured {
    let all = MeasuredPoint {
        name: "all traffic".to_owned(),
        figures: learned.cliff_pps().and_then(cliff).into_iter().collect(),
    };
    let cpus = learned.parts.iter().filter(|part| part.kind == PartKind::Cpu && part.cliff_pps.is_some()).map(|part| {
        MeasuredPoint {
            name: part.name.clone(),
            figures: part.cliff_pps.and_then(cliff).into_iter().chain(per_packet(part)).collect(),
        }
    });
    let points = std::iter::once(all).chain(cpus).filter(|point| !point.figures.is_empty()).collect();
    let facts = [
        ("watched.interfaces", learned.watched.interfaces.join(",")),
        ("watched.method", learned.watched.method.clone()),
        ("scheme", learned.scheme.record()),
        ("loss_target", learned.loss_target.to_string()),
    ];
    Measured {
        name,
        kind: "learn",
        clock: None,
        points,
        facts: facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect(),
        calibrated: learned
            .calibration
            .iter()
            .flat_map(|calibration| &calibration.costs)
            .map(super::calibrated)
            .collect(),
        partial: learned.partial,
        others: None,
        fingerprint: Some(learned.fingerprint),
        far_fingerprint: None,
        provenance: learned.provenance,
    }
}

fn cliff(figure: Figure) -> Option<Reading> {
    learnt(CLIFF, &figure)
}

/// CPU time that depends on the packets, per packet. `None` without packets.
fn per_packet(part: &LearnedPart) -> Option<Reading> {
    let seconds = (part.packets_per_s > 0.0).then(|| (part.busy - part.fixed).max(0.0) / part.packets_per_s)?;
    learnt(PER_PACKET, &Figure::exact(seconds))
}

/// A figure derived from the measurements of one watch. Its interval is its variation.
fn learnt(quantity: Quantity, figure: &Figure) -> Option<Reading> {
    Some(Reading { computed: false, ..Reading::of_computed(quantity, figure)? })
}

#[cfg(test)]
mod tests {
    use netcliff_core::learned::{LearnedTraffic, Watched};
    use netcliff_core::{Load, Traffic, finding::HostSummary, written};

    use super::*;

    fn of_parts(parts: Vec<LearnedPart>) -> Learned {
        let watched = Watched {
            interfaces: vec!["eth0".to_owned()],
            programs: Vec::new(),
            seconds: 300.0,
            slice_s: 0.4,
            slices: 750,
            metered: 750,
            disturbed: 0,
            method: "ebpf".to_owned(),
            own_cpu: 0.002,
            meter_cpu: None,
        };
        let traffic = LearnedTraffic {
            packets_per_s: 200e3,
            lowest_pps: 150e3,
            highest_pps: 250e3,
            highest_unix_s: 0.0,
            mean_bytes: None,
            sent_pps: 0.0,
            dispersion: Vec::new(),
            queues: Vec::new(),
        };
        Learned {
            kind: "learn".to_owned(),
            host: HostSummary::default(),
            watched,
            traffic,
            parts,
            calibration: None,
            scheme: "napi".parse().expect("a scheme"),
            as_traffic: written::Traffic::new(Traffic::default(), Some(Load::Pps(200e3))),
            loss_target: 1e-4,
            lost: Vec::new(),
            missing: Vec::new(),
            cautions: Vec::new(),
            fingerprint: Default::default(),
            provenance: Default::default(),
            partial: false,
        }
    }

    /// Two watches of one host: 400 kpps with 1 us a packet, and 300 kpps with more.
    #[test]
    fn two_watches_are_compared_by_the_cliff_and_the_cost_of_a_packet() {
        let part = |cliff: f64, busy: f64| LearnedPart {
            kind: PartKind::Cpu,
            name: "CPU 1".to_owned(),
            cpu: Some(1),
            packets_per_s: 100e3,
            cliff_pps: Some(Figure::between(cliff, 0.95 * cliff, 1.05 * cliff, 0.9)),
            share: None,
            share_highest: None,
            busy,
            softirq: 0.05,
            program: 0.04,
            fixed: 0.01,
            costs: Vec::new(),
            why: None,
        };
        let watch = |part: LearnedPart| {
            let thread =
                LearnedPart { kind: PartKind::Thread, name: "thread 7 of nsd (pid 7)".to_owned(), ..part.clone() };
            learned("watch".to_owned(), of_parts(vec![part, thread]))
        };
        let [before, after] = [watch(part(400e3, 0.11)), watch(part(300e3, 0.16))];
        assert_eq!(before.points.iter().map(|point| point.name.as_str()).collect::<Vec<_>>(), ["all traffic", "CPU 1"]);
        let value = |of: &Measured, point: &str, quantity| of.reading(point, quantity).map(|reading| reading.value);
        assert_eq!([&before, &after].map(|of| value(of, "all traffic", CLIFF)), [Some(800e3), Some(600e3)]);
        let cost = [&before, &after].map(|of| value(of, "CPU 1", PER_PACKET).unwrap_or_default());
        assert!((cost[0] - 1e-6).abs() < 1e-12 && (cost[1] - 1.5e-6).abs() < 1e-12, "{cost:?}");
        assert!(before.reading("CPU 1", CLIFF).is_some_and(|reading| !reading.computed && reading.estimate.is_some()));
    }
}
