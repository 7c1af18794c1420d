//! [`transfers`]: output of `netcliff run` of an experiment of transfers.

use std::borrow::Cow;

use netcliff_core::experiment::{Design, TransferMeasure};
use netcliff_transfer::experiments::{Effect, FactorLevels, TransferReport, TransferRow};

use super::Style;
use super::comparison;
use super::page::{Page, Tone};
use crate::format::{self, Unit};

/// Width of a figure with its interval.
const FIGURE: usize = 20;
/// Width of a setting's change.
const CHANGE: usize = 20;
/// Width of a line.
const LINE: usize = 80;

/// Every configuration, the effect of every setting, and figures that were not measured. The figure is drawn
/// separately.
pub fn transfers(report: &TransferReport, style: Style) -> String {
    let mut page = Page::new(style);
    page.head(&report.title, &report.provenance, report.partial, &report.asked);
    configurations(&mut page, report);
    effects(&mut page, report);
    let cut = report.rows.iter().filter_map(|row| Some(format!("{}: {}", name(report, row), row.cut_short.as_ref()?)));
    let not_had: Vec<String> = report.not_had.iter().map(ToString::to_string).chain(cut).collect();
    page.list("NOT MEASURED", &not_had);
    page.list("WARNINGS", &report.warnings);
    page.finish()
}

/// The figures of the table, at most three: the drawn figure, then goodput, busy CPUs and CPU time per KiB.
pub fn measures(report: &TransferReport) -> Vec<TransferMeasure> {
    let mut measures = vec![report.y];
    for measure in [TransferMeasure::Goodput, TransferMeasure::SystemCpus, TransferMeasure::SystemUsPerKib] {
        if measure != report.y && measures.len() < 3 {
            measures.push(measure);
        }
    }
    measures
}

/// A configuration in words.
pub fn name(report: &TransferReport, row: &TransferRow) -> String {
    let words: Vec<String> =
        report.factors.iter().zip(&row.levels).map(|(factor, level)| format!("{} {level}", factor.key)).collect();
    words.join(", ")
}

/// A figure of a configuration: mean with half width; "-" if it was not measured.
pub fn cell(row: &TransferRow, measure: TransferMeasure) -> String {
    let unit = Unit::of(measure.dimension());
    row.figure(measure).map_or("-".to_owned(), |figure| format::plus_minus(&figure, unit))
}

/// The standard deviation of the drawn figure over the repeats; "-" if there are fewer than two repeats.
pub fn deviation(report: &TransferReport, row: &TransferRow) -> String {
    let unit = Unit::of(report.y.dimension());
    row.deviation(report.y).map_or("-".to_owned(), |deviation| format::quantity(deviation, unit))
}

/// Widths of the columns of figures: [`FIGURE`], or more if a figure needs it; with two blanks before each figure.
fn figure_widths(report: &TransferReport, measures: &[TransferMeasure]) -> Vec<usize> {
    let longest = |measure: &TransferMeasure| report.rows.iter().map(|row| cell(row, *measure).chars().count()).max();
    measures.iter().map(|measure| (longest(measure).unwrap_or(0) + 2).max(FIGURE)).collect()
}

fn spread_width(report: &TransferReport) -> usize {
    report.rows.iter().map(|row| deviation(report, row).chars().count()).max().unwrap_or(0).max(4) + 2
}

fn configurations(page: &mut Page, report: &TransferReport) {
    page.heading("CONFIGURATIONS (MEAN OF THE REPEATS WITH 95 % INTERVAL)");
    let measures = measures(report);
    let width = |at: usize| {
        let levels = report.rows.iter().filter_map(|row| row.levels.get(at)).map(String::len);
        levels.chain([report.factors[at].key.name().len()]).max().unwrap_or(0) + 2
    };
    let widths: Vec<usize> = (0..report.factors.len()).map(width).collect();
    let spread = spread_width(report);
    if 2 + widths.iter().sum::<usize>() + figure_widths(report, &measures).iter().sum::<usize>() + spread > LINE {
        return in_words(page, report, &measures);
    }
    let mut columns = figure_widths(report, &measures);
    columns.insert(1, spread);
    let line = |levels: Vec<&str>, figures: Vec<String>| {
        let levels: String = levels.iter().zip(&widths).map(|(level, width)| format!("{level:<width$}")).collect();
        let figures: String = figures.iter().zip(&columns).map(|(figure, width)| format!("{figure:>width$}")).collect();
        format!("  {levels}{figures}")
    };
    let names = measures.iter().map(|measure| measure.label());
    let mut heads: Vec<Vec<_>> = names.map(|name| textwrap::wrap(name, FIGURE - 2)).collect();
    heads.insert(1, vec!["s.d.".into()]);
    let height = heads.iter().map(Vec::len).max().unwrap_or(0);
    // Headings with fewer lines are aligned at the bottom, directly above their figures.
    let head = |at: usize| {
        let part = |name: &Vec<Cow<'_, str>>| {
            (at + name.len()).checked_sub(height).map_or("".into(), |at| name[at].to_string())
        };
        let factor = |factor: &'_ FactorLevels| if at + 1 == height { factor.key.name() } else { "" };
        line(report.factors.iter().map(factor).collect(), heads.iter().map(part).collect())
    };
    let mut lines: Vec<String> = (0..height).map(head).collect();
    for row in &report.rows {
        let mut figures: Vec<String> = measures.iter().map(|measure| cell(row, *measure)).collect();
        figures.insert(1, deviation(report, row));
        lines.push(line(row.levels.iter().map(String::as_str).collect(), figures));
    }
    page.block(&lines.join("\n"));
    known(page, report);
}

/// Adds configurations that are too wide for a table, each with its settings above its figures. If all settings of a
/// configuration do not fit a line, the first has all settings, and the others those that differ from the first.
fn in_words(page: &mut Page, report: &TransferReport, measures: &[TransferMeasure]) {
    let Some(first) = report.rows.first() else { return };
    let heads: Vec<&str> = measures.iter().map(|measure| measure.label()).collect();
    let first_name = heads.first().copied().unwrap_or_default();
    let is_whole = report.rows.iter().all(|row| name(report, row).chars().count() + 2 <= LINE);
    let mut lines = vec![format!("  each: {}; s.d.: standard deviation of {first_name}", heads.join(", "))];
    if !is_whole {
        lines.push("  settings that are not named are those of the first configuration".to_owned());
    }
    for (place, row) in report.rows.iter().enumerate() {
        let differs = |at: &usize| is_whole || place == 0 || row.levels.get(*at) != first.levels.get(*at);
        let level = |at: usize| Some(format!("{} {}", report.factors.get(at)?.key, row.levels.get(at)?));
        let words: Vec<String> = (0..report.factors.len()).filter(differs).filter_map(level).collect();
        let words = if words.is_empty() { "as the first".to_owned() } else { words.join(", ") };
        lines.push(textwrap::fill(&words, textwrap::Options::new(LINE).initial_indent("  ").subsequent_indent("    ")));
        let figures: String =
            measures.iter().map(|measure| format!("  {:>width$}", cell(row, *measure), width = FIGURE - 2)).collect();
        let (figures, spread) = (format!("        {figures}"), format!("  s.d. {}", deviation(report, row)));
        if figures.chars().count() + spread.chars().count() <= LINE {
            lines.push(figures + &spread);
        } else {
            lines.extend([figures, format!("        {spread}")]);
        }
    }
    page.block(&lines.join("\n"));
    known(page, report);
}

/// What the figures of the whole host count.
const OF_HOST: &str = "busy CPUs, host us/KiB: CPU time of all CPUs of this host (in a testbed it has both ends), softirqs and other programs included; \
     KiB: received";

fn known(page: &mut Page, report: &TransferReport) {
    let of_host = [TransferMeasure::SystemCpus, TransferMeasure::SystemUsPerKib];
    if measures(report).iter().any(|measure| of_host.contains(measure)) {
        page.paragraph(2, Tone::Faint, OF_HOST);
    }
    if let Some(known) = format::known(report.rows.iter().filter_map(|row| row.known.as_ref())) {
        page.paragraph(2, Tone::Faint, &known);
    }
}

fn effects(page: &mut Page, report: &TransferReport) {
    if report.effects.is_empty() {
        return;
    }
    page.heading("EFFECTS (RATIO OF GEOMETRIC MEANS WITH 95 % INTERVAL, P-VALUE)");
    let mut lines = Vec::new();
    let mut figure = None;
    for effect in &report.effects {
        if figure != Some(effect.figure) {
            figure = Some(effect.figure);
            lines.push(format!("  {}", effect.figure.label()));
        }
        lines.push(effect_line(effect));
    }
    page.block(&lines.join("\n"));
    let others = if report.design == Design::OneAtATime {
        "each other setting has its first value"
    } else {
        "the means are over all values of the other settings"
    };
    page.paragraph(
        2,
        Tone::Faint,
        &format!(
            "Mean before and after, change with its interval, p-value; {others}. P-values are corrected for multiple comparisons (Holm): below \
             0.05 the effect is significant. Intervals cover the spread of the repeats, not interactions of settings."
        ),
    );
}

fn effect_line(effect: &Effect) -> String {
    let unit = Unit::of(effect.figure.dimension());
    let setting = format!("{} {} -> {}", effect.factor, effect.from, effect.to);
    // The figures of a longer setting are on the next line.
    let setting =
        if setting.len() > CHANGE { format!("{setting}\n    {:CHANGE$}", "") } else { format!("{setting:<CHANGE$}") };
    format!(
        "    {setting} {:>11} {:>11} {:>23} {}",
        format::quantity(effect.from_mean, unit),
        format::quantity(effect.to_mean, unit),
        comparison::percent(&effect.change),
        p(effect)
    )
}

/// The corrected p as text.
pub fn p(effect: &Effect) -> String {
    comparison::p(effect.p_corrected)
}
