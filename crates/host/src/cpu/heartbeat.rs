//! Pauses of a CPU: times without a heartbeat although something was running.
//!
//! A heartbeat is a transition that the eBPF programs see (interrupt, softirq, poll, task switch), or a beat of one of
//! netcliff's own threads: the loop that keeps the CPU awake, the sink, the sender. Threads write their clock to a word
//! that they share with the programs. If a program at its next transition, or a thread at its next beat, finds the last
//! heartbeat longer ago than [`PAUSE_NS`], it records the time between as a pause. Time of interrupts, softirqs and
//! other tasks is therefore never included; a pause is time taken from outside: by the hypervisor, the firmware (SMI),
//! or an unusually long handler.
//!
//! On a slow host, such as an emulated guest, one poll may take longer than [`PAUSE_NS`]: the programs then determine
//! from polls what is longer than any of them (bpf/cpu.bpf.c, `learn_shortest_pause`).
//!
//! Without the programs only the loop that keeps the CPU awake beats ([`Heartbeat::plain`]); a pause is then a gap of
//! more than [`PLAIN_PAUSE_NS`] in which no other task ran.
//!
//! Not detected: shorter pauses; pauses of a CPU that halts, as nothing shows when it should have woken; pauses during
//! other tasks and during softirqs other than NET_RX. A reader that knows when interrupts were due can request all times
//! without a transition while the CPU is idle or runs a watched task ([`Heartbeat::record_all_gaps`]).

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// Shortest pause reported (ns). It exceeds the longest kernel work between two heartbeats (a poll of 64 packets into a
/// full socket takes 130 us), and is less than a tenth of what a backlog of 1000 packets bridges at 300 kpps.
/// bpf/cpu.bpf.c has the same value.
pub const PAUSE_NS: u64 = 250_000;

/// Shortest pause reported without eBPF programs (ns). It exceeds the longest softirq: the kernel starts no further
/// action after 2 ms, and the last action ends after 300 packets.
pub const PLAIN_PAUSE_NS: u64 = 3_000_000;

/// Most pauses recorded by threads; older ones are dropped.
const MOST_NOTED: usize = 10_000;

/// A time in which a CPU did not run [ns of `CLOCK_MONOTONIC`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Last heartbeat before it.
    pub from_ns: u64,
    /// First heartbeat after it.
    pub to_ns: u64,
}

/// A time in which a CPU ran a task other than the application and the kernel's network threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The time, including softirqs during it.
    pub time: Pause,
    /// Name of the task, as `ps` prints it.
    pub task: String,
}

/// Words shared by threads and programs for a CPU. Times are in ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy)]
pub(super) struct Words {
    /// Last beat of the threads.
    pub(super) alive: NonNull<AtomicU64>,
    /// Last transition seen by the programs.
    pub(super) last: NonNull<AtomicU64>,
    /// Shortest pause as determined by the programs (ns); 0 until then.
    pub(super) shortest: NonNull<AtomicU64>,
    /// Not 0: the programs record all times without a transition while the CPU is idle or runs a watched task.
    pub(super) all_gaps: NonNull<AtomicU64>,
}

/// Memory with a CPU's heartbeats. It outlives every [`Heartbeat`].
pub(super) trait Signs: fmt::Debug + Send + Sync {
    /// The words that threads and programs write.
    fn words(&self) -> Words;
    /// The latest pauses that the programs recorded.
    fn noted(&self) -> Vec<Pause>;
    /// The latest visits of other tasks that the programs recorded.
    fn visits(&self) -> Vec<Visit>;
}

/// The heartbeat of threads on one CPU. Cheap to clone; the default records nothing.
#[derive(Clone, Default)]
pub struct Heartbeat(Option<Arc<Inner>>);

struct Inner {
    shared: Option<Shared>,
    noted: Mutex<Vec<Pause>>,
    kept_awake: AtomicBool,
    turns: AtomicU64,
    turned_ns: AtomicU64,
}

/// Memory shared by threads and programs.
struct Shared {
    words: Words,
    signs: Box<dyn Signs>,
}

impl Shared {
    /// One of the words.
    fn word(&self, of: impl Fn(&Words) -> NonNull<AtomicU64>) -> &AtomicU64 {
        // SAFETY: the memory lives as long as `signs`; the words are only accessed as atomics on this side, and the
        // programs write aligned words.
        unsafe { of(&self.words).as_ref() }
    }

    fn shortest_ns(&self) -> u64 {
        self.word(|words| words.shortest).load(Ordering::Relaxed).max(PAUSE_NS)
    }
}

// SAFETY: the pointers are to atomics in memory owned by `signs`, which is Send and Sync.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Speed of a CPU at a fixed piece of work: the difference of two [`Heartbeat::turns`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Number of pieces of work that were not interrupted.
    pub count: u64,
    /// Total time of these pieces of work (ns).
    pub ns: u64,
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Heartbeat").field(&self.0.as_ref().map(|inner| inner.shared.is_some())).finish()
    }
}

impl Heartbeat {
    #[cfg_attr(not(have_bpf), allow(dead_code, reason = "the memory is the programs'"))]
    pub(super) fn new(signs: Box<dyn Signs>) -> Self {
        let words = signs.words();
        Self::of(Some(Shared { words, signs }))
    }

    /// Returns a heartbeat without eBPF programs: only the loop that keeps the CPU awake beats.
    pub fn plain() -> Self {
        Self::of(None)
    }

    fn of(shared: Option<Shared>) -> Self {
        Self(Some(Arc::new(Inner {
            shared,
            noted: Mutex::default(),
            kept_awake: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            turned_ns: AtomicU64::new(0),
        })))
    }

    /// Shortest pause that is recorded (ns); `None` if this heartbeat records nothing.
    pub fn shortest_ns(&self) -> Option<u64> {
        let inner = self.0.as_ref()?;
        Some(inner.shared.as_ref().map_or(PLAIN_PAUSE_NS, Shared::shortest_ns))
    }

    /// Records that the calling thread runs at `now_ns` of `CLOCK_MONOTONIC`. While it runs, it must be called more
    /// often than every [`PAUSE_NS`].
    #[inline]
    pub fn beat(&self, now_ns: u64) {
        let Some((inner, shared)) = self.0.as_ref().and_then(|inner| Some((inner, inner.shared.as_ref()?))) else {
            return;
        };
        let (alive, last) = (shared.word(|words| words.alive), shared.word(|words| words.last));
        let before = alive.load(Ordering::Relaxed).max(last.load(Ordering::Relaxed));
        alive.store(now_ns, Ordering::Relaxed);
        let away_ns = now_ns.saturating_sub(before);
        if away_ns > PAUSE_NS && away_ns > shared.shortest_ns() {
            inner.note(Pause { from_ns: before, to_ns: now_ns });
        }
    }

    /// Discards earlier beats: the calling thread starts to beat now.
    pub fn begin(&self, now_ns: u64) {
        if let Some(shared) = self.0.as_ref().and_then(|inner| inner.shared.as_ref()) {
            shared.word(|words| words.alive).store(now_ns, Ordering::Relaxed);
        }
    }

    /// Makes the programs record each time of more than [`PAUSE_NS`] without a transition while the CPU is idle or runs a
    /// watched task, whether this task beats or not, and each such time between two NET_RX softirqs if the CPU is idle at
    /// its end. Such a time is a pause only if an interrupt was due: the CPU did not run, or the hypervisor delivered the
    /// interrupt late. Without programs, nothing changes.
    pub fn record_all_gaps(&self) {
        if let Some(shared) = self.0.as_ref().and_then(|inner| inner.shared.as_ref()) {
            shared.word(|words| words.all_gaps).store(1, Ordering::Relaxed);
        }
    }

    /// True if only the loop that keeps the CPU awake beats; the loop then records pauses by [`Heartbeat::note`].
    pub(crate) fn is_plain(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.shared.is_none())
    }

    /// Records a pause that the loop detected.
    pub(crate) fn note(&self, pause: Pause) {
        if let Some(inner) = &self.0 {
            inner.note(pause);
        }
    }

    /// Records a piece of work that the loop did in `ns` without being interrupted.
    #[inline]
    pub(crate) fn turned(&self, ns: u64) {
        if let Some(inner) = &self.0 {
            // There is one loop per CPU: a load and a store suffice.
            inner.turns.store(inner.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            inner.turned_ns.store(inner.turned_ns.load(Ordering::Relaxed) + ns, Ordering::Relaxed);
        }
    }

    /// Pieces of work done so far by the loop that keeps the CPU awake.
    pub fn turns(&self) -> Turns {
        let Some(inner) = &self.0 else { return Turns::default() };
        Turns { count: inner.turns.load(Ordering::Relaxed), ns: inner.turned_ns.load(Ordering::Relaxed) }
    }

    /// Sets whether the CPU is kept from halting: only then are its pauses complete.
    pub fn set_kept_awake(&self, kept: bool) {
        if let Some(inner) = &self.0 {
            inner.kept_awake.store(kept, Ordering::Relaxed);
        }
    }

    /// True if something keeps the CPU from halting.
    pub fn is_kept_awake(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.kept_awake.load(Ordering::Relaxed))
    }

    /// The pauses that end after `from_ns` and begin before `to_ns`, in order, with overlapping ones merged.
    pub fn pauses(&self, from_ns: u64, to_ns: u64) -> Vec<Pause> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let mut all = inner.shared.as_ref().map(|shared| shared.signs.noted()).unwrap_or_default();
        all.extend(inner.noted.lock().unwrap_or_else(PoisonError::into_inner).iter());
        // Also removes pauses that were recorded before the programs had determined how long a poll takes on this host.
        let shortest_ns = inner.shared.as_ref().map_or(0, Shared::shortest_ns);
        all.retain(|pause| pause.overlaps(from_ns, to_ns) && pause.to_ns - pause.from_ns > shortest_ns);
        let spans = all.iter().map(|pause| (pause.from_ns, pause.to_ns)).collect();
        merged(spans).into_iter().map(|(from_ns, to_ns)| Pause { from_ns, to_ns }).collect()
    }

    /// Visits of other tasks longer than [`PAUSE_NS`] that end after `from_ns` and begin before `to_ns`, in order;
    /// `None` without eBPF programs.
    pub fn visits(&self, from_ns: u64, to_ns: u64) -> Option<Vec<Visit>> {
        let mut all = self.0.as_ref()?.shared.as_ref()?.signs.visits();
        all.retain(|visit| visit.time.overlaps(from_ns, to_ns));
        all.sort_by_key(|visit| visit.time.from_ns);
        Some(all)
    }
}

impl Pause {
    /// Whether the pause overlaps the interval; false for unused entries of the programs' memory.
    fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        self.from_ns < self.to_ns && self.to_ns > from_ns && self.from_ns < to_ns
    }
}

impl Inner {
    #[cold]
    fn note(&self, pause: Pause) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() == MOST_NOTED {
            noted.drain(..MOST_NOTED / 2);
        }
        noted.push(pause);
    }
}

/// Sorts times (start, end) \[ns\], and merges those that overlap, such as a pause that both a program and a thread
/// recorded. Times that only touch stay apart: the CPU ran between two pauses of which one ends when the next begins.
pub fn merged(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.0 < last.1 => last.1 = last.1.max(span.1),
            _ => merged.push(span),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heartbeats without programs.
    #[derive(Debug)]
    struct Plain {
        words: Box<[AtomicU64; 4]>,
        noted: Vec<Pause>,
    }

    impl Signs for Plain {
        fn words(&self) -> Words {
            let [alive, last, shortest, all_gaps] = self.words.each_ref().map(NonNull::from);
            Words { alive, last, shortest, all_gaps }
        }

        fn noted(&self) -> Vec<Pause> {
            self.noted.clone()
        }

        fn visits(&self) -> Vec<Visit> {
            let visit = |pause: &Pause| Visit { time: *pause, task: "cron".to_owned() };
            self.noted.iter().rev().map(visit).collect()
        }
    }

    fn heartbeat(last_ns: u64, noted: Vec<Pause>) -> Heartbeat {
        of_a_host(last_ns, 0, noted)
    }

    fn of_a_host(last_ns: u64, shortest_ns: u64, noted: Vec<Pause>) -> Heartbeat {
        let words = Box::new([0, last_ns, shortest_ns, 0].map(AtomicU64::new));
        Heartbeat::new(Box::new(Plain { words, noted }))
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn times_that_overlap_are_merged_and_those_that_touch_are_not() {
        assert_eq!(merged(vec![(5, 7), (1, 3), (2, 4), (7, 9)]), [(1, 4), (5, 7), (7, 9)]);
    }

    #[test]
    fn a_gap_without_any_sign_is_a_pause() {
        let heart = heartbeat(0, Vec::new());
        heart.begin(10 * MS);
        for now_ns in [10 * MS + PAUSE_NS, 20 * MS, 20 * MS + PAUSE_NS, 30 * MS] {
            heart.beat(now_ns);
        }
        let (first, second) = (
            Pause { from_ns: 10 * MS + PAUSE_NS, to_ns: 20 * MS },
            Pause { from_ns: 20 * MS + PAUSE_NS, to_ns: 30 * MS },
        );
        assert_eq!(heart.pauses(0, u64::MAX), [first, second]);
        assert_eq!(heart.pauses(20 * MS, 21 * MS), [second], "that of the window alone");
        assert_eq!(heart.pauses(15 * MS, 16 * MS), [first], "which may reach beyond it");
    }

    #[test]
    fn what_a_transition_explains_is_none() {
        let heart = heartbeat(19 * MS + MS / 2, Vec::new());
        heart.begin(10 * MS);
        heart.beat(19 * MS + MS / 2 + PAUSE_NS);
        assert_eq!(heart.pauses(0, u64::MAX), []);
        let other = heartbeat(19 * MS, Vec::new());
        other.begin(10 * MS);
        other.beat(20 * MS);
        assert_eq!(
            other.pauses(0, u64::MAX),
            [Pause { from_ns: 19 * MS, to_ns: 20 * MS }],
            "from the last transition on"
        );
    }

    /// On a host whose polls were observed to take up to 1 ms, gaps of that length are not pauses.
    #[test]
    fn a_slow_host_s_polls_are_none() {
        let noted = vec![Pause { from_ns: 2 * MS, to_ns: 3 * MS }, Pause { from_ns: 5 * MS, to_ns: 8 * MS }];
        let heart = of_a_host(0, 2 * MS, noted);
        heart.begin(10 * MS);
        for now_ns in [12 * MS, 14 * MS + 1] {
            heart.beat(now_ns);
        }
        let long = [Pause { from_ns: 5 * MS, to_ns: 8 * MS }, Pause { from_ns: 12 * MS, to_ns: 14 * MS + 1 }];
        assert_eq!((heart.pauses(0, u64::MAX), heart.shortest_ns()), (long.to_vec(), Some(2 * MS)));
    }

    #[test]
    fn a_pause_seen_twice_is_one() {
        let heart = heartbeat(0, vec![Pause { from_ns: 10 * MS, to_ns: 14 * MS }, Pause { from_ns: 0, to_ns: 0 }]);
        heart.begin(10 * MS + 5);
        heart.beat(14 * MS + 7);
        assert_eq!(heart.pauses(0, u64::MAX), [Pause { from_ns: 10 * MS, to_ns: 14 * MS + 7 }]);
    }

    #[test]
    fn without_programs_the_loop_alone_tells() {
        let heart = Heartbeat::plain();
        heart.begin(0);
        heart.beat(100 * MS);
        assert_eq!(heart.pauses(0, u64::MAX), [], "a sink's or sender's gap may be another task's");
        let pause = Pause { from_ns: MS, to_ns: 9 * MS };
        heart.note(pause);
        assert_eq!((heart.pauses(0, u64::MAX), heart.shortest_ns()), (vec![pause], Some(PLAIN_PAUSE_NS)));
    }

    #[test]
    fn visits_are_told_in_order_those_of_the_window_alone() {
        let at = |from, to| Pause { from_ns: from * MS, to_ns: to * MS };
        let heart = heartbeat(0, vec![Pause { from_ns: 0, to_ns: 0 }, at(1, 2), at(5, 8), at(9, 12), at(20, 30)]);
        let told =
            |from, to| heart.visits(from * MS, to * MS).map(|visits| visits.iter().map(|visit| visit.time).collect());
        assert_eq!(told(6, 20), Some(vec![at(5, 8), at(9, 12)]));
        assert_eq!(told(2, 5), Some(Vec::new()));
        assert_eq!(Heartbeat::plain().visits(0, u64::MAX), None, "without programs nobody knows");
    }

    #[test]
    fn nobody_hears_the_default() {
        let heart = Heartbeat::default();
        heart.begin(0);
        heart.beat(100 * MS);
        assert!(!heart.is_kept_awake() && heart.pauses(0, u64::MAX).is_empty());
        assert_eq!(heart.shortest_ns(), None);
    }
}
