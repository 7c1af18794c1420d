//! The usual course of a backlog's packets: each finds a poll under way or interrupts. Which of the two decides no branch, since none would predict it.

use super::taken::{ABREAST, EIGHTHS, NONE, Ran};
use super::{Processed, Rounds, Softirqs};
use crate::draw::to_ticks;
use crate::recursion::disciplines::{OneNapi, Ready};
use crate::recursion::serial::Before;
use crate::source::PacketBlock;

impl Softirqs {
    /// Takes arrivals up to one before which a poll has used its weight, or that comes in the instant in which one ends; how many that were.
    pub(super) fn follow_backlog(&mut self, block: &PacketBlock<'_>, instance: &mut OneNapi<'_>) -> usize {
        let Ready { interrupts, polls, count: most, wakeup, switch, weight, mut served } =
            instance.ready(block.gaps.len());
        let takes_time = wakeup.mean_ticks() > 0.0 || switch.mean_ticks() > 0.0;
        let mask = self.packets.len() - 1;
        let packets = &mut self.packets[..=mask];
        let socket_mask = self.taken.socket.len() - 1;
        let socket = &mut self.taken.socket[..=socket_mask];
        let first = self.taken.ran.len() - ABREAST - 1;
        self.taken.ran.resize(first + 1 + most + ABREAST, NONE);
        let ran = &mut self.taken.ran[first..];
        let mut course = self.taken.course;
        let (mut now, mut last, mut accepted, mut rounds) = (self.now, self.last, self.accepted, self.rounds);
        let (mut spliced_at, mut waits_from, mut since, mut woke) =
            (self.spliced_at, self.waits_from, self.since, self.woke);
        let (mut sums, mut all_application, mut begun, mut seen) = (self.sums, 0, 0, 0);
        while seen < most {
            let arrived = now + block.gaps[seen];
            if served == weight || arrived == last {
                break;
            }
            now = arrived;
            if arrived < spliced_at && accepted - waits_from >= self.ring {
                seen += 1;
                continue;
            }
            let interrupts_now = arrived > last;
            let (interrupt, overhead) = (interrupts[begun], polls[begun]);
            let when = |time: u64| if interrupts_now { time } else { 0 };
            let count = u8::from(interrupts_now);
            let before = Before {
                first: 0,
                idle: when(arrived.wrapping_sub(last)),
                interrupt: when(interrupt),
                overhead: when(overhead),
                polls_first: 0,
                interrupts: count,
                polls: count,
            };
            begun += usize::from(interrupts_now);
            served = if interrupts_now { 1 } else { served + 1 };
            since = if interrupts_now && woke { last } else { since };
            woke &= !interrupts_now;
            course.shown += before.idle;
            course.at = if interrupts_now { EIGHTHS * course.shown } else { course.at };
            let asleep = course.asleep();
            let began = arrived + interrupt;
            rounds.on_idle = if interrupts_now { asleep } else { rounds.on_idle };
            rounds.began = if interrupts_now { began } else { rounds.began };
            sums.add(&before);
            let starts = last + before.length();
            let splices = arrived >= spliced_at;
            spliced_at = if splices { starts } else { spliced_at };
            waits_from = if splices { accepted } else { waits_from };
            let protocol = block.protocol[seen];
            let full = socket[course.entered.wrapping_sub(self.taken.limit) & socket_mask].taken > course.at;
            let (mut work, mut switched) = (protocol, 0);
            if full {
                work = dropped_work(self.drop_cost, protocol);
            } else if takes_time && asleep {
                (work, switched) = (protocol + wakeup.next(), switch.next());
            }
            last = starts + work;
            ran[begun] = Ran { at: course.at, total: last - course.origin - course.shown };
            let mut application = 0;
            if !full {
                let packet = block.packet(seen, arrived);
                socket[course.entered & socket_mask] = course.hand(&packet, arrived, asleep, switched);
                course.entered += 1;
                woke |= asleep;
                application = packet.application + switched;
                all_application += application;
            }
            packets[accepted & mask] = Processed { arrived, departs: last, before, application, dropped: full };
            accepted += 1;
            seen += 1;
        }
        self.counts.dropped_ring += (seen - (accepted - self.accepted)) as u64;
        if begun > 0 {
            rounds =
                Rounds { round_began: rounds.began, done: 0, budget: self.limits.budget, counted: false, ..rounds };
        }
        self.taken.ran[first + 1 + begun..].fill(NONE);
        self.taken.ran.truncate(first + 1 + begun + ABREAST);
        self.taken.course = course;
        (self.now, self.last, self.accepted, self.rounds, self.sums) = (now, last, accepted, rounds, sums);
        (self.spliced_at, self.waits_from, self.since, self.woke) = (spliced_at, waits_from, since, woke);
        self.application += all_application;
        instance.took(begun, served);
        seen
    }
}

/// Protocol time of a packet that finds the socket full [ticks].
pub(super) fn dropped_work(cost: f64, own: u64) -> u64 {
    if cost == 1.0 { own } else { to_ticks(own as f64 * cost) }
}
