//! The sending and the counting program, loaded into the kernel.

use std::{
    fmt, io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    ptr::NonNull,
};

use libbpf_rs::{
    MapCore as _, MapFlags,
    skel::{OpenSkel as _, Skel as _, SkelBuilder as _},
};

use super::{Counted, Frames, LONGEST, MOST_FRAMES, PREFIX_BYTES, Sent, Trial, middle_ns};
use crate::{
    bpf::{self, Mapped},
    xdp::{Mode, attach, run_live},
};

bpf::skeleton!("live");
use skeleton::{LiveSkel, LiveSkelBuilder, types};

/// Number of bits in a word of the map of arrived frames.
const BITS: u64 = 64;

/// The programs with their memory. One thread at a time sends.
pub struct Live {
    skel: LiveSkel<'static>,
    state: NonNull<types::bss>,
    /// One bit for each of [`MOST_FRAMES`], set once the frame arrived.
    arrived: Mapped<u64>,
    template: Vec<u8>,
    batch: u32,
    /// Keeps the counting program attached.
    link: Option<OwnedFd>,
}

// SAFETY: `state` points into a mapping that lives as long as `skel` and is not bound to a thread.
unsafe impl Send for Live {}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl Live {
    /// Loads the programs for frames.
    ///
    /// # Errors
    /// The frames do not fit the programs, or the kernel refuses the programs. The error is a sentence.
    pub fn load(frames: &Frames) -> Result<Self, String> {
        let Frames { template, prefix_bytes, tag_bytes, prefixes } = frames;
        let (length, streams) = (template.len(), prefixes.len());
        if length > LONGEST {
            return Err(format!("frames of {} bytes: at most {} fit", length + 4, LONGEST + 4));
        }
        if *prefix_bytes > PREFIX_BYTES || length < PREFIX_BYTES || !(1..=1 << 16).contains(&streams) {
            return Err(format!(
                "{streams} streams with headers of {prefix_bytes} bytes: the program has no room for them"
            ));
        }
        bpf::route_messages();
        let mut open = LiveSkelBuilder::default().open(bpf::place()).map_err(|error| bpf::open_reason(&error))?;
        let constants = open.maps.rodata_data.as_deref_mut().ok_or("the programs have no constants")?;
        constants.prefix_bytes = *prefix_bytes as u32;
        constants.tag_bytes = *tag_bytes as u32;
        constants.frame_bytes = length as u32;
        constants.frame_end = template.last_chunk().map_or(0, |end| u64::from_ne_bytes(*end));
        constants.streams = streams as u32;
        let mut skel = open.load().map_err(|error| bpf::load_reason(&error))?;
        let state = skel.maps.bss_data.take().map(NonNull::from).ok_or("the programs' memory could not be mapped")?;
        for (stream, prefix) in prefixes.iter().enumerate() {
            let mut value = [0; PREFIX_BYTES];
            value.iter_mut().zip(prefix).for_each(|(to, from)| *to = *from);
            let put = skel.maps.prefixes.update(&(stream as u32).to_ne_bytes(), &value, MapFlags::ANY);
            put.map_err(|error| format!("the headers of stream {stream} could not be put: {error}"))?;
        }
        let arrived = Mapped::new(skel.maps.arrived.as_fd(), (MOST_FRAMES / BITS) as usize)
            .map_err(|error| format!("the map of what arrived could not be mapped: {error}"))?;
        Ok(Self { skel, state, arrived, template: template.clone(), batch: 1, link: None })
    }

    /// Counts and drops the trial's frames that arrive at the interface with this index in the thread's network
    /// namespace: in the driver, or in the kernel's receive path if the driver refuses.
    ///
    /// # Errors
    /// The kernel refuses both, or another program is attached.
    pub fn attach(&mut self, index: u32) -> io::Result<Mode> {
        let program = self.skel.progs.live_count.as_fd().try_clone_to_owned()?;
        for mode in [Mode::Native, Mode::Generic] {
            match attach(&program, index, mode) {
                Ok(link) => {
                    self.link = Some(link);
                    return Ok(mode);
                }
                Err(error) if mode == Mode::Generic => return Err(error),
                Err(_) => {}
            }
        }
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Runs the sending program once without sending.
    ///
    /// # Errors
    /// The kernel has no live frames, or the right is missing.
    pub fn probe(&mut self) -> io::Result<()> {
        self.begin(&Trial {
            tag: 0,
            frames: 0,
            gap_ns: 0.0,
            batch: 1,
            most_ns: 0,
            port: 0,
            measures: false,
            tagged: None,
        });
        self.send(1)
    }

    /// Returns a handle that ends a trial from another thread.
    ///
    /// # Errors
    /// The programs' memory cannot be mapped a second time.
    pub fn stopper(&self) -> io::Result<Stopper> {
        let map = self.skel.object().maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let map = map.ok_or_else(|| io::Error::other("the programs have no memory"))?;
        Ok(Stopper(Mapped::new(map.as_fd(), 1)?))
    }

    /// Prepares a trial. At most [`MOST_FRAMES`] frames are sent.
    pub fn begin(&mut self, trial: &Trial) {
        let frames = trial.frames.min(MOST_FRAMES);
        let words = frames.div_ceil(BITS) as usize;
        // SAFETY: within the mapping, which has a bit for each of `MOST_FRAMES`.
        unsafe { std::ptr::write_bytes(self.arrived.as_ptr(), 0, words) };
        self.batch = trial.batch.max(1);
        let state = self.state.as_ptr();
        // SAFETY: both structures are plain integers in mapped memory; the sending program does not run now, and the
        // counting program changes single words.
        unsafe {
            let (sender, counter) = (&raw mut (*state).sender, &raw mut (*state).counter);
            std::ptr::write_bytes(sender, 0, 1);
            std::ptr::write_bytes(counter, 0, 1);
            (*sender).most_ns = trial.most_ns;
            // Rounded up, so that the rate is not exceeded.
            (*sender).gap = (trial.gap_ns * 65_536.0).ceil() as u64;
            (*sender).frames = frames;
            (*sender).batch = u64::from(self.batch);
            (*sender).tag = trial.tag.into();
            (*sender).port = trial.port.into();
            (*counter).measures = trial.measures.into();
            (*counter).tagged = trial.tagged.unwrap_or(u64::MAX);
            (&raw mut (*counter).tag).write_volatile(trial.tag.into());
        }
    }

    /// Runs the program `runs` times. Each run sends a frame if its batch is due. It sends nothing if the batch is not
    /// due within 0.1 ms, or if the trial's frames or its time have ended.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn send(&mut self, runs: u32) -> io::Result<()> {
        let program = self.skel.progs.live_send.as_fd().as_raw_fd();
        match run_live(program, &self.template, runs, self.batch) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    /// Frames handed to the port so far, and whether the trial's time has ended.
    pub fn progress(&self) -> (u64, bool) {
        let state = self.state.as_ptr();
        // SAFETY: words of the mapped memory.
        unsafe {
            ((&raw const (*state).sender.next).read_volatile(), (&raw const (*state).sender.over).read_volatile() != 0)
        }
    }

    /// Different frames that arrived intact so far.
    pub fn arrived(&self) -> u64 {
        // SAFETY: a word of the mapped memory.
        unsafe { (&raw const (*self.state.as_ptr()).counter.frames).read_volatile() }
    }

    /// How the frames of the trial left.
    pub fn sent(&self) -> Sent {
        // SAFETY: plain integers in mapped memory; the sending program does not run now.
        let sender = unsafe { (&raw const (*self.state.as_ptr()).sender).read_volatile() };
        Sent {
            frames: sender.next,
            over: sender.over != 0,
            span_ns: [sender.first_ns, sender.now_ns],
            beyond: cells(&sender.beyond),
            apart: cells(&sender.apart),
        }
    }

    /// Counts of the frames that arrived so far.
    pub fn counted(&self) -> Counted {
        // SAFETY: plain integers in mapped memory, each changed by the program in one access.
        let counter = unsafe { (&raw const (*self.state.as_ptr()).counter).read_volatile() };
        Counted {
            frames: counter.frames,
            duplicates: counter.duplicates,
            reordered: counter.reordered,
            corrupt: counter.corrupt,
            foreign: counter.foreign,
            latency: cells(&counter.latency),
            tagged_ns: Some(counter.tagged_ns).filter(|ns| *ns > 0),
        }
    }
}

/// A second mapping of the programs' memory, through which a trial is ended.
#[derive(Debug)]
pub struct Stopper(Mapped<types::bss>);

impl Stopper {
    /// Ends the trial under way.
    pub fn stop(&self) {
        // SAFETY: an aligned word of the mapping, which the program reads.
        unsafe { (&raw mut (*self.0.as_ptr()).sender.over).write_volatile(1) };
    }
}

fn cells(table: &[u64]) -> Vec<(u64, u64)> {
    let filled = table.iter().enumerate().filter(|(_, count)| **count > 0);
    filled.map(|(cell, count)| (middle_ns(cell), *count)).collect()
}
