//! [`Missing`]: a figure that could not be measured, and why.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::engine::EngineKind;

/// A figure that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missing {
    /// Path of the figure: `cliff_pps.wire`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub figure: FigurePath,
    /// Why it is missing, one sentence.
    pub why: String,
}

impl Missing {
    /// Costs of a CPU that cannot be determined separately; `why` has no full stop.
    pub fn of_cpu(cpu: u32, why: &str) -> Self {
        Self { figure: FigurePath::CpuCosts(cpu), why: format!("CPU {cpu}: {why}.") }
    }

    /// Number of the CPU of [`Missing::of_cpu`], and the sentence without its name; `None` for other figures.
    pub fn cpu(&self) -> Option<(u32, &str)> {
        let FigurePath::CpuCosts(cpu) = self.figure else { return None };
        Some((cpu, self.why.strip_prefix(&format!("CPU {cpu}: "))?))
    }
}

/// A figure that every engine may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "BY_ENGINE has their keys and words")]
pub enum EngineFigure {
    Cliff,
    CliffExperienced,
    Peak,
    Livelock,
    Latency,
    CpuAtCliff,
    CpuAtTwice,
    LossAtTwice,
    Sweep,
    DeliveredAtOneAndAHalf,
    DeliveredAtTwice,
}

/// Key in JSON of each figure, and its words on pages.
const BY_ENGINE: [(EngineFigure, &str, &str); 11] = [
    (EngineFigure::Cliff, "cliff_pps", "cliff"),
    (EngineFigure::CliffExperienced, "cliff_experienced_pps", "cliff with outside pauses"),
    (EngineFigure::Peak, "peak_pps", "peak"),
    (EngineFigure::Livelock, "livelock", "delivered at twice the cliff"),
    (EngineFigure::Latency, "latency", "latency"),
    (EngineFigure::CpuAtCliff, "cpu_at_cliff", "CPU at the cliff"),
    (EngineFigure::CpuAtTwice, "cpu_at_twice", "CPU at twice the cliff"),
    (EngineFigure::LossAtTwice, "loss_at_twice", "loss at twice the cliff"),
    (EngineFigure::Sweep, "sweep", "sweep of loads"),
    (EngineFigure::DeliveredAtOneAndAHalf, "delivered_at_1_5_pps", "delivered at 1.5 times the cliff"),
    (EngineFigure::DeliveredAtTwice, "delivered_at_2_pps", "delivered at twice the cliff"),
];

/// Returns the key or path of a figure in its table, and its words on pages.
fn row_of<F: PartialEq>(table: &[(F, &'static str, &'static str)], figure: F) -> (&'static str, &'static str) {
    table.iter().find(|(of, ..)| *of == figure).map_or(("", ""), |(_, key, words)| (key, words))
}

impl EngineFigure {
    /// Path of this figure for an engine.
    pub fn by(self, engine: EngineKind) -> FigurePath {
        FigurePath::Of(self, Some(engine), None)
    }

    fn row(self) -> (&'static str, &'static str) {
        row_of(&BY_ENGINE, self)
    }

    /// `cliff (simulated)`.
    fn in_words(self, part: &str, engine: EngineKind) -> String {
        let by = match engine {
            EngineKind::Model => "predicted",
            EngineKind::Sim => "simulated",
            EngineKind::Wire => "measured",
        };
        format!("{}{part} ({by})", self.row().1)
    }
}

/// First words of the path of [`FigurePath::CpuCosts`].
const CPU_COSTS: &str = "costs of CPU ";

/// Path of a figure in a finding's JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FigurePath {
    /// A figure of one engine (`cliff_pps.wire`), of all engines (`cliff_pps`), or a part of one (`latency.wire.p999`).
    Of(EngineFigure, Option<EngineKind>, Option<String>),
    /// A check by its name, or one figure of a check: `checks.rx-usecs=10.cliff_pps.sim`.
    Check(String, Option<(EngineFigure, EngineKind)>),
    /// All figures of an engine: `wire`.
    Engine(EngineKind),
    /// A figure that does not belong to an engine.
    Whole(WholeFigure),
    /// Costs of a CPU that `learn` watched, by its number: `costs of CPU 0`.
    CpuCosts(u32),
    /// A part named by `learn` (`CPU 0`), or a path written by another version.
    Named(String),
}

/// Figures that do not belong to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "WHOLE has their paths and words")]
pub enum WholeFigure {
    Ceiling,
    Calibration,
    Sensitivity,
    Ledger,
    RoundTrips,
    Binding,
    HostPauses,
    SuggestionTried,
    Measured,
}

const WHOLE: [(WholeFigure, &str, &str); 9] = [
    (WholeFigure::Ceiling, "generator.ceiling_pps", "ceiling of the generator"),
    (WholeFigure::Calibration, "calibration", "costs"),
    (WholeFigure::Sensitivity, "sensitivity", "sensitivity to each cost"),
    (WholeFigure::Ledger, "ledger", "account of lost packets"),
    (WholeFigure::RoundTrips, "round_trips", "round trips"),
    (WholeFigure::Binding, "binding", "bottleneck"),
    (WholeFigure::HostPauses, "disturbance.host", "pauses of the CPU under test"),
    (WholeFigure::SuggestionTried, "suggestions.tried", "measured gain of a suggestion"),
    (WholeFigure::Measured, "everything measured", "everything measured"),
];

impl WholeFigure {
    fn row(self) -> (&'static str, &'static str) {
        row_of(&WHOLE, self)
    }
}

impl FigurePath {
    fn engine(&self) -> Option<EngineKind> {
        match self {
            Self::Of(_, engine, _) => *engine,
            Self::Check(_, Some((_, engine))) | Self::Engine(engine) => Some(*engine),
            Self::Check(_, None) | Self::Whole(_) | Self::CpuCosts(_) | Self::Named(_) => None,
        }
    }

    /// True if a reason stored under this path also explains why `other` is missing. `cliff_pps.wire` is explained by a
    /// reason for itself, for `cliff_pps`, or for the engine `wire`; a figure by a reason for one of its parts.
    pub fn explains(&self, other: &Self) -> bool {
        fn meet<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            one.is_none() || other.is_none() || one == other
        }
        match (self, other) {
            (Self::Engine(engine), _) => other.engine() == Some(*engine),
            (Self::Of(one, by, part), Self::Of(other, by_other, part_other)) => {
                one == other && meet(by, by_other) && meet(part, part_other)
            }
            (Self::Check(one, figure), Self::Check(other, figure_other)) => one == other && meet(figure, figure_other),
            _ => self == other,
        }
    }

    /// The figure in words: `delivered at twice the cliff (measured)`, `check work=2us: cliff (simulated)`. A
    /// [`FigurePath::Named`] is its own words.
    pub fn in_words(&self) -> String {
        match self {
            Self::Of(figure, None, _) => figure.row().1.to_owned(),
            Self::Of(figure, Some(engine), part) => {
                let part = part.as_ref().map_or(String::new(), |part| format!(" {part}"));
                figure.in_words(&part, *engine)
            }
            Self::Check(name, None) => format!("check {name}"),
            Self::Check(name, Some((figure, engine))) => format!("check {name}: {}", figure.in_words("", *engine)),
            Self::Engine(EngineKind::Model) => "all predicted figures".to_owned(),
            Self::Engine(EngineKind::Sim) => "all simulated figures".to_owned(),
            Self::Engine(EngineKind::Wire) => "all measured figures".to_owned(),
            Self::Whole(whole) => whole.row().1.to_owned(),
            Self::CpuCosts(_) | Self::Named(_) => self.to_string(),
        }
    }
}

impl fmt::Display for FigurePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(figure, engine, part) => {
                out.write_str(figure.row().0)?;
                engine.map_or(Ok(()), |engine| write!(out, ".{engine}"))?;
                part.as_ref().map_or(Ok(()), |part| write!(out, ".{part}"))
            }
            Self::Check(name, None) => write!(out, "checks.{name}"),
            Self::Check(name, Some((figure, engine))) => write!(out, "checks.{name}.{}.{engine}", figure.row().0),
            Self::Engine(engine) => write!(out, "{engine}"),
            Self::Whole(whole) => out.write_str(whole.row().0),
            Self::CpuCosts(cpu) => write!(out, "{CPU_COSTS}{cpu}"),
            Self::Named(path) => out.write_str(path),
        }
    }
}

impl From<String> for FigurePath {
    fn from(path: String) -> Self {
        let keyed = |key: &str| BY_ENGINE.iter().find(|(_, of, _)| *of == key).map(|(figure, ..)| *figure);
        let figure = |key: &str, engine: &str| Some((keyed(key)?, engine.parse().ok()?));
        let known = || {
            if let Some((whole, ..)) = WHOLE.iter().find(|(_, of, _)| *of == path) {
                return Some(Self::Whole(*whole));
            }
            if let Some(cpu) = path.strip_prefix(CPU_COSTS) {
                return cpu.parse().ok().map(Self::CpuCosts);
            }
            if let Some(check) = path.strip_prefix("checks.") {
                let mut parts = check.rsplitn(3, '.');
                let (engine, key, name) = (parts.next()?, parts.next(), parts.next());
                let of = key.zip(name).and_then(|(key, name)| Some((name, figure(key, engine)?)));
                return Some(
                    of.map_or(Self::Check(check.to_owned(), None), |(name, of)| Self::Check(name.to_owned(), Some(of))),
                );
            }
            let mut parts = path.splitn(3, '.');
            let (key, engine, part) = (parts.next()?, parts.next(), parts.next());
            match engine {
                None => key.parse().ok().map(Self::Engine).or_else(|| Some(Self::Of(keyed(key)?, None, None))),
                Some(engine) => {
                    let (figure, engine) = figure(key, engine)?;
                    Some(Self::Of(figure, Some(engine), part.map(str::to_owned)))
                }
            }
        };
        known().unwrap_or(Self::Named(path))
    }
}

impl Serialize for FigurePath {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FigurePath {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_and_written_as_it_is() {
        use EngineKind::{Sim, Wire};
        let check = |of| FigurePath::Check("rx-usecs=0.5+gro=on".to_owned(), of);
        for (path, figure) in [
            ("cliff_pps.wire", EngineFigure::Cliff.by(Wire)),
            ("cliff_pps", FigurePath::Of(EngineFigure::Cliff, None, None)),
            ("latency.sim.p99.9", FigurePath::Of(EngineFigure::Latency, Some(Sim), Some("p99.9".to_owned()))),
            ("wire", FigurePath::Engine(Wire)),
            ("checks.rx-usecs=0.5+gro=on", check(None)),
            ("checks.rx-usecs=0.5+gro=on.cliff_pps.sim", check(Some((EngineFigure::Cliff, Sim)))),
            ("suggestions.tried", FigurePath::Whole(WholeFigure::SuggestionTried)),
            ("costs of CPU 12", FigurePath::CpuCosts(12)),
            ("cliff_pps.abacus", FigurePath::Named("cliff_pps.abacus".to_owned())),
            ("", FigurePath::Named(String::new())),
        ] {
            assert_eq!(FigurePath::from(path.to_owned()), figure, "{path}");
            assert_eq!(figure.to_string(), path);
        }
        for (figure, key, _) in BY_ENGINE {
            assert_eq!(FigurePath::from(format!("{key}.model")), figure.by(EngineKind::Model));
        }
        for (whole, path, _) in WHOLE {
            assert_eq!(FigurePath::from(path.to_owned()), FigurePath::Whole(whole));
        }
    }

    #[test]
    fn a_reason_explains_the_figures_of_its_engine_and_the_parts_of_its_figure() {
        let of = |path: &str| FigurePath::from(path.to_owned());
        for (reason, figure, explains) in [
            ("wire", "latency.wire.p50", true),
            ("wire", "checks.gro=on.cliff_pps.wire", true),
            ("wire", "calibration", false),
            ("cliff_pps", "cliff_pps.sim", true),
            ("latency.wire.p999", "latency.wire", true),
            ("latency.wire.p999", "latency.wire.p50", false),
            ("checks.gro=on", "checks.gro=on.cliff_pps.sim", true),
            ("checks.gro=on", "checks.gro=on2.cliff_pps.sim", false),
        ] {
            assert_eq!(of(reason).explains(&of(figure)), explains, "{reason}, {figure}");
        }
        assert_eq!(of("latency.wire.p50").in_words(), "latency p50 (measured)");
        assert_eq!(of("checks.gro=on.cliff_pps.wire").in_words(), "check gro=on: cliff (measured)");
    }
}
