//! Serves several flows in one thread, in turns: the thread does not wait for one flow while another can move.
//!
//! The sockets do not block; epoll (edge-triggered) reports which can move again. A turn is bounded in steps and bytes,
//! so that a flow that can always move does not starve the others. A paced flow gets no turn before its block is due.

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket;

use super::conductor::{ExitNotifier, Shared};
use super::end::{self, DataPath, Done};
use super::ledger::Ledger;
use super::meter::Meter;
use super::options;
use super::wake::{Readiness, Wake};
use netcliff_packets::clock;
use netcliff_packets::error::WireError;

/// Largest number of steps ([`DataPath::step`]) in a turn.
const TURN_CALLS: u32 = 64;
/// Largest number of bytes in a turn: at a copy rate of some GB/s, a turn is shorter than the tolerated delay of a
/// paced sender.
const TURN_BYTES: usize = 256 << 10;
/// Interval at which every flow is tried, ready or not (ns): a socket does not always report what ends a flow.
const LOOK_NS: u64 = 50_000_000;

/// One end of a flow, ready to be served.
pub(super) struct Ready<'a> {
    pub sender: bool,
    pub channel: &'a OwnedFd,
    pub mover: Box<dyn DataPath + 'a>,
    pub exit: ExitNotifier<'a>,
    /// Cell that exposes its bytes to other threads.
    pub shown: Option<&'a AtomicU64>,
}

/// What a flow needs after its turn in the shared thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Another turn at once.
    Turn,
    /// Another turn at this time (ns).
    At(u64),
    /// A turn when its socket becomes ready.
    Woken,
    /// No more turns.
    Through,
}

/// A flow's end being served.
struct Served<'a> {
    sender: bool,
    channel: &'a OwnedFd,
    /// The work left. `None` when it has finished.
    work: Option<Work<'a>>,
    done: Option<Done>,
    /// Whether the socket may be ready.
    ready: bool,
    /// Time since which the socket has not been ready (ns).
    silent_since_ns: Option<u64>,
    /// Time at which to signal the end of the data again (ns). `None` if not all data are sent, or no more signals are
    /// needed.
    leaves_ns: Option<u64>,
}

struct Work<'a> {
    mover: Box<dyn DataPath + 'a>,
    meter: Meter<'a>,
    exit: ExitNotifier<'a>,
}

/// Serves the ends until all have finished. Returns their results in their order. The channels stay open until then.
pub(super) fn serve<'a>(shared: &'a Shared<'_>, ends: Vec<Ready<'a>>) -> Result<Vec<Done>, WireError> {
    let mut readiness = Readiness::new(ends.len())?;
    let ledger = Ledger::new(ends.len() as u32)?;
    let mut served = Vec::new();
    for (place, end) in ends.into_iter().enumerate() {
        do_not_block(end.channel)?;
        readiness.add(end.channel.as_fd(), end.sender, place)?;
        served.push(Served::new(shared, end, Rc::clone(&ledger))?);
    }
    let mut left = served.len();
    let mut look_ns = clock::monotonic_ns();
    while left > 0 {
        let now_ns = clock::monotonic_ns();
        let looks = now_ns >= look_ns;
        if looks {
            look_ns = now_ns + LOOK_NS;
        }
        let mut wake = Wake::By(look_ns);
        for flow in served.iter_mut().filter(|flow| flow.work.is_some()) {
            flow.ready |= looks;
            match flow.turn(shared)? {
                Next::Turn => wake = Wake::Now,
                Next::At(due_ns) => wake = wake.or_at(due_ns),
                Next::Woken => {}
                Next::Through => left -= 1,
            }
        }
        if left > 0 {
            readiness.wait(wake, |place| served[place].ready = true)?;
        }
    }
    Ok(served.into_iter().filter_map(|flow| flow.done).collect())
}

fn do_not_block(channel: &OwnedFd) -> Result<(), WireError> {
    let failed = |e: nix::Error| WireError::system("make a channel that does not block (O_NONBLOCK)", e);
    let flags = OFlag::from_bits_retain(fcntl(channel, FcntlArg::F_GETFL).map_err(failed)?);
    fcntl(channel, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map_err(failed).map(drop)
}

impl<'a> Served<'a> {
    fn new(shared: &'a Shared<'_>, end: Ready<'a>, ledger: Rc<Ledger>) -> Result<Self, WireError> {
        let Ready { sender, channel, mover, exit, shown } = end;
        let meter = Meter::sharing(&shared.phase, &shared.spans, ledger)?.shown_in(shown);
        let work = Some(Work { mover, meter, exit });
        Ok(Self { sender, channel, work, done: None, ready: true, silent_since_ns: None, leaves_ns: None })
    }

    /// Moves data within the bounds of a turn.
    fn turn(&mut self, shared: &Shared<'_>) -> Result<Next, WireError> {
        let Some(work) = &mut self.work else { return Ok(Next::Through) };
        if let Some(due_ns) = self.leaves_ns {
            return if clock::monotonic_ns() < due_ns { Ok(Next::At(due_ns)) } else { self.leave(shared, None) };
        }
        if !self.ready {
            return Ok(Next::Woken);
        }
        let spans = &shared.spans;
        let mut moved = 0;
        for _ in 0..TURN_CALLS {
            let sent = work.meter.done() && !spans.receiver_ends;
            if self.sender && (sent || shared.phase.is_cut()) {
                return self.leave(shared, None);
            }
            if let Some(due_ns) = work.mover.due_ns().filter(|due_ns| clock::monotonic_ns() < *due_ns) {
                return Ok(Next::At(due_ns));
            }
            match work.mover.step() {
                Ok((0, _)) if !self.sender => return self.leave(shared, None),
                Ok((bytes, calls)) => {
                    self.silent_since_ns = None;
                    work.meter.count(bytes, calls)?;
                    moved += bytes;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.ready = false;
                    return if self.is_stalled(shared) { self.failed(shared, e) } else { Ok(Next::Woken) };
                }
                Err(e) if self.sender && spans.receiver_ends && end::has_left(&e) => return self.leave(shared, None),
                Err(e) if shared.phase.is_over() && end::has_left(&e) => return self.leave(shared, None),
                Err(e) => return self.failed(shared, e),
            }
            if !self.sender && ((spans.receiver_ends && work.meter.done()) || shared.phase.is_cut()) {
                self.shut_down(socket::Shutdown::Both);
                return self.leave(shared, None);
            }
            if moved >= TURN_BYTES {
                break;
            }
        }
        Ok(Next::Turn)
    }

    /// Whether nothing has moved for too long.
    fn is_stalled(&mut self, shared: &Shared<'_>) -> bool {
        let now_ns = clock::monotonic_ns();
        let silent_ns = now_ns - *self.silent_since_ns.get_or_insert(now_ns);
        silent_ns > shared.spans.stall_ns && !shared.phase.others_move(shared.spans.stall_ns)
    }

    fn failed(&mut self, shared: &Shared<'_>, error: std::io::Error) -> Result<Next, WireError> {
        let why = end::describe_failure(end::step(self.sender, shared.settings), error, &shared.spans);
        self.leave(shared, Some(why))
    }

    /// Signals the end of the data as often as needed, then finishes.
    fn leave(&mut self, shared: &Shared<'_>, failure: Option<String>) -> Result<Next, WireError> {
        let Some(work) = &mut self.work else { return Ok(Next::Through) };
        work.meter.close()?;
        if self.sender
            && failure.is_none()
            && let Some(ns) = work.mover.say_end()
        {
            let due_ns = clock::monotonic_ns() + ns;
            self.leaves_ns = Some(due_ns);
            return Ok(Next::At(due_ns));
        }
        let Some(Work { mut mover, meter, mut exit }) = self.work.take() else { return Ok(Next::Through) };
        let what = if self.sender { "sending" } else { "receiving" };
        let end = end::counted(meter, failure, &mut *mover, what, &shared.spans)?;
        drop(mover);
        exit.failed = end.failure.is_some();
        // The channel stays open while other flows are served, so shut it down to signal the end of the stream.
        match (self.sender, exit.failed) {
            (true, false) => self.shut_down(socket::Shutdown::Write),
            (_, true) => self.shut_down(socket::Shutdown::Both),
            (false, false) => {}
        }
        self.done = Some((end, options::in_force(&shared.settings.channel, self.sender, self.channel.as_fd())));
        Ok(Next::Through)
    }

    fn shut_down(&self, how: socket::Shutdown) {
        // Ignore the error of a connection that has ended already.
        let _ = socket::shutdown(self.channel.as_raw_fd(), how);
    }
}
