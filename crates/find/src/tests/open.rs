//! Searches without a bound on one side, and the reason that is reported.

use super::*;
use crate::fake::Through;
use netcliff_trial::bench::Highest;

/// A host whose sender is delayed by another program at loads above `above_pps`, far below the sender's ceiling. The
/// sender then sends only `offered_share` of the frames. `late`: some frames leave late, and their lateness may have
/// caused losses.
fn held_up(host: Fake, above_pps: f64, offered_share: f64, late: bool) -> impl Bench {
    let observe = move |host: &mut Fake, spec: &TrialSpec, metered| {
        let mut observation = host.observe(spec, metered)?;
        if spec.rate_pps > above_pps {
            observation.sides.offered_share = offered_share;
            observation.sides.reached_pps = offered_share * spec.rate_pps;
            if late {
                (observation.sides.lost, observation.sides.late) = (10, 20);
            }
        }
        Ok(observation)
    };
    Through { host, observe }
}

/// Three searches near 110 kpps.
fn searched(bench: &mut dyn Bench, ceiling_pps: f64) -> Cliffs {
    searched_to(bench, Highest::of_sender(ceiling_pps))
}

fn searched_to(bench: &mut dyn Bench, highest: Highest) -> Cliffs {
    cliff::search(bench, &question(highest)).unwrap()
}

/// The settings of three searches near 110 kpps.
pub(super) fn question(highest: Highest) -> Question {
    Question {
        reference: None,
        base: shape(0.4, 1),
        goal: quick(),
        range: stages::range(highest),
        limited: highest.is_limited(),
        near_pps: 110e3,
        capacity_pps: CAPACITY_PPS,
        searches: 3,
        most_trials: 1000,
        known: Vec::new(),
    }
}

/// If trials are void far below the sender's ceiling, the void trials are the reason, not the sender.
#[test]
fn void_trials_are_no_ceiling_of_the_sender() {
    for (offered_share, late, why) in
        [(0.9, false, "the sender fell behind"), (1.0, true, "the sender was delayed, and may have caused the loss")]
    {
        let mut bench = held_up(host(1), 117e3, offered_share, late);
        let cliffs = searched(&mut bench, 589e3);
        let said = cliffs.own().unwrap_err();
        assert!(said.starts_with("it is >= 1") && said.contains(&format!("were void: {why}")), "{said}");
        assert!(!said.contains("that the sender paces"), "{said}");
        let bounds = cliffs.summary().unwrap().own;
        assert!(bounds.lower_pps.is_some_and(|pps| pps < 118e3) && bounds.upper_pps.is_none(), "{bounds:?}");
        let ends: Vec<&str> = bounds.searches.iter().map(|search| search.end.as_str()).collect();
        // A search that spent its time on void trials ends out of time.
        assert!(ends.contains(&"above-void"), "{ends:?}");
        assert!(ends.iter().all(|end| ["above-void", "out-of-time"].contains(end)), "{ends:?}");
    }
}

/// If the sender cannot offer more than the host serves, the reason is the sender, with its highest load.
#[test]
fn a_sender_at_its_ceiling_is_said_to_be() {
    let mut slow = Fake { ceiling_pps: 150e3, ..host(1) };
    let cliffs = searched(&mut slow, 150e3);
    let said = cliffs.own().unwrap_err();
    assert!(
        said.ends_with(
            ": in 3 of 3 searches the highest load that the sender paces, 142kpps, lost no more than the limit allows"
        ),
        "{said}"
    );
    // Together with a working host the sender reaches slightly less than alone.
    let cliffs = searched(&mut slow, 165e3);
    assert!(cliffs.own().unwrap_err().contains("that the sender paces"), "{:?}", cliffs.own());
    assert!(cliffs.summary().unwrap().own.searches.iter().all(|search| search.end == "above-sender"));
}

/// If `--max-rate` is below the host's capacity, the reason is this limit, and no load exceeds it. If the sender does
/// not reach the limit, the reason is the sender.
#[test]
fn a_limit_of_the_load_is_said_to_be() {
    let highest = Highest { ceiling_pps: 60e3, most_pps: Some(60e3) };
    let cliffs = searched_to(&mut host(1), highest);
    let said = cliffs.own().unwrap_err();
    assert!(
        said.ends_with(
            ": in 3 of 3 searches the highest load that --max-rate allows, 60kpps, lost no more than the limit allows"
        ),
        "{said}"
    );
    assert!(cliffs.trials.iter().all(|(trial, _)| trial.spec.rate_pps <= 60e3 * (1.0 + 1e-9)));
    let slow = Highest { ceiling_pps: 60e3, most_pps: Some(90e3) };
    assert_eq!((highest.pps(), slow.pps(), slow.in_words()), (60e3, 60e3, "the sender's ceiling"));
    assert!(highest.is_limited() && !slow.is_limited());
    let said = searched_to(&mut Fake { ceiling_pps: 60e3, ..host(1) }, slow).own().unwrap_err();
    assert!(said.contains("that the sender paces"), "{said}");
}
