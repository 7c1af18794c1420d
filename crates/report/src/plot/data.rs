//! The values of a figure as they are downloaded, and as the page's script reads them.

use serde_json::{Value, json};

use super::{Dot, Plot};

/// Columns of the CSV; x and y are named by their axes.
const COLUMNS: [&str; 6] = ["curve", "", "", "low", "high", "note"];

/// A value of the figure: curve, x, y, ends of the interval, and a note.
struct Row {
    curve: String,
    x: f64,
    y: f64,
    low: Option<f64>,
    high: Option<f64>,
    note: &'static str,
}

fn row(curve: &str, dot: &Dot) -> Row {
    let ends = dot.low < dot.high;
    let note = match (dot.late, dot.is_at_least()) {
        (true, _) => "sender fell behind",
        (_, true) => "at least",
        _ => "",
    };
    let finite = |end: f64| Some(end).filter(|end| ends && end.is_finite());
    Row { curve: curve.to_owned(), x: dot.x, y: dot.y, low: finite(dot.low), high: finite(dot.high), note }
}

/// Every value of every curve except guide lines, one curve after the other.
fn curves(plot: &Plot) -> Vec<(usize, Vec<Row>)> {
    let drawn = plot.series.iter().enumerate().filter(|(_, series)| !series.guide);
    let rows = |series: &super::Series| {
        let name = plot.full_name(series);
        series.dots.iter().map(|dot| row(&name, dot)).collect()
    };
    drawn.map(|(index, series)| (index, rows(series))).collect()
}

fn header(plot: &Plot) -> Vec<String> {
    let mut names = COLUMNS.map(str::to_owned);
    names[1] = plot.x.base_title();
    names[2] = plot.y.base_title();
    names.to_vec()
}

/// The figure as CSV, one row per value, in base units.
pub fn csv(plot: &Plot) -> String {
    let number = |value: Option<f64>| value.map(|value| json!(value).to_string()).unwrap_or_default();
    let fields = |row: Row| {
        vec![
            row.curve,
            number(Some(row.x)),
            number(Some(row.y)),
            number(row.low),
            number(row.high),
            row.note.to_owned(),
        ]
    };
    let rows = curves(plot).into_iter().flat_map(|(_, rows)| rows.into_iter().map(fields));
    std::iter::once(header(plot)).chain(rows).map(|fields| crate::csv::line(&fields)).collect()
}

/// The values of a figure for the page's script: axes, names, and `[x, y, low, high, note]` for each value.
pub fn json(plot: &Plot) -> Value {
    let series: Vec<Value> = curves(plot)
        .into_iter()
        .map(|(index, rows)| {
            let series = &plot.series[index];
            let dots: Vec<Value> = rows.iter().map(|row| json!([row.x, row.y, row.low, row.high, row.note])).collect();
            json!({ "at": index, "key": series.key, "who": series.who, "dots": dots })
        })
        .collect();
    let names: Vec<&str> = plot.keys.iter().map(|key| key.name.as_str()).collect();
    json!({ "slug": plot.slug, "x": plot.x.json(), "y": plot.y.json(), "keys": names, "series": series })
}
