//! The search for a cliff: coarse upwards, then bisection. Pure: what a trial does is the caller's.

/// What one trial at one load said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Loss at or below the target.
    Passed,
    /// Loss above the target.
    Failed,
    /// The sender did not reach the load: nothing may be concluded about the receiver.
    SenderLimited,
}

/// How far to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// First load tried (pps).
    pub start_pps: f64,
    /// Highest load worth trying (pps).
    pub ceiling_pps: f64,
    /// Factor between coarse loads, above 1.
    pub factor: f64,
    /// Relative width of the bracket at which bisection ends.
    pub width: f64,
}

/// Where the cliff lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cliff {
    /// Between the highest load that passed and the lowest that failed above it (pps).
    Bracket {
        /// Passed.
        passed_pps: f64,
        /// Failed.
        failed_pps: f64,
    },
    /// Everything up to this load passed, and the sender or the range ended there (pps).
    Above {
        /// Highest load that passed.
        passed_pps: f64,
    },
    /// Even this lowest load failed (pps).
    Below {
        /// Lowest load that failed.
        failed_pps: f64,
    },
}

impl Cliff {
    /// The highest load seen to pass with a failure above it (pps); None where the cliff was not reached.
    pub fn passed_pps(&self) -> Option<f64> {
        match self {
            Self::Bracket { passed_pps, .. } => Some(*passed_pps),
            Self::Above { .. } | Self::Below { .. } => None,
        }
    }
}

/// How often the start is lowered when it fails, before giving up.
const LOWERINGS: u32 = 6;

/// Brackets the cliff by growing loads, lowering the start while it fails, then bisects geometrically.
/// Every error of `trial` ends the search.
pub fn cliff<E>(range: Range, mut trial: impl FnMut(f64) -> Result<Verdict, E>) -> Result<Cliff, E> {
    let mut load = range.start_pps.min(range.ceiling_pps);
    let mut failed = None;
    for _ in 0..LOWERINGS {
        match trial(load)? {
            Verdict::Passed => return upwards(range, load, failed, trial),
            // A sender that is too slow even here cannot show a cliff further up; look below.
            Verdict::SenderLimited => {}
            Verdict::Failed => failed = Some(load),
        }
        load /= range.factor;
    }
    Ok(Cliff::Below { failed_pps: failed.unwrap_or(load) })
}

fn upwards<E>(
    range: Range,
    mut passed: f64,
    mut failed: Option<f64>,
    mut trial: impl FnMut(f64) -> Result<Verdict, E>,
) -> Result<Cliff, E> {
    while failed.is_none() {
        let next = passed * range.factor;
        if next > range.ceiling_pps {
            return Ok(Cliff::Above { passed_pps: passed });
        }
        match trial(next)? {
            Verdict::Passed => passed = next,
            Verdict::Failed => failed = Some(next),
            Verdict::SenderLimited => return Ok(Cliff::Above { passed_pps: passed }),
        }
    }
    let mut failed = failed.unwrap_or(passed);
    while failed / passed > 1.0 + range.width {
        let middle = (passed * failed).sqrt();
        match trial(middle)? {
            Verdict::Passed => passed = middle,
            Verdict::Failed => failed = middle,
            Verdict::SenderLimited => return Ok(Cliff::Above { passed_pps: passed }),
        }
    }
    Ok(Cliff::Bracket { passed_pps: passed, failed_pps: failed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RANGE: Range = Range { start_pps: 100e3, ceiling_pps: 2e6, factor: 1.3, width: 0.02 };

    fn search(truth_pps: f64, sender_pps: f64) -> (Cliff, Vec<f64>) {
        let mut tried = Vec::new();
        let result: Result<Cliff, ()> = cliff(RANGE, |load| {
            tried.push(load);
            Ok(match load {
                load if load > sender_pps => Verdict::SenderLimited,
                load if load > truth_pps => Verdict::Failed,
                _ => Verdict::Passed,
            })
        });
        (result.unwrap(), tried)
    }

    proptest! {
        #[test]
        fn a_sharp_cliff_is_bracketed_to_the_width(truth in 27e3..1.4e6f64) {
            let (cliff, tried) = search(truth, f64::INFINITY);
            let Cliff::Bracket { passed_pps, failed_pps } = cliff else { panic!("{cliff:?}") };
            prop_assert!(passed_pps <= truth && truth < failed_pps);
            prop_assert!(failed_pps / passed_pps <= 1.02 + 1e-12);
            prop_assert!(tried.len() < 20);
        }
    }

    #[test]
    fn a_sender_limit_is_never_read_as_a_receiver_limit() {
        let (cliff, _) = search(800e3, 500e3);
        assert!(matches!(cliff, Cliff::Above { passed_pps } if passed_pps <= 500e3), "{cliff:?}");
        assert_eq!(cliff.passed_pps(), None);
        let (cliff, _) = search(1e9, f64::INFINITY);
        assert!(matches!(cliff, Cliff::Above { passed_pps } if passed_pps > 2e6 / 1.3), "{cliff:?}");
    }

    #[test]
    fn a_host_that_always_loses_is_said_to_be_below() {
        assert!(matches!(search(0.0, f64::INFINITY).0, Cliff::Below { failed_pps } if failed_pps < 100e3));
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(cliff(RANGE, |_| Err("stopped")), Err("stopped"));
    }
}
