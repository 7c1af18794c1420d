//! The CPUs of a host over the windows of a test, as tables of shares.

use netcliff_core::cpus::{CpuRow, ExactRow};

use super::page::{Page, Tone};
use crate::format;

/// The CPUs of a host in one configuration.
pub(super) struct Split<'a> {
    /// Name of the configuration. Empty if there is only one.
    pub name: String,
    pub cpus: &'a [CpuRow],
    pub exact: &'a [ExactRow],
    /// Text in the line below the CPUs, before the busiest CPU.
    pub demand: Option<String>,
}

impl<'a> Split<'a> {
    /// The split of the only configuration.
    pub fn alone(cpus: &'a [CpuRow], exact: &'a [ExactRow]) -> Self {
        Self { name: String::new(), cpus, exact, demand: None }
    }
}

/// Prints each CPU, their mean, and the busiest one. `names` is the head of the column of the configurations' names.
pub(super) fn table(page: &mut Page, heading: &str, names: &str, splits: &[Split<'_>]) {
    page.heading(heading);
    let width = if names.is_empty() { 0 } else { NAMES };
    // If no CPU has an exact time, the column is left out.
    let exact = splits.iter().any(|split| !split.exact.is_empty());
    let mut lines = vec![format!(
        "  {names:<width$}{:>4}{:>7}{:>7}{:>7}{:>9}{:>7}{:>7}{}",
        "CPU",
        "user",
        "system",
        "irq",
        "softirq",
        "steal",
        "idle",
        if exact { "   exact" } else { "" }
    )];
    lines.extend(splits.iter().flat_map(|split| split.lines(width, exact)));
    page.block(&lines.join("\n"));
}

/// Width of the configurations' names.
const NAMES: usize = 16;

/// Adds an explanation of the column `exact`, if `any` CPU has one.
pub(super) fn explain_exact(page: &mut Page, any: bool) {
    if any {
        page.paragraph(
            2,
            Tone::Faint,
            "exact: softirq time by eBPF; the other columns are by the kernel's tick, which counts part of that time elsewhere",
        );
    }
}

/// The meter's own share, and how each kind of figure was measured.
pub(super) fn methods<'a>(page: &mut Page, exact: impl Iterator<Item = &'a ExactRow>, methods: &[(String, String)]) {
    let overhead = exact.map(|exact| exact.overhead).fold(f64::NAN, f64::max);
    if overhead.is_finite() {
        let most = format!("at most {} of a CPU, included in the other shares", format::share_short(overhead));
        page.fact("meter's own", &most);
    }
    methods.iter().for_each(|(kind, method)| page.fact(kind, method));
}

impl Split<'_> {
    fn lines(&self, width: usize, exact: bool) -> Vec<String> {
        let Some(busiest) = CpuRow::busiest(self.cpus) else { return Vec::new() };
        let softirq = |cpu: &CpuRow| Some(self.exact.iter().find(|exact| exact.cpu == cpu.cpu)?.softirq);
        let mut lines: Vec<String> = self
            .cpus
            .iter()
            .map(|cpu| line(&format!("{:<width$}{:>4}", self.name, cpu.cpu), cpu, exact.then(|| softirq(cpu))))
            .collect();
        let (mean, count) = (CpuRow::mean(self.cpus), self.cpus.len() as f64);
        let softirqs: Option<f64> = self.cpus.iter().map(softirq).sum();
        let exact = exact.then_some(softirqs.map(|sum| sum / count));
        lines.push(line(&format!("{:<width$}{:>4}", "", "mean"), &mean, exact));
        // The classes are medians of different repeats, so that their sum can be a little more than the whole.
        let busiest = format!("busiest CPU {}, {}", busiest.cpu, percent(busiest.busy().min(1.0)));
        let said = self.demand.iter().cloned().chain([busiest]).collect::<Vec<_>>().join("; ");
        lines.push(format!("  {:<width$}     {said}", ""));
        lines
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// One line of the table. `exact`: `None` if there is no column of exact softirqs; `Some(None)` if this CPU has no such
/// figure.
fn line(label: &str, cpu: &CpuRow, exact: Option<Option<f64>>) -> String {
    let exact = exact.map_or(String::new(), |share| format!("{:>8}", share.map_or("-".to_owned(), percent)));
    format!(
        "  {label}{:>7}{:>7}{:>7}{:>9}{:>7}{:>7}{exact}",
        percent(cpu.user + cpu.nice),
        percent(cpu.system),
        percent(cpu.irq),
        percent(cpu.softirq),
        percent(cpu.steal),
        percent(cpu.idle),
    )
}
