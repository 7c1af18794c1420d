//! Lengths of pauses as bars of characters.

use netcliff_core::Finding;

use super::Style;
use crate::sheet;

/// Cells of the longest bar.
const LONGEST: u64 = 30;

/// A line a bin of each distribution; nothing where there was no pause.
pub fn lengths(finding: &Finding, style: Style) -> String {
    let block = if style.unicode { "█" } else { "#" };
    let mut text = String::new();
    for (name, bins) in sheet::pause_lengths(finding) {
        let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
        text.push_str(&format!("{name}, by length\n"));
        for bin in bins {
            // Rounded up: one of a thousand shows.
            let cells = if most > LONGEST { (bin.count * LONGEST).div_ceil(most) } else { bin.count };
            let bar = block.repeat(cells as usize);
            text.push_str(format!("  {:>14} {bar} {}", sheet::bin(bin), bin.count).trim_end());
            text.push('\n');
        }
    }
    text
}
