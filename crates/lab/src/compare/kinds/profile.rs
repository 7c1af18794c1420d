//! `netcliff profile` as points: the account, and each stage.

use netcliff_core::Profile;
use netcliff_core::profile::StageRow;

use super::super::quantity::{PER_PACKET, SHARE};
use super::super::{Measured, MeasuredPoint, Reading};

/// A stage is a point; its time a packet in each slice of time is a repeat. Without packets shares are compared, without a test.
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
