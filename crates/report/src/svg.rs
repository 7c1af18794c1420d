//! Findings and experiments as pictures: [`delivered`], [`latency`], [`cpu`], [`loss`] over the offered load,
//! [`experiment`], [`effects`].
//!
//! Each is one SVG document with its own light background, so that it reads equally well on a dark page, and with a
//! second drawing for narrow screens. Curves differ in colour (safe for colour-blind eyes), dashes and points; engines
//! of a finding in form: model dashed, simulation as a solid line with its interval as a band, measurements as points
//! with error bars.

mod cpu;
mod effects;
pub(crate) mod experiment;
mod finding;
mod flame;
mod traffic;

use netcliff_core::Finding;
use netcliff_transfer::experiments::TransferReport;

use crate::plot::{Bars, Plot};

pub use cpu::cpu;
pub use delivered::delivered;
pub use effects::effects;
pub(crate) use effects::is_significant;
pub use experiment::experiment;
pub use flame::flame;
pub use latency::latency;
pub use loss::loss;
pub use pauses::pauses;
pub use traffic::{Files, burstiness, traffic};

/// The figures of a finding's page in their order, and the chart of pauses if there were any.
pub(crate) fn of_finding(finding: &Finding) -> (Vec<Plot>, Option<Bars>) {
    let mut plots = vec![delivered::plot(finding), latency::plot(finding), loss::plot(finding)];
    plots.extend(cpu::engines(finding).into_iter().map(|engine| cpu::plot(finding, engine)));
    (plots, pauses::bars(finding))
}

/// The effects of a design as a figure of its page.
pub(crate) fn effects_of(report: &TransferReport) -> Option<Bars> {
    effects::bars(report)
}

mod delivered {
    //! Offered load against delivered load: the main figure.

    use netcliff_core::Finding;

    use super::finding::{self, Curves};
    use crate::format::Unit;
    use crate::plot::{Dot, Plot, Scale};
    use crate::sheet;

    /// Model, simulation and measurement in one plot, with the diagonal of a host that loses nothing and the cliffs.
    pub fn delivered(finding: &Finding) -> String {
        plot(finding).document()
    }

    pub(crate) fn plot(finding: &Finding) -> Plot {
        let curves: Curves = sheet::ENGINES
            .into_iter()
            .map(|engine| (engine, finding::dots(finding, engine, |outcome| outcome.throughput_pps)))
            .collect();
        let highest = curves.iter().flat_map(|(_, dots)| dots).map(|dot| dot.high).fold(0.0, f64::max);
        let across_pps = finding::load(finding).end();
        let up_pps = if highest > 0.0 { 1.08 * highest } else { across_pps };
        let y = Scale::linear("delivered load", Unit::Pps, 0.0, up_pps);
        let mut plot = finding::plot(finding, "delivered", "Delivered load against offered load", y);
        finding::add(&mut plot, curves, "", false);
        let corner = across_pps.min(up_pps);
        finding::guide(&mut plot, "no loss", vec![Dot::exact(0.0, 0.0), Dot::exact(corner, corner)]);
        plot.empty = "no throughput measured".to_owned();
        plot
    }
}

mod latency {
    //! Latency over offered load, on a logarithmic scale: it grows a hundredfold at the cliff.

    use netcliff_core::{Figure, Finding, Latency};

    use super::finding::{self, Curves};
    use crate::format::Unit;
    use crate::plot::{Dot, Plot, Scale};
    use crate::sheet;

    /// Median and 99th percentile of each engine.
    pub fn latency(finding: &Finding) -> String {
        plot(finding).document()
    }

    fn curves(finding: &Finding, pick: fn(&Latency) -> Option<Figure>) -> Curves {
        let dots = |engine| {
            let mut dots = finding::dots(finding, engine, |outcome| outcome.latency_s.as_ref().and_then(pick));
            dots.retain(|dot| dot.y > 0.0);
            (engine, dots)
        };
        sheet::ENGINES.into_iter().map(dots).collect()
    }

    pub(crate) fn plot(finding: &Finding) -> Plot {
        let (medians, tails) = (curves(finding, |l| l.p50), curves(finding, |l| l.p99));
        let (low, high) = decades(medians.iter().chain(&tails).flat_map(|(_, dots)| dots)).unwrap_or((-6.0, -3.0));
        let y = Scale::log("latency", Unit::Seconds, low, high);
        let mut plot = finding::plot(finding, "latency", "Latency: median and 99th percentile", y);
        plot.words = format!("Median and 99th percentile. {}", plot.words);
        finding::add(&mut plot, medians, "p50", false);
        finding::add(&mut plot, tails, "p99", true);
        plot.empty = "no latency measured".to_owned();
        plot
    }

    /// Whole decades that include all of `dots`, as powers of ten. `None` if no value is positive.
    pub(super) fn decades<'a>(dots: impl Iterator<Item = &'a Dot>) -> Option<(f64, f64)> {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in dots.map(|dot| dot.y).filter(|value| *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        let (low, high) = (low.log10().floor(), high.log10().ceil());
        (low.is_finite() && high.is_finite()).then_some((low, high.max(low + 1.0)))
    }
}

mod loss {
    //! Loss over offered load, on a logarithmic axis with a place for zero below a break.

    use netcliff_core::Finding;

    use super::finding::{self, Curves};
    use super::latency::decades;
    use crate::format::{self, Unit};
    use crate::plot::{Dot, Plot, Scale};
    use crate::sheet;

    /// Lower end of the axis, as a power of ten: losses of model and simulation can be far below the resolution of any
    /// measurement.
    const LOWEST_POWER: f64 = -8.0;

    /// Share of packets that each engine lost, with the loss that defines the cliff. Points without loss are at 0,
    /// below a break.
    pub fn loss(finding: &Finding) -> String {
        plot(finding).document()
    }

    pub(crate) fn plot(finding: &Finding) -> Plot {
        // The interval of a share may exceed 1; the share itself cannot.
        let capped = |dot: Dot| Dot { y: dot.y.min(1.0), high: dot.high.min(1.0), ..dot };
        let curves: Curves = sheet::ENGINES
            .into_iter()
            .map(|engine| {
                let dots = finding::dots(finding, engine, |outcome| outcome.loss_fraction);
                (engine, dots.into_iter().map(capped).collect())
            })
            .collect();
        let all = || curves.iter().flat_map(|(_, dots)| dots);
        let target = finding.loss_target;
        let seen = decades(all()).map_or(0.0, |(low, _)| low);
        let allowed = if target > 0.0 { target.log10().floor() } else { -4.0 };
        let floor = seen.min(allowed).clamp(LOWEST_POWER, -1.0);
        let below = all().any(|dot| dot.y > 0.0 && dot.y < 10f64.powf(floor) * (1.0 - 1e-9));
        let y = Scale::log("loss, of the offered packets", Unit::Share, floor, 0.0).with_zero();
        let mut plot = finding::plot(finding, "loss", "Loss, as a share of the offered packets", y);
        plot.words = format!("The loss allowed at the cliff is {}. {}", format::loss(target), plot.words);
        finding::add(&mut plot, curves, "", false);
        if target > 0.0 {
            plot.levels.push((target, format!("allowed at the cliff: {}", format::loss(target))));
        }
        if below {
            plot.notes.push(format!("Loss below {} is drawn at 0.", format::loss(10f64.powf(floor))));
        }
        plot.notes.push("A short stroke above a point at 0 is the upper end of its interval.".to_owned());
        plot.empty = "no loss measured".to_owned();
        plot
    }
}

mod pauses {
    //! Draws how often CPUs and sender were paused, by length.

    use netcliff_core::Finding;

    use super::finding;
    use crate::plot::Bars;
    use crate::plot::bars::{Group, Row};
    use crate::sheet;

    /// One bar per bin. `None` if there were no pauses, or pauses were not measured.
    pub fn pauses(finding: &Finding) -> Option<String> {
        bars(finding).map(|bars| bars.document())
    }

    pub(crate) fn bars(finding: &Finding) -> Option<Bars> {
        let all = sheet::pause_lengths(finding);
        if all.is_empty() {
            return None;
        }
        let words: Vec<String> =
            sheet::disturbance(finding).iter().map(|(name, fact)| format!("{name}: {fact}.")).collect();
        let groups = all.into_iter().map(|(name, bins)| {
            let rows = bins.iter().map(|bin| Row {
                name: sheet::bin(bin),
                value: bin.count as f64,
                interval: None,
                written: bin.count.to_string(),
                firm: true,
                tone: 2,
            });
            Group { name: name.to_owned(), rows: rows.collect() }
        });
        Some(Bars {
            slug: "pauses".to_owned(),
            title: "Pauses of CPUs and sender, by length".to_owned(),
            origin: finding::origin(finding),
            words: words.join(" "),
            groups: groups.collect(),
            notes: Vec::new(),
            columns: ["who", "length", "count"],
        })
    }
}
