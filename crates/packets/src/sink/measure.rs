//! The sink's loop and its counters.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::{MsgFlags, SockaddrStorage, sendto};

use super::read::{Inbox, Reader};
use super::report::SinkReport;
use super::work::Application;
use super::{SinkConfig, SinkProgress, socket};
use crate::clock;
use crate::error::WireError;
use crate::frame::{HEADER_BYTES, Header};
use crate::generator::Window;
use crate::latency::Latency;
use crate::sockopt;
use crate::thread::CpuStamp;
use crate::tracker::{SequenceClass, Tracker};

/// Interval between reads of the offset between the clocks \[ns\]. NTP slews both clocks alike, so the offset changes
/// only when the real time is stepped. The timestamps are then wrong for at most this long.
const OFFSET_EVERY_NS: u64 = 100_000_000;

/// Meter readings at one instant.
#[derive(Debug, Clone, Copy)]
struct Edge {
    cpu: CpuStamp,
    drops: Option<u32>,
}

/// The sink's state for one generator.
#[derive(Debug)]
struct Lane {
    run_id: u32,
    tracker: Tracker,
    window: Option<Window>,
}

/// All counts of the sink.
#[derive(Debug)]
pub(super) struct Measurement {
    lanes: Vec<Lane>,
    report: SinkReport,
    entered: Option<Edge>,
    left: Option<Edge>,
    offset_ns: i64,
    offset_read_ns: u64,
    answer_each: Option<NonZeroU64>,
}

impl Measurement {
    pub(super) fn new(config: &SinkConfig, stamped_before_backlog: Option<bool>) -> Self {
        let runs = std::iter::once(config.run_id).chain(config.more_runs.iter().copied());
        let lanes: Vec<Lane> =
            runs.map(|run_id| Lane { run_id, tracker: Tracker::new(config.tracked), window: None }).collect();
        Self {
            report: SinkReport {
                window: None,
                window_delivered: 0,
                firsts_ns: vec![None; lanes.len()],
                slots: Vec::new(),
                delivered: 0,
                duplicates: 0,
                reordered: 0,
                too_old: 0,
                foreign: 0,
                highest_sequence: None,
                socket_drops: None,
                window_socket_drops: None,
                end_to_end: Latency::new(),
                kernel_to_read: Latency::new(),
                send_to_kernel: Latency::new(),
                clock_ahead_ns: None,
                stamped_before_backlog,
                cpu: None,
                first_read_ns: None,
                last_read_ns: None,
                undisturbed_work_s: None,
                reads: 0,
                answers: 0,
                reader: config.reader,
                receive_buffer_bytes: None,
            },
            lanes,
            entered: None,
            left: None,
            offset_ns: 0,
            offset_read_ns: 0,
            answer_each: config.answer_each,
        }
    }

    /// Copy of the report so far.
    pub(super) fn report(&self) -> SinkReport {
        self.report.clone()
    }

    /// Reads until the sink is stopped or has drained.
    pub(super) fn read_all(
        &mut self,
        socket: &UdpSocket,
        application: &mut dyn Application,
        config: &SinkConfig,
        stop: &AtomicBool,
        progress: &SinkProgress,
    ) -> Result<(), WireError> {
        let mut inbox = Inbox::new(config.reader, self.answer_each.is_some());
        self.report.receive_buffer_bytes = socket::buffer_bytes(socket);
        let mut last_packet_ns = clock::monotonic_ns();
        let mut outcome = Ok(());
        loop {
            let received = match inbox.receive(socket) {
                Ok(received) => received,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            let now = clock::monotonic_ns();
            config.heartbeat.beat(now);
            if received > 0 {
                last_packet_ns = now;
                self.look_for(progress.windows.get());
                self.take(&inbox, received, now, socket, application)?;
                progress.delivered.store(self.report.delivered, Ordering::Relaxed);
            }
            let drain_until = progress.drain_until_ns.load(Ordering::Relaxed);
            let quiet_ns = progress.quiet_ns.load(Ordering::Relaxed);
            let drained = received == 0 && now - last_packet_ns >= quiet_ns;
            if stop.load(Ordering::Relaxed) || (drain_until != 0 && (drained || now >= drain_until)) {
                break;
            }
            if received == 0 && config.reader == Reader::BusyPoll {
                std::hint::spin_loop();
            }
        }
        self.report.undisturbed_work_s = application.undisturbed_s();
        self.close(socket)?;
        outcome
    }

    /// Counts the packets of one read call, which returned at `now`.
    fn take(
        &mut self,
        inbox: &Inbox,
        received: usize,
        now: u64,
        socket: &UdpSocket,
        application: &mut dyn Application,
    ) -> Result<(), WireError> {
        self.report.reads += 1;
        if now - self.offset_read_ns >= OFFSET_EVERY_NS {
            self.offset_ns = clock::realtime_minus_monotonic_ns();
            self.offset_read_ns = now;
        }
        for index in 0..received {
            let payload = inbox.payload(index);
            let own = Header::parse_any(payload).and_then(|(run_id, header)| Some((self.lane_of(run_id)?, header)));
            let Some((lane, header)) = own else {
                self.report.foreign += 1;
                continue;
            };
            if self.is_new(lane, header.sequence) {
                self.report.firsts_ns[lane].get_or_insert(now);
                self.watch_edges(lane, header.intended_ns, socket)?;
                self.time(lane, &header, inbox.stamp_realtime_ns(index), now);
                self.answer(&header, payload, inbox.source(index), socket);
            }
            application.handle(payload);
        }
        Ok(())
    }

    /// Takes over the windows once they are set.
    fn look_for(&mut self, windows: Option<&Vec<Window>>) {
        let Some(windows) = windows.filter(|_| self.report.window.is_none()) else { return };
        for (lane, window) in self.lanes.iter_mut().zip(windows) {
            lane.window = Some(*window);
        }
        self.report.window = self.lanes.first().and_then(|lane| lane.window);
    }

    #[inline]
    fn lane_of(&self, run_id: u32) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.run_id == run_id)
    }

    #[inline]
    fn is_new(&mut self, lane: usize, sequence: u64) -> bool {
        let report = &mut self.report;
        match self.lanes[lane].tracker.observe(sequence) {
            SequenceClass::InOrder => report.highest_sequence = report.highest_sequence.max(Some(sequence)),
            SequenceClass::Late => report.reordered += 1,
            SequenceClass::Duplicate => {
                report.duplicates += 1;
                return false;
            }
            SequenceClass::TooOld => {
                report.too_old += 1;
                return false;
            }
        }
        report.delivered += 1;
        true
    }

    /// Reads the meters at the first packet of the window, and at the first packet after the window.
    #[inline]
    fn watch_edges(&mut self, lane: usize, intended_ns: u64, socket: &UdpSocket) -> Result<(), WireError> {
        let Some(window) = self.lanes[lane].window else {
            return Ok(());
        };
        let edge = if self.entered.is_none() && window.contains(intended_ns) {
            &mut self.entered
        } else if self.entered.is_some() && self.left.is_none() && intended_ns >= window.to_ns {
            &mut self.left
        } else {
            return Ok(());
        };
        *edge = Some(Edge::now(socket)?);
        Ok(())
    }

    #[inline]
    fn time(&mut self, lane: usize, header: &Header, stamp_realtime_ns: Option<u64>, now: u64) {
        let report = &mut self.report;
        let Some(window) = self.lanes[lane].window else { return };
        let Some(slot) = window.slot(header.intended_ns) else { return };
        if report.slots.is_empty() {
            report.slots = vec![0; window.slots()];
        }
        if let Some(delivered) = report.slots.get_mut(slot) {
            *delivered += 1;
        }
        report.window_delivered += 1;
        report.first_read_ns.get_or_insert(now);
        report.last_read_ns = Some(now);
        report.end_to_end.record_ns(now.saturating_sub(header.intended_ns));
        let kernel_ns = stamp_realtime_ns.map(|stamp| stamp.saturating_add_signed(-self.offset_ns));
        let ahead_ns = kernel_ns.unwrap_or(now).wrapping_sub(header.intended_ns) as i64;
        // `clock_ahead_ns` refers to the clock of the first generator.
        if lane == 0 {
            report.clock_ahead_ns = Some(report.clock_ahead_ns.map_or(ahead_ns, |least| least.min(ahead_ns)));
        }
        if let Some(kernel_ns) = kernel_ns {
            report.kernel_to_read.record_ns(now.saturating_sub(kernel_ns));
            report.send_to_kernel.record_ns(kernel_ns.saturating_sub(header.intended_ns));
        }
    }

    /// Sends a packet's header back, if answers were requested. An answer that would block is skipped: the host under
    /// test must not wait.
    #[inline]
    fn answer(&mut self, header: &Header, payload: &[u8], source: Option<SocketAddr>, socket: &UdpSocket) {
        let is_asked = self.answer_each.is_some_and(|each| header.sequence % each == 0);
        if let Some(source) = source.filter(|_| is_asked) {
            let to = SockaddrStorage::from(source);
            let bytes = &payload[..HEADER_BYTES.min(payload.len())];
            let sent = sendto(socket.as_raw_fd(), bytes, &to, MsgFlags::MSG_DONTWAIT);
            self.report.answers += u64::from(sent.is_ok());
        }
    }

    /// Reads the meters once more at the end.
    fn close(&mut self, socket: &UdpSocket) -> Result<(), WireError> {
        let end = Edge::now(socket)?;
        let between = |from: Option<u32>, to: Option<u32>| Some(u64::from(to?.wrapping_sub(from?)));
        self.report.socket_drops = end.drops.map(u64::from);
        if let Some(entered) = self.entered {
            let left = self.left.unwrap_or(end);
            self.report.cpu = Some(entered.cpu.until(&left.cpu));
            self.report.window_socket_drops = between(entered.drops, left.drops);
        }
        Ok(())
    }
}

impl Edge {
    fn now(socket: &UdpSocket) -> Result<Self, WireError> {
        Ok(Self { cpu: CpuStamp::now()?, drops: sockopt::drops(socket.as_fd()) })
    }
}
