//! When two values of a setting are one.

/// Equal as the kernel sees it: spaces and tabs, leading zeros of CPU masks and the empty mask do not matter.
pub fn same(a: &str, b: &str) -> bool {
    let plain = |text: &str| -> Vec<String> { text.split_whitespace().map(without_zeros).collect() };
    plain(a) == plain(b)
}

/// Without what stands before the first digit that counts. The commas of a mask part groups of eight digits; those of a list
/// part CPUs or queues, of which 0 is one.
fn without_zeros(word: &str) -> String {
    let is_list = word.split(',').skip(1).any(|group| group.len() != 8);
    let bare = if is_list { word } else { word.trim_start_matches(['0', ',']) };
    if bare.is_empty() { "0".to_owned() } else { bare.to_owned() }
}
