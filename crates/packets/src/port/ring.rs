//! The AF_PACKET transmit ring.
//!
//! Kernel and generator share the slots of the ring. A status word in each slot says which of them owns the slot. The
//! kernel has its own position in the ring; after the next hop refused a frame, it stays at this frame.

use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use netcliff_host::system::POPULATED;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::SendOutcome;
use crate::error::WireError;
use crate::interface::{
    PACKET_TX_RING, PACKET_VERSION, PACKET_VNET_HDR, check_link, explained, packet_socket, set_packet_option,
};

const TPACKET_V2: libc::c_int = 1;
const AVAILABLE: u32 = 0;
const SEND_REQUEST: u32 = 1;
const WRONG_FORMAT: u32 = 4;
const BLOCK_BYTES: u32 = 1 << 16;
/// Offset in a slot at which the kernel expects the data: TPACKET2_HDRLEN - sizeof(struct sockaddr_ll).
const DATA_AT: usize = 32;
/// Length of `struct virtio_net_hdr`. Its `hdr_len` tells the kernel how many bytes to copy into the packet's linear
/// part. Without it, all but 14 bytes go to a separate page.
const VNET_BYTES: usize = 10;

/// `struct tpacket_req`.
#[repr(C)]
struct Request {
    block_bytes: u32,
    blocks: u32,
    frame_bytes: u32,
    frames: u32,
}

/// The start of `struct tpacket2_hdr`: the fields that a sender needs.
#[repr(C)]
struct SlotHead {
    status: AtomicU32,
    length: u32,
}

/// A transmit ring mapped into this process.
#[derive(Debug)]
pub(crate) struct RawRing {
    fd: OwnedFd,
    /// ` on interface NAME`, for errors.
    on: String,
    interface: String,
    /// Longest frame, without FCS \[bytes\].
    longest: usize,
    memory: NonNull<libc::c_void>,
    memory_bytes: NonZeroUsize,
    slot_bytes: usize,
    slots: usize,
    max_burst: usize,
    /// Index of the slot that the kernel processes next.
    kernel_at: usize,
    /// Number of frames staged from that slot on.
    staged: usize,
}

// SAFETY: `memory` is a mapping that this value owns alone; the kernel's side is synchronised by the
// atomic status words.
unsafe impl Send for RawRing {}

impl RawRing {
    /// Fails if the interface has no carrier.
    pub(crate) fn check(&self) -> Result<(), WireError> {
        check_link(&self.fd, &self.interface)
    }

    /// Makes the ring. Each slot is filled with `filler`, which is as long as the longest frame.
    ///
    /// # Errors
    /// The interface has no carrier, the kernel refuses, or `slots` is not a power of two from 256 to 65536.
    pub(crate) fn open(interface: &str, filler: &[u8], max_burst: usize, slots: u32) -> Result<Self, WireError> {
        if !slots.is_power_of_two() || !(256..=65536).contains(&slots) {
            return Err(WireError::setting("slots", slots, "a power of two, 256 to 65536"));
        }
        let fd = packet_socket(interface)?;
        let slot_bytes = (DATA_AT + VNET_BYTES + filler.len()).next_power_of_two();
        let memory_bytes = slot_bytes * slots as usize;
        let request = Request {
            block_bytes: BLOCK_BYTES,
            blocks: memory_bytes.div_ceil(BLOCK_BYTES as usize) as u32,
            frame_bytes: slot_bytes as u32,
            frames: slots.max(BLOCK_BYTES / slot_bytes as u32),
        };
        set_packet_option(&fd, PACKET_VNET_HDR, &1i32, "ask for virtio-net headers")?;
        set_packet_option(&fd, PACKET_VERSION, &TPACKET_V2, "choose TPACKET_V2")?;
        set_packet_option(&fd, PACKET_TX_RING, &request, "make a transmit ring")?;
        let memory_bytes = NonZeroUsize::new((request.blocks * BLOCK_BYTES) as usize)
            .ok_or_else(|| WireError::setting("slots", slots, "at least 256"))?;
        // SAFETY: a new mapping chosen by the kernel; it replaces none of ours.
        let memory = unsafe {
            mmap(
                None,
                memory_bytes,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED | POPULATED,
                &fd,
                0,
            )
        }
        .map_err(|e| WireError::system("map the transmit ring", e))?;
        let mut ring = Self {
            fd,
            on: format!(" on interface {interface}"),
            interface: interface.to_owned(),
            longest: filler.len(),
            memory,
            memory_bytes,
            slot_bytes,
            slots: request.frames as usize,
            max_burst,
            kernel_at: 0,
            staged: 0,
        };
        ring.fill(filler);
        Ok(ring)
    }

    /// Copies the same bytes into every slot, so that only the headers change later.
    fn fill(&mut self, filler: &[u8]) {
        for slot in 0..self.slots {
            let data = self.data(slot);
            data[VNET_BYTES..].copy_from_slice(filler);
            // virtio_net_hdr: flags, gso_type, then hdr_len in the machine's byte order.
            data[2..4].copy_from_slice(&(filler.len() as u16).to_ne_bytes());
        }
    }

    fn head(&self, slot: usize) -> *mut SlotHead {
        assert!(slot < self.slots);
        // SAFETY: `slot` is below `slots`, so the result lies within the mapping.
        unsafe { self.memory.as_ptr().byte_add(slot * self.slot_bytes).cast() }
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: `head` is in bounds and aligned (slots are a power of two of at least 128 bytes);
        // the kernel changes the word concurrently, which an atomic allows.
        unsafe { &(*self.head(slot)).status }
    }

    /// The virtio-net header and the frame of a slot. Call it only for slots that the generator owns (AVAILABLE, or
    /// SEND_REQUEST while no kick is in progress).
    fn data(&mut self, slot: usize) -> &mut [u8] {
        let length = VNET_BYTES + self.longest;
        // SAFETY: in bounds by the choice of `slot_bytes`; the kernel does not touch the data of a slot
        // that is ours, and `&mut self` keeps other references away.
        unsafe { slot_data(self.head(slot), length) }
    }

    /// Makes the kernel send the staged frames, from its position in the ring on.
    fn send(&self) -> Result<(), std::io::Error> {
        // SAFETY: an empty message: the pointer is not read.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        if sent < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    }

    /// Advances over the frames that the kernel has taken. Returns their number.
    fn advance(&mut self) -> u64 {
        let mut taken = 0;
        while self.staged > 0 && self.status(self.kernel_at).load(Ordering::Acquire) != SEND_REQUEST {
            self.kernel_at = (self.kernel_at + 1) % self.slots;
            self.staged -= 1;
            taken += 1;
        }
        taken
    }

    /// Removes the frame at the kernel's position, by moving each later frame one slot towards it.
    fn drop_first(&mut self) {
        for step in 1..self.staged {
            let from = (self.kernel_at + step) % self.slots;
            let to = (self.kernel_at + step - 1) % self.slots;
            let frame = self.data(from).to_vec();
            self.data(to).copy_from_slice(&frame);
            // SAFETY: both slots are ours; `length` is a plain word in bounds.
            unsafe { (*self.head(to)).length = (*self.head(from)).length };
        }
        self.staged -= 1;
        let last = (self.kernel_at + self.staged) % self.slots;
        self.status(last).store(AVAILABLE, Ordering::Release);
    }
}

/// The data of a slot.
///
/// # Safety
/// `head` starts a slot of at least `DATA_AT + length` bytes that is mapped for `'a`, owned by the
/// generator at this moment, and not otherwise referred to.
unsafe fn slot_data<'a>(head: *mut SlotHead, length: usize) -> &'a mut [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(head.cast::<u8>().byte_add(DATA_AT), length) }
}

impl RawRing {
    /// Stages a frame of `length` bytes. `write` builds it from the slot's filler or from an earlier frame. Returns
    /// false and changes nothing if the ring is full.
    #[inline]
    pub(crate) fn stage(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let slot = (self.kernel_at + self.staged) % self.slots;
        let status = self.status(slot).load(Ordering::Acquire);
        let fits = self.staged < self.max_burst && length <= self.longest;
        if !fits || (status != AVAILABLE && status != WRONG_FORMAT) {
            return false;
        }
        let data = &mut self.data(slot)[..VNET_BYTES + length];
        data[2..4].copy_from_slice(&(length as u16).to_ne_bytes());
        write(&mut data[VNET_BYTES..]);
        // SAFETY: the slot is ours, see `data`; `length` is a plain word in bounds.
        unsafe { (*self.head(slot)).length = (VNET_BYTES + length) as u32 };
        self.status(slot).store(SEND_REQUEST, Ordering::Release);
        self.staged += 1;
        true
    }

    /// Hands the staged frames to the kernel, see [`super::Sender::kick`].
    pub(crate) fn kick(&mut self) -> Result<SendOutcome, WireError> {
        let mut kicked = SendOutcome::default();
        while self.staged > 0 {
            let outcome = self.send();
            let taken = self.advance();
            kicked.accepted += taken;
            match outcome {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if self.staged > 0 => {
                    kicked.book(error, &self.on).map_err(|error| explained(&self.fd, &self.interface, error))?;
                    self.drop_first();
                }
                Ok(()) if taken == 0 => {
                    // Kernel and generator disagree about the position. This has never been seen, and must not become
                    // an endless loop.
                    let error = std::io::Error::other("the kernel ignores the staged frames");
                    return Err(WireError::system("kick the transmit ring", error));
                }
                _ => {}
            }
        }
        Ok(kicked)
    }
}

impl Drop for RawRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this length, and no reference into it
        // outlives the ring.
        let _ = unsafe { munmap(self.memory, self.memory_bytes.get()) };
    }
}
