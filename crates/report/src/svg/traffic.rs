//! Draws the offered traffic: load over time with a layer for each source, and a histogram of frame sizes with their
//! distribution.

use netcliff_lab::traffic::OfferedTraffic;

use crate::format::{self, Unit};
use crate::plot::{Dot, Key, Look, Plot, Scale, Series, Spread};

/// Width of a bar of the histogram (bytes).
const BAR_BYTES: u32 = 16;

/// A figure as files.
pub struct Files {
    /// Name without an ending.
    pub name: &'static str,
    /// The picture.
    pub svg: String,
    /// Values of the figure as CSV.
    pub csv: String,
}

/// The figures of a traffic: load over time, and frame sizes if they are known.
pub fn traffic(offered: &OfferedTraffic, origin: &str) -> Vec<Files> {
    let files = |name, plot: &Plot| Files { name, svg: plot.document(), csv: crate::plot::data::csv(plot) };
    let mut found = vec![files("load", &load(offered, origin))];
    if !offered.sizes.is_empty() {
        found.push(files("sizes", &sizes(offered, origin)));
    }
    found
}

/// The estimates of the Hurst parameter as sentences.
pub fn burstiness(offered: &OfferedTraffic) -> String {
    let estimate = |name: &str, figure: Option<netcliff_core::Figure>| {
        let figure = figure?;
        let ends = figure.interval.map(|ends| format!(" ({:.3} to {:.3})", ends.low, ends.high)).unwrap_or_default();
        Some(format!("{:.3}{ends} by {name}", figure.value))
    };
    let found = [
        estimate("aggregated variance", offered.hurst_aggregated_variance),
        estimate("wavelets", offered.hurst_wavelets),
        offered.hurst_theory.map(|theory| format!("{theory:.3} by theory for many sources over long times")),
    ];
    let found: Vec<String> = found.into_iter().flatten().collect();
    if found.is_empty() {
        return "Hurst parameter: none, the load does not vary".to_owned();
    }
    let slice = format::quantity(offered.slice_s, Unit::Seconds);
    format!(
        "Hurst parameter: {}; of {} series of {} slices of {slice}",
        found.join(", "),
        offered.hurst_series,
        offered.hurst_slices
    )
}

fn plot(slug: &str, title: &str, origin: &str, x: Scale, y: Scale) -> Plot {
    Plot {
        slug: slug.to_owned(),
        title: title.to_owned(),
        origin: format::printable(origin),
        words: String::new(),
        remarks: Vec::new(),
        x,
        y,
        keys: Vec::new(),
        series: Vec::new(),
        pointers: Vec::new(),
        levels: Vec::new(),
        stated: Vec::new(),
        forms: Vec::new(),
        notes: Vec::new(),
        empty: "no traffic".to_owned(),
    }
}

fn add(plot: &mut Plot, name: &str, look: Look, dots: Vec<Dot>) {
    plot.keys.push(Key { name: name.to_owned(), look });
    let key = plot.keys.len() - 1;
    plot.series.push(Series { key, who: String::new(), label: None, look, guide: false, dots });
}

fn load(offered: &OfferedTraffic, origin: &str) -> Plot {
    let slices = offered.all.len();
    let stacked = |slice: usize| offered.sources.iter().map(|source| source[slice]).sum::<f64>();
    let highest = (0..slices).map(|slice| stacked(slice).max(offered.all[slice])).fold(1.0, f64::max);
    let x = Scale::linear("time", Unit::Seconds, 0.0, slices as f64 * offered.slice_s);
    let mut plot =
        plot("load", "Offered load over time", origin, x, Scale::linear("load", Unit::Bps, 0.0, 1.05 * highest));
    let mut bases = vec![0.0; slices];
    for (number, source) in offered.sources.iter().enumerate() {
        let mut dots = Vec::new();
        for (slice, (bps, base)) in source.iter().zip(&mut bases).enumerate() {
            let middle_s = (slice as f64 + 0.5) * offered.slice_s;
            dots.push(Dot { base: *base, ..Dot::exact(middle_s, *bps) });
            *base += bps;
        }
        let look = Look { tone: number + 1, line: None, marker: None, spread: Spread::None, area: true };
        add(&mut plot, &format!("source {}", number + 1), look, dots);
    }
    if offered.sources.is_empty() {
        let dot = |(slice, bps): (usize, &f64)| Dot::exact((slice as f64 + 0.5) * offered.slice_s, *bps);
        add(&mut plot, "all", Look::line(0, 0, 1.4), offered.all.iter().enumerate().map(dot).collect());
    }
    plot.notes.push(burstiness(offered));
    plot.words = format!(
        "Load of {} in each of {slices} slices. {}",
        if offered.sources.is_empty() {
            "all packets".to_owned()
        } else {
            format!("{} sources, stacked,", offered.sources.len())
        },
        plot.notes[0]
    );
    plot
}

fn sizes(offered: &OfferedTraffic, origin: &str) -> Plot {
    let longest = offered.sizes.last().map_or(64, |(bytes, _)| *bytes);
    let x = Scale::linear("frame size", Unit::Bytes, 0.0, f64::from(longest + BAR_BYTES));
    let mut plot = plot("sizes", "Frame sizes", origin, x, Scale::linear("share of frames", Unit::Share, 0.0, 1.0));
    let mut bars = Vec::new();
    for bar in 0..=longest / BAR_BYTES {
        let (from, to) = (bar * BAR_BYTES, (bar + 1) * BAR_BYTES);
        let share: f64 =
            offered.sizes.iter().filter(|(bytes, _)| (from..to).contains(bytes)).map(|(_, share)| share).sum();
        bars.extend([Dot::exact(f64::from(from), share), Dot::exact(f64::from(to), share)]);
    }
    let look = Look { tone: 2, line: None, marker: None, spread: Spread::None, area: true };
    add(&mut plot, &format!("per {BAR_BYTES} bytes"), look, bars);
    let (mut below, mut steps) = (0.0, vec![Dot::exact(0.0, 0.0)]);
    for (bytes, share) in &offered.sizes {
        steps.push(Dot::exact(f64::from(*bytes), below));
        below += share;
        steps.push(Dot::exact(f64::from(*bytes), below));
    }
    add(&mut plot, "cumulative", Look::line(1, 0, 1.6), steps);
    let mean = offered.mean_bytes.map(|bytes| format!("mean {bytes:.1} bytes")).unwrap_or_default();
    plot.words = format!("Histogram and distribution of the frame sizes, {mean}.");
    plot.notes.push(mean);
    plot
}

#[cfg(test)]
mod tests {
    use netcliff_core::{Host, Point, Scheme, Traffic};

    use super::*;

    #[test]
    fn layers_sum_to_the_load_and_the_distribution_ends_at_one() {
        let traffic = Traffic {
            arrivals: "onoff:sources=3".parse().unwrap(),
            size: "mixture:64=3,1518=1".parse().unwrap(),
            ..Traffic::default()
        };
        let point = Point { traffic, ..Point::poisson(Host::pentium4_2530mhz(), Scheme::Ideal, 20e3) };
        let offered = OfferedTraffic::of(&point, 1, 1e-3, 0.95).unwrap();
        let plot = load(&offered, "");
        assert_eq!(plot.series.len(), 3);
        let last = plot.series[2].dots[7];
        let sum: f64 = offered.sources.iter().map(|source| source[7]).sum();
        assert!((last.base + last.y - sum).abs() < 1e-6);
        let sizes = sizes(&offered, "");
        assert!((sizes.series[1].dots.last().unwrap().y - 1.0).abs() < 1e-9);
        let bar = sizes.series[0].dots.iter().find(|dot| dot.x == 64.0 && dot.y > 0.0).unwrap();
        assert!((bar.y - 0.75).abs() < 1e-9);
        let files = traffic_names(&offered);
        assert_eq!(files, ["load", "sizes"]);
        assert!(burstiness(&offered).contains("by theory"));
    }

    fn traffic_names(offered: &OfferedTraffic) -> Vec<&'static str> {
        traffic(offered, "")
            .into_iter()
            .inspect(|file| assert!(file.svg.contains("</svg>")))
            .map(|file| file.name)
            .collect()
    }
}
