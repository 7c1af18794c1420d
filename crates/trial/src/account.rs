//! Counters of the generators and of the device under test over all trials of a run, if the load comes from other
//! hosts.

use std::collections::BTreeMap;

use netcliff_core::finding::{DeviceAccount, DeviceLoss, DeviceVector, GeneratorPart};
use netcliff_host::nic::losses::{Cause, Losses};
use netcliff_packets::generator::Ceiling;
use netcliff_packets::source::Part;

use crate::trial::Trial;
use netcliff_stats as stats;

/// Counters of all trials so far: sums, and for each generator its rates at its highest load.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Counters of each generator.
    generators: Vec<GeneratorPart>,
    /// Highest rates of the generators (pps), one list per generator.
    ceilings_pps: Vec<Vec<f64>>,
    received: u64,
    losses: Losses,
    vectors: BTreeMap<u32, u64>,
}

impl Account {
    /// Adds a trial.
    pub fn add(&mut self, trial: &Trial) {
        self.add_parts(&trial.wire.parts);
        self.received += trial.received.map_or(0, |received| received.packets);
        self.losses.add(&trial.losses);
        trial.vectors.iter().for_each(|(irq, count)| *self.vectors.entry(*irq).or_default() += count);
    }

    fn add_parts(&mut self, parts: &[Part]) {
        self.generators.resize(self.generators.len().max(parts.len()), GeneratorPart::default());
        for (whole, part) in self.generators.iter_mut().zip(parts) {
            whole.at.clone_from(&part.at);
            whole.method = part.method.in_words().to_owned();
            whole.trials += 1;
            whole.stalls += part.stalls;
            whole.longest_stall_s = whole.longest_stall_s.max(part.longest_stall_s);
            if part.intended_pps > whole.offered_pps {
                (whole.offered_pps, whole.achieved_pps) = (part.intended_pps, part.achieved_pps);
            }
        }
    }

    /// Adds a measurement of the highest rate of each generator.
    pub fn add_ceilings(&mut self, each: &[Ceiling]) {
        self.ceilings_pps.resize(self.ceilings_pps.len().max(each.len()), Vec::new());
        self.ceilings_pps.iter_mut().zip(each).for_each(|(own, ceiling)| own.push(ceiling.offered_pps));
    }

    /// Counters of each generator on another host, with the median of its highest rates.
    pub fn generators(&self) -> Vec<GeneratorPart> {
        let mut all = self.generators.clone();
        for (part, pps) in all.iter_mut().zip(&self.ceilings_pps) {
            part.ceiling_pps = stats::median(pps).map(|figure| figure.value);
        }
        all
    }

    /// Counters of the device under test, `interface`. Interrupt lines on which no interrupt occurred are omitted.
    pub fn device(&self, interface: &str) -> DeviceAccount {
        let loss = |(name, cause, packets): (&str, Cause, u64)| DeviceLoss {
            counter: name.to_owned(),
            packets,
            cause: in_words(cause).to_owned(),
        };
        let rose = self.vectors.iter().filter(|(_, interrupts)| **interrupts > 0);
        DeviceAccount {
            interface: interface.to_owned(),
            received: self.received,
            losses: self.losses.each().map(loss).collect(),
            vectors: rose.map(|(&irq, &interrupts)| DeviceVector { irq, interrupts }).collect(),
        }
    }

    /// Sentence on packets that the cloud dropped or delayed because the virtual machine exceeded its network
    /// allowance; `None` if there were none.
    pub fn allowance(&self) -> Option<String> {
        let mut exceeded = self.losses.each().filter(|(_, cause, _)| *cause == Cause::Allowance);
        exceeded.next().map(|(name, _, packets)| {
            format!(
                "the cloud held packets back or dropped them beyond this virtual machine's allowance ({name} rose by {packets}): a cliff \
                 beyond it is the allowance, not the host's"
            )
        })
    }
}

fn in_words(cause: Cause) -> &'static str {
    match cause {
        Cause::NoRoom => "no room",
        Cause::Waited => "waited for a buffer",
        Cause::Xdp => "dropped by XDP",
        Cause::Allowance => "beyond the cloud's allowance",
        Cause::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use netcliff_packets::transmit::Method;

    use super::*;

    #[test]
    fn the_highest_load_of_each_generator_is_kept_and_stalls_add_up() {
        let part = |at: &str, intended_pps: f64, achieved_pps: f64, stalls: u64| Part {
            at: at.to_owned(),
            method: Method::default(),
            intended_pps: Some(intended_pps),
            achieved_pps: Some(achieved_pps),
            stalls,
            longest_stall_s: stalls as f64 * 1e-3,
        };
        let mut account = Account::default();
        account.add_parts(&[part("a", 2e5, 1.9e5, 2), part("b", 2e5, 2e5, 0)]);
        account.add_parts(&[part("a", 1e5, 1e5, 1), part("b", 1e5, 1e5, 0)]);
        let all = account.generators();
        assert_eq!((all.len(), all[0].stalls, all[0].trials, all[1].stalls), (2, 3, 2, 0));
        assert_eq!((all[0].offered_pps, all[0].achieved_pps, all[0].longest_stall_s), (Some(2e5), Some(1.9e5), 2e-3));
        assert_eq!(all[1].at, "b");
        assert!(account.device("eth0").losses.is_empty() && account.allowance().is_none());
    }
}
