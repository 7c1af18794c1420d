//! Transfers: bulk data and request/response between two ends, swept, and experiments with their settings.
//!
//! | module | holds |
//! | --- | --- |
//! | [`bulk`] | a bulk transfer between two threads (TCP, UDP, Unix socket, pipe), bytes and CPU at both ends |
//! | [`exchange`] | request/response: latency, rate and cost of a transaction |
//! | [`stream`] | bulk transfers: a sweep, metered |
//! | [`rr`] | request/response between two ends on this host, or against an agent |
//! | [`experiments`] | settings varied by a design, and their effects |
//! | [`companion`] | the far end on this host in a separate process |
//! | [`guest`] | a guest of this host as the far host |
//! | [`hosts`] | the fingerprints of both ends' hosts |
//!
//! # Transfers
//!
//! `bulk`: an end of a flow has its own thread with blocking calls (`bulk::end`), or several ends share a thread
//! (`bulk::turns`): non-blocking sockets, epoll, turns of bounded length, and a due time for each paced flow. Both
//! variants move bytes by the same `DataPath`s and count by the same `Meter`. The `Ledger` of the meter divides the CPU
//! time of a shared thread.
//!
//! Interim reports (`-i`): each end or flow stores its counts in its own cell (`bulk::live`, `exchange::live`). The
//! thread that opens and closes the windows reads the cells, and a thread of `cli` writes the lines. The measuring
//! threads make no system call for them.
//!
//! `--live`: `cli::live` queues a bounded number of events, and a separate thread writes them, so that nothing waits
//! for a slow reader. Messages (`output::say`) and the progress of each command are events.
//!
//! Several agents: `bulk::many` runs one transfer over the flows of all agents. Far ends wait for a start time
//! (`bulk::start`). The near end sends it once all have connected (`Watch::gathered`), in each agent's clock
//! (`remote::common_clock`). `rr` queries each agent in a separate thread, from a common start time on
//! (`exchange::rendezvous`).
//!
//! Replayed traffic: `packets::replay` holds the times, sizes and flows of a capture. `packets::frame::Templates`
//! returns the frame for a sequence number; in a forwarding test, `rfc2544::tester::frame::Templates` does.
//!
//! Latency under load: `exchange::probe` sends requests to an answering end (`exchange::server`) during a transfer, and
//! reads the queue lengths. `stream::probe` sorts the requests by phase and names the queue that grew.
//!

pub mod bulk;
pub mod companion;
pub mod exchange;
pub mod experiments;
pub mod guest;
pub mod hosts;
pub mod rr;
pub mod stream;
