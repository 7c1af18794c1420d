//! [`WhyCliffsDiffer`]: why a cliff that is computed again with the costs of a finding differs from the cliff on its
//! page. The page, `predict --cliff` and the explorer show the same reasons.

use std::fmt;

use super::{ByEngine, Figure, Finding};
use crate::engine::Fidelity;
use crate::scheme::Scheme;
use crate::units;

/// Relative difference below which two cliffs count as equal.
const SAME: f64 = 5e-3;

/// A reason why two cliffs differ.
#[derive(Debug, Clone, PartialEq)]
pub enum CliffReason {
    /// The page's cliff is for the CPU's speed during the searches; the calibrated costs are for its earlier speed.
    SearchSpeed,
    /// The page's cliff is reduced by the disturbances that no trial is free of.
    Disturbances,
    /// The page's cliff is for the measured distributions of times; a host file implies exponential ones.
    Spread,
    /// Costs that `--set` changes, each as `KEY=VALUE`.
    Set(Vec<String>),
    /// Another scheme than the run's.
    Scheme(Scheme),
    /// Other arrivals or frames than the run's.
    Traffic {
        /// Arrivals as text.
        arrivals: String,
        /// Frame sizes as text.
        size: String,
    },
    /// Another loss fraction defines the cliff.
    Loss(f64),
    /// Another fidelity of the model.
    Fidelity(Fidelity),
}

impl CliffReason {
    /// True if the cliff on `find`'s page includes this effect; false if the newly computed cliff includes it.
    fn is_of_the_page(&self) -> bool {
        matches!(self, Self::SearchSpeed | Self::Disturbances | Self::Spread)
    }
}

impl fmt::Display for CliffReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SearchSpeed => out.write_str("the CPU's speed in the searches"),
            Self::Disturbances => out.write_str("the disturbances that every trial had"),
            Self::Spread => out.write_str("the spread of times as measured"),
            Self::Set(settings) => write!(out, "with --set {}", settings.join(" --set ")),
            Self::Scheme(scheme) => write!(out, "under {scheme}"),
            Self::Traffic { arrivals, size } => write!(out, "{arrivals} arrivals, {size} frames"),
            Self::Loss(loss) => write!(out, "at a loss of {}", units::print_share(*loss)),
            Self::Fidelity(fidelity) => write!(out, "by --fidelity {fidelity}"),
        }
    }
}

/// The cliffs on the page of `find`, and the reasons; `Display` writes them as sentences.
#[derive(Debug, Clone, PartialEq)]
pub struct WhyCliffsDiffer {
    page: ByEngine<Figure>,
    reasons: Vec<CliffReason>,
}

impl WhyCliffsDiffer {
    /// Returns `self`; `None` if `computed_pps` is within 0.5 % of the page's cliff by the model, or the page has none.
    pub fn unless_model_has(self, computed_pps: f64) -> Option<Self> {
        let page = self.page.model?;
        ((computed_pps / page.value - 1.0).abs() >= SAME).then_some(self)
    }
}

impl fmt::Display for WhyCliffsDiffer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named =
            |(name, cliff): (&str, Option<Figure>)| Some(format!("{name} {}", units::print_short_pps(cliff?.value)));
        let page = [("model", self.page.model), ("simulation", self.page.sim), ("measured", self.page.wire)];
        let page: Vec<String> = page.into_iter().filter_map(named).collect();
        let (of_page, here): (Vec<&CliffReason>, _) = self.reasons.iter().partition(|reason| reason.is_of_the_page());
        let use_it = match (here.is_empty(), self.page.wire.is_some()) {
            (true, true) => "Plan with the measured one, and compare settings with this one",
            (true, false) => "Compare settings with this one",
            (false, _) => "Compare it with other predictions from these costs",
        };
        let here: String = here.iter().map(|reason| format!(", {reason}")).collect();
        let (page, included) = (page.join(", "), listed(&of_page));
        write!(
            out,
            "The cliff on the run's page ({page}) includes {included}; this one is for the undisturbed host as calibrated{here}. {use_it}."
        )
    }
}

/// Joins the texts: `a, b and c`.
pub fn listed(reasons: &[impl fmt::Display]) -> String {
    let texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    match texts.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => texts.join(""),
    }
}

impl Finding {
    /// Returns why a cliff computed from the calibrated costs alone (as by `predict` and the explorer) differs from the
    /// cliff on `find`'s page. `asked`: reasons known to the caller, such as changed costs. `None` if the page has no
    /// computed cliff.
    pub fn why_cliffs_differ(&self, asked: Vec<CliffReason>) -> Option<WhyCliffsDiffer> {
        let page = self.cliff_pps.clone();
        if page.model.is_none() && page.sim.is_none() {
            return None;
        }
        let speed = self.cliff_as_calibrated_pps.as_ref().map(|_| CliffReason::SearchSpeed);
        let left = self.cliff_undisturbed_pps.as_ref().map(|_| CliffReason::Disturbances);
        let reasons = speed.into_iter().chain(left).chain([CliffReason::Spread]).chain(asked).collect();
        Some(WhyCliffsDiffer { page, reasons })
    }

    /// The computed cliffs, once for each state of the host (as calibrated, at the speed of the searches, with
    /// disturbances), each with the effects that it includes. Empty if there is only one state.
    pub fn computed_cliffs(&self) -> Vec<(&ByEngine<Figure>, Vec<CliffReason>)> {
        let (calibrated, undisturbed) = (self.cliff_as_calibrated_pps.as_ref(), self.cliff_undisturbed_pps.as_ref());
        let mut included = vec![CliffReason::Spread];
        let mut states = Vec::new();
        if let Some(cliffs) = calibrated {
            states.push((cliffs, included.clone()));
            included.insert(0, CliffReason::SearchSpeed);
        }
        if let Some(cliffs) = undisturbed {
            states.push((cliffs, included.clone()));
            included.insert(included.len() - 1, CliffReason::Disturbances);
        }
        if !states.is_empty() {
            states.push((&self.cliff_pps, included));
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding() -> Finding {
        let text = r#"{"scheme": "ideal", "traffic": {"arrivals": "poisson", "size": "64B", "rate": "1pps", "link": "1Gbit/s"},
            "application_work_s": 0.0, "socket_buffer_bytes": 1, "repeats": 1, "trial_s": 0.4, "quick": true}"#;
        Finding::blank(serde_json::from_str(text).unwrap(), 1e-4)
    }

    #[test]
    fn why_two_cliffs_of_a_record_differ_and_which_to_use() {
        let mut finding = finding();
        assert_eq!(finding.why_cliffs_differ(Vec::new()), None);
        finding.cliff_pps.model = Some(Figure::exact(338_000.0));
        finding.cliff_pps.sim = Some(Figure::exact(360_400.0));
        let plain = finding.why_cliffs_differ(Vec::new()).unwrap();
        assert_eq!(
            plain.to_string(),
            "The cliff on the run's page (model 338 kpps, simulation 360 kpps) includes the spread of times as measured; this one is \
             for the undisturbed host as calibrated. Compare settings with this one."
        );
        finding.cliff_pps.wire = Some(Figure::exact(335_000.0));
        let measured = finding.why_cliffs_differ(Vec::new()).unwrap().to_string();
        assert!(measured.contains("simulation 360 kpps, measured 335 kpps)"), "{measured}");
        assert!(measured.ends_with("Plan with the measured one, and compare settings with this one."), "{measured}");
        assert_eq!(plain.clone().unless_model_has(338_100.0), None);
        assert!(plain.unless_model_has(331e3).is_some());
        finding.cliff_as_calibrated_pps = Some(ByEngine::default());
        finding.cliff_undisturbed_pps = Some(ByEngine::default());
        let asked = vec![
            CliffReason::Set(vec!["ring=64".to_owned(), "protocol=2us".to_owned()]),
            CliffReason::Scheme("interrupt".parse().unwrap()),
            CliffReason::Loss(1e-3),
            CliffReason::Fidelity(Fidelity::Paper),
        ];
        let said = finding.why_cliffs_differ(asked).unwrap().to_string();
        let included = "the CPU's speed in the searches, the disturbances that every trial had and the spread of times as measured;";
        assert!(said.contains(included), "{said}");
        let here = "with --set ring=64 --set protocol=2us, under interrupt:drops_interrupt=true, at a loss of 0.1%, by --fidelity paper";
        assert!(said.contains(here), "{said}");
        assert!(said.ends_with(". Compare it with other predictions from these costs."), "{said}");
    }

    #[test]
    fn each_state_of_the_host_names_what_its_cliff_includes() {
        let mut finding = finding();
        assert!(finding.computed_cliffs().is_empty());
        finding.cliff_undisturbed_pps = Some(ByEngine::default());
        let includes = |finding: &Finding| -> Vec<String> {
            finding.computed_cliffs().iter().map(|(_, reasons)| listed(reasons)).collect()
        };
        let spread = "the spread of times as measured";
        let (speed, left) = ("the CPU's speed in the searches", "the disturbances that every trial had");
        assert_eq!(includes(&finding), [spread.to_owned(), format!("{left} and {spread}")]);
        finding.cliff_as_calibrated_pps = Some(ByEngine::default());
        let expected = [spread.to_owned(), format!("{speed} and {spread}"), format!("{speed}, {left} and {spread}")];
        assert_eq!(includes(&finding), expected);
    }
}
