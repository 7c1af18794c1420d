//! CPU use of a host during the windows of a test, in the rows that all kinds of tests store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stream::Spread;

/// A CPU's time by /proc/stat: medians of shares, 0 to 1. Guest time is in user and nice.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuRow {
    /// The CPU.
    pub cpu: usize,
    /// User, without nice.
    pub user: f64,
    /// Nice.
    pub nice: f64,
    /// Kernel, without interrupts.
    pub system: f64,
    /// Hard interrupts.
    pub irq: f64,
    /// Softirqs.
    pub softirq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Idle, waiting for disks included.
    pub idle: f64,
}

impl CpuRow {
    /// Share in use: all but idle and steal.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// Returns one row per CPU, by rising CPU number, from `rows` with one row per CPU and repeat. Each share is the
    /// median over the repeats, divided by the sum of the medians: medians of different classes may come from different
    /// repeats, and need not add up to 1.
    pub fn medians(rows: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let of = |(cpu, rows): (usize, Vec<Self>)| {
            let middle = |share: fn(&Self) -> f64| median(rows.iter().map(share));
            let classes: [fn(&Self) -> f64; 7] = [
                |row| row.user,
                |row| row.nice,
                |row| row.system,
                |row| row.irq,
                |row| row.softirq,
                |row| row.steal,
                |row| row.idle,
            ];
            let sum: f64 = classes.into_iter().map(middle).sum();
            let median = |share: fn(&Self) -> f64| if sum > 0.0 { middle(share) / sum } else { 0.0 };
            Self {
                cpu,
                user: median(|row| row.user),
                nice: median(|row| row.nice),
                system: median(|row| row.system),
                irq: median(|row| row.irq),
                softirq: median(|row| row.softirq),
                steal: median(|row| row.steal),
                idle: median(|row| row.idle),
            }
        };
        by_cpu(rows, |row| row.cpu).into_iter().map(of).collect()
    }

    /// Sums each share over the CPUs (1 is one CPU); field `cpu` of the result is the number of CPUs.
    pub fn sum(rows: &[Self]) -> Self {
        let sum = |share: fn(&Self) -> f64| rows.iter().map(share).sum();
        Self {
            cpu: rows.len(),
            user: sum(|row| row.user),
            nice: sum(|row| row.nice),
            system: sum(|row| row.system),
            irq: sum(|row| row.irq),
            softirq: sum(|row| row.softirq),
            steal: sum(|row| row.steal),
            idle: sum(|row| row.idle),
        }
    }

    /// Mean of each share over the CPUs; field `cpu` of the result is the number of CPUs.
    pub fn mean(rows: &[Self]) -> Self {
        let (sum, count) = (Self::sum(rows), rows.len().max(1) as f64);
        Self {
            cpu: sum.cpu,
            user: sum.user / count,
            nice: sum.nice / count,
            system: sum.system / count,
            irq: sum.irq / count,
            softirq: sum.softirq / count,
            steal: sum.steal / count,
            idle: sum.idle / count,
        }
    }

    /// The row with the largest share in use; None if there are no rows.
    pub fn busiest(rows: &[Self]) -> Option<&Self> {
        rows.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()))
    }
}

/// A CPU's time by eBPF: medians of exclusive shares, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExactRow {
    /// The CPU.
    pub cpu: usize,
    /// netcliff's threads, without the interrupts during them.
    pub application: f64,
    /// Softirqs: receive, transmit and other.
    pub softirq: f64,
    /// Hard interrupts.
    pub interrupt: f64,
    /// Other tasks.
    pub other: f64,
    /// Idle.
    pub idle: f64,
    /// eBPF programs of the meter itself.
    pub overhead: f64,
}

impl ExactRow {
    /// Returns one row per CPU, by rising CPU number, from `rows` with one row per CPU and repeat: each share is the
    /// median over the repeats.
    pub fn medians(rows: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let of = |(cpu, rows): (usize, Vec<Self>)| {
            let median = |share: fn(&Self) -> f64| median(rows.iter().map(share));
            Self {
                cpu,
                application: median(|row| row.application),
                softirq: median(|row| row.softirq),
                interrupt: median(|row| row.interrupt),
                other: median(|row| row.other),
                idle: median(|row| row.idle),
                overhead: median(|row| row.overhead),
            }
        };
        by_cpu(rows, |row| row.cpu).into_iter().map(of).collect()
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    Spread::of(values).map_or(0.0, |spread| spread.median)
}

fn by_cpu<T>(rows: impl IntoIterator<Item = T>, cpu: fn(&T) -> usize) -> BTreeMap<usize, Vec<T>> {
    let mut sorted: BTreeMap<usize, Vec<T>> = BTreeMap::new();
    for row in rows {
        sorted.entry(cpu(&row)).or_default().push(row);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::array::uniform7;
    use proptest::collection::vec;
    use proptest::{prop_assert, proptest};

    #[test]
    fn each_cpu_has_the_medians_of_its_own_repeats() {
        let row = |cpu, softirq| CpuRow { cpu, softirq, idle: 1.0 - softirq, ..CpuRow::default() };
        let rows = CpuRow::medians([row(1, 0.5), row(0, 0.1), row(1, 0.3), row(0, 0.2), row(1, 0.4)]);
        let found: Vec<(usize, f64)> = rows.iter().map(|row| (row.cpu, row.softirq)).collect();
        assert_eq!(found.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>(), [0, 1]);
        assert!((found[0].1 - 0.15).abs() < 1e-12 && (found[1].1 - 0.4).abs() < 1e-12, "{found:?}");
        let exact = |cpu, application| ExactRow { cpu, application, ..ExactRow::default() };
        let rows = ExactRow::medians([exact(2, 0.1), exact(2, 0.3), exact(2, 0.2)]);
        assert_eq!(rows, [exact(2, 0.2)]);
    }

    proptest! {
        /// For any repeats, the shares of a CPU add up to 1.
        #[test]
        fn medians_of_a_cpu_add_up_to_the_whole(repeats in vec(uniform7(0.0..1.0_f64), 1..6)) {
            let row = |classes: [f64; 7]| {
                let sum = classes.iter().sum::<f64>().max(1e-9);
                let [user, nice, system, irq, softirq, steal, idle] = classes.map(|share| share / sum);
                CpuRow { cpu: 0, user, nice, system, irq, softirq, steal, idle }
            };
            let rows = CpuRow::medians(repeats.into_iter().map(row));
            let [CpuRow { user, nice, system, irq, softirq, steal, idle, .. }] = rows[..] else { panic!("one CPU") };
            let sum = user + nice + system + irq + softirq + steal + idle;
            prop_assert!(sum == 0.0 || (sum - 1.0).abs() < 1e-12, "{sum}");
        }
    }

    #[test]
    fn what_the_hypervisor_took_is_not_in_use() {
        let rows = [
            CpuRow { cpu: 0, user: 0.25, steal: 0.5, idle: 0.25, ..CpuRow::default() },
            CpuRow { cpu: 3, nice: 0.5, idle: 0.5, ..CpuRow::default() },
        ];
        assert_eq!(CpuRow::busiest(&rows).map(|row| (row.cpu, row.busy())), Some((3, 0.5)));
        let all = CpuRow::sum(&rows);
        assert_eq!((all.cpu, all.user + all.nice, all.steal, all.idle), (2, 0.75, 0.5, 0.75));
        assert_eq!(CpuRow::busiest(&[]), None);
    }
}
