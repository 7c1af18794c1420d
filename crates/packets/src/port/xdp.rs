//! AF_XDP sender: the kernel takes each frame from shared memory, in place if the driver supports it (zero-copy),
//! otherwise as a copy. On a veth, where it copies, it is faster than an AF_PACKET ring (bench/rfc2544).

mod receiver;
mod socket;

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use netcliff_host::xdp::{Mode, ToSockets};
use nix::net::if_::if_nametoindex;

use self::socket::Socket;
use super::{Sender, Sending};
use crate::error::WireError;
use crate::interface::{check_carrier, check_link, explained, grow_send_buffer};
use crate::port::SendOutcome;
pub use receiver::XdpReceiver;
pub(super) use socket::SharedUmem;

/// Number of frames of shared memory, and of slots of the rings: twice the number of frames in two backlogs of 1000 on
/// the path. The memory is not more than an ordinary user may lock (8 MiB).
const SLOTS: u32 = 4096;
/// Bytes of shared memory for a frame.
const SMALL: usize = 2048;
/// Bytes of shared memory for a long frame; then there are half as many frames. A page is the maximum.
const PAGE: usize = 4096;
/// If the kernel leaves staged frames in the ring for this long, the port counts as unusable.
const STUCK: Duration = Duration::from_secs(1);
/// Time allowed for a driver to bring the link back after it configured its queue for zero-copy.
const LINK_BACK: Duration = Duration::from_secs(10);

/// A sending AF_XDP socket.
#[derive(Debug)]
pub struct XdpSender {
    socket: Socket,
    interface: String,
    /// Socket for checks whether the interface still exists.
    asking: OwnedFd,
    /// Addresses of frames that this process owns.
    free: Vec<u64>,
    longest: usize,
    /// Value of the transmit ring's producer index up to which frames were handed over.
    produced: u32,
    staged: u32,
    max_burst: usize,
    /// Keeps the driver's XDP mode enabled.
    _passing: Option<ToSockets>,
}

// SAFETY: the mappings are owned by this value alone; the kernel's side is synchronised by the rings' atomic indices.
unsafe impl Send for XdpSender {}

impl XdpSender {
    /// Longest frame without FCS that fits (bytes).
    pub const LONGEST: usize = PAGE;

    /// Opens a socket on the first queue of an interface in the calling thread's network namespace. Every frame of
    /// shared memory starts as `filler`.
    ///
    /// # Errors
    /// There is no such interface, it has no carrier, a frame does not fit into a page, another socket uses the queue,
    /// or the kernel refuses (it requires CAP_NET_RAW).
    pub fn open(interface: &str, filler: &[u8], max_burst: usize) -> Result<Self, WireError> {
        Self::open_beside(interface, filler, max_burst, None)
    }

    /// Like [`Self::open`]. With `received`, also allocates memory for a receiver on the same queue, for frames of up
    /// to that many bytes without FCS.
    pub(super) fn open_beside(
        interface: &str,
        filler: &[u8],
        max_burst: usize,
        received: Option<usize>,
    ) -> Result<Self, WireError> {
        if filler.len() > Self::LONGEST {
            return Err(WireError::setting("frame size", filler.len() + 4, "at most 4100 bytes with FCS for AF_XDP"));
        }
        let action = || format!("open an AF_XDP socket on interface {interface}");
        let index = if_nametoindex(interface).map_err(|e| WireError::system(action(), e))?;
        check_carrier(interface)?;
        let large = filler.len() > SMALL || received.is_some_and(receiver::is_large);
        let (frame_bytes, slots) = if large { (PAGE, SLOTS / 2) } else { (SMALL, SLOTS) };
        let to_lend = received.map_or(0, |_| receiver::slots(1, frame_bytes));
        let socket = Socket::open(index, slots, to_lend, frame_bytes, filler)?;
        grow_send_buffer(&socket.fd);
        let mut passing = None;
        if socket.zero_copy {
            // The receiver's program also keeps the XDP mode enabled.
            if received.is_none() {
                passing = switch_on(interface, index)?;
            }
            await_carrier(interface)?;
        }
        let free = socket.frames.addresses().collect();
        let interface = interface.to_owned();
        Ok(Self {
            socket,
            interface,
            asking: asking_socket()?,
            free,
            longest: filler.len(),
            produced: 0,
            staged: 0,
            max_burst,
            _passing: passing,
        })
    }

    /// The shared memory for a receiver on the same queue. `None` after the first call.
    pub(super) fn lend(&mut self) -> Option<SharedUmem> {
        self.socket.lent.take()
    }

    /// Takes back the frames that the kernel has sent.
    #[inline]
    fn reap(&mut self) {
        let free = &mut self.free;
        self.socket.completion.drain(|frame| free.push(frame));
    }

    /// Number of frames handed over that the kernel has not processed yet.
    fn waiting(&self) -> u32 {
        self.produced.wrapping_sub(self.socket.transmit.consumer().load(Ordering::Acquire))
    }

    fn dead(&self, error: impl Into<std::io::Error>) -> WireError {
        let error = WireError::system(format!("send frames on interface {}", self.interface), error);
        explained(&self.asking, &self.interface, error)
    }

    /// Makes the kernel copy every staged frame. A call ends early if the next hop refuses a frame, which is then lost.
    /// It also ends early if there is no room; then the frame remains to be sent.
    fn copy(&mut self, kicked: &mut SendOutcome) -> Result<(), WireError> {
        let mut idle_since = None;
        let mut waiting = self.waiting();
        while waiting > 0 {
            match self.socket.send().map_err(|error| (error.raw_os_error(), error)) {
                Err((Some(libc::EBUSY), _)) => {
                    kicked.accepted = kicked.accepted.saturating_sub(1);
                    kicked.refused += 1;
                    idle_since = None;
                }
                Ok(()) | Err((Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS), _)) => {}
                Err((_, error)) => return Err(self.dead(error)),
            }
            let left = self.waiting();
            if left < waiting {
                idle_since = None;
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() > STUCK {
                return Err(self.dead(std::io::Error::other("the kernel leaves the frames where they are")));
            }
            waiting = left;
        }
        Ok(())
    }

    /// Wakes a driver that reads the frames in place, if it needs a system call.
    fn wake(&self) -> Result<(), WireError> {
        if !self.socket.transmit.needs_call() {
            return Ok(());
        }
        match self.socket.send().map_err(|error| (error.raw_os_error(), error)) {
            Ok(()) | Err((Some(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ENOBUFS), _)) => Ok(()),
            Err((_, error)) => Err(self.dead(error)),
        }
    }
}

/// Attaches an XDP program that passes every frame to the kernel: some drivers (igb, ixgbe, i40e, ice) send in place
/// only while an XDP program is attached. `None` if another program is attached.
fn switch_on(interface: &str, index: u32) -> Result<Option<ToSockets>, WireError> {
    match ToSockets::attach(index, 1, Mode::Native) {
        Ok(program) => Ok(Some(program)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => Ok(None),
        Err(source) => Err(WireError::Program { interface: interface.to_owned(), source }),
    }
}

fn await_carrier(interface: &str) -> Result<(), WireError> {
    let until = Instant::now() + LINK_BACK;
    loop {
        match check_carrier(interface) {
            Err(WireError::NoCarrier { .. }) if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
            answer => return answer,
        }
    }
}

/// Opens a socket in the calling thread's network namespace for ioctls on interfaces. An AF_XDP socket does not support
/// them.
fn asking_socket() -> Result<OwnedFd, WireError> {
    // SAFETY: plain system call without pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(WireError::last_os("open a socket to ask for interfaces"));
    }
    // SAFETY: `fd` was just opened and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Sender for XdpSender {
    #[inline]
    fn stage(&mut self, length: usize, write: &mut dyn FnMut(&mut [u8])) -> bool {
        if self.staged as usize >= self.max_burst || length > self.longest {
            return false;
        }
        if self.free.is_empty() {
            self.reap();
        }
        let Some(frame) = self.free.pop() else { return false };
        write(self.socket.frames.at(frame, length));
        // The ring has a slot for every frame, so a free frame always has a free slot.
        let entry = libc::xdp_desc { addr: frame, len: length as u32, options: 0 };
        self.socket.transmit.put(self.produced.wrapping_add(self.staged), entry);
        self.staged += 1;
        true
    }

    #[inline]
    fn kick(&mut self) -> Result<SendOutcome, WireError> {
        let mut kicked = SendOutcome { accepted: self.staged.into(), ..SendOutcome::default() };
        self.produced = self.produced.wrapping_add(self.staged);
        self.staged = 0;
        self.socket.transmit.producer().store(self.produced, Ordering::Release);
        if self.socket.zero_copy {
            self.wake()?
        } else {
            self.copy(&mut kicked)?
        }
        self.reap();
        Ok(kicked)
    }

    fn check(&self) -> Result<(), WireError> {
        check_link(&self.asking, &self.interface)
    }

    fn sending(&self) -> Sending {
        if self.socket.zero_copy { Sending::XdpZeroCopy } else { Sending::XdpCopy }
    }
}
