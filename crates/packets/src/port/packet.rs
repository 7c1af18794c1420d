//! AF_PACKET receive ring, TPACKET_V3: the kernel fills blocks, which are read without a system call for each frame.

use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use netcliff_host::system::{self, POPULATED};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::{Receiver, Receiving, Stamp};
use crate::error::WireError;
use crate::interface::{
    self, ETH_P_ALL, PACKET_IGNORE_OUTGOING, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, check_link,
    set_packet_option,
};

/// Bytes of a block: room for seven jumbo frames.
const BLOCK_BYTES: usize = 1 << 16;
/// Number of blocks: the ring of 64 MiB holds the 64-byte frames of about 0.4 s at 1 Mpps, longer than the thread sends
/// between two reads.
const BLOCKS: usize = 1024;
/// Longest time for which the kernel waits for more frames before it hands over a partly filled block [ms].
const RETIRE_MS: u32 = 2;
const TPACKET_V3: libc::c_int = 2;
/// Value of `block_status`: the block belongs to the reader.
const USER: u32 = 1;
/// Value of `block_status`: the block belongs to the kernel.
const KERNEL: u32 = 0;
/// Offset of `block_status` in `struct tpacket_block_desc`.
const STATUS_AT: usize = 8;

/// `struct tpacket_req3`.
#[repr(C)]
struct Request {
    block_bytes: u32,
    blocks: u32,
    frame_bytes: u32,
    frames: u32,
    retire_ms: u32,
    private_bytes: u32,
    features: u32,
}

/// `struct tpacket3_hdr`.
#[repr(C)]
struct FrameHead {
    next_offset: u32,
    seconds: u32,
    nanoseconds: u32,
    captured_bytes: u32,
    bytes: u32,
    status: u32,
    mac: u16,
    net: u16,
    /// Hash, VLAN tag and padding.
    rest: [u32; 5],
}

/// A receive ring mapped into this process.
#[derive(Debug)]
pub struct PacketReceiver {
    fd: OwnedFd,
    interface: String,
    memory: NonNull<libc::c_void>,
    /// Index of the block that is being read or comes next.
    block: usize,
    /// Offset of the next frame to read in the block, and the number of frames left. `None` while the kernel owns the
    /// block.
    reading: Option<(usize, u32)>,
}

// SAFETY: `memory` is a mapping that this value owns alone; the kernel's side is synchronised by the atomic status
// words.
unsafe impl Send for PacketReceiver {}

impl PacketReceiver {
    /// Opens a ring for all frames that arrive at an interface in the calling thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses.
    pub fn open(interface: &str) -> Result<Self, WireError> {
        let (fd, index) = interface::unbound_socket(interface)?;
        set_packet_option(&fd, PACKET_VERSION, &TPACKET_V3, "choose TPACKET_V3")?;
        set_packet_option(&fd, PACKET_IGNORE_OUTGOING, &1i32, "ignore what is sent")?;
        let request = Request {
            block_bytes: BLOCK_BYTES as u32,
            blocks: BLOCKS as u32,
            frame_bytes: 2048,
            frames: (BLOCK_BYTES / 2048 * BLOCKS) as u32,
            retire_ms: RETIRE_MS,
            private_bytes: 0,
            features: 0,
        };
        set_packet_option(&fd, PACKET_RX_RING, &request, "make a receive ring")?;
        // SAFETY: a new mapping chosen by the kernel; it replaces none of ours.
        let memory = unsafe {
            mmap(
                None,
                MEMORY_BYTES,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED | POPULATED,
                &fd,
                0,
            )
        }
        .map_err(|e| WireError::system("map the receive ring", e))?;
        let ring = Self { fd, interface: interface.to_owned(), memory, block: 0, reading: None };
        interface::bind(&ring.fd, interface, index, ETH_P_ALL)?;
        Ok(ring)
    }

    fn block_at(&self) -> *mut u8 {
        // SAFETY: `block` is below `BLOCKS`, so the result lies within the mapping.
        unsafe { self.memory.as_ptr().cast::<u8>().add(self.block * BLOCK_BYTES) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: in bounds and aligned (blocks start on pages); the kernel changes the word concurrently, which an
        // atomic allows.
        unsafe { &*self.block_at().add(STATUS_AT).cast::<AtomicU32>() }
    }

    /// Reads a word of the block's descriptor. Call it only for blocks that this process owns.
    fn descriptor(&self, at: usize) -> u32 {
        // SAFETY: the descriptor's 48 bytes lie within the block, and the kernel does not touch a block that this
        // process owns.
        unsafe { self.block_at().add(at).cast::<u32>().read() }
    }

    /// Starts to read the next block. `None` if the kernel has not handed it over yet.
    fn next_block(&mut self) -> Option<(usize, u32)> {
        if self.status().load(Ordering::Acquire) & USER == 0 {
            return None;
        }
        // Layout of struct tpacket_hdr_v1 after version and offset_to_priv: block_status, num_pkts,
        // offset_to_first_pkt.
        Some((self.descriptor(STATUS_AT + 8) as usize, self.descriptor(STATUS_AT + 4)))
    }

    fn release(&mut self) {
        self.status().store(KERNEL, Ordering::Release);
        self.block = (self.block + 1) % BLOCKS;
        self.reading = None;
    }

    /// Returns the frame at an offset of the current block, its timestamp (ns), and the distance to the next frame
    /// (bytes).
    fn frame(&self, at: usize) -> (&[u8], u64, usize) {
        assert!(at + size_of::<FrameHead>() <= BLOCK_BYTES);
        // SAFETY: the kernel placed a header at this offset of a block that this process owns, aligned to 16 bytes.
        let head = unsafe { &*self.block_at().add(at).cast::<FrameHead>() };
        let (from, length) = (at + usize::from(head.mac), head.captured_bytes as usize);
        assert!(from <= BLOCK_BYTES, "the kernel names offsets within the block");
        let length = length.min(BLOCK_BYTES - from);
        // SAFETY: in bounds by the line above; the process owns the block until `release`, which takes `&mut self`.
        let bytes = unsafe { std::slice::from_raw_parts(self.block_at().add(from), length) };
        (bytes, u64::from(head.seconds) * 1_000_000_000 + u64::from(head.nanoseconds), head.next_offset as usize)
    }
}

const MEMORY_BYTES: NonZeroUsize = NonZeroUsize::new(BLOCK_BYTES * BLOCKS).expect("it is not zero");

impl Receiver for PacketReceiver {
    fn poll(&mut self, most: usize, take: &mut dyn FnMut(&[u8], Option<Stamp>)) -> Result<usize, WireError> {
        let mut read = 0;
        while read < most {
            let Some((at, left)) = self.reading.or_else(|| self.next_block()) else { break };
            if left == 0 {
                self.release();
                continue;
            }
            let (bytes, stamp_ns, next) = self.frame(at);
            take(bytes, Some(Stamp::Realtime(stamp_ns)));
            read += 1;
            self.reading = Some((at + next, left - 1));
            if left == 1 {
                self.release();
            }
        }
        Ok(read)
    }

    fn missed(&mut self) -> Result<u64, WireError> {
        // If a port goes down or away, its ring just stays empty, so the port is checked.
        interface::fault(&self.fd, &self.interface)?;
        // `struct tpacket_stats_v3`: packets, drops, times that the queue was frozen.
        let counts = system::packet_option(&self.fd, PACKET_STATISTICS);
        let [_, drops, _]: [u32; 3] = counts.map_err(|e| WireError::system("read the receive ring's counters", e))?;
        Ok(drops.into())
    }

    fn check(&self) -> Result<(), WireError> {
        check_link(&self.fd, &self.interface)
    }

    fn receiving(&self) -> Receiving {
        Receiving::PacketRing
    }
}

impl Drop for PacketReceiver {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this length, and no reference into it outlives the ring.
        let _ = unsafe { munmap(self.memory, MEMORY_BYTES.get()) };
    }
}
