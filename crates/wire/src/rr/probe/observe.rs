//! The queues beside a probe: those of the observed sockets, and those that all flows share.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netcliff_host::nic::queues::{SharedQueue, SharedQueues};

use crate::clock;
use crate::error::WireError;
use crate::sockopt;
use crate::thread::Placement;

/// How often the queues are looked at: twenty times a second see a queue that stands.
const EVERY: Duration = Duration::from_millis(50);
/// The thread rests for so many times the CPU time of a look: no more than a four hundredth of a CPU.
const REST: u64 = 399;
/// Looks that are kept: before there are more, every second one is dropped.
const MOST_LOOKS: usize = 20_000;

/// A queue that is observed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    /// What the observed senders' sockets hold to be sent or acknowledged (bytes, with overhead).
    SendBuffers,
    /// What the observed receivers' sockets hold for their programs (bytes, with overhead).
    ReceiveBuffers,
    /// One of the host.
    Shared(SharedQueue),
}

/// What waited in each queue at a time (ns of `CLOCK_MONOTONIC`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// When.
    pub at_ns: u64,
    /// How much, in the queue's own unit.
    pub queues: Vec<(Queue, u64)>,
}

type Sockets = Arc<Mutex<Vec<(bool, OwnedFd)>>>;

/// Looks at the queues until it is dropped.
#[derive(Debug)]
pub struct Observer {
    sockets: Sockets,
    stop: Arc<AtomicBool>,
    /// Set to look at once, rested or not.
    now: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Observed>>>,
}

impl Observer {
    /// Starts to look in a network namespace.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(placement: Placement) -> Result<Self, WireError> {
        let (sockets, stop, now) = (Sockets::default(), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (seen, ends, asked) = (Arc::clone(&sockets), Arc::clone(&stop), Arc::clone(&now));
        let work = move || look(&placement, &seen, (&ends, &asked));
        let thread = thread::Builder::new().name("queues".into()).spawn(work);
        let thread = Some(thread.map_err(|e| WireError::system("start a thread that looks at queues", e))?);
        Ok(Self { sockets, stop, now, thread })
    }

    /// Looks at these sockets too: of senders, or not.
    pub fn watch(&self, sockets: Vec<(bool, OwnedFd)>) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).extend(sockets);
    }

    /// Looks soon, rested or not.
    pub fn look(&self) {
        self.now.store(true, Ordering::Relaxed);
    }

    /// Lets go of the sockets, so that their connections can end.
    pub fn release(&self) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Ends it.
    pub fn end(mut self) -> Vec<Observed> {
        self.finish()
    }

    fn finish(&mut self) -> Vec<Observed> {
        self.stop.store(true, Ordering::Relaxed);
        self.release();
        // One that panicked has seen nothing.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.finish();
    }
}

fn look(placement: &Placement, sockets: &Sockets, (stop, now): (&AtomicBool, &AtomicBool)) -> Vec<Observed> {
    let mut found = Vec::new();
    // Where it cannot be entered nothing is seen, and the report says so.
    if placement.enter().is_err() {
        return found;
    }
    // /sys shows the devices of the namespace in which it was mounted.
    let sys = placement.netns.is_none().then(|| Path::new("/sys"));
    let mut shared = SharedQueues::here(sys).ok();
    let mut every = EVERY;
    let own = nix::unistd::gettid().as_raw();
    while !stop.load(Ordering::Relaxed) {
        let before_ns = clock::thread_cpu_ns(own).unwrap_or(0);
        let at_ns = clock::monotonic_ns();
        let mut queues = of_sockets(sockets);
        let of_host = shared.as_mut().map_or_else(Vec::new, SharedQueues::read);
        queues.extend(of_host.into_iter().map(|(queue, waits)| (Queue::Shared(queue), waits)));
        found.push(Observed { at_ns, queues });
        if found.len() >= MOST_LOOKS {
            let mut keep = false;
            found.retain(|_| {
                keep = !keep;
                keep
            });
            every *= 2;
        }
        let used_ns = clock::thread_cpu_ns(own).unwrap_or(0).saturating_sub(before_ns);
        rest(every.max(Duration::from_nanos(used_ns.saturating_mul(REST))), (stop, now));
    }
    found
}

/// Sleeps, but not long after it is to stop or to look.
fn rest(time: Duration, (stop, now): (&AtomicBool, &AtomicBool)) {
    let until_ns = clock::monotonic_ns() + time.as_nanos() as u64;
    loop {
        let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
        if left_ns == 0 || stop.load(Ordering::Relaxed) || now.swap(false, Ordering::Relaxed) {
            return;
        }
        thread::sleep(EVERY.min(Duration::from_nanos(left_ns)));
    }
}

fn of_sockets(sockets: &Sockets) -> Vec<(Queue, u64)> {
    let sockets = sockets.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sums = [None, None];
    for (sender, socket) in sockets.iter() {
        if let Some((received, to_send)) = sockopt::queued(socket.as_fd()) {
            let (place, waits) = if *sender { (0, to_send) } else { (1, received) };
            sums[place] = Some(sums[place].unwrap_or(0) + waits);
        }
    }
    let [sending, receiving] = sums;
    let sending = sending.map(|waits| (Queue::SendBuffers, waits));
    sending.into_iter().chain(receiving.map(|waits| (Queue::ReceiveBuffers, waits))).collect()
}
