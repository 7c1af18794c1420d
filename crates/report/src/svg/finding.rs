//! The common parts of a finding's figures: the axis of the load, each engine's points and looks, the cliffs.

use netcliff_core::finding::SweepPoint;
use netcliff_core::{EngineKind, Figure, Finding, Outcome};

use crate::format::{self, Unit};
use crate::plot::{Dot, GREY, Key, Look, Marker, Plot, Pointer, Scale, Series, Spread};
use crate::sheet;

/// Load that was really offered, or else intended (pps).
pub fn offered_pps(point: &SweepPoint) -> f64 {
    point.outcome.offered_pps.map_or(point.load_pps, |figure| figure.value)
}

/// One engine's curve of one figure, by ascending load. Missing values and values that are not finite numbers are left
/// out.
pub fn dots(finding: &Finding, engine: EngineKind, get: impl Fn(&Outcome) -> Option<Figure>) -> Vec<Dot> {
    let dot = |point: &SweepPoint| {
        let figure = get(&point.outcome)?;
        let (low, high) = figure.interval.map_or((figure.value, figure.value), |i| (i.low, i.high));
        let dot = Dot { x: offered_pps(point), y: figure.value, low, high, base: 0.0, late: !point.sender_kept_up };
        let usable = [dot.x, dot.y, dot.low, dot.high].iter().all(|value| value.is_finite()) && dot.y >= 0.0;
        usable.then_some(dot)
    };
    let mut dots: Vec<Dot> = finding.curve(engine).into_iter().filter_map(dot).collect();
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    dots
}

/// Colours: black for measurements, blue and vermillion for computed curves. `second`: the second quantile of a figure,
/// which is drawn lighter.
pub fn look(engine: EngineKind, second: bool) -> Look {
    let marker = |first, other| Some(Marker { shape: if second { other } else { first }, filled: true });
    match engine {
        EngineKind::Model => {
            Look { marker: marker(2, 5), ..Look::line(2, if second { 2 } else { 1 }, if second { 1.4 } else { 2.2 }) }
        }
        EngineKind::Sim => Look {
            marker: marker(1, 7),
            spread: Spread::Band,
            ..Look::line(1, if second { 4 } else { 0 }, if second { 1.2 } else { 2.0 })
        },
        EngineKind::Wire => Look { marker: marker(0, 3), ..Look::points(0, 0, true) },
    }
}

fn tone(engine: EngineKind) -> usize {
    look(engine, false).tone
}

/// The engine's name in a legend.
fn name(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Sim => "simulated",
        other => sheet::column(other),
    }
}

/// Engines with their curves, in the order they are drawn.
pub type Curves = Vec<(EngineKind, Vec<Dot>)>;

/// Adds a series for each engine that has points. `who` distinguishes the series of an engine that has several.
pub fn add(plot: &mut Plot, curves: Curves, who: &str, second: bool) {
    for (engine, dots) in curves.into_iter().filter(|(_, dots)| !dots.is_empty()) {
        let key = plot.keys.iter().position(|key| key.name == name(engine)).unwrap_or_else(|| {
            plot.keys.push(Key { name: name(engine).to_owned(), look: look(engine, second) });
            plot.keys.len() - 1
        });
        let label = if who.is_empty() { name(engine).to_owned() } else { format!("{} {who}", name(engine)) };
        let label = Some(label);
        plot.series.push(Series { key, who: who.to_owned(), label, look: look(engine, second), guide: false, dots });
    }
}

/// Adds a guide line with its name.
pub fn guide(plot: &mut Plot, name: &str, dots: Vec<Dot>) {
    let look = Look::line(GREY, 0, 1.0);
    plot.keys.push(Key { name: name.to_owned(), look });
    let key = plot.keys.len() - 1;
    plot.series.insert(0, Series { key, who: String::new(), label: Some(name.to_owned()), look, guide: true, dots });
}

/// An empty plot over the load of a finding, with its cliffs.
pub fn plot(finding: &Finding, slug: &str, title: &str, y: Scale) -> Plot {
    let late = finding.curve(EngineKind::Wire).iter().any(|point| !point.sender_kept_up);
    let hollow = Look { spread: Spread::None, ..Look::points(0, 0, false) };
    let mut forms = Vec::new();
    if late {
        forms.push((hollow, "sender fell behind".to_owned()));
    }
    Plot {
        slug: slug.to_owned(),
        title: title.to_owned(),
        origin: origin(finding),
        words: cliffs_in_words(finding),
        remarks: cliffs(finding).into_iter().collect(),
        x: load(finding),
        y,
        keys: Vec::new(),
        series: Vec::new(),
        pointers: pointers(finding),
        levels: Vec::new(),
        stated: Vec::new(),
        forms,
        notes: Vec::new(),
        empty: "not measured".to_owned(),
    }
}

/// The axis of the offered load, from 0 to above the highest load of the sweep and the highest cliff.
pub fn load(finding: &Finding) -> Scale {
    let loads = finding.sweep.iter().map(offered_pps);
    let cliffs = finding.cliff_pps.present().map(|(_, figure)| figure.value);
    let max_pps = loads.chain(cliffs).filter(|load| load.is_finite()).fold(0.0, f64::max);
    Scale::linear("offered load", Unit::Pps, 0.0, if max_pps > 0.0 { 1.03 * max_pps } else { 1e6 })
}

/// The line marks the measured cliff, or else the simulated one, or else the predicted one; triangles mark the others.
fn pointers(finding: &Finding) -> Vec<Pointer> {
    let order = [EngineKind::Wire, EngineKind::Sim, EngineKind::Model];
    let found = order.into_iter().filter_map(|engine| Some((engine, finding.cliff_pps.get(engine)?.value)));
    let drawn = found.filter(|(_, pps)| pps.is_finite() && *pps > 0.0).enumerate();
    drawn.map(|(at, (engine, pps))| Pointer { x: pps, tone: tone(engine), upright: at == 0 }).collect()
}

/// The cliffs that the triangles point at, in words.
fn cliffs(finding: &Finding) -> Option<String> {
    let order = [EngineKind::Wire, EngineKind::Sim, EngineKind::Model];
    let one = |engine: EngineKind| {
        let figure = finding.cliff_pps.get(engine).filter(|figure| figure.value.is_finite() && figure.value > 0.0)?;
        Some(format!("{} {}", name(engine), format::figure(figure, Unit::Pps)))
    };
    let all: Vec<String> = order.into_iter().filter_map(one).collect();
    (!all.is_empty()).then(|| format!("cliff (triangles): {}", all.join(", ")))
}

/// The cliffs of a finding in words, for readers who cannot see the picture.
pub fn cliffs_in_words(finding: &Finding) -> String {
    let cliffs: Vec<String> = finding
        .cliff_pps
        .present()
        .filter(|(_, figure)| figure.value.is_finite())
        .map(|(engine, figure)| format!("{} {}", sheet::column(engine), format::figure(figure, Unit::Pps)))
        .collect();
    if cliffs.is_empty() { "No cliff was measured.".to_owned() } else { format!("The cliff: {}.", cliffs.join(", ")) }
}

/// Host and kernel under a picture's title, so that its origin is clear when it is shown alone.
pub fn origin(finding: &Finding) -> String {
    let host = &finding.host;
    let frames = format!("{} frames", finding.setup.traffic.size);
    let known = [&host.cpu, &host.kernel, &host.driver, &frames].into_iter().filter(|fact| !fact.is_empty());
    format::printable(&known.cloned().collect::<Vec<_>>().join(" · "))
}
