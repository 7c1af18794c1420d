//! `sendmmsg`, on an AF_PACKET or a UDP socket.

use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Transmit;
use crate::error::WireError;
use crate::frame::{FrameSpec, Header, Templates};
use crate::interface;
use crate::port::SendOutcome;

/// Frames in memory; each kick is one `sendmmsg`.
#[derive(Debug)]
pub struct Batch {
    fd: OwnedFd,
    templates: Templates,
    /// Length of the longest frame, which is also the distance between two frames \[bytes\].
    size: usize,
    /// Bytes at the start of each frame that are not handed to the kernel.
    skip: usize,
    /// `max_burst` frames, one after the other; boxed: `vectors` point into it.
    frames: Box<[u8]>,
    /// One vector for each frame; boxed: `messages` point into them.
    vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
    staged: usize,
}

// SAFETY: the raw pointers in `vectors` and `messages` point into heap blocks that this value owns
// and that never move or shrink; nothing else refers to them.
unsafe impl Send for Batch {}

impl Batch {
    /// Sends on an AF_PACKET socket: whole frames, directly to the interface's driver.
    ///
    /// # Errors
    /// See [`super::open`].
    pub fn packet(interface: &str, spec: &FrameSpec, max_burst: usize) -> Result<Self, WireError> {
        let templates = Templates::new(spec)?;
        Ok(Self::new(interface::packet_socket(interface)?, templates, 0, max_burst))
    }

    /// Sends on a UDP socket connected to the frame's destination: the kernel makes the headers.
    ///
    /// # Errors
    /// See [`super::open`].
    pub fn udp(spec: &FrameSpec, max_burst: usize) -> Result<Self, WireError> {
        if !spec.more_flows.is_empty() {
            let flows = spec.more_flows.len() + 1;
            return Err(WireError::setting("flows", flows, "1 flow where a UDP socket sends: use AF_PACKET or AF_XDP"));
        }
        let templates = Templates::new(&FrameSpec { vlan: None, ..spec.clone() })?;
        let action = || format!("open a UDP socket from {} to {}", spec.source, spec.destination);
        let socket = UdpSocket::bind(spec.source).map_err(|e| WireError::system(action(), e))?;
        socket.connect(spec.destination).map_err(|e| WireError::system(action(), e))?;
        let fd = OwnedFd::from(socket);
        interface::grow_send_buffer(&fd);
        let skip = templates.longest().payload_at();
        Ok(Self::new(fd, templates, skip, max_burst))
    }

    /// Makes the buffers. `skip`: number of bytes at the start of each frame that are not handed to the kernel.
    fn new(fd: OwnedFd, templates: Templates, skip: usize, max_burst: usize) -> Self {
        let longest = templates.longest().bytes();
        let size = longest.len();
        let mut frames = longest.repeat(max_burst).into_boxed_slice();
        let mut vectors: Box<[libc::iovec]> = frames
            .chunks_exact_mut(size)
            .map(|frame| libc::iovec { iov_base: frame[skip..].as_mut_ptr().cast(), iov_len: size - skip })
            .collect();
        let messages = vectors
            .iter_mut()
            .map(|vector| {
                // SAFETY: mmsghdr is plain data, for which all zeroes is a valid value.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = vector;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        Self { fd, templates, size, skip, frames, vectors, messages, staged: 0 }
    }
}

impl Transmit for Batch {
    fn capacity(&self) -> usize {
        self.messages.len()
    }

    #[inline]
    fn stage(&mut self, header: &Header) -> bool {
        let size = self.size;
        let Some(frame) = self.frames.get_mut(self.staged * size..(self.staged + 1) * size) else {
            return false;
        };
        let (template, differs) = self.templates.at(header.sequence);
        if differs {
            let bytes = template.bytes();
            frame[..bytes.len()].copy_from_slice(bytes);
            self.vectors[self.staged].iov_len = bytes.len() - self.skip;
        }
        template.stamp(frame, header);
        self.staged += 1;
        true
    }

    fn kick(&mut self) -> Result<SendOutcome, WireError> {
        let staged = std::mem::take(&mut self.staged);
        let mut kicked = SendOutcome::default();
        let mut done = 0;
        while done < staged {
            let rest = &mut self.messages[done..staged];
            // SAFETY: `rest` holds initialised messages whose vectors point into `self.frames`;
            // all live until the call returns, and the kernel only reads the frames.
            let sent = unsafe {
                netcliff_host::system::send_messages(
                    self.fd.as_raw_fd(),
                    rest.as_mut_ptr(),
                    rest.len() as u32,
                    libc::MSG_DONTWAIT,
                )
            };
            if sent < 0 {
                let error = std::io::Error::last_os_error();
                if error.kind() == std::io::ErrorKind::Interrupted {
                    continue;
                }
                kicked.book(error, "")?;
                done += 1;
                continue;
            }
            kicked.accepted += sent as u64;
            done += sent as usize;
            if done < staged {
                // sendmmsg stops after a message that failed, and does not report its error. This frame is lost;
                // another call would return the error, but send the frame a second time.
                kicked.refused += 1;
                done += 1;
            }
        }
        Ok(kicked)
    }
}
