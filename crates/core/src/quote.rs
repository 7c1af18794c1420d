//! Quoting of text for other languages: [`shell`], [`udev`], [`ini`], and [`one_line`] for comments.
//!
//! Names of interfaces and interrupts, and texts from files, may contain any character. If a language has no quoting
//! that all its readers understand, a text that would need quoting is refused (None).

use std::borrow::Cow;

/// Replaces a control character, which would end a line, control a terminal, or act as a key when pasted.
const REPLACEMENT: char = '\u{fffd}';

/// True for a character that is not displayed as itself: control characters, which end a line or control a terminal;
/// characters that XML does not allow; and characters of Unicode's category Cf that change the direction of text or
/// have no width, so that a text looks like another one (CVE-2021-42574).
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// The text on one line, safe as a comment in any of these languages: undisplayed characters become U+FFFD, and a
/// backslash at the end, which would join the next line, is followed by another character.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) && !text.ends_with('\\') {
        return Cow::Borrowed(text);
    }
    let mut line: String = text.chars().map(|c| if is_unseen(c) { REPLACEMENT } else { c }).collect();
    if line.ends_with('\\') {
        line.push('.');
    }
    Cow::Owned(line)
}

/// [`one_line`], cut to a length that fits into a message.
pub fn in_short(text: &str) -> String {
    cut(text, 120)
}

/// [`one_line`], cut to `most` characters.
pub fn cut(text: &str, most: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

/// One word for a POSIX shell, in scripts and on a terminal, quoted if necessary. A control character, which cannot be
/// quoted safely for a terminal, becomes U+FFFD: the command then names something that does not exist, and fails.
pub fn shell(word: &str) -> Cow<'_, str> {
    let safe: String = one_line_word(word);
    // Quoting fails only for NUL, a control character that has been replaced.
    let quoted = shlex::try_quote(&safe).map(Cow::into_owned).unwrap_or_default();
    if quoted == word { Cow::Borrowed(word) } else { Cow::Owned(quoted) }
}

/// Words for a POSIX shell, each quoted by [`shell`], separated by spaces.
pub fn shell_words<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(shell).collect::<Vec<_>>().join(" ")
}

/// Replaces control characters by U+FFFD. Unlike [`one_line`], leaves a backslash at the end as it is, and undisplayed
/// characters that are not control characters.
fn one_line_word(word: &str) -> String {
    word.chars().map(|c| if c.is_control() { REPLACEMENT } else { c }).collect()
}

/// Returns `text` if it can be the value of a udev rule without quoting. `None` if it is empty or has characters other
/// than letters, digits and `._@:,/+-`: udev interprets quotes and substitutions (`"`, `\`, `$`, `%`), patterns (`*`,
/// `?`, `[`, `|`), and separators of the words of RUN.
pub fn udev(text: &str) -> Option<&str> {
    only(text, "._@:,/+-")
}

/// Returns `text` if it can be a section, key or value of an INI file, as tuned and sysctl.d read it. `None` if it is
/// empty or has a character that may be interpreted: of comments, delimiters, patterns, tuned's variables and functions
/// (`${f:exec:...}`).
pub fn ini(text: &str) -> Option<&str> {
    only(text, "._@:,/+- ").filter(|text| text.trim() == *text)
}

fn only<'a>(text: &'a str, more: &str) -> Option<&'a str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    (!text.is_empty() && text.chars().all(plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_needs_no_quotes_has_none() {
        for word in ["eth0", "net.core.rmem_max", "/sys/class/net/eth0/mtu", "rx-usecs", "4096"] {
            assert_eq!(shell(word), word);
        }
        assert_eq!(shell("$(id>PWN)"), "'$(id>PWN)'");
        assert_eq!(shell(""), "''");
        assert_eq!(shell("a\nb"), shell("a\u{fffd}b"));
        assert_eq!(one_line("a\nid\\"), "a\u{fffd}id\\.");
    }

    /// Characters that change the direction of text, or have no width, would make a text look like another one.
    #[test]
    fn what_is_not_seen_is_replaced() {
        let unseen =
            ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{200b}', '\u{200f}', '\u{feff}', '\u{2028}', '\u{7}'];
        for c in unseen {
            assert_eq!(one_line(&format!("a{c}b")), "a\u{fffd}b", "U+{:04X}", u32::from(c));
        }
        for plain in ["µs – 5 %", "Gerät", "מסך", "網卡", "e\u{301}"] {
            assert_eq!(one_line(plain), plain);
        }
    }

    #[test]
    fn what_a_language_has_no_safe_form_for_is_refused() {
        for bad in ["\",RUN+=\"x", "a*", "a?", "[a]", "a|b", "$name", "%k", "a b", "a\\", "", "a\nb"] {
            assert_eq!(udev(bad), None, "{bad}");
        }
        for bad in ["${f:exec:id}", "a=b", "a\n[b]", "#a", ";a", " a", "[a]", ""] {
            assert_eq!(ini(bad), None, "{bad}");
        }
        assert_eq!(
            (udev("0000:18:00.0"), ini("4096 131072 1250000")),
            (Some("0000:18:00.0"), Some("4096 131072 1250000"))
        );
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(in_short("short"), "short");
        let long = in_short(&"é".repeat(61_000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (121, true));
    }

    proptest! {
        /// Parses the words by the shell's grammar (shlex); crates/host/tests runs a real shell.
        #[test]
        fn words_come_back(words in proptest::collection::vec(".{0,12}", 1..5)) {
            let clean: Vec<String> = words.iter().map(|word| one_line_word(word)).collect();
            let line = shell_words(words.iter().map(String::as_str));
            prop_assert!(!line.contains(char::is_control));
            prop_assert_eq!(shlex::split(&line), Some(clean));
        }

        #[test]
        fn a_line_stays_one(text in "(?s).{0,40}") {
            let line = one_line(&text);
            prop_assert!(!line.contains(is_unseen) && !line.ends_with('\\'));
        }
    }
}
