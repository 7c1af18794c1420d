//! Curves of a report.

use std::collections::BTreeSet;

use netcliff_core::experiment::{Answerer, Curve, Dot};
use netcliff_core::{EngineKind, Figure, units};

use super::report::{ForwardingReport, ForwardingRow, SetUpReport};
use crate::rfc2544::conduct::LINES_BPS;
use crate::rfc2544::settings::FrameSize;

impl ForwardingReport {
    /// Throughput over frame size: measured and simulated by set-up, then what lines carry.
    pub fn curves(&self) -> Vec<Curve> {
        let mut curves = self.of_set_ups(|_, figure| figure);
        for line_bps in LINES_BPS {
            let name = format!("{} line", units::print_bps(line_bps));
            let sizes: BTreeSet<u64> = self.rows.iter().map(|row| row.bytes() as u64).collect();
            let pps = |bytes: &u64| FrameSize::Fixed(*bytes as u32).line_pps(line_bps);
            let dots = sizes.iter().map(|bytes| Dot { x: *bytes as f64, y: Figure::exact(pps(bytes)) });
            curves.push(Curve { name, answerer: None, dots: dots.collect() });
        }
        curves
    }

    /// Share of a line's frame rate over frame size; a line forwards no more than it carries.
    pub fn shares(&self, line_bps: f64) -> Vec<Curve> {
        self.of_set_ups(|frame, figure| figure.mapped(|pps| (pps / frame.line_pps(line_bps)).min(1.0)))
    }

    fn of_set_ups(&self, shown: impl Fn(FrameSize, Figure) -> Figure) -> Vec<Curve> {
        let curve = |name: &str, engine: EngineKind, read: &dyn Fn(&ForwardingRow) -> Option<Figure>| {
            let own = self.rows.iter().filter(|row| row.set_up == name);
            let dots: Vec<Dot> =
                own.filter_map(|row| Some(Dot { x: row.bytes(), y: shown(row.frame, read(row)?) })).collect();
            let answerer = Some(Answerer { engine, fidelity: None });
            (!dots.is_empty()).then(|| Curve { name: name.to_owned(), answerer, dots })
        };
        let both = |set_up: &SetUpReport| {
            [
                curve(&set_up.name, EngineKind::Wire, &|row| row.throughput_pps),
                curve(&set_up.name, EngineKind::Sim, &|row| row.simulated_pps),
                curve(&set_up.name, EngineKind::Model, &|row| row.modelled_pps),
            ]
        };
        self.set_ups.iter().flat_map(both).flatten().collect()
    }
}
