//! Loads and attaches the eBPF programs; optional programs whose tracepoint this kernel lacks are left out and listed.

use super::snapshot::{CELLS, CLASSES, CpuSnapshot, Figures, RawCell};
use crate::bpf::{self, Mapped};
use crate::cpu::{
    heartbeat::{Heartbeat, Pause, Signs, Visit, Words},
    types::{MeterError, Method, Watch},
    util::monotonic_ns,
};
use crate::process;
use libbpf_rs::{
    AsRawLibbpf as _, Link, MapCore as _, MapFlags,
    btf::types::Typedef,
    skel::{OpenSkel as _, Skel as _, SkelBuilder as _},
};
use std::{collections::BTreeSet, fs, os::fd::AsFd as _, os::fd::OwnedFd, ptr::NonNull};

bpf::skeleton!("cpu");
use skeleton::{CpuSkel, CpuSkelBuilder, types};

/// Programs without which there is no accounting at all.
const REQUIRED: [&str; 3] = ["softirq_entry", "softirq_exit", "sched_switch"];
/// Tracepoints of inter-processor and timer interrupts on x86. Other architectures have different tracepoints, so every
/// kernel lacks some of the known tracepoints.
const ONLY_X86: [&str; 6] =
    ["call_function_single", "call_function", "reschedule", "local_timer", "irq_work", "x86_platform_ipi"];

/// The loaded eBPF programs. Dropping this value detaches them.
pub(super) struct Programs {
    // Dropped first: no program may write to the maps while they are freed.
    links: Vec<Link>,
    skel: CpuSkel<'static>,
    state: NonNull<types::bss>,
    started_ns: u64,
    pub(super) missing: Vec<String>,
}

// SAFETY: `state` points into a mapping that lives as long as `skel` and is not bound to a thread; it is
// only read and written by volatile or atomic-width accesses through `&self`/`&mut self`.
unsafe impl Send for Programs {}

fn unavailable(reason: impl Into<String>) -> MeterError {
    MeterError::Unavailable { method: Method::Ebpf, reason: reason.into() }
}

fn check_kernel() -> Result<(), MeterError> {
    if fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1") {
        return Err(unavailable(
            "on a PREEMPT_RT kernel softirqs run in preemptible threads, which these programs do not follow",
        ));
    }
    Ok(())
}

impl Programs {
    /// Loads and attaches the programs whose tracepoints this kernel has.
    pub(super) fn load() -> Result<Self, MeterError> {
        check_kernel()?;
        let present = tracepoints()?;
        let mut open =
            CpuSkelBuilder::default().open(bpf::place()).map_err(|error| unavailable(bpf::open_reason(&error)))?;
        let mut missing = BTreeSet::new();
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if !present.contains(&name) {
                program.set_autoload(false);
                missing.insert(name);
            }
        }
        if let Some(name) = REQUIRED.iter().find(|name| missing.contains(**name)) {
            return Err(unavailable(format!("this kernel has no tracepoint {name}")));
        }
        let mut skel = open.load().map_err(|error| unavailable(bpf::load_reason(&error)))?;
        let state = skel
            .maps
            .bss_data
            .take()
            .map(NonNull::from)
            .ok_or_else(|| unavailable("the programs' memory could not be mapped"))?;
        let mut programs = Self { links: Vec::new(), skel, state, started_ns: monotonic_ns(), missing: Vec::new() };
        programs.start_clocks();
        programs.mean_ids_of_this_namespace();
        programs.attach(&mut missing)?;
        programs.missing = worth_reporting(&missing);
        Ok(programs)
    }

    /// Detaches the programs; they stay loaded.
    pub(super) fn detach(&mut self) {
        self.links.clear();
    }

    /// Attaches the programs again. The time since they were detached is charged to the class that ran when they were
    /// detached.
    ///
    /// # Errors
    /// A required tracepoint refuses its program.
    pub(super) fn attach_again(&mut self) -> Result<(), MeterError> {
        self.attach(&mut BTreeSet::new())
    }

    fn start_clocks(&mut self) {
        let state = self.state.as_ptr();
        for cpu in 0..self.most_cpus() {
            // SAFETY: in bounds of the mapped array; no program is attached yet, so nobody else writes.
            unsafe { (*state).cpus[cpu].last = self.started_ns };
        }
    }

    /// Makes the programs use task IDs of this process's PID namespace, which in a container differs from the initial
    /// one.
    fn mean_ids_of_this_namespace(&mut self) {
        if let Some(inode) = process::other_pid_namespace() {
            // SAFETY: the field is in the mapped memory; no program is attached yet.
            unsafe { (&raw mut (*self.state.as_ptr()).pid_namespace_inum).write_volatile(inode as u32) };
        }
    }

    /// Attaches the programs for exits before the programs for entries, so that the exit of every interrupt whose entry
    /// is seen is seen, too.
    fn attach(&mut self, missing: &mut BTreeSet<String>) -> Result<(), MeterError> {
        let mut programs: Vec<_> = self
            .skel
            .object()
            .progs_mut()
            .filter(|program| !missing.contains(&*program.name().to_string_lossy()))
            .collect();
        programs.sort_by_key(|program| !program.name().to_string_lossy().ends_with("_exit"));
        for program in programs {
            let name = program.name().to_string_lossy().into_owned();
            match program.attach() {
                Ok(link) => self.links.push(link),
                Err(error) if REQUIRED.contains(&name.as_str()) => {
                    return Err(unavailable(format!("tracepoint {name} refused the program: {error}")));
                }
                Err(_) => {
                    missing.insert(name);
                }
            }
        }
        Ok(())
    }

    /// Number of CPUs for which the programs have space.
    pub(super) fn most_cpus(&self) -> usize {
        fn places<T, const N: usize>(_: *const [T; N]) -> usize {
            N
        }
        // SAFETY: only the address is taken.
        places(unsafe { &raw const (*self.state.as_ptr()).cpus })
    }

    /// Counts a task as the application from its next switch on.
    pub(super) fn watch(&mut self, watch: Watch) -> Result<(), MeterError> {
        let failed = |error: libbpf_rs::Error| MeterError::Read {
            what: format!("the eBPF map of watched tasks (adding {watch})"),
            source: std::io::Error::other(error),
        };
        let state = self.state.as_ptr();
        let (map, id) = match watch {
            Watch::Process(id) => (&self.skel.maps.process_ids, id),
            Watch::Thread(id) => (&self.skel.maps.thread_ids, id),
        };
        map.update(&id.to_ne_bytes(), &[1], MapFlags::ANY).map_err(failed)?;
        // SAFETY: both fields are in the mapped memory, and only this process writes to them.
        unsafe {
            match watch {
                Watch::Process(_) => (&raw mut (*state).watched_processes).write_volatile(1),
                Watch::Thread(_) => (&raw mut (*state).watched_threads).write_volatile(1),
            }
        }
        Ok(())
    }

    /// Name and file descriptor of each attached program.
    pub(super) fn descriptors(&self) -> Vec<(String, OwnedFd)> {
        self.skel
            .object()
            .progs_mut()
            .filter_map(|program| {
                let name = program.name().to_string_lossy().into_owned();
                // A program that was not loaded has no descriptor (libbpf gives -1 for it).
                // SAFETY: the pointer is valid as long as the object.
                let fd = unsafe { libbpf_rs::libbpf_sys::bpf_program__fd(program.as_libbpf_object().as_ptr()) };
                (fd >= 0).then(|| Some((name, program.as_fd().try_clone_to_owned().ok()?)))?
            })
            .collect()
    }

    /// The heartbeat for threads on a CPU; `None` if the programs have no space for this CPU, or if their memory cannot
    /// be mapped a second time.
    pub(super) fn heartbeat(&self, cpu: usize) -> Option<Heartbeat> {
        let memory = (cpu < self.most_cpus()).then(|| Mapped::new(self.skel.maps.bss.as_fd(), 1).ok())??;
        let signs = SharedSigns { memory, cpu };
        Some(Heartbeat::new(Box::new(signs)))
    }

    /// A consistent copy of one CPU's counters, including the time of the running class up to now. `None` if the
    /// programs changed the counters during each of 1000 attempts.
    pub(super) fn snapshot(&self, cpu: usize) -> Option<CpuSnapshot> {
        (0..1000).find_map(|_| self.try_snapshot(cpu))
    }

    fn try_snapshot(&self, cpu: usize) -> Option<CpuSnapshot> {
        // SAFETY: `cpu` was checked against `most_cpus`; the memory is mapped while `self` lives. The kernel writes to
        // it at the same time: reads are volatile, and torn records are detected below.
        let (state, at_ns, last_again) = unsafe {
            let place = &raw const (*self.state.as_ptr()).cpus[cpu];
            let state = place.read_volatile();
            let at_ns = monotonic_ns();
            (state, at_ns, (&raw const (*place).last).read_volatile())
        };
        // The sum of all classes is last - start, unless the copy was made during an update.
        let sum = state.ns.iter().fold(0u64, |sum, ns| sum.wrapping_add(*ns));
        if state.last != last_again || sum != state.last.wrapping_sub(self.started_ns) {
            return None;
        }
        let mut figures = figures(&state);
        figures.ns[state.running as usize % CLASSES] += at_ns.saturating_sub(state.last);
        Some(CpuSnapshot { cpu, at_ns: at_ns.max(state.last), figures })
    }
}

/// A separate mapping of the programs' memory: it lives as long as any heartbeat, even when the programs are gone.
#[derive(Debug)]
struct SharedSigns {
    /// Accessed by atomics and volatile reads of aligned words.
    memory: Mapped<types::bss>,
    cpu: usize,
}

impl Signs for SharedSigns {
    fn words(&self) -> Words {
        let memory = self.memory.as_ptr();
        // SAFETY: `cpu` was checked against the array; the fields are aligned words inside the mapping.
        unsafe {
            let state = &raw mut (*memory).cpus[self.cpu];
            Words {
                alive: NonNull::new_unchecked((&raw mut (*state).alive).cast()),
                last: NonNull::new_unchecked((&raw mut (*state).last).cast()),
                shortest: NonNull::new_unchecked((&raw mut (*memory).pauses[self.cpu].shortest).cast()),
                all_gaps: NonNull::new_unchecked((&raw mut (*memory).pauses[self.cpu].all_gaps).cast()),
            }
        }
    }

    fn noted(&self) -> Vec<Pause> {
        // SAFETY: inside the mapping; the programs may write during the read, which at worst mixes a pause with the one
        // that replaces it in the ring of 512.
        let pauses = unsafe { (&raw const (*self.memory.as_ptr()).pauses[self.cpu]).read_volatile() };
        pauses.ring.iter().map(|pause| Pause { from_ns: pause.from, to_ns: pause.to }).collect()
    }

    fn visits(&self) -> Vec<Visit> {
        // SAFETY: as in `noted`.
        let visits = unsafe { (&raw const (*self.memory.as_ptr()).visits[self.cpu]).read_volatile() };
        let visit = |visit: &types::visit| Visit {
            time: Pause { from_ns: visit.from, to_ns: visit.to },
            task: text(&visit.task),
        };
        visits.ring.iter().map(visit).collect()
    }
}

/// A task's name up to the first zero byte. The task's owner chose the name, so unprintable characters are replaced by
/// `?`.
fn text(name: &[i8]) -> String {
    let bytes: Vec<u8> = name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    if bytes.is_empty() {
        return "unknown".to_owned();
    }
    String::from_utf8_lossy(&bytes).chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

fn figures(state: &types::cpu_state) -> Figures {
    let cells: Vec<RawCell> = state
        .cells
        .iter()
        .map(|cell| RawCell { count: cell.count, packets: cell.packets, ns: cell.ns, ns_squared: cell.ns_squared })
        .collect();
    debug_assert_eq!(cells.len() % CELLS, 0);
    Figures {
        ns: state.ns,
        entries: state.entries,
        rx_origin: state.rx_origin,
        polls: state.polls,
        packets: state.packets,
        kinds: [state.empty_polls, state.full_polls, state.backlog_polls, state.backlog_packets],
        wakes: state.wakes,
        tail_ns: state.tail_ns,
        device_hits: state.device_hits,
        looks: [state.looks, state.look_ns],
        hit_looks: [state.hit_looks, state.hit_look_ns, state.look_hits],
        cells,
    }
}

/// Names of programs (equal to those of their tracepoints) whose tracepoint this kernel has.
fn tracepoints() -> Result<BTreeSet<String>, MeterError> {
    let btf = bpf::types().map_err(unavailable)?;
    let pairs = ["softirq", "irq_handler", "ipi"].into_iter().chain(ONLY_X86);
    let names = pairs.flat_map(|name| [format!("{name}_entry"), format!("{name}_exit")]);
    Ok(names
        .chain(["napi_poll", "napi_gro_receive_entry", "napi_gro_frags_entry", "sched_switch"].map(str::to_owned))
        .filter(|name| btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}")).is_some())
        .collect())
}

/// Returns the missing tracepoints without those that every kernel of this architecture lacks.
fn worth_reporting(missing: &BTreeSet<String>) -> Vec<String> {
    let base = |name: &str| name.trim_end_matches("_entry").trim_end_matches("_exit").to_owned();
    missing
        .iter()
        .filter(|name| {
            let base = base(name);
            if cfg!(target_arch = "x86_64") { base != "ipi" } else { !ONLY_X86.contains(&base.as_str()) }
        })
        .cloned()
        .collect()
}
