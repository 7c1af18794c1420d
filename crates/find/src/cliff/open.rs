//! Describes in words why searches have no bound on one side ([`open()`]).

use netcliff_core::units;

use super::{Search, bracket, of};
use netcliff_mlrsearch::End;

/// Share of the highest load above which a sender counts as being at its maximum. The highest load was measured while
/// the host did no work; with a working host the sender reaches slightly less. A sender that is delayed by other
/// programs or a hypervisor may stop at any load.
const AT_CEILING: f64 = 0.8;

/// Returns how a search ended. If the sender fell behind far below its maximum, the sender's rate was not the limit:
/// the trials at higher loads were void.
pub(super) fn end(search: &Search, ceiling_pps: f64) -> Option<End> {
    let found = of(&search.searched)?;
    let at_ceiling = found.lower_pps.is_some_and(|lower_pps| lower_pps >= AT_CEILING * ceiling_pps);
    Some(match found.end {
        End::AboveSender if !at_ceiling => End::AboveVoid,
        end => end,
    })
}

/// Describes the bound that exists, and why the searches that lack a bound do so: each reason with its number of
/// searches. Used where at least half of the searches lack the same bound. All pages and messages describe a missing
/// cliff in these words. `highest`: (highest load of the searches (pps), whether `--max-rate` limits it).
pub(super) fn open(searches: &[Search], low: Option<f64>, high: Option<f64>, highest: (f64, bool)) -> String {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for search in searches {
        let Some(why) = why_open(search, highest) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all = searches.len();
    let each: Vec<String> = reasons.iter().map(|(why, count)| format!("in {count} of {all} searches {why}")).collect();
    // Three digits, as a bound is not known better.
    let pps = |pps: f64| units::print_pps(units::three_digits(pps));
    let bound = match (low, high) {
        (Some(low), _) => format!("it is >= {}: ", pps(low)),
        (None, Some(high)) => format!("it is <= {}: ", pps(high)),
        (None, None) => String::new(),
    };
    format!("{bound}{}", each.join("; "))
}

/// Why a search lacks a bound; `None`: it has both.
fn why_open(search: &Search, (ceiling_pps, limited): (f64, bool)) -> Option<String> {
    if let (Some(_), Some(_)) = bracket(&search.searched) {
        return None;
    }
    let void: u32 = search.void.values().sum();
    let most = search.void.iter().max_by_key(|(_, count)| **count).map(|(why, _)| why);
    // Three digits, as the sender's maximum is not known better.
    let ceiling = units::print_pps(units::three_digits(ceiling_pps));
    Some(match (end(search, ceiling_pps)?, most) {
        (End::AboveMaximum | End::AboveSender, _) if limited => {
            format!("the highest load that --max-rate allows, {ceiling}, lost no more than the limit allows")
        }
        (End::AboveMaximum | End::AboveSender, _) => {
            format!("the highest load that the sender paces, {ceiling}, lost no more than the limit allows")
        }
        (End::AboveVoid, Some(why)) => format!("all trials at higher loads were void: {why}"),
        (End::SenderTooSlow, _) => "the sender did not reach the lowest load".to_owned(),
        (End::BelowMinimum, _) => "even the lowest load lost more than the limit allows".to_owned(),
        (_, Some(why)) if 2 * void as usize > search.trials => {
            format!("most trials were void, and the time was over before there was a bound on both sides: {why}")
        }
        _ => "the time was over before there was a bound on both sides: loads passed and failed by chance".to_owned(),
    })
}
