//! The page's part for a measurement between hosts: each generator, and the interface's counters.

use netcliff_core::Finding;
use netcliff_core::finding::GeneratorPart;

use crate::format::{self, Unit};

/// Largest number of interrupt vectors that are listed one by one.
const MOST_VECTORS: usize = 4;

/// Lines on the limit of the load, its flows, and the rate and stalls of each generator.
pub fn generators(finding: &Finding) -> Vec<(&'static str, String)> {
    let generator = &finding.generator;
    let mut lines = Vec::new();
    if let Some(max_pps) = generator.max_rate_pps {
        let max = format::quantity(max_pps, Unit::Pps);
        let limit =
            if generator.limited_by_max_rate { ": no higher load was offered, the sender reaches it" } else { "" };
        lines.push(("max rate", format!("{max} (--max-rate){limit}")));
    }
    lines.extend(generator.flows.clone().filter(|flows| !flows.is_empty()).map(|flows| ("flows", flows)));
    for (place, part) in generator.each.iter().enumerate() {
        lines.push((if place == 0 { "sent by" } else { "" }, one(part)));
    }
    lines
}

fn one(part: &GeneratorPart) -> String {
    let pps = |pps: f64| format::quantity(pps, Unit::Pps);
    let mut facts = Vec::new();
    if let (Some(offered), Some(achieved)) = (part.offered_pps, part.achieved_pps) {
        facts.push(format!("offered at most {}, achieved {} of it", pps(offered), pps(achieved)));
    }
    facts.extend(part.ceiling_pps.map(|ceiling| format!("flat out {}", pps(ceiling))));
    facts.push(match part.stalls {
        0 => format!("no stall in {} trials", part.trials),
        stalls => {
            let longest = format::quantity(part.longest_stall_s, Unit::Seconds);
            format!("{stalls} stalls in {} trials, the longest {longest}", part.trials)
        }
    });
    format!("{}: {}", part.at, facts.join("; "))
}

/// Losses that the interface's driver counted, and its interrupts.
pub fn device(finding: &Finding) -> Vec<(&'static str, String)> {
    let Some(device) = &finding.device else { return Vec::new() };
    let mut lines = Vec::new();
    if !device.losses.is_empty() {
        let each: Vec<String> =
            device.losses.iter().map(|loss| format!("{} {} ({})", loss.counter, loss.packets, loss.cause)).collect();
        lines.push(("counters", format!("{}: {}", device.interface, each.join(", "))));
    }
    if !device.vectors.is_empty() {
        let each = device
            .vectors
            .iter()
            .take(MOST_VECTORS)
            .map(|vector| format!("{} x IRQ {}", vector.interrupts, vector.irq));
        let more = device.vectors.len().saturating_sub(MOST_VECTORS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let each = each.collect::<Vec<_>>().join(", ");
        lines.push(("interrupts", format!("{each}{more}, for {} packets received", device.received)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use netcliff_core::finding::{DeviceAccount, DeviceLoss, DeviceVector, GeneratorSummary};

    use super::*;

    #[test]
    fn generators_and_counters_are_told() {
        let mut finding = Finding::blank(crate::sheet::tests::setup(), 1e-4);
        assert!(generators(&finding).is_empty() && device(&finding).is_empty());
        let part = |at: &str, stalls: u64| GeneratorPart {
            at: at.to_owned(),
            offered_pps: Some(2e5),
            achieved_pps: Some(1.9e5),
            trials: 9,
            stalls,
            longest_stall_s: 2e-3,
            ..GeneratorPart::default()
        };
        finding.generator = GeneratorSummary {
            max_rate_pps: Some(4e5),
            limited_by_max_rate: true,
            flows: Some("2 flows to one queue".to_owned()),
            each: vec![part("10.0.0.1:9940", 3), part("10.0.0.2:9940", 0)],
            ..GeneratorSummary::default()
        };
        let told: Vec<String> =
            generators(&finding).into_iter().map(|(name, fact)| format!("{name}: {fact}")).collect();
        let told = told.join("\n");
        for words in [
            "max rate: 400 kpps (--max-rate): no higher load",
            "flows: 2 flows to one queue",
            "sent by: 10.0.0.1:9940: offered at most 200 kpps, achieved 190 kpps of it; 3 stalls in 9 trials, the longest 2.0",
            ": 10.0.0.2:9940: ",
            "no stall in 9 trials",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        let loss = DeviceLoss { counter: "rx_missed_errors".to_owned(), packets: 7, cause: "no room".to_owned() };
        finding.device = Some(DeviceAccount {
            interface: "eth0".to_owned(),
            received: 100,
            losses: vec![loss],
            vectors: (40..46).map(|irq| DeviceVector { irq, interrupts: 5 }).collect(),
        });
        let lines = device(&finding);
        assert_eq!(lines[0], ("counters", "eth0: rx_missed_errors 7 (no room)".to_owned()));
        assert!(lines[1].1.ends_with("5 x IRQ 43 and 2 more, for 100 packets received"), "{lines:?}");
    }
}
