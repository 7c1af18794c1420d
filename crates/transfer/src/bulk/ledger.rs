//! Divides the CPU time of a thread among the flows that it serves.

use std::cell::RefCell;
use std::rc::Rc;

use super::hardware::{Counters, Hardware};
use netcliff_packets::error::WireError;
use netcliff_packets::thread::{CpuStamp, CpuUse};

/// Divides the CPU use of a thread evenly, at each moment, among its flows with an open window. The charges add up to
/// the thread's use while any window was open. The only flow of a thread is charged everything.
pub(super) struct Ledger {
    /// Number of flows that the thread serves.
    flows: u32,
    counters: Option<Counters>,
    books: RefCell<Books>,
}

struct Books {
    /// Time up to which the use has been charged.
    at: CpuStamp,
    hardware: Option<Hardware>,
    /// Number of open windows.
    open: u32,
    charged: Charge,
}

/// What a flow with a window open all the time would have been charged.
#[derive(Debug, Clone, Copy, Default)]
struct Charge {
    user_s: f64,
    system_s: f64,
    voluntary: f64,
    involuntary: f64,
    cycles: f64,
    instructions: f64,
}

/// The state of the ledger when a window opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    stamp: CpuStamp,
    charged: Charge,
}

impl Ledger {
    /// Opens a ledger for the calling thread, which serves `flows` flows.
    pub(super) fn new(flows: u32) -> Result<Rc<Self>, WireError> {
        let books = Books { at: CpuStamp::now()?, hardware: None, open: 0, charged: Charge::default() };
        Ok(Rc::new(Self { flows, counters: Counters::open().ok(), books: RefCell::new(books) }))
    }

    /// Number of flows that share the thread. `None` if it serves a single flow.
    pub(super) fn sharers(&self) -> Option<u32> {
        (self.flows > 1).then_some(self.flows)
    }

    /// Records that a flow's window opens.
    pub(super) fn open(&self) -> Result<Account, WireError> {
        let mut books = self.books.borrow_mut();
        self.settle(&mut books)?;
        books.open += 1;
        Ok(Account { stamp: books.at, charged: books.charged })
    }

    /// Records that the window closes. Returns what the flow was charged.
    pub(super) fn close(&self, account: &Account) -> Result<(CpuUse, Option<Hardware>), WireError> {
        let mut books = self.books.borrow_mut();
        self.settle(&mut books)?;
        books.open = books.open.saturating_sub(1);
        let (from, to) = (account.charged, books.charged);
        let whole = |from: f64, to: f64| (to - from).round() as u64;
        let cpu = CpuUse {
            wall_s: account.stamp.until(&books.at).wall_s,
            user_s: to.user_s - from.user_s,
            system_s: to.system_s - from.system_s,
            voluntary_switches: whole(from.voluntary, to.voluntary),
            involuntary_switches: whole(from.involuntary, to.involuntary),
        };
        let hardware = books.hardware.map(|_| Hardware {
            cycles: whole(from.cycles, to.cycles),
            instructions: whole(from.instructions, to.instructions),
        });
        Ok((cpu, hardware))
    }

    /// Charges the use since the last call to the flows with open windows.
    fn settle(&self, books: &mut Books) -> Result<(), WireError> {
        let now = CpuStamp::now()?;
        let hardware = self.counters.as_ref().and_then(|counters| counters.read().ok());
        if books.open > 0 {
            let (used, share) = (books.at.until(&now), 1.0 / f64::from(books.open));
            let counted = hardware.zip(books.hardware).map(|(now, then)| now.since(then)).unwrap_or_default();
            let charged = &mut books.charged;
            charged.user_s += used.user_s * share;
            charged.system_s += used.system_s * share;
            charged.voluntary += used.voluntary_switches as f64 * share;
            charged.involuntary += used.involuntary_switches as f64 * share;
            charged.cycles += counted.cycles as f64 * share;
            charged.instructions += counted.instructions as f64 * share;
        }
        (books.at, books.hardware) = (now, hardware);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_packets::clock;

    fn spin(ns: u64) {
        let from = clock::monotonic_ns();
        while clock::monotonic_ns() - from < ns {}
    }

    #[test]
    fn what_the_flows_are_charged_adds_up_to_what_the_thread_used() {
        let ledger = Ledger::new(2).expect("getrusage works");
        assert_eq!(ledger.sharers(), Some(2));
        let begin = CpuStamp::now().expect("getrusage works");
        let first = ledger.open().expect("open");
        spin(20_000_000);
        let second = ledger.open().expect("open");
        spin(20_000_000);
        let (one, _) = ledger.close(&first).expect("open");
        spin(20_000_000);
        let (two, _) = ledger.close(&second).expect("open");
        let whole = begin.until(&CpuStamp::now().expect("getrusage works"));
        let used = |cpu: CpuUse| cpu.user_s + cpu.system_s;
        // At least one window was open between the first opening and the last closing.
        let sum = used(one) + used(two);
        assert!((sum - used(whole)).abs() < 2e-3, "{sum} of {}", used(whole));
        assert!(one.wall_s >= 0.04 && two.wall_s >= 0.04, "{one:?} {two:?}");
        assert!(one.wall_s + two.wall_s > whole.wall_s, "the windows overlap");
    }

    #[test]
    fn the_only_flow_is_charged_all() {
        let ledger = Ledger::new(1).expect("getrusage works");
        assert_eq!(ledger.sharers(), None);
        spin(5_000_000);
        let account = ledger.open().expect("open");
        spin(20_000_000);
        let (cpu, hardware) = ledger.close(&account).expect("open");
        // A machine under load may run other threads during that time.
        assert!(cpu.wall_s >= 0.02 && cpu.user_s + cpu.system_s <= cpu.wall_s + 0.004, "{cpu:?}");
        assert!(cpu.user_s + cpu.system_s > 0.0, "{cpu:?}");
        assert!(hardware.is_none_or(|counted| counted.instructions > 0), "{hardware:?}");
    }
}
