//! Samples TCP_INFO of all senders' sockets, in a separate thread.
//!
//! The kernel answers only when no call holds the socket's lock. A sender of large blocks that waits for a CPU holds
//! this lock, so with hundreds of such flows one pass takes seconds. The conductor, which opens and closes the windows,
//! does not wait for the samples. The cost is bounded: the thread rests so that it uses at most a hundredth of a CPU,
//! whatever interval was requested. At most [`MOST_SAMPLES`] samples of all flows together are stored. At this limit
//! every second sample is dropped, and the interval is doubled.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::live::Latest;
use super::tcp_info::{self, TcpSample};
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::thread::RealtimeGuard;

/// Largest number of stored samples: some 3 MB on the control channel, so that the report of a far end fits.
pub(super) const MOST_SAMPLES: usize = 8192;
/// The thread rests for this multiple of the CPU time of a pass.
const REST: u64 = 99;
/// The windows stay open for this long for the last samples: longer than a pass over hundreds of sockets whose locks
/// are free.
const LAST_PASS: Duration = Duration::from_millis(100);

/// The senders' sockets by flow. `None` if the flow's sender is in another process.
pub(super) type Sockets = Arc<Vec<Option<OwnedFd>>>;

enum Command {
    /// The windows have opened: sample at once, then at every interval.
    Begin { sockets: Sockets, opened_ns: u64, every_ns: Option<u64> },
    /// The windows are about to close: sample once more.
    Last,
}

/// The conductor's handle of the sampling thread.
pub(super) struct Sampler {
    orders: mpsc::Sender<Command>,
    asked_last: mpsc::Receiver<()>,
    leave: Arc<AtomicBool>,
    latest: Arc<Latest>,
    thread: JoinHandle<Vec<Vec<TcpSample>>>,
}

impl Sampler {
    /// Starts the thread, which waits for its sockets.
    pub(super) fn start() -> Result<Self, WireError> {
        let (orders, heard) = mpsc::channel();
        let (answered, asked_last) = mpsc::channel();
        let leave = Arc::<AtomicBool>::default();
        let leaves = Arc::clone(&leave);
        let latest = Arc::<Latest>::default();
        let noted = Arc::clone(&latest);
        let run = move || run(&heard, &answered, &leaves, &noted);
        let thread = thread::Builder::new().name("TCP_INFO".into()).spawn(run);
        let thread = thread.map_err(|e| WireError::system("start a thread that asks for TCP_INFO", e))?;
        Ok(Self { orders, asked_last, leave, latest, thread })
    }

    /// The latest samples, summed over all flows.
    pub(super) fn latest(&self) -> &Latest {
        &self.latest
    }

    /// Starts sampling: the windows have opened.
    pub(super) fn begin(&self, sockets: Sockets, opened_ns: u64, every_ns: Option<u64>) {
        // If the thread has died, joining it reports that.
        let _ = self.orders.send(Command::Begin { sockets, opened_ns, every_ns });
    }

    /// Requests the last samples before the windows close. Waits for them, but not for long.
    pub(super) fn last(&self) {
        let _ = self.orders.send(Command::Last);
        let _ = self.asked_last.recv_timeout(LAST_PASS);
        // Samples taken from now on belong to no window.
        self.leave.store(true, Ordering::Release);
    }

    /// Ends the thread and returns the samples by flow. Releases the sockets.
    pub(super) fn end(self) -> Result<Vec<Vec<TcpSample>>, WireError> {
        self.leave.store(true, Ordering::Release);
        drop(self.orders);
        self.thread.join().map_err(|panic| WireError::died("TCP_INFO", &*panic))
    }
}

fn run(
    orders: &mpsc::Receiver<Command>,
    answered: &mpsc::Sender<()>,
    leave: &AtomicBool,
    latest: &Latest,
) -> Vec<Vec<TcpSample>> {
    let Ok(Command::Begin { sockets, opened_ns, mut every_ns }) = orders.recv() else { return Vec::new() };
    // With hundreds of flows, an ordinary thread would run so late that the intervals would lose their meaning.
    let _punctual = RealtimeGuard::begin();
    let mut sampled = SampledSockets { samples: vec![Vec::new(); sockets.len()], sockets, opened_ns };
    let mut rest_until_ns = sampled.pass(leave);
    latest.note(&sampled.samples);
    let mut due_ns = every_ns.map(|every_ns| opened_ns + every_ns);
    loop {
        let order = match due_ns {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due_ns) => {
                let wait_ns = due_ns.max(rest_until_ns).saturating_sub(clock::monotonic_ns());
                orders.recv_timeout(Duration::from_nanos(wait_ns))
            }
        };
        match order {
            Err(RecvTimeoutError::Timeout) => {
                if sampled.is_full() {
                    sampled.thin();
                    every_ns = every_ns.map(|every_ns| every_ns * 2);
                }
                rest_until_ns = sampled.pass(leave);
                latest.note(&sampled.samples);
                let now_ns = clock::monotonic_ns();
                due_ns = due_ns.zip(every_ns).map(|(due_ns, every_ns)| {
                    // Intervals that passed during the pass are skipped.
                    let passed = now_ns.saturating_sub(due_ns) / every_ns;
                    due_ns + (passed + 1) * every_ns
                });
            }
            Ok(Command::Last) => {
                sampled.pass(leave);
                // The conductor may have stopped waiting.
                let _ = answered.send(());
                return sampled.samples;
            }
            Ok(Command::Begin { .. }) => {}
            Err(RecvTimeoutError::Disconnected) => return sampled.samples,
        }
    }
}

/// The sockets with their samples.
struct SampledSockets {
    sockets: Sockets,
    samples: Vec<Vec<TcpSample>>,
    opened_ns: u64,
}

impl SampledSockets {
    /// Samples each socket once. Returns the time until which to rest (ns).
    fn pass(&mut self, leave: &AtomicBool) -> u64 {
        let began_ns = clock::own_cpu_ns();
        for (socket, samples) in self.sockets.iter().zip(&mut self.samples) {
            let Some(socket) = socket else { continue };
            let sample = tcp_info::sample(socket.as_fd());
            if leave.load(Ordering::Acquire) {
                break;
            }
            let at_s = clock::monotonic_ns().saturating_sub(self.opened_ns) as f64 * 1e-9;
            samples.extend(sample.map(|sample| TcpSample { at_s, ..sample }));
        }
        clock::monotonic_ns() + clock::own_cpu_ns().saturating_sub(began_ns) * REST
    }

    /// Whether another pass would exceed the limit of stored samples.
    fn is_full(&self) -> bool {
        let kept: usize = self.samples.iter().map(Vec::len).sum();
        kept + self.sockets.iter().flatten().count() > MOST_SAMPLES
    }

    /// Drops every second sample of each flow, starting with the second.
    fn thin(&mut self) {
        for samples in &mut self.samples {
            let mut place = 0;
            samples.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn sockets(flows: usize) -> (Sockets, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let address = listener.local_addr().expect("has an address");
        let near: Vec<_> = (0..flows).map(|_| TcpStream::connect(address).expect("connects")).collect();
        let far = (0..flows).map(|_| listener.accept().expect("accepts").0).collect();
        (Arc::new(near.into_iter().map(|socket| Some(socket.into())).collect()), far)
    }

    #[test]
    fn every_flow_is_asked_as_the_windows_open_in_intervals_and_as_they_close() {
        let (sockets, _far) = sockets(3);
        let sampler = Sampler::start().expect("starts");
        let opened_ns = clock::monotonic_ns();
        sampler.begin(sockets, opened_ns, Some(20_000_000));
        thread::sleep(Duration::from_millis(110));
        sampler.last();
        let samples = sampler.end().expect("it lives");
        // A sleep may take longer than requested. Expected: one sample at the opening, one per interval, one at the
        // closing.
        let most = (clock::monotonic_ns() - opened_ns) as usize / 20_000_000 + 2;
        for flow in &samples {
            assert!((4..=most).contains(&flow.len()), "{} of {most}", flow.len());
            assert!(flow.windows(2).all(|pair| pair[0].at_s < pair[1].at_s) && flow[0].at_s < 0.02);
            assert!(flow.last().is_some_and(|last| last.at_s > 0.1));
        }
    }

    #[test]
    fn no_more_are_kept_than_fit_and_the_first_is_among_them() {
        let (sockets, _far) = sockets(2);
        let leave = AtomicBool::new(false);
        let mut asked = SampledSockets { samples: vec![Vec::new(); 2], sockets, opened_ns: clock::monotonic_ns() };
        let mut thinned = 0;
        for _ in 0..2 * MOST_SAMPLES {
            if asked.is_full() {
                asked.thin();
                thinned += 1;
            }
            asked.pass(&leave);
        }
        let kept: usize = asked.samples.iter().map(Vec::len).sum();
        assert!(kept <= MOST_SAMPLES && kept > MOST_SAMPLES / 2 && thinned > 3, "{kept} after {thinned}");
        assert!(asked.samples.iter().all(|flow| flow[0].at_s < 0.01));
    }

    #[test]
    fn asking_takes_no_more_than_a_hundredth_of_a_cpu() {
        let (sockets, _far) = sockets(64);
        let leave = AtomicBool::new(false);
        let mut asked = SampledSockets { samples: vec![Vec::new(); 64], sockets, opened_ns: clock::monotonic_ns() };
        let (cpu_ns, began_ns) = (clock::own_cpu_ns(), clock::monotonic_ns());
        for _ in 0..5 {
            let until_ns = asked.pass(&leave);
            thread::sleep(Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns())));
        }
        let share = (clock::own_cpu_ns() - cpu_ns) as f64 / (clock::monotonic_ns() - began_ns) as f64;
        assert!(share < 0.02, "{share}");
    }
}
