//! [`folded`]: merges sentences that differ only in their numbers.
//!
//! Numbers that name something, such as a CPU or the size of a write, are listed. Measured numbers become a range.

use std::fmt::Write as _;

use netcliff_core::units;

/// Characters that separate words and numbers.
const AROUND: [char; 6] = [' ', ',', ':', ';', '(', ')'];

/// Largest number of sizes or CPUs that are listed; more become a range.
const LISTED: usize = 6;

/// Merges sentences that differ only in their numbers, at the position of the first: sizes and CPUs that differ are
/// listed, each other number that differs is replaced by its range.
pub fn folded(sentences: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut groups: Vec<Vec<Vec<String>>> = Vec::new();
    for sentence in sentences {
        let words = words(&sentence);
        let group = groups.iter_mut().find(|group| alike(&group[0], &words));
        match group {
            Some(group) if group.contains(&words) => {}
            Some(group) => group.push(words),
            None => groups.push(vec![words]),
        }
    }
    groups.iter().map(|group| as_one(group)).collect()
}

/// Splits a sentence into words and separators; joined they give the sentence.
fn words(sentence: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut within = false;
    for letter in sentence.chars() {
        let around = AROUND.contains(&letter);
        match words.last_mut() {
            Some(word) if within && !around => word.push(letter),
            _ => words.push(letter.to_string()),
        }
        within = !around;
    }
    words
}

fn is_number(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
}

fn alike(one: &[String], other: &[String]) -> bool {
    let same = |(a, b): (&String, &String)| a == b || (is_number(a) && is_number(b));
    one.len() == other.len() && one.iter().zip(other).all(same)
}

fn as_one(group: &[Vec<String>]) -> String {
    let mut sentence = String::new();
    for at in 0..group[0].len() {
        let mut all: Vec<&str> = group.iter().map(|words| words[at].as_str()).collect();
        all.sort_by(|a, b| size(a).total_cmp(&size(b)));
        all.dedup();
        match all[..] {
            [ref others @ .., last] if all.len() > 1 && all.len() <= LISTED && is_name(&group[0], at) => {
                _ = write!(sentence, "{} or {last}", others.join(", "));
            }
            [least, .., greatest] => _ = write!(sentence, "{least} to {greatest}"),
            _ => sentence.push_str(all[0]),
        }
    }
    sentence
}

/// True if the number at this position names something: a CPU, or a size with its unit.
fn is_name(words: &[String], at: usize) -> bool {
    // The word before a list of numbers.
    let parts = words[..at].iter().rev().map(|word| word.trim_matches([' ', ',']));
    let before = parts.filter(|word| !word.is_empty()).find(|word| word.parse::<u64>().is_err());
    matches!(before, Some("CPU" | "CPUs"))
        || words[at].parse::<f64>().is_err() && units::parse_bytes(&words[at]).is_ok()
}

/// Numeric value of a word. A word with a unit is converted to bytes, seconds or bit/s. 0 if the word is not a number.
fn size(word: &str) -> f64 {
    let plain = word.parse().ok();
    let bytes = || units::parse_bytes(word).ok().map(|bytes| bytes as f64);
    plain
        .or_else(bytes)
        .or_else(|| units::parse_time_s(word).ok())
        .or_else(|| units::parse_bps(word).ok())
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::folded;

    fn of(sentences: &[&str]) -> Vec<String> {
        folded(sentences.iter().map(ToString::to_string))
    }

    #[test]
    fn numbers_that_differ_become_their_range() {
        let found = of(&[
            "write of 64KiB: the sender is busy",
            "2 CPUs: few",
            "write of 512B: the sender is busy",
            "write of 1MiB: the sender is busy",
            "write of 512B: the receiver is busy",
            "a load of 0.38 over 9 minutes",
            "a load of 12.5 over 9 minutes",
        ]);
        let one = [
            "write of 512B, 64KiB or 1MiB: the sender is busy",
            "2 CPUs: few",
            "write of 512B: the receiver is busy",
            "a load of 0.38 to 12.5 over 9 minutes",
        ];
        assert_eq!(found, one);
    }

    #[test]
    fn cpus_are_listed_and_many_sizes_are_a_range() {
        let busy = |size: u32, cpu: u32| format!("write of {size}B: CPU {cpu} was fully busy, with 3 CPUs");
        assert_eq!(
            folded([busy(512, 1), busy(512, 0), busy(64, 1)]),
            ["write of 64B or 512B: CPU 0 or 1 was fully busy, with 3 CPUs"]
        );
        let both = ["CPUs 0, 1 were busy", "CPUs 0, 2 were busy"];
        assert_eq!(folded(both.map(str::to_owned)), ["CPUs 0, 1 or 2 were busy"]);
        let many = folded((1..=7).map(|size| busy(size, 2)));
        assert_eq!(many, ["write of 1B to 7B: CPU 2 was fully busy, with 3 CPUs"]);
    }

    #[test]
    fn the_same_said_twice_is_one_and_other_words_are_another() {
        assert_eq!(of(&["eth0: 3 lost", "eth0: 3 lost", "eth1: 3 lost"]), ["eth0: 3 lost", "eth1: 3 lost"]);
        assert_eq!(of(&["", "ß (1)", "ß (2)"]), ["", "ß (1 to 2)"]);
    }
}
