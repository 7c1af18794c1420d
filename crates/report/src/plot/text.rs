//! Width of text without a font: the widths of Helvetica, which Arial and Liberation Sans share.

/// Widths of the printable ASCII characters from space on [1/1000 em] (Adobe's metrics of Helvetica).
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
];
/// Width of a character that is not in the table (the width of an arrow).
const OTHER: u16 = 1000;
/// Width of bold text relative to plain text.
const BOLD: f64 = 1.08;
/// Width of text in DejaVu Sans, the widest of the usual fonts and the only one of many servers, relative to Helvetica.
pub const WIDER: f64 = 1.13;

/// Width of `text` at the font size `size`, in the same unit as `size`.
pub fn width(text: &str, size: f64) -> f64 {
    let of = |c: char| {
        let place = (c as usize).checked_sub(' ' as usize);
        place.and_then(|place| WIDTHS.get(place)).copied().unwrap_or(OTHER)
    };
    text.chars().map(|c| f64::from(of(c))).sum::<f64>() * size / 1000.0
}

/// Width of bold text, otherwise like [`width`].
pub fn bold_width(text: &str, size: f64) -> f64 {
    BOLD * width(text, size)
}

/// Breaks `text` into lines that fit into the width `room` (in the unit of `size`) even in DejaVu Sans. A longer word
/// is cut, with an ellipsis.
pub fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let room = room / WIDER;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = cut(word, size, room);
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(&word, size) <= room => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Like [`wrapped`], but on at most `most` lines. An ellipsis shows that text was cut.
pub fn wrapped_to(text: &str, size: f64, room: f64, most: usize) -> Vec<String> {
    let mut lines = wrapped(text, size, room);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            let longer = format!("{last} …");
            *last = if width(&longer, size) <= room { longer } else { cut(&longer, size, room) };
        }
    }
    lines
}

/// The beginning of `text` that fits into the width `room` (in the unit of `size`). If text is cut off, it ends in an
/// ellipsis.
pub fn cut(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width(&kept, size) + width("…", size) > room {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_lose_no_word_before_the_ellipsis() {
        let text = "throughput of a host that forwards frames at 12 kpps";
        let lines = wrapped(text, 13.0, 120.0);
        assert!(lines.iter().all(|line| width(line, 13.0) <= 120.0), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        let short = wrapped_to(text, 13.0, 120.0, 2);
        assert_eq!(short.len(), 2);
        assert!(short[1].ends_with('…') && width(&short[1], 13.0) <= 120.0, "{short:?}");
        assert!(wrapped("incomprehensibilities", 13.0, 60.0)[0].ends_with('…'));
    }
}
