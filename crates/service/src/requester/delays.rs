//! [`Delays`]: times of a trial in which the requester itself was delayed, because it did not have its CPU. It then
//! sends all requests that have become due at once, and this burst may overflow the service's queues. Requests that are
//! due from the beginning of such a delay until its effect has ended are not counted.
//!
//! The effect of a delay has ended with the first answer, to a request that was sent in time after the burst, that took
//! no longer than half of the answers before the delay.

/// Number of answers that determine the usual time of an answer; with fewer, each answer counts as fast.
pub(super) const ENOUGH: u64 = 100;

/// A delay whose effect has not ended.
#[derive(Debug, Clone, Copy)]
struct Present {
    from_ns: u64,
    /// Due time of the last request that was sent late (ns).
    burst_ns: u64,
    /// Usual time of an answer (ns).
    usual_ns: u64,
}

/// The delays of a trial.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// (start, end) of the delays whose effect has ended (ns), by start.
    past: Vec<(u64, u64)>,
    present: Option<Present>,
}

impl Delays {
    /// Records that the request that was due at `due_ns` is sent late. `usual_ns`: the usual time of an answer.
    pub(super) fn late(&mut self, due_ns: u64, usual_ns: impl FnOnce() -> u64) {
        match &mut self.present {
            Some(present) => present.burst_ns = due_ns,
            None => self.present = Some(Present { from_ns: due_ns, burst_ns: due_ns, usual_ns: usual_ns() }),
        }
    }

    /// Records an answer, at `now_ns`, to the request that was due at `due_ns`.
    pub(super) fn answered(&mut self, due_ns: u64, now_ns: u64) {
        let has_ended =
            |present: &Present| due_ns > present.burst_ns && now_ns.saturating_sub(due_ns) <= present.usual_ns;
        if let Some(present) = self.present.filter(has_ended) {
            self.past.push((present.from_ns, now_ns));
            self.present = None;
        }
    }

    /// True if a request that is due at `due_ns` is not counted. The result is final once the request was sent.
    pub(super) fn affect(&self, due_ns: u64) -> bool {
        let past = self.past.iter().rev().find(|(from_ns, _)| *from_ns <= due_ns);
        self.present.is_some_and(|present| due_ns >= present.from_ns) || past.is_some_and(|(_, to_ns)| due_ns < *to_ns)
    }

    /// True if a delay or its effect overlaps the time (ns).
    pub(super) fn overlap(&self, from_ns: u64, to_ns: u64) -> bool {
        let present = self.present.map(|present| (present.from_ns, u64::MAX));
        self.past.iter().copied().chain(present).any(|(start_ns, end_ns)| start_ns < to_ns && from_ns < end_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    #[test]
    fn requests_count_again_when_answers_are_as_fast_as_before() {
        let mut delays = Delays::default();
        assert!(!delays.affect(90 * US));
        // Requests that were due at 100 and 300 us are sent at 500 us.
        delays.late(100 * US, || 50 * US);
        delays.late(300 * US, || unreachable!("the usual time is that before the delay"));
        assert!(delays.affect(100 * US) && delays.affect(600 * US) && !delays.affect(99 * US));
        // Answers to the burst, and a slow answer behind it, do not end the effect.
        delays.answered(300 * US, 310 * US);
        delays.answered(520 * US, 700 * US);
        assert!(delays.affect(9000 * US));
        delays.answered(690 * US, 740 * US);
        assert!(delays.affect(739 * US) && !delays.affect(740 * US) && !delays.affect(99 * US));
        assert!(
            delays.overlap(0, 101 * US) && delays.overlap(739 * US, 800 * US) && !delays.overlap(740 * US, 800 * US)
        );
    }

    #[test]
    fn the_last_delay_may_not_end() {
        let mut delays = Delays::default();
        delays.late(100 * US, || 50 * US);
        delays.answered(200 * US, 210 * US);
        delays.late(400 * US, || 50 * US);
        assert!(delays.affect(150 * US) && !delays.affect(300 * US) && delays.affect(9000 * US));
        assert!(delays.overlap(9000 * US, 9001 * US) && !delays.overlap(250 * US, 350 * US));
    }
}
