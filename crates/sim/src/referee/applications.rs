//! Applications, each a thread with a socket, and the queue of threads that wait for the CPU.

use std::collections::VecDeque;

use netcliff_core::Host;

use super::World;
use crate::clock::to_ticks;
use crate::fifo::Packet;
use crate::machine::{PacketOutcome, SocketCounts};

/// One application.
pub(super) struct Thread {
    pub socket: VecDeque<Packet>,
    pub limit: usize,
    pub asleep: bool,
    /// Whether the thread has slept since it last ran.
    pub slept: bool,
    /// Rest of the piece of work that another thread interrupted.
    pub left: u64,
    pub counts: SocketCounts,
    /// Whether the thread processes a packet.
    pub in_hand: bool,
}

pub(super) fn threads(host: &Host) -> Vec<Thread> {
    let thread = |buffer| Thread {
        socket: VecDeque::new(),
        limit: buffer,
        asleep: true,
        slept: true,
        left: 0,
        counts: SocketCounts::default(),
        in_hand: false,
    };
    host.each_application().iter().map(|one| thread(one.buffer as usize)).collect()
}

impl World {
    pub(super) fn in_sockets(&self) -> usize {
        self.applications.iter().map(|thread| thread.socket.len()).sum()
    }

    /// The counts of the packet's application; without applications, counts that are never read.
    pub(super) fn counts_for(&mut self, packet: Packet) -> &mut SocketCounts {
        match self.applications.get_mut(usize::from(packet.socket)) {
            Some(thread) => &mut thread.counts,
            None => &mut self.nobody,
        }
    }

    /// Time that the occupancy of a socket adds; a full socket adds `cold`.
    fn colder(&self, application: usize, cold: f64) -> u64 {
        let thread = &self.applications[application];
        to_ticks(cold * thread.socket.len() as f64 / thread.limit as f64)
    }

    /// Protocol time of the packet at the head.
    pub(super) fn protocol_time(&mut self) -> u64 {
        let head = self.ring[0];
        let place = usize::from(head.socket);
        let Some(thread) = self.applications.get(place) else { return head.protocol };
        let (asleep, full) = (thread.asleep, thread.socket.len() >= thread.limit);
        let own = head.protocol + self.colder(place, self.cold_protocol);
        if full {
            return if self.drop_cost == 1.0 { own } else { to_ticks(own as f64 * self.drop_cost) };
        }
        if asleep { own + self.wakeup.next() } else { own }
    }

    /// Puts a processed packet into its socket. Returns true if that wakes the application.
    pub(super) fn reaches_socket(&mut self, packet: Packet) -> bool {
        let place = usize::from(packet.socket);
        let thread = &mut self.applications[place];
        if thread.socket.len() >= thread.limit {
            thread.counts.dropped_socket += 1;
            self.counts.dropped_socket += 1;
            self.counts.lost_latency += u128::from(self.now - packet.arrived);
            self.fates.push((packet.number, PacketOutcome::DroppedSocket, self.now));
            return false;
        }
        thread.socket.push_back(packet);
        self.fates.push((packet.number, PacketOutcome::Processed, self.now));
        let woken = std::mem::replace(&mut thread.asleep, false);
        if woken {
            self.queue.push_back(place);
        }
        woken
    }

    pub(super) fn application_awake(&self) -> bool {
        self.applications.iter().any(|thread| !thread.asleep)
    }

    /// Whether the slice of the thread that got the CPU at `since` was used up at the last tick.
    pub(super) fn slice_used(&self, since: u64) -> bool {
        (self.now + self.tick_offset) / self.tick * self.tick >= since + self.slice + self.tick_offset
    }

    /// Moves the running application to the end of the queue, with `left` of its piece of work.
    pub(super) fn suspend(&mut self, left: u64) {
        if let Some(place) = self.running.take() {
            self.applications[place].left = left;
            self.queue.push_back(place);
        }
    }

    /// Gives the CPU to the first thread of the queue. Returns the work that it has to do first: the rest of its piece,
    /// and a switch if it slept or another thread ran. `None` if it takes a packet next.
    pub(super) fn resume(&mut self) -> Option<u64> {
        let place = self.queue.pop_front()?;
        let thread = &mut self.applications[place];
        let owes = std::mem::replace(&mut thread.slept, false) || place != self.last;
        let left = std::mem::take(&mut thread.left);
        (self.running, self.last, self.since) = (Some(place), place, self.now);
        if owes { Some(left + self.switch.next()) } else { (left > 0).then_some(left) }
    }

    /// Charges CPU time to the running application.
    pub(super) fn book(&mut self, span: u64) {
        if let Some(place) = self.running {
            self.applications[place].counts.cpu += span;
        }
    }

    /// Records that the running application has finished its piece.
    pub(super) fn piece_done(&mut self) {
        if let Some(place) = self.running {
            self.applications[place].in_hand = false;
        }
    }

    /// Time of the running application's next packet. `None` if it falls asleep.
    pub(super) fn application_piece(&mut self) -> Option<u64> {
        let place = self.running?;
        let colder = self.colder(place, self.cold_application);
        let Some(packet) = self.applications[place].socket.pop_front() else {
            let thread = &mut self.applications[place];
            (thread.asleep, thread.slept) = (true, true);
            self.running = None;
            return None;
        };
        self.fates.push((packet.number, PacketOutcome::Taken, self.now));
        self.delivered(packet);
        self.applications[place].in_hand = true;
        let piece = packet.application + colder;
        if piece == 0 {
            self.piece_done();
        }
        Some(piece)
    }
}
