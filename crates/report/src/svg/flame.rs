//! [`flame`]: stacks as a flame graph. A box is a function, above the function that called it. Its width is the CPU
//! time with the function in the stack; its colour is the stage of that time. The tooltip of each box has name, time
//! and share, so that the file needs no script.

use std::collections::BTreeMap;

use maud::{Markup, html};
use netcliff_core::profile::{Folded, Stage};

use crate::format;

/// Width of the picture, height of a box, width of a letter, and the narrowest box that is drawn.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 17.0;
const LETTER: f64 = 6.6;
const NARROWEST: f64 = 0.3;
/// Room above for the title and the legend.
const TOP: f64 = 64.0;

/// A function in the tree of calls, below its caller.
#[derive(Default)]
struct Node {
    seconds: f64,
    by_stage: BTreeMap<Stage, f64>,
    called: BTreeMap<String, Node>,
}

impl Node {
    fn add(&mut self, frames: &[String], one: &Folded) {
        self.seconds += one.seconds;
        *self.by_stage.entry(one.stage).or_default() += one.seconds;
        if let [first, rest @ ..] = frames {
            self.called.entry(first.clone()).or_default().add(rest, one);
        }
    }

    fn depth(&self, least_s: f64) -> usize {
        let called = self.called.values().filter(|node| node.seconds >= least_s);
        called.map(|node| 1 + node.depth(least_s)).max().unwrap_or(0)
    }

    /// The stage with most of this function's time.
    fn stage(&self) -> Stage {
        self.by_stage.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or(Stage::Unknown, |(stage, _)| *stage)
    }
}

/// Hue, saturation and lightness of a stage: neighbours on the path differ.
fn colour(stage: Stage) -> String {
    let at = Stage::ALL.iter().position(|one| *one == stage).unwrap_or(0);
    match stage {
        Stage::Unknown => "hsl(0,0%,62%)".to_owned(),
        Stage::Other => "hsl(0,0%,80%)".to_owned(),
        _ => format!("hsl({},65%,{}%)", at * 137 % 360, if at % 2 == 0 { 72 } else { 62 }),
    }
}

/// The flame graph of stacks.
pub fn flame(title: &str, stacks: &[Folded]) -> String {
    let mut root = Node::default();
    for one in stacks {
        root.add(&one.stack, one);
    }
    let least_s = NARROWEST / WIDTH * root.seconds;
    let height = TOP + HEIGHT * (root.depth(least_s) + 1) as f64;
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height}")) width=(WIDTH) height=(height) font-family="monospace" font-size="11" {
            rect width="100%" height="100%" fill="#fff" {}
            text x="8" y="18" font-size="14" { (format::printable(title)) }
            (legend(root.by_stage.keys()))
            @if root.seconds > 0.0 { (boxes("all", &root, (0.0, height - HEIGHT), root.seconds, least_s)) }
        }
    };
    markup.into_string() + "\n"
}

fn legend<'a>(stages: impl Iterator<Item = &'a Stage>) -> Markup {
    let (mut x, mut y) = (8.0, 26.0);
    let entry = |stage: &Stage| {
        let wide = 18.0 + LETTER * stage.title().len() as f64 + 10.0;
        if x + wide > WIDTH {
            (x, y) = (8.0, y + 16.0);
        }
        let markup = html! {
            rect x=(format!("{x:.1}")) y=(format!("{y:.1}")) width="12" height="12" fill=(colour(*stage)) {}
            text x=(format!("{:.1}", x + 16.0)) y=(format!("{:.1}", y + 10.0)) { (stage.title()) }
        };
        x += wide;
        markup
    };
    html! { @for entry in stages.map(entry) { (entry) } }
}

/// The box of a function at a place, and above it the boxes of the functions that it called.
fn boxes(name: &str, node: &Node, (x, y): (f64, f64), all_s: f64, least_s: f64) -> Markup {
    let name = format::printable(name);
    let width = node.seconds / all_s * WIDTH;
    let letters = ((width - 4.0) / LETTER) as usize;
    let mut at = x;
    let mut above = |(name, called): (&String, &Node)| {
        let place = (at, y - HEIGHT);
        at += called.seconds / all_s * WIDTH;
        (called.seconds >= least_s).then(|| boxes(name, called, place, all_s, least_s))
    };
    html! {
        g {
            title {
                (name) ": " (format::quantity(node.seconds, format::Unit::Seconds)) ", " (format::share(node.seconds / all_s))
                " (" (node.stage().title()) ")"
            }
            rect x=(format!("{x:.2}")) y=(format!("{y:.1}")) width=(format!("{width:.2}")) height=(format!("{:.1}", HEIGHT - 1.0))
                fill=(colour(node.stage())) stroke="#fff" stroke-width="0.4" {}
            @if letters >= 3 {
                text x=(format!("{:.2}", x + 2.0)) y=(format!("{:.1}", y + 12.0)) { (name.chars().take(letters).collect::<String>()) }
            }
        }
        @for markup in node.called.iter().filter_map(&mut above) { (markup) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(stack: &[&str], stage: Stage, seconds: f64) -> Folded {
        let stack = stack.iter().map(|frame| (*frame).to_owned()).collect();
        Folded { stack, stage, counted: true, samples: 1, seconds }
    }

    #[test]
    fn a_box_is_as_wide_as_its_time_and_tells_its_stage() {
        let text = flame(
            "a <title>",
            &[
                folded(&["iperf3", "tcp_recvmsg", "_copy_to_iter"], Stage::Copy, 0.75),
                folded(&["iperf3", "tcp_recvmsg"], Stage::Transport, 0.25),
            ],
        );
        assert!(text.contains("a &lt;title&gt;") && !text.contains("<title>a <"), "{text}");
        assert!(text.contains("<title>_copy_to_iter: 750 ms, 75.0 % (copy)</title>"), "{text}");
        assert!(text.contains("width=\"900.00\""), "{text}");
        assert!(text.contains("<title>iperf3: 1.00 s, 100 % (copy)</title>"), "{text}");
        assert!(flame("none", &[]).ends_with("</svg>\n"));
    }
}
