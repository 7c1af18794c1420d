//! Loads and attaches the program, and reads its counts.

use super::{Ask, By, Key, Owner, Reading, Site, Tally, TracerError, names::Names, symbols::Symbols};
use crate::bpf;
use libbpf_rs::{
    Link, MapCore, MapFlags, libbpf_sys,
    skel::{OpenSkel as _, SkelBuilder as _},
};
use std::{
    collections::BTreeMap,
    fmt,
    os::fd::{AsFd as _, AsRawFd as _},
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

bpf::skeleton!("drops");
use skeleton::{DropsSkel, DropsSkelBuilder, types};

/// Counts drops at the kernel's tracepoint until this value is dropped.
pub struct Tracer {
    // Dropped first: the program must not write to the maps while they are freed.
    _link: Link,
    skel: DropsSkel<'static>,
    names: Option<Names>,
    limits: Vec<String>,
    forgotten: AtomicU64,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tracer").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Writes the steps of a filter to the programs' memory.
macro_rules! put_filter {
    ($rodata:expr, $steps:expr) => {{
        let steps: &[netcliff_core::filter::Step] = $steps;
        for (place, step) in $rodata.filter.iter_mut().zip(steps) {
            (place.word, place.yes, place.no) = (step.word, step.yes, step.no);
            (place.mask, place.low, place.high) = (step.mask, step.low, step.high);
        }
        $rodata.filter_length = steps.len() as u32;
    }};
}
pub(super) use put_filter;

impl Tracer {
    /// Counts from now on.
    ///
    /// # Errors
    /// This kernel has no BTF or no such tracepoint, permission is missing, or the kernel refuses the program.
    pub fn start(ask: &Ask) -> Result<Self, TracerError> {
        let types = bpf::types().map_err(TracerError::new)?;
        let names = Names::of_tracepoint(&types)?;
        let names = names.filter(|_| !ask.without_reasons);
        let mut open = DropsSkelBuilder::default()
            .open(bpf::place())
            .map_err(|error| TracerError::new(bpf::open_reason(&error)))?;
        let rodata =
            open.maps.rodata_data.as_deref_mut().ok_or_else(|| TracerError::new("the program has no constants"))?;
        rodata.has_reason = u32::from(names.is_some());
        rodata.counts_segments = u32::from(ask.segments);
        rodata.has_socket = u32::from(names.is_some() && super::names::gives_socket(&types));
        let By { flow, process, stack, owner, sender } = ask.by;
        let by = [flow, process, stack, owner, owner, owner, sender];
        rodata.by = by.iter().enumerate().map(|(place, asked)| u32::from(*asked) << place).sum();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        rodata.bound_per_s = ask.bound_per_s.map_or(0, |bound| (bound / cpus).max(1));
        for (place, space) in rodata.spaces.iter_mut().zip(&ask.spaces) {
            *place = *space as u32;
        }
        rodata.spaces_count = ask.spaces.len() as u32;
        put_filter!(rodata, ask.filter.as_ref().map_or(&[], |filter| filter.steps()));
        let skel = open.load().map_err(|error| TracerError::new(bpf::load_reason(&error)))?;
        let link =
            skel.progs.dropped.attach().map_err(|error| {
                TracerError::new(format!("the tracepoint skb:kfree_skb refused the program: {error}"))
            })?;
        let mut limits = Vec::new();
        if names.is_none() {
            limits.push(
                "this kernel gives no reasons for drops (they came with Linux 5.17): the place alone tells".to_owned(),
            );
        }
        Ok(Self { _link: link, skel, names, limits, forgotten: AtomicU64::new(0) })
    }

    /// Counts so far.
    ///
    /// # Errors
    /// A map cannot be read.
    pub fn read(&self) -> Result<Reading, TracerError> {
        let failed = |error: libbpf_rs::Error| TracerError::new(format!("what was counted cannot be read: {error}"));
        let mut reading = Reading {
            at: Instant::now(),
            forgotten: self.forgotten.load(Ordering::Relaxed),
            seen: 0,
            looked_at: 0,
            full_places: 0,
            full_details: 0,
            full_stacks: 0,
            in_first: 0,
            nested: self.left_out(),
            timed: 0,
            timed_ns: 0,
            sites: tallies(&self.skel.maps.places, site).map_err(failed)?,
            details: tallies(&self.skel.maps.details, key).map_err(failed)?,
        };
        if let Some(bss) = &self.skel.maps.bss_data {
            for cpu in &bss.cpus {
                // SAFETY: a shared reference to mapped memory; the kernel writes to it, so it is read as volatile.
                let cpu = unsafe { std::ptr::from_ref(cpu).read_volatile() };
                reading.seen += cpu.seen;
                reading.looked_at += cpu.looked_at;
                reading.full_places += cpu.full_places;
                reading.full_details += cpu.full_details;
                reading.full_stacks += cpu.full_stacks;
                reading.in_first += cpu.in_first;
                reading.timed += cpu.timed;
                reading.timed_ns += cpu.timed_ns;
            }
            for cell in bss.cells.as_flattened() {
                // SAFETY: as above.
                let types::cell { place, tally } = unsafe { std::ptr::from_ref(cell).read_volatile() };
                if tally.drops > 0 {
                    let types::tally { drops, packets, bytes } = tally;
                    let site = Site { location: place.location, reason: place.reason };
                    reading.sites.entry(site).or_default().add(Tally { drops, packets, bytes });
                }
            }
        }
        self.make_room(&reading);
        Ok(reading)
    }

    /// Runs that the kernel skipped because the program was already running on that CPU.
    fn left_out(&self) -> u64 {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        let program = self.skel.progs.dropped.as_fd().as_raw_fd();
        // SAFETY: `info` and `length` are valid for the call, which writes at most `length` bytes.
        let done = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program, &mut info, &mut length) };
        if done == 0 { info.recursion_misses } else { 0 }
    }

    /// Removes all flows when they nearly fill the map, so that there is space for later flows. Drops in the
    /// microseconds between the reading and the removal are lost.
    fn make_room(&self, reading: &Reading) {
        const NEARLY_ALL: usize = 12 << 10;
        if reading.details.len() > NEARLY_ALL {
            let keys: Vec<Vec<u8>> = self.skel.maps.details.keys().collect();
            for key in keys {
                let _ = self.skel.maps.details.delete(&key);
            }
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The kernel's name of a reason; `-` if it gives none.
    pub fn reason(&self, number: u32) -> String {
        self.names.as_ref().map_or_else(|| "-".to_owned(), |names| names.of(number))
    }

    /// What limits all counts, one sentence each.
    pub fn limits(&self) -> &[String] {
        &self.limits
    }

    /// Functions of a stack, innermost first.
    pub(super) fn stack(&self, id: i32, symbols: &Symbols) -> Vec<String> {
        let Ok(id) = u32::try_from(id) else { return Vec::new() };
        let addresses =
            self.skel.maps.stacks.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
        let (words, _) = addresses.as_chunks::<8>();
        // The call of the program itself is not part of the packet's path.
        let ours = |name: &String| {
            ["bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_", "bpf_trampoline_"]
                .iter()
                .any(|p| name.starts_with(p))
        };
        let all = words.iter().map(|word| u64::from_ne_bytes(*word)).take_while(|address| *address != 0);
        all.map(|address| symbols.at(address)).skip_while(ours).collect()
    }
}

/// A per-CPU map of counts, summed over the CPUs.
fn tallies<K: Ord>(map: &impl MapCore, key: fn(&[u8]) -> Option<K>) -> Result<BTreeMap<K, Tally>, libbpf_rs::Error> {
    let mut all = BTreeMap::new();
    for bytes in map.keys() {
        // The entry may have been removed.
        let (Some(key), Some(by_cpu)) = (key(&bytes), map.lookup_percpu(&bytes, MapFlags::ANY)?) else { continue };
        let mut sum = Tally::default();
        for cpu in by_cpu {
            let (words, _) = cpu.as_chunks::<8>();
            if let [drops, packets, bytes] = words {
                let [drops, packets, bytes] = [drops, packets, bytes].map(|word| u64::from_ne_bytes(*word));
                sum.add(Tally { drops, packets, bytes });
            }
        }
        all.insert(key, sum);
    }
    Ok(all)
}

/// `struct place`.
fn site(bytes: &[u8]) -> Option<Site> {
    let location = u64::from_ne_bytes(*bytes.first_chunk()?);
    let reason = u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
    Some(Site { location, reason })
}

/// `struct detail`.
fn key(bytes: &[u8]) -> Option<Key> {
    debug_assert_eq!(bytes.len(), size_of::<types::detail>());
    let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let key = Key::of_flow(site(bytes)?, bytes.get(16..)?.first_chunk()?)?;
    let owner = Owner::of(bytes.get(80..)?)?;
    Some(Key { process: word(56)?, stack: word(60)? as i32, name: *bytes.get(64..)?.first_chunk()?, owner, ..key })
}
