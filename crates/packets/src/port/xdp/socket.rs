//! Parts of an AF_XDP socket: memory shared with the kernel, and the rings that exchange addresses in this memory.

use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::error::WireError;

/// Number of slots of the fill ring of a socket that only sends; the kernel requires a fill ring there, too.
const FILL_SLOTS: u32 = 64;

/// Longest wait for a busy queue: the kernel releases it some time after its socket was closed (measured: 10 to 60 ms).
const QUEUE_FREE: Duration = Duration::from_millis(500);

/// A memory mapping with its length.
#[derive(Debug)]
struct Mapping {
    memory: NonNull<libc::c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: a mapping is an address and a length; `Frames` and `Queue` control the access to its memory.
unsafe impl Send for Mapping {}
// SAFETY: see `Send` above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and its owner lends no reference beyond its own life.
        let _ = unsafe { munmap(self.memory, self.bytes.get()) };
    }
}

/// Frames that the kernel reads or writes in place: a part of the shared memory that only this value accesses.
#[derive(Debug)]
pub(super) struct Frames {
    mapping: Arc<Mapping>,
    frame_bytes: usize,
    /// Offsets of the start and the end of the part.
    from: usize,
    to: usize,
}

impl Frames {
    /// Allocates memory for `slots` frames, each starting as `filler`.
    pub(super) fn new(slots: u32, frame_bytes: usize, filler: &[u8]) -> Result<Self, WireError> {
        let bytes = NonZeroUsize::new(frame_bytes * slots as usize)
            .ok_or_else(|| WireError::setting("frame size", frame_bytes, "more than 0"))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping chosen by the kernel; it replaces none of ours.
        let memory = unsafe {
            mmap_anonymous(
                None,
                bytes,
                protection,
                MapFlags::MAP_PRIVATE | MapFlags::from_bits_retain(libc::MAP_POPULATE),
            )
        }
        .map_err(|e| WireError::system("reserve memory for frames", e))?;
        let mapping = Arc::new(Mapping { memory, bytes });
        let mut frames = Self { mapping, frame_bytes, from: 0, to: bytes.get() };
        for slot in 0..u64::from(slots) {
            frames.at(slot * frame_bytes as u64, filler.len()).copy_from_slice(filler);
        }
        Ok(frames)
    }

    /// Splits off all frames after the first `slots`, and returns them.
    pub(super) fn split_off(&mut self, slots: u32) -> Self {
        let at = self.from + slots as usize * self.frame_bytes;
        let rest = Self { mapping: Arc::clone(&self.mapping), frame_bytes: self.frame_bytes, from: at, to: self.to };
        self.to = at;
        rest
    }

    /// Number of bytes per frame slot.
    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Addresses of all frames.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        (self.from..self.to).step_by(self.frame_bytes).map(|address| address as u64)
    }

    /// Shares the memory with the kernel.
    pub(super) fn share(&self, fd: &OwnedFd) -> Result<(), WireError> {
        let register = libc::xdp_umem_reg {
            addr: self.mapping.memory.as_ptr() as u64,
            len: self.mapping.bytes.get() as u64,
            chunk_size: self.frame_bytes as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(fd, libc::XDP_UMEM_REG, &register, "share memory with an AF_XDP socket (see ulimit -l)")
    }

    /// The first `length` bytes of the frame at this address. The frame must be owned by this process at this moment.
    #[inline]
    pub(super) fn at(&mut self, address: u64, length: usize) -> &mut [u8] {
        let address = address as usize;
        assert!(length <= self.frame_bytes && address >= self.from && address + self.frame_bytes <= self.to);
        // SAFETY: in bounds by the line above. The kernel does not access a frame that is in none of its rings, other
        // values own other parts, and `&mut self` keeps other references away.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.memory.as_ptr().cast::<u8>().add(address), length) }
    }
}

/// A ring of entries of type `T` between the kernel and this process.
#[derive(Debug)]
pub(super) struct Queue<T> {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    /// Number of slots, a power of two.
    slots: u32,
    entries: std::marker::PhantomData<T>,
}

impl<T: Copy> Queue<T> {
    pub(super) fn map(
        fd: &OwnedFd,
        offsets: libc::xdp_ring_offset,
        at: libc::off_t,
        slots: u32,
    ) -> Result<Self, WireError> {
        let bytes = NonZeroUsize::new(offsets.desc as usize + slots as usize * size_of::<T>())
            .ok_or_else(|| WireError::setting("slots", slots, "more than 0"))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping chosen by the kernel; it replaces none of ours.
        let memory = unsafe {
            mmap(None, bytes, protection, MapFlags::MAP_SHARED | MapFlags::from_bits_retain(libc::MAP_POPULATE), fd, at)
        }
        .map_err(|e| WireError::system("map an AF_XDP ring", e))?;
        Ok(Self { mapping: Mapping { memory, bytes }, offsets, slots, entries: std::marker::PhantomData })
    }

    /// Number of slots, a power of two.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// The word at an offset that the kernel named.
    #[inline]
    fn word(&self, at: u64) -> &AtomicU32 {
        let at = at as usize;
        assert!(at + 4 <= self.mapping.bytes.get() && at.is_multiple_of(4));
        // SAFETY: in bounds and aligned (the kernel names offsets of u32 within the mapping it sized); the kernel
        // changes the word concurrently, which an atomic allows.
        unsafe { &*self.mapping.memory.as_ptr().byte_add(at).cast::<AtomicU32>() }
    }

    /// Index of the producer: counts the entries handed over, without wrapping at the ring size.
    #[inline]
    pub(super) fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    /// Index of the consumer: counts the entries taken, without wrapping at the ring size.
    #[inline]
    pub(super) fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// Whether the kernel needs a system call before it looks at the ring.
    pub(super) fn needs_call(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    #[inline]
    fn entry(&self, index: u32) -> *mut T {
        let at = self.offsets.desc as usize + (index & (self.slots - 1)) as usize * size_of::<T>();
        // SAFETY: the mapping holds `slots` entries from `desc` on, and the index is below `slots`.
        unsafe { self.mapping.memory.as_ptr().byte_add(at).cast() }
    }

    /// Writes an entry of a ring that this process fills. Call it before the producer index passes the entry. There are
    /// no more frames than slots, so the kernel has read the entry that this overwrites, even if the consumer index is
    /// behind: the kernel exposes received frames before it advances the fill ring's index (net/xdp/xsk.c,
    /// `xsk_flush`).
    #[inline]
    pub(super) fn put(&mut self, index: u32, entry: T) {
        // SAFETY: in bounds; the kernel only reads entries below the producer index, which the caller moves later.
        unsafe { self.entry(index).write(entry) }
    }

    /// Takes all entries out of a ring that the kernel fills.
    #[inline]
    pub(super) fn drain(&mut self, take: impl FnMut(T)) {
        self.take(u32::MAX, take);
    }

    /// Takes up to `most` entries out of a ring that the kernel fills. Returns their number.
    #[inline]
    pub(super) fn take(&mut self, most: u32, mut take: impl FnMut(T)) -> u32 {
        let to = self.producer().load(Ordering::Acquire);
        let from = self.consumer().load(Ordering::Relaxed);
        let taken = to.wrapping_sub(from).min(most);
        for index in 0..taken {
            // SAFETY: the kernel wrote the entries below its index and does not touch them until ours passes them.
            take(unsafe { self.entry(from.wrapping_add(index)).read() });
        }
        self.consumer().store(from.wrapping_add(taken), Ordering::Release);
        taken
    }
}

/// The part of a sending socket that a receiving socket on the same queue needs: a queue has a single memory and a
/// single fill ring.
#[derive(Debug)]
pub struct SharedUmem {
    /// The sending socket.
    pub(super) fd: OwnedFd,
    pub(super) frames: Frames,
    pub(super) fill: Queue<u64>,
}

/// A sending socket, bound to the first queue of an interface.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    pub(super) frames: Frames,
    pub(super) transmit: Queue<libc::xdp_desc>,
    pub(super) completion: Queue<u64>,
    /// Whether the driver reads the frames in place.
    pub(super) zero_copy: bool,
    /// Shared memory for a receiving socket on the same queue.
    pub(super) lent: Option<SharedUmem>,
}

impl Socket {
    /// Opens a socket with rings of `slots` slots and `slots` frames, each starting as `filler`, and `to_lend` further
    /// frames to share. Uses zero-copy if the driver supports it.
    pub(super) fn open(
        index: u32,
        slots: u32,
        to_lend: u32,
        frame_bytes: usize,
        filler: &[u8],
    ) -> Result<Self, WireError> {
        let fd = open()?;
        let mut frames = Frames::new(slots + to_lend, frame_bytes, filler)?;
        frames.share(&fd)?;
        set(&fd, libc::XDP_UMEM_FILL_RING, &to_lend.max(FILL_SLOTS), "make an AF_XDP fill ring")?;
        set(&fd, libc::XDP_UMEM_COMPLETION_RING, &slots, "make an AF_XDP completion ring")?;
        set(&fd, libc::XDP_TX_RING, &slots, "make an AF_XDP transmit ring")?;
        let offsets: libc::xdp_mmap_offsets = get(&fd, libc::XDP_MMAP_OFFSETS, "read the layout of AF_XDP rings")?;
        let transmit = Queue::map(&fd, offsets.tx, libc::XDP_PGOFF_TX_RING, slots)?;
        let completion = Queue::map(&fd, offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t, slots)?;
        bind(&fd, index, 0).map_err(|e| WireError::system("bind an AF_XDP socket to the first queue", e))?;
        let zero_copy = is_zero_copy(&fd)?;
        let mut lent = None;
        if to_lend > 0 {
            let fill = Queue::map(&fd, offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, to_lend)?;
            let own = fd.try_clone().map_err(|e| WireError::system("hand an AF_XDP socket on", e))?;
            lent = Some(SharedUmem { fd: own, frames: frames.split_off(slots), fill });
        }
        Ok(Self { fd, frames, transmit, completion, zero_copy, lent })
    }

    /// Makes the kernel process the transmit ring.
    pub(super) fn send(&self) -> Result<(), std::io::Error> {
        // SAFETY: an empty message: no pointer is read.
        let sent =
            unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        if sent < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Opens a socket without rings.
pub(super) fn open() -> Result<OwnedFd, WireError> {
    // SAFETY: plain system call without pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(WireError::last_os("open an AF_XDP socket"));
    }
    // SAFETY: `fd` was just opened and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether the driver of the bound socket's port reads and writes the frames in place.
pub(super) fn is_zero_copy(fd: &OwnedFd) -> Result<bool, WireError> {
    let options: libc::xdp_options = get(fd, libc::XDP_OPTIONS, "ask whether AF_XDP copies")?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

pub(super) fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T, what: &str) -> Result<(), WireError> {
    let (value, length) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value, length) };
    if done < 0 { Err(WireError::last_os(what)) } else { Ok(()) }
}

/// Reads an option whose type is plain data of the C library. Fails if the kernel (an older one) fills only a part of
/// it.
pub(super) fn get<T: Copy>(fd: &OwnedFd, option: libc::c_int, what: &str) -> Result<T, WireError> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: both pointers are to values that outlive the call, with the length of the first.
    let done =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value.as_mut_ptr().cast(), &raw mut length) };
    if done < 0 {
        return Err(WireError::last_os(what));
    }
    if length as usize != size_of::<T>() {
        return Err(WireError::system(format!("{what}: the kernel is too old"), nix::Error::EOPNOTSUPP));
    }
    // SAFETY: plain data of integers, zeroed and then filled by the kernel.
    Ok(unsafe { value.assume_init() })
}

/// Binds a socket to a queue of the interface with this index. Uses zero-copy if the driver supports it.
pub(super) fn bind(fd: &OwnedFd, index: u32, queue: u32) -> Result<(), std::io::Error> {
    // Neither XDP_COPY nor XDP_ZEROCOPY: the kernel uses the driver's zero-copy mode if it has one.
    bind_to(fd, index, queue, libc::XDP_USE_NEED_WAKEUP, 0)
}

/// Binds a socket to the queue of the socket `other`, and uses the memory and the fill ring of that socket.
pub(super) fn bind_beside(fd: &OwnedFd, index: u32, queue: u32, other: &OwnedFd) -> Result<(), std::io::Error> {
    bind_to(fd, index, queue, libc::XDP_SHARED_UMEM, other.as_raw_fd() as u32)
}

fn bind_to(fd: &OwnedFd, index: u32, queue: u32, flags: u16, other: u32) -> Result<(), std::io::Error> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: other,
    };
    let (address, length) = ((&raw const address).cast(), size_of::<libc::sockaddr_xdp>() as u32);
    let until = Instant::now() + QUEUE_FREE;
    loop {
        // SAFETY: the pointer and length describe a value that outlives the call.
        if unsafe { libc::bind(fd.as_raw_fd(), address, length) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) || Instant::now() >= until {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
