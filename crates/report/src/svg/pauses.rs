//! How often CPUs and sender were away, by length.

use netcliff_core::Finding;
use netcliff_core::finding::LengthBin;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Area, Caption, Drawn, GREY, INK, px};
use crate::sheet;

/// Height of a bar with its space, and of the title of a distribution [pixels].
const ROW: f64 = 17.0;
const TITLE: f64 = 24.0;
/// Where bars begin, and the longest of them [pixels].
const LEFT: f64 = 150.0;
const LONGEST: f64 = 560.0;
const BAR: RGBColor = RGBColor(0x00, 0x72, 0xb2);

/// A bar a bin; None where nothing was ever away, or nothing was measured.
pub fn pauses(finding: &Finding) -> Option<String> {
    let all = sheet::pause_lengths(finding);
    if all.is_empty() {
        return None;
    }
    let words: Vec<String> =
        sheet::disturbance(finding).iter().map(|(name, fact)| format!("{name}: {fact}.")).collect();
    let origin = super::origin(finding);
    let caption = Caption { title: "Times away, by length", origin: &origin, words: &words.join(" ") };
    let rows: usize = all.iter().map(|(_, bins)| bins.len()).sum();
    let height = 60.0 + TITLE * all.len() as f64 + ROW * rows as f64 + 12.0;
    Some(canvas::document(&caption, height.ceil() as i32, |area| draw(area, &all)))
}

fn draw(area: &Area<'_>, all: &[(&'static str, &[LengthBin])]) -> Drawn {
    let mut top = 60.0;
    for (name, bins) in all {
        canvas::label(area, (16.0, top), 13.0, &INK, HPos::Left, true, name)?;
        top += TITLE;
        let most = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1) as f64;
        for bin in *bins {
            canvas::label(area, (LEFT - 10.0, top), 12.0, &GREY, HPos::Right, false, &sheet::bin(bin))?;
            let length = bin.count as f64 / most * LONGEST;
            let corners = [(px(LEFT), px(top)), (px(LEFT + length.max(0.5)), px(top + ROW - 5.0))];
            area.draw(&Rectangle::new(corners, BAR.filled()))?;
            let count = bin.count.to_string();
            canvas::label(area, (LEFT + length + 8.0, top), 12.0, &INK, HPos::Left, false, &count)?;
            top += ROW;
        }
    }
    Ok(())
}
