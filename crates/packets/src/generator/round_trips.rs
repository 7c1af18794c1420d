//! Round trips: the sending host receives the sink's answers to some of its frames, so that one clock measures the way
//! to the sink and back.
//!
//! Answers wait in sockets bound to the frames' source addresses until the load is over, so that no thread competes
//! with the generator. Each answer has the kernel's receive timestamp. The round trip starts at the *intended* send
//! time, so it includes the sender's lateness.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use netcliff_host::system;

use super::Window;
use crate::clock;
use crate::error::WireError;
use crate::frame::{FrameSpec, Header};
use crate::latency::Latency;
use crate::sink::{Inbox, Reader};
use crate::transmit::Method;

/// Receive buffer with room for some thousand answers (bytes).
const BUFFER_BYTES: usize = 4 << 20;
/// Time without an answer after which reading ends.
const LAST: Duration = Duration::from_millis(50);
/// Longest time of reading, even if packets still come to the address.
const LONGEST: Duration = Duration::from_secs(1);
/// If `CLOCK_REALTIME` was stepped by more than this during the run \[ns\], the round trips are not used.
const STEPPED_NS: u64 = 20_000;

/// The sockets that receive the answers.
#[derive(Debug)]
pub(super) struct Answers {
    sockets: Vec<UdpSocket>,
    run_id: u32,
    offset_ns: i64,
}

impl Answers {
    /// Binds a socket to each source address of the frames.
    ///
    /// # Errors
    /// Frames are sent by a UDP socket, which would receive the answers itself, or an address does not belong to this
    /// host.
    pub(super) fn open(frame: &FrameSpec, method: Method) -> Result<Self, WireError> {
        if method == Method::Socket {
            let expected =
                "AF_PACKET or AF_XDP (--send-by packet or xdp), since answers to a socket's frames come to that socket";
            return Err(WireError::setting("round_trips", "asked for of frames that a socket sends", expected));
        }
        let more = frame.more_flows.iter().map(|ports| ports.source);
        let ports: BTreeSet<u16> = std::iter::once(frame.source.port()).chain(more).collect();
        let bind = |port: u16| bound(SocketAddr::new(frame.source.ip(), port));
        let sockets = ports.into_iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { sockets, run_id: frame.run_id, offset_ns: clock::realtime_minus_monotonic_ns() })
    }

    /// Reads the round trips of the window's frames. `None` if the clock was stepped during the run.
    ///
    /// # Errors
    /// A socket cannot be read.
    pub(super) fn read(self, window: Window) -> Result<Option<Latency>, WireError> {
        let offset_ns = clock::realtime_minus_monotonic_ns();
        if offset_ns.abs_diff(self.offset_ns) > STEPPED_NS {
            return Ok(None);
        }
        let mut times = Latency::new();
        let mut inbox = Inbox::new(Reader::BusyPoll, false);
        let began = Instant::now();
        let mut last = began;
        while last.elapsed() < LAST && began.elapsed() < LONGEST {
            for socket in &self.sockets {
                while began.elapsed() < LONGEST && inbox.receive(socket)? > 0 {
                    last = Instant::now();
                    let header = Header::parse(inbox.payload(0), self.run_id);
                    let header = header.filter(|header| window.contains(header.intended_ns));
                    if let Some((header, stamp_ns)) = header.zip(inbox.stamp_realtime_ns(0)) {
                        let came_ns = stamp_ns.saturating_add_signed(-offset_ns);
                        times.record_ns(came_ns.saturating_sub(header.intended_ns));
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Some(times))
    }
}

fn bound(address: SocketAddr) -> Result<UdpSocket, WireError> {
    let failed = |error: std::io::Error| WireError::system(format!("take answers at {address}"), error);
    let socket = UdpSocket::bind(address).map_err(failed)?;
    system::receive_timestamps(&socket)
        .map_err(|error| WireError::system("ask for kernel receive timestamps", error))?;
    // The buffer is as large as the system allows. If it is too small, the last answers are lost, which shows in their
    // number.
    let _ = system::set_receive_buffer(&socket, BUFFER_BYTES);
    Ok(socket)
}
