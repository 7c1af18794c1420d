//! The searches of a frame size: a single one, or one in each round.

use netcliff_core::Figure;

use super::{Asker, Device};
use crate::missing::{Ended, MissingFigure};
use crate::report::{GoalReport, Limit, SearchTurn, SizeReport};
use crate::settings::{SearchBy, Settings};
use netcliff_core::verdict::KEPT_UP_SHARE;
use netcliff_mlrsearch::binary::{self, Binary};
use netcliff_mlrsearch::mlr::{self, Mlr};
use netcliff_mlrsearch::trial::{Answer, Range, Request};
use netcliff_mlrsearch::{End, Found, Goal, Searched};
use netcliff_stats::contrast::Estimate;
use netcliff_stats::{self as stats, CONFIDENCE};

/// Highest requested load as a share of the sender's highest rate. At the full rate every trial would be void.
const SENDER_SHARE: f64 = 0.97;
/// Lowest load of a search, as a share of its highest load.
const LOWEST: f64 = 1e-3;

/// Returns the highest load that is requested (pps): the configured one if a sender that reached `sender_pps` keeps up
/// with it, otherwise 97 % of `sender_pps`.
pub(super) fn max_pps(settings: &Settings, sender_pps: f64) -> f64 {
    settings.max_pps.filter(|asked_pps| reaches(sender_pps, *asked_pps)).unwrap_or(SENDER_SHARE * sender_pps)
}

/// Whether a sender that reached `sender_pps` keeps up with the configured highest load `asked_pps` (pps). It is not
/// required to reach more: unless bursts are tested, the sender's rate is measured at no higher load.
fn reaches(sender_pps: f64, asked_pps: f64) -> bool {
    sender_pps >= KEPT_UP_SHARE * asked_pps
}

/// Makes one search of the size that the device is set to.
pub(super) fn search<D: Device>(
    settings: &Settings,
    round: u32,
    size: &mut SizeReport,
    asker: &mut Asker<'_, D>,
) -> Result<SearchTurn, D::Error> {
    let SizeReport { sender_pps, max_pps, .. } = *size;
    let turn = |searched| SearchTurn { round, sender_pps, max_pps, limit: None, searched };
    let (mut trials, mut void_trials, mut spent_s) = (Vec::new(), 0, 0.0);
    let mut ask = |request: Request| {
        let answer = asker.ask(request)?;
        spent_s += answer.length_s(request.duration_s);
        match answer {
            Answer::Valid(trial) => trials.push(trial),
            Answer::Void { .. } => void_trials += 1,
        }
        Ok(answer)
    };
    match searched(settings, max_pps, &mut ask) {
        Ok(searched) => {
            let turn = turn(searched);
            Ok(SearchTurn { limit: limit(settings, &turn, 0), ..turn })
        }
        Err(error) => {
            size.unfinished = Some(turn(Searched::interrupted(&settings.goals(), trials, void_trials, spent_s)));
            Err(error)
        }
    }
}

fn searched<E>(
    settings: &Settings,
    max_pps: f64,
    ask: &mut dyn FnMut(Request) -> Result<Answer, E>,
) -> Result<Searched, E> {
    let range = Range { min_pps: LOWEST * max_pps, max_pps };
    match settings.search {
        SearchBy::Binary => {
            let goal = settings.goal();
            let goal = Binary { trial_s: goal.final_trial_s, loss_ratio: goal.loss_ratio, width: goal.width };
            binary::search(goal, range, &mut |duration_s, load_pps| ask(Request::whole(duration_s, load_pps)))
        }
        SearchBy::Mlr | SearchBy::MlrTypical => {
            // With noise, a search may revise its bounds many times. This limit is long enough for any binary search.
            let goals = settings.goals();
            let at_most_s = Some(30.0 * goals.iter().map(|goal| goal.duration_sum_s).sum::<f64>());
            mlr::search_deciding(&Mlr { goals, range, start_pps: None, at_most_s }, ask)
        }
    }
}

/// What limited a search for the goal with this index, by how the search ended. `None` if the search found no limit.
pub(super) fn limit(settings: &Settings, turn: &SearchTurn, goal: usize) -> Option<Limit> {
    // True if the search's highest load was the one that the user configured, not the sender's limit.
    let below_sender = settings.max_pps.is_some_and(|asked_pps| reaches(turn.sender_pps, asked_pps));
    let found = turn.searched.found.get(goal)?;
    match found.end {
        End::Regular => Some(Limit::Device),
        // A higher load was offered and not forwarded, so the device is the limit, although the tester could not offer
        // the loads in between.
        End::AboveMaximum | End::AboveSender | End::AboveVoid if found.upper_pps.is_some() => Some(Limit::Device),
        End::AboveMaximum if below_sender => Some(Limit::Asked),
        End::AboveMaximum | End::AboveSender | End::AboveVoid => Some(Limit::Tester),
        End::BelowMinimum | End::SenderTooSlow | End::OutOfTime | End::Interrupted => None,
    }
}

/// The throughput that is missing because the run ended during a search of this size.
pub(super) fn interrupted(turn: &SearchTurn, settings: &Settings) -> MissingFigure {
    let which = if settings.searches > 1 { format!("search {}", turn.round) } else { "the search".to_owned() };
    let trials = turn.searched.trials.len() + turn.searched.void_trials as usize;
    let trials = if trials == 1 { "1 trial".to_owned() } else { format!("{trials} trials") };
    let why = format!("{which} ended early after {trials}; its bounds so far are no throughput");
    MissingFigure::new("throughput", why)
}

/// How a search ended without the requested bounds. `None` if nothing is missing.
fn ended(limit: Option<Limit>, end: End) -> Option<Ended> {
    match (limit, end) {
        (Some(Limit::Asked), _) => Some(Ended::AtMaximum),
        (Some(Limit::Tester), End::AboveVoid) => Some(Ended::BelowVoid),
        (Some(Limit::Tester), _) => Some(Ended::AtTester),
        (_, End::BelowMinimum) => Some(Ended::BelowMinimum),
        (_, End::SenderTooSlow) => Some(Ended::SenderTooSlow),
        (Some(Limit::Device), End::AboveMaximum | End::AboveSender | End::AboveVoid) => Some(Ended::Apart),
        (_, End::OutOfTime) => Some(Ended::OutOfTime),
        _ => None,
    }
}

/// Writes the results of the searches into the report of a size.
pub(super) fn settle(size: &mut SizeReport, turns: Vec<SearchTurn>, settings: &Settings) {
    if turns.is_empty() {
        return;
    }
    let asked = settings.searches;
    size.missing.extend(all_missing(&turns, settings, 0, "throughput"));
    if settings.goals.len() > 1 {
        let numbered = || settings.goals.iter().enumerate();
        let others = numbered().skip(1);
        size.missing.extend(others.flat_map(|(at, _)| all_missing(&turns, settings, at, &format!("goal {}", at + 1))));
        size.goals = numbered().map(|(at, goal)| of_goal(settings, &turns, at, *goal)).collect();
    }
    size.limit = turns.iter().filter_map(|turn| turn.limit).max();
    size.throughput = in_the_middle(&turns).map(|turn| turn.searched.clone());
    if asked > 1 {
        size.searches = turns;
        size.throughput_pps = mean(&size.bounds());
        let from_zero = |figure: &Figure| figure.interval.is_some_and(|ends| ends.low <= 0.0);
        if size.throughput_pps.as_ref().is_some_and(from_zero) {
            size.missing.push(MissingFigure::new("throughput", TOO_FEW));
        }
    }
}

/// The results of the searches for one goal.
fn of_goal(settings: &Settings, turns: &[SearchTurn], at: usize, goal: Goal) -> GoalReport {
    let found: Vec<&Found> = turns.iter().filter_map(|turn| turn.searched.found.get(at)).collect();
    let bounds: Vec<(f64, Option<f64>)> = turns.iter().filter_map(|turn| turn.searched.bounds_of(at)).collect();
    let limit = turns.iter().filter_map(|turn| limit(settings, turn, at)).max();
    if settings.searches > 1 {
        return GoalReport { goal, lower_pps: mean(&bounds), upper_pps: None, conditional_pps: None, limit };
    }
    let of = |figure: fn(&Found) -> Option<f64>| found.first().copied().and_then(figure);
    GoalReport {
        goal,
        lower_pps: of(|found| found.lower_pps).map(Figure::exact),
        upper_pps: of(|found| found.upper_pps),
        conditional_pps: of(|found| found.throughput_pps),
        limit,
    }
}

/// The search with the median lower bound; of an even number, the lower of the two in the middle. If no search has a
/// lower bound, the last search.
fn in_the_middle(turns: &[SearchTurn]) -> Option<&SearchTurn> {
    let lower = |turn: &&SearchTurn| turn.searched.bounds().map(|(lower, _)| lower);
    let mut had: Vec<(f64, &SearchTurn)> = turns.iter().filter_map(|turn| Some((lower(&turn)?, turn))).collect();
    had.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    had.get(had.len().saturating_sub(1) / 2).map(|(_, turn)| *turn).or(turns.last())
}

/// Warning about a mean whose interval starts at 0.
const TOO_FEW: &str =
    "the searches are too few, or too far apart, for their mean: its interval begins at 0; ask for more --searches";

/// Mean of the lower bounds with the interval that `compare` uses in its test, cut off at 0.
fn mean(bounds: &[(f64, Option<f64>)]) -> Option<Figure> {
    let lowers: Vec<f64> = bounds.iter().map(|(lower, _)| *lower).collect();
    let figure =
        Estimate::of_bounds(bounds).map(|estimate| estimate.figure(CONFIDENCE)).or_else(|| stats::mean(&lowers))?;
    Some(figure.not_negative())
}

/// Missing or limited results of the searches for a goal, which is named `figure`: each end once, with the number of
/// searches that ended so.
fn all_missing(turns: &[SearchTurn], settings: &Settings, goal: usize, figure: &str) -> Vec<MissingFigure> {
    let (made, asked) = (turns.len(), settings.searches);
    let ends = turns.iter().filter_map(|turn| ended(limit(settings, turn, goal), turn.searched.found.get(goal)?.end));
    let mut counted: Vec<(Ended, usize)> = Vec::new();
    for end in ends {
        match counted.iter_mut().find(|(known, _)| *known == end) {
            Some((_, count)) => *count += 1,
            None => counted.push((end, 1)),
        }
    }
    let of_end = |(end, count)| MissingFigure::of_searches(figure, end, (asked != 1).then_some((count, made)));
    let few = || MissingFigure::new("throughput", format!("{made} of {asked} searches were made"));
    let short = (goal == 0 && made < asked as usize).then(few);
    short.into_iter().chain(counted.into_iter().map(of_end)).collect()
}
