//! Wraps text: [`lines`] for pages, [`sentences`] for text next to them. Lines break only at spaces, so not at a dash
//! inside `net-core` or `403-421`, and not at the space between a number and its unit.

use std::borrow::Cow;

use super::printable;

/// Wraps text into lines of at most `width` columns, with one indent for the first line and one for the others. A
/// longer word is divided after commas, and cut if it has none.
pub fn lines(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let room = width.saturating_sub(first.chars().count().max(rest.chars().count()));
    wrap(&at_commas(text, room), options(width).initial_indent(first).subsequent_indent(rest))
}

/// `text` in which each word that is longer than `room` has spaces after commas, so that its parts fit.
fn at_commas(text: &str, room: usize) -> String {
    let divided = |word: &str| {
        let (mut parts, mut used) = (String::new(), 0);
        for part in word.split_inclusive(',') {
            let length = part.chars().count();
            if used > 0 && used + length > room {
                parts.push(' ');
                used = 0;
            }
            parts.push_str(part);
            used += length;
        }
        parts
    };
    text.split(' ').map(divided).collect::<Vec<_>>().join(" ")
}

/// Divides a shell command into lines of at most `width` columns, at spaces outside quotes, each but the last with a
/// backslash at its end, so that the lines can be pasted. A longer word stays whole.
pub fn command(text: &str, width: usize, first: &str, rest: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in printable(text).chars() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
        if letter == ' ' && quote.is_none() {
            words.push(String::new());
        } else if let Some(word) = words.last_mut() {
            word.push(letter);
        }
    }
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words {
        // Two columns for the backslash.
        if !is_empty && line.chars().count() + 1 + word.chars().count() + 2 > width {
            lines.push(line + " \\");
            (line, is_empty) = (rest.to_owned(), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line += &word;
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Wraps each line of `text` at `width` columns. Continuation lines are indented by two more than their line. A word
/// that is longer than a line, such as a path to copy, stays whole.
pub fn sentences(text: &str, width: usize) -> String {
    let wrapped = |line: &str| {
        let own = " ".repeat(line.len() - line.trim_start_matches(' ').len());
        let rest = format!("{own}  ");
        wrap(
            line.trim_start_matches(' '),
            options(width).initial_indent(&own).subsequent_indent(&rest).break_words(false),
        )
    };
    let lines: Vec<String> = text.split('\n').flat_map(wrapped).collect();
    lines.join("\n")
}

fn options<'a>(width: usize) -> textwrap::Options<'a> {
    textwrap::Options::new(width)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
}

fn wrap(text: &str, options: textwrap::Options<'_>) -> Vec<String> {
    let kept = units_kept(&printable(text));
    textwrap::wrap(&kept, options).into_iter().map(|line: Cow<'_, str>| line.replace(NO_BREAK, " ")).collect()
}

const NO_BREAK: char = '\u{a0}';

/// `text` with a space that cannot break between a number and its unit.
fn units_kept(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut kept = String::new();
    for (index, word) in words.iter().enumerate() {
        let unit = word.trim_end_matches([',', '.', ';', ':', ')', ']']);
        let is_unit = ["%", "kpps", "Mpps", "us", "ms", "ns"].contains(&unit);
        let after_number = index > 0 && words[index - 1].ends_with(|c: char| c.is_ascii_digit());
        if index > 0 {
            kept.push(if is_unit && after_number { NO_BREAK } else { ' ' });
        }
        kept.push_str(word);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a command are the command again for a shell, and none is divided within quotes.
    #[test]
    fn commands_can_be_pasted() {
        let text = "echo 0 > /proc/irq/$(name=virtio2-input.0 awk '$NF \"\" == ENVIRON[\"name\"] { print $1 + 0 }' \
                    /proc/interrupts)/smp_affinity_list";
        for width in [60, 80, 200] {
            let lines = command(text, width, "    do:  ", "         ");
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
            assert_eq!(lines.join("\n").replace(" \\\n         ", " "), format!("    do:  {text}"));
            assert!(
                lines.iter().any(|line| line.contains("'$NF \"\" == ENVIRON[\"name\"] { print $1 + 0 }'")),
                "{lines:?}"
            );
        }
    }

    /// A number is not cut: `gro_flush_timeout=50us` is on one line.
    #[test]
    fn long_words_are_divided_after_commas() {
        let text = "a napi:defer_hard_irqs=2,gro_flush_timeout=50us b";
        assert_eq!(lines(text, 30, "- ", "  "), ["- a napi:defer_hard_irqs=2,", "  gro_flush_timeout=50us b"]);
        assert_eq!(lines(text, 60, "", ""), [text]);
        assert_eq!(lines("abcdefgh", 4, "", ""), ["abcd", "efgh"]);
        assert_eq!(lines("1,2,3,4,5", 4, "", ""), ["1,2,", "3,4,", "5"]);
    }

    #[test]
    fn sentences_go_on_indented() {
        let text = "netcliff: eth0 ring rx: 256 -> 512 packets within 12 ms\n  as it was";
        assert_eq!(sentences(text, 200), text);
        assert_eq!(sentences(text, 28), "netcliff: eth0 ring rx: 256\n  -> 512 packets within\n  12 ms\n  as it was",);
        let path = format!("netcliff: written to /{}", "long/".repeat(20));
        assert_eq!(sentences(&path, 30), path.replace("to /", "to\n  /"));
        assert_eq!(sentences("", 30), "");
        assert_eq!(sentences("a\n\nb\n", 30), "a\n\nb\n");
    }
}
