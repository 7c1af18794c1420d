//! Converts `netcliff profile`: one point for a packet's time in all stages, and one for each stage.

use netcliff_core::Profile;
use netcliff_core::profile::StageRow;

use super::super::quantity::{PER_PACKET, SHARE};
use super::super::{Measured, MeasuredPoint, Reading};

/// One point for each stage. The time per packet in each time slice is a repeat. Without packets, shares are compared
/// without a test.
pub fn profile(name: String, profile: Profile) -> Measured {
    let slices = profile.stages.iter().map(|row| row.by_slice_s.len()).max().unwrap_or(0);
    let sums = (0..slices).map(|at| Some(profile.stages.iter().filter_map(|row| row.by_slice_s.get(at)).sum::<f64>()));
    let total = Reading::of(PER_PACKET, sums).filter(|_| profile.per_packet_s.is_some());
    let sum = total.map(|total| MeasuredPoint { name: "a packet, all stages".to_owned(), figures: vec![total] });
    let point = |row: &StageRow| {
        let times = row.by_slice_s.iter().copied().map(Some);
        let figure = match row.per_packet_s {
            Some(_) => Reading::of(PER_PACKET, times),
            None => Reading::of_figure(SHARE, &row.share, None),
        };
        MeasuredPoint { name: row.stage.title().to_owned(), figures: figure.into_iter().collect() }
    };
    let sampled = &profile.sampled;
    let facts = [
        ("interfaces", profile.packets.interfaces.join(",")),
        ("divided_by", profile.packets.divisor.clone()),
        ("cpus", sampled.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
        ("event", sampled.event.clone()),
    ];
    Measured {
        name,
        kind: "profile",
        clock: None,
        points: sum.into_iter().chain(profile.stages.iter().map(point)).collect(),
        facts: facts.map(|(name, fact)| (format!("sampled.{name}"), fact)).to_vec(),
        calibrated: Vec::new(),
        partial: profile.partial,
        others: None,
        fingerprint: Some(profile.fingerprint),
        far_fingerprint: None,
        provenance: profile.provenance,
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::Figure;
    use netcliff_core::profile::Stage;

    use super::*;
    use crate::compare::{Verdict, compare};

    fn profile_of(copy_ns: f64) -> Measured {
        let row = |stage: Stage, ns: f64| StageRow {
            stage,
            per_packet_s: Some(Figure::exact(ns * 1e-9)),
            share: Figure::exact(0.5),
            cpu: 0.1,
            samples: 100,
            by_caller: 0.0,
            by_slice_s: [-2.0, -1.0, 0.0, 1.0, 2.0].map(|off| (ns + off) * 1e-9).to_vec(),
            functions: Vec::new(),
        };
        let json = serde_json::json!({
            "kind": "profile", "host": {"cpu": "", "kernel": "", "testbed": "", "driver": "", "limits": []},
            "sampled": {"cpus": [0], "seconds": 1.0, "slices": 5, "event": "cpu-clock", "rate_hz": 999.0, "samples": 999, "lost": 0,
                "own_cpu": 0.0, "names_known": 1, "names": 1},
            "packets": {"interfaces": ["eth0"], "received": 1000, "sent": 0, "divisor": "received", "per_s": 1000.0},
            "per_packet_s": 1e-6, "stages": [row(Stage::Copy, copy_ns), row(Stage::Ip, 300.0)],
            "classes": {"softirq": 0.1, "application": 0.1, "others": 0.0, "own": 0.0, "idle": 0.8}, "programs": [],
            "fingerprint": {}, "provenance": {"version": "", "command": "", "started_unix_s": 0.0}, "partial": false
        });
        profile("a profile".to_owned(), serde_json::from_value(json).expect("a profile"))
    }

    #[test]
    fn a_stage_that_became_dearer_is_worse_and_the_others_stay() {
        let found = compare(&profile_of(100.0), &profile_of(140.0), None).expect("one kind");
        let verdict = |point: &str| {
            let row =
                found.rows.iter().find(|row| row.point == point).unwrap_or_else(|| panic!("{point}: {:?}", found.rows));
            row.verdict
        };
        assert_eq!((verdict("copy"), verdict("a packet, all stages")), (Verdict::Worse, Verdict::Worse));
        assert_ne!(verdict("IP and link layer"), Verdict::Worse);
    }
}
