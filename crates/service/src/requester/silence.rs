//! [`Silence`]: records the times in which requests were outstanding and no answer came. In such a time the service did
//! not run: the hypervisor or other programs used its CPU, or the service itself waited.

use netcliff_core::verdict::LATE_NS;

use super::Window;
use super::log::SpanNs;
use crate::pauses::LEAST_SILENCE_S;

/// Shortest silence that is recorded (ns).
const LEAST_NS: u64 = (LEAST_SILENCE_S * 1e9) as u64;
/// Largest number of silences recorded in a trial; a service that is silent more often is overloaded.
const MOST: usize = 10_000;

/// Silences of a trial. A silence begins with the first request after an answer, so a request that was lost before does
/// not begin one.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Time of the first request since the last answer (ns); `None`: no request since the last answer.
    first_ns: Option<u64>,
    /// Sum of the requester's own delays since `first_ns` (ns).
    own_ns: u64,
    /// Start of the last turn of the requester's loop (ns).
    turn_ns: Option<u64>,
    /// (start, length) of each silence (ns).
    all: Vec<(u64, u64)>,
}

impl Silence {
    /// Records that the requester's loop begins a turn. If the previous turn was long, its time is the requester's own
    /// delay, not the service's.
    pub(super) fn turn(&mut self, now_ns: u64) {
        let took_ns = self.turn_ns.map_or(0, |turn_ns| now_ns.saturating_sub(turn_ns));
        if took_ns > LATE_NS {
            self.own_ns += took_ns;
        }
        self.turn_ns = Some(now_ns);
    }

    /// Records that a request is sent.
    pub(super) fn asked(&mut self, now_ns: u64) {
        if self.first_ns.is_none() {
            (self.first_ns, self.own_ns) = (Some(now_ns), 0);
        }
    }

    /// Records that an answer arrived.
    pub(super) fn answered(&mut self, now_ns: u64) {
        let Some(first_ns) = self.first_ns.take() else { return };
        // If the turn that reads the answer is long, its time is also the requester's own delay.
        let turn_ns = now_ns.saturating_sub(self.turn_ns.unwrap_or(now_ns).max(first_ns));
        let own_ns = self.own_ns + if turn_ns > LATE_NS { turn_ns } else { 0 };
        let length_ns = now_ns.saturating_sub(first_ns).saturating_sub(own_ns);
        if length_ns > LEAST_NS && self.all.len() < MOST {
            self.all.push((first_ns, length_ns));
        }
    }

    /// The parts of the silences within the window: (time from the window's opening to the start, length) (s). Silences
    /// that overlap one of the requester's `delays` are left out.
    pub(super) fn within(&self, window: &Window, delays: &[SpanNs]) -> Vec<(f64, f64)> {
        let part = |(from_ns, length_ns): &(u64, u64)| {
            let (from_ns, to_ns) = ((*from_ns).max(window.opens_ns), (from_ns + length_ns).min(window.closes_ns));
            let length_ns = to_ns.checked_sub(from_ns).filter(|length_ns| *length_ns > LEAST_NS)?;
            Some(((from_ns - window.opens_ns) as f64 * 1e-9, length_ns as f64 * 1e-9))
        };
        let is_own =
            |(from_ns, length_ns): &(u64, u64), delay: &SpanNs| delay.0 < from_ns + length_ns && *from_ns < delay.1;
        let counts = |silence: &&(u64, u64)| !delays.iter().any(|delay| is_own(silence, delay));
        self.all.iter().filter(counts).filter_map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const WINDOW: Window = Window { begins_ns: 0, opens_ns: 100 * MS, closes_ns: 200 * MS };

    fn within(silence: &Silence) -> Vec<(f64, f64)> {
        silence.within(&WINDOW, &[])
    }

    #[test]
    fn requests_without_an_answer_make_a_silence() {
        let mut silence = Silence::default();
        // A request that is answered at once; two requests, of which the first is answered after 3 ms; and a request
        // that is answered after exactly the shortest time, which is not recorded.
        for (asked, answered) in
            [(&[110 * MS][..], 110 * MS + 10), (&[120 * MS, 121 * MS], 123 * MS), (&[130 * MS], 130 * MS + LEAST_NS)]
        {
            asked.iter().for_each(|at_ns| silence.asked(*at_ns));
            silence.answered(answered);
            silence.answered(answered + MS / 2);
        }
        assert_eq!(within(&silence), [(0.02, 0.003)]);
    }

    #[test]
    fn silences_are_cut_to_the_window() {
        let mut silence = Silence::default();
        for (asked, answered) in [(90, 99), (98, 102), (199, 205), (210, 220)] {
            silence.asked(asked * MS);
            silence.answered(answered * MS);
        }
        assert_eq!(within(&silence), [(0.0, 0.002), (0.099, 0.001)]);
    }

    /// In 6 ms without an answer, the turns of the requester's loop took 4 ms and 2 ms, so all of this time is the
    /// requester's own delay.
    #[test]
    fn the_requester_s_own_delay_is_no_silence_of_the_service() {
        let mut silence = Silence::default();
        silence.turn(119 * MS);
        silence.turn(119 * MS + LATE_NS);
        silence.turn(120 * MS);
        silence.asked(120 * MS);
        silence.turn(124 * MS);
        silence.turn(124 * MS + 1);
        silence.turn(126 * MS);
        silence.answered(126 * MS);
        // The turn that reads the answer takes all of the 3 ms.
        silence.turn(130 * MS);
        silence.asked(130 * MS);
        silence.answered(133 * MS);
        assert_eq!(within(&silence), []);
    }
}
