//! Samples of perf_event_open(2), through the ring buffer that the kernel shares with this process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::event::{Attributes, Event, Of};
use super::record::{self, Fields, Record};

/// Bits of `perf_event_attr` after `read_format`. Source: include/uapi/linux/perf_event.h.
const DISABLED: u64 = 1;
const FREQUENCY: u64 = 1 << 10;
const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
const USE_CLOCK: u64 = 1 << 25;

/// Numbers of data pages of a ring, tried in this order: users without CAP_IPC_LOCK may by default lock 516 KiB per CPU
/// (kernel.perf_event_mlock_kb).
const PAGES: [usize; 4] = [512, 128, 32, 8];

/// `PERF_EVENT_IOC_ENABLE`, `_DISABLE`.
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
/// `PERF_EVENT_IOC_PERIOD`; bits 16 to 29 are the size of its argument.
const PERIOD: libc::c_ulong = 0x4008_2404;

/// How often a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// Each time that this number of events (nanoseconds of the CPU clock) has occurred.
    Events(u64),
    /// This number of times per second, however many events occur.
    Hertz(u64),
}

/// One event on several CPUs, sampled from [`Sampler::start`] until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    rings: Vec<Ring>,
    fields: Fields,
}

/// The ring of one CPU.
#[derive(Debug)]
struct Ring {
    cpu: usize,
    event: File,
    memory: *mut u8,
    length: usize,
    page: usize,
}

// SAFETY: the memory is this ring's alone until it is dropped; head and tail synchronise access with the kernel.
unsafe impl Send for Ring {}

impl Sampler {
    /// Opens the event on each CPU; sampling does not start yet. `fields` selects the optional fields of a sample.
    ///
    /// # Errors
    /// The kernel has no such event, the right is missing, or there is no memory for the rings.
    pub fn open(event: Event, every: Every, cpus: &[usize], fields: Fields) -> io::Result<Self> {
        let (period, frequency) = match every {
            Every::Events(events) => (events, 0),
            Every::Hertz(hertz) => (hertz, FREQUENCY),
        };
        let mut attributes = Attributes::of(event);
        attributes.period = period;
        attributes.sample_type = fields.sample_type();
        attributes.flags = DISABLED | EXCLUDE_CALLCHAIN_USER | USE_CLOCK | frequency;
        attributes.clock = libc::CLOCK_MONOTONIC;
        let rings = cpus.iter().map(|cpu| Ring::new(*cpu, attributes.open(Of::Cpu(*cpu))?));
        Ok(Self { rings: rings.collect::<io::Result<_>>()?, fields })
    }

    /// Starts sampling.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn start(&self) -> io::Result<()> {
        self.rings.iter().try_for_each(|ring| ring.control(ENABLE))
    }

    /// Stops sampling; unread samples stay in the rings.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn stop(&self) -> io::Result<()> {
        self.rings.iter().try_for_each(|ring| ring.control(DISABLE))
    }

    /// Changes the number of events between two samples.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn set_period(&self, events: u64) -> io::Result<()> {
        self.rings.iter().try_for_each(|ring| {
            // SAFETY: the argument is a 64-bit number that outlives the call, on a descriptor that is open.
            let done = unsafe { libc::ioctl(ring.event.as_raw_fd(), PERIOD as _, &raw const events) };
            if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        })
    }

    /// Passes all records since the last call of this function to `take`, CPU by CPU, in order of time on each CPU.
    pub fn drain(&mut self, mut take: impl FnMut(usize, Record)) {
        for ring in &mut self.rings {
            let cpu = ring.cpu;
            let fields = self.fields;
            ring.drain(|kind, misc, body| {
                if let Some(record) = record::read(kind, misc, body, fields) {
                    take(cpu, record);
                }
            });
        }
    }
}

impl Ring {
    fn new(cpu: usize, event: File) -> io::Result<Self> {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.map_or(4096, |size| size as usize);
        let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
        for pages in PAGES {
            let length = (pages + 1) * page;
            // SAFETY: a new mapping at an address of the kernel's choice; its result is checked.
            let memory = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    length,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    event.as_raw_fd(),
                    0,
                )
            };
            if memory != libc::MAP_FAILED {
                return Ok(Self { cpu, event, memory: memory.cast(), length, page });
            }
            refused = io::Error::last_os_error();
        }
        Err(refused)
    }

    fn control(&self, request: libc::c_ulong) -> io::Result<()> {
        // SAFETY: a request of perf events without an argument, on a descriptor that is open.
        let done = unsafe { libc::ioctl(self.event.as_raw_fd(), request as _, 0) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// A counter of the first page: `data_head` and `data_tail` of `perf_event_mmap_page`.
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the first page contains aligned 64-bit words there, which the kernel and this process access
        // atomically, as long as the mapping exists.
        unsafe { &*self.memory.add(at).cast::<AtomicU64>() }
    }

    fn drain(&mut self, mut take: impl FnMut(u32, u16, &[u8])) {
        const HEAD: usize = 1024;
        const TAIL: usize = 1032;
        let size = (self.length - self.page) as u64;
        let (head, mut tail) = (self.word(HEAD).load(Ordering::Acquire), self.word(TAIL).load(Ordering::Relaxed));
        let mut bytes = Vec::new();
        while tail < head {
            self.copy(tail % size, 8, &mut bytes);
            let (kind, misc, length) = record::header(&bytes);
            if u64::from(length) < 8 || tail + u64::from(length) > head {
                tail = head;
                break;
            }
            self.copy(tail % size, usize::from(length), &mut bytes);
            take(kind, misc, &bytes[8..]);
            tail += u64::from(length);
        }
        self.word(TAIL).store(tail, Ordering::Release);
    }

    /// Copies bytes of the ring; they may wrap around its end.
    fn copy(&self, from: u64, length: usize, into: &mut Vec<u8>) {
        let size = self.length - self.page;
        let from = from as usize;
        let first = length.min(size - from);
        into.clear();
        for (at, length) in [(from, first), (0, length - first)] {
            // SAFETY: within the pages of data, which the kernel does not write between tail and head.
            into.extend_from_slice(unsafe { std::slice::from_raw_parts(self.memory.add(self.page + at), length) });
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.cast(), self.length) };
    }
}
