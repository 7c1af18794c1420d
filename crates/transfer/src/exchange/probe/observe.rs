//! Queue lengths during a probe: of the observed sockets, and of the queues that all flows share.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netcliff_host::nic::queues::{SharedQueue, SharedQueues};

use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::sockopt;
use netcliff_packets::thread::Placement;

/// Interval between looks at the queues: twenty times a second reveals a standing queue.
const EVERY: Duration = Duration::from_millis(50);
/// The thread rests for this multiple of a look's CPU time, so that it uses at most 1/400 of a CPU.
const REST: u64 = 399;
/// Largest number of stored looks. When it is reached, every second one is dropped.
const MOST_LOOKS: usize = 20_000;

/// A queue that is observed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    /// Bytes in the observed senders' sockets that are to be sent or acknowledged, with overhead.
    SendBuffers,
    /// Bytes in the observed receivers' sockets that their programs have not read, with overhead.
    ReceiveBuffers,
    /// A queue of the host.
    Shared(SharedQueue),
}

/// The lengths of the queues at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Time of the look (ns of `CLOCK_MONOTONIC`).
    pub at_ns: u64,
    /// Length of each queue, in the queue's own unit.
    pub queues: Vec<(Queue, u64)>,
}

type Sockets = Arc<Mutex<Vec<(bool, OwnedFd)>>>;

/// Looks at the queues in a thread, until it is dropped.
#[derive(Debug)]
pub struct Observer {
    sockets: Sockets,
    stop: Arc<AtomicBool>,
    /// Flag that requests an immediate look.
    now: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Observed>>>,
}

impl Observer {
    /// Starts to look, in the network namespace of `placement`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(placement: Placement) -> Result<Self, WireError> {
        let (sockets, stop, now) = (Sockets::default(), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (seen, ends, at) = (Arc::clone(&sockets), Arc::clone(&stop), Arc::clone(&now));
        let work = move || look(&placement, &seen, (&ends, &at));
        let thread = thread::Builder::new().name("queues".into()).spawn(work);
        let thread = Some(thread.map_err(|e| WireError::system("start a thread that looks at queues", e))?);
        Ok(Self { sockets, stop, now, thread })
    }

    /// Also looks at these sockets. The flag is true for a sender's socket.
    pub fn watch(&self, sockets: Vec<(bool, OwnedFd)>) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).extend(sockets);
    }

    /// Requests an immediate look, even while the thread rests.
    pub fn look(&self) {
        self.now.store(true, Ordering::Relaxed);
    }

    /// Releases the sockets, so that their connections can end.
    pub fn release(&self) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Ends the thread and returns its observations.
    pub fn end(mut self) -> Vec<Observed> {
        self.finish()
    }

    fn finish(&mut self) -> Vec<Observed> {
        self.stop.store(true, Ordering::Relaxed);
        self.release();
        // A thread that panicked has no observations.
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
    // If the namespace cannot be entered, no queue is seen, and the report says so.
    if placement.enter().is_err() {
        return found;
    }
    // /sys shows the devices of the namespace in which it was mounted.
    let sys = placement.netns.is_none().then(|| Path::new("/sys"));
    let mut shared = SharedQueues::here(sys).ok();
    let mut every = EVERY;
    let own = netcliff_host::system::thread_id();
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

/// Sleeps for `time`, or until `stop` or `now` is set.
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
