//! A real device under test: a router in namespaces of this machine, or whatever is connected between two ports.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::tester::Trial as WireTrial;
use crate::tester::frame::link_bytes;
use crate::tester::neighbours::Neighbours;
use crate::tester::run::{DirectionReport, MAX_BURST, Methods, Remote, TrialReport};
use crate::tester::stamps::Stamps;
use netcliff_core::Scheme;
use netcliff_core::ledger::TrialLedger;
use netcliff_host::cpu::heartbeat::Heartbeat;
use netcliff_host::cpu::{self, CpuSplit, MeterSpec, Method, Preference};
use netcliff_host::idle::Awake;
use netcliff_host::inventory::{Inventory, Limitation};
use netcliff_host::journal::{HostLock, JournalError, ReplayReport, StateDir};
use netcliff_host::nic;
use netcliff_host::testbed::TestbedError;
use netcliff_host::testbed::forward::{ForwardBed, ForwardOptions, Forwarding};
use netcliff_host::testbed::ports::{self, PortError};
use netcliff_host::testbed::stamping::StampingError;
use netcliff_host::xdp::Mode;
use netcliff_mlrsearch::trial::Request;
use netcliff_packets::WireError;
use netcliff_packets::port::{SendBy, Sending};
use netcliff_packets::thread::{Placement, Priority};

use super::conduct::{Burst, Device, Measured};
use super::cost::{Costs, FrameShare, Predicted};
use super::instruments::Instruments;
use super::settings::{FrameSize, Settings};
use netcliff_trial::stand::{self, Stand};

mod ledger;
mod measured;
mod probe;
mod sides;

use held::HeldPorts;
use measured::{measured, reached_pps};

/// Why the device cannot be built or measured.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The undo journal cannot be used, or another netcliff measures on this host.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The namespaces cannot be made, or the kernel lacks the requested forwarding.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A port may not be used.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A port's device does not stamp frames.
    #[error(transparent)]
    Stamping(#[from] StampingError),
    /// A port went away, or the frames are invalid.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// None of the first frames came through.
    #[error("{why}")]
    NothingThrough {
        /// The likely causes, with the evidence for each.
        why: String,
    },
    /// The user pressed Ctrl-C.
    #[error("stopped by a signal, such as Ctrl-C")]
    Stopped,
}

/// What is between sender and sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A router in a namespace.
    Namespaces {
        /// How the router forwards.
        forwarding: Forwarding,
        /// Number of rules for [`Forwarding::Netfilter`].
        rules: u16,
        /// CPU of the router's packet work. `None`: the last CPU that is online.
        router_cpu: Option<u32>,
    },
    /// Two ports of this machine with a device between them.
    Ports {
        /// Port where frames leave.
        tx: String,
        /// Port where frames are expected.
        rx: String,
        /// The device's hardware address at `tx`. `None`: the address of `rx`, as for a bridge or a cable.
        device_mac: Option<[u8; 6]>,
        /// Whether to use ports that would be refused otherwise.
        i_know: bool,
    },
}

/// Length of the run at the highest rate that measures the sender's rate (s).
const FLAT_OUT_S: f64 = 0.3;
/// A rate that no sender here reaches (pps).
const FLAT_OUT_PPS: f64 = 20e6;
/// First words of the limit of a router on the tester's CPU.
pub(crate) const SHARED: &str = "tester and router share CPU ";

/// A limit of the host, in the words of a test of a router.
fn in_words(limit: &Limitation) -> String {
    match limit {
        Limitation::FewCores { n } => {
            let (cpus, them) = if *n == 1 { ("CPU", "it") } else { ("CPUs", "them") };
            format!("{n} {cpus}: the tester's sender and receiver, the router and all other programs share {them}")
        }
        other => other.to_string(),
    }
}

/// Real-time priority of the sending thread, so that other programs do not void trials.
const PRIORITY: u8 = 40;
/// The kernel's default of `net.core.netdev_max_backlog` (frames).
const BACKLOG: u64 = 1000;
/// VETH_RING_SIZE of drivers/net/veth.c: number of frames that may wait for an XDP program in native mode.
const VETH_RING: u64 = 256;
/// Sentence that live XDP frames ([`netcliff_host::live`]) permit no packet accounting.
const NO_LEDGER: &str = "where lost frames went is not followed: the program that counts drops each frame, which looks like a loss to the \
                         kernel's tracepoints (--send-by auto follows them)";
/// Number of frames in a batch in the second cost trial, so that its polls take another number of frames than those of
/// the first.
const SMALL_BATCH: usize = 8;
/// Length of a cost trial (s): long enough for thousands of polls.
const COST_S: f64 = 0.5;
/// Sentence on how kernel or hardware timestamps limit the result.
const STAMPS_COST: &str = "with time stamps the kernel reads its clock for each frame at each interface, the device's too where \
                           that is in this kernel; compare throughput only with runs that ask for the same stamps";

/// The device, with the tester's rings at its ports.
#[derive(Debug)]
pub struct Kernel {
    settings: Settings,
    place: Place,
    bed: Option<ForwardBed>,
    tester_cpu: u32,
    real_time: bool,
    remote: Option<Remote>,
    /// Answers ARP requests and neighbour solicitations at two real ports.
    neighbours: Option<Neighbours>,
    /// Whether single frames have been tried between the ports; this is done only once.
    probed: bool,
    instruments: Instruments,
    scheme: Scheme,
    backlog: u64,
    /// Where router and tester share a CPU: its work for a frame in the run that measures the sender's rate.
    flat_out: Option<FrameShare>,
    stop: Arc<AtomicBool>,
    /// What an earlier, killed run left behind, and whether it was undone.
    pub replayed: ReplayReport,
    /// How the set-up limits the result, a sentence each.
    pub limits: Vec<String>,
    /// Restores the ports after the rings are closed.
    _held: HeldPorts,
    _lock: HostLock,
}

impl Kernel {
    /// Builds the testbed, or checks the ports. First restores settings that a killed run left changed.
    ///
    /// # Errors
    /// Another netcliff measures on this host, a CPU or port does not exist, a port may not be used, or namespaces or
    /// the forwarding are not available.
    pub fn build(
        settings: &Settings,
        place: Place,
        tester_cpu: Option<u32>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, DeviceError> {
        let inventory = Inventory::of_this_host();
        let online = &inventory.cpu.online;
        let tester_cpu = tester_cpu.or_else(|| online.first().copied()).unwrap_or(0);
        let (lock, replayed) = HostLock::acquire_and_replay(&StateDir::default_for_user()?)?;
        let mut limits: Vec<String> = inventory.limits().iter().map(in_words).collect();
        limits.extend(replayed.left_over());
        let bed = match &place {
            Place::Ports { tx, rx, i_know, .. } => {
                for port in [tx, rx] {
                    match ports::check(port) {
                        Err(error) if *i_know && error.can_be_overruled() => limits.push(error.to_string()),
                        other => drop(other?),
                    }
                    ports::fits(port, settings.largest_frame_bytes(), link_bytes(settings.vlan.is_some()) as u32)?;
                }
                None
            }
            Place::Namespaces { forwarding, rules, router_cpu } => {
                let router_cpu = router_cpu.or_else(|| online.last().copied()).unwrap_or(0);
                let (forwarding, rules) = (*forwarding, *rules);
                let vlan = settings.vlan;
                let options = ForwardOptions { forwarding, rules, vlan, mtu_bytes: 9000, router_cpu, tester_cpu };
                let bed = ForwardBed::create(&lock, options)?;
                limits.extend(bed.limits().iter().map(ToString::to_string));
                if router_cpu == tester_cpu {
                    limits.push(format!("{SHARED}{router_cpu}: the figures are of both together"));
                }
                Some(bed)
            }
        };
        let held = HeldPorts::hold(settings, &place, &lock)?;
        if settings.stamps != Stamps::Application {
            limits.push(STAMPS_COST.to_owned());
        }
        let settings = settings.clone();
        let real_time = may_be_real_time();
        if !real_time {
            limits
                .push("the sender has no real-time priority (this needs root): other programs may void trials".into());
        }
        let (remote, instruments, scheme) =
            (None, Instruments::default(), netcliff_find::kernel_scheme(&inventory, true));
        let backlog = inventory.sysctls.get("net.core.netdev_max_backlog").and_then(|text| text.parse().ok());
        let native = bed.as_ref().and_then(ForwardBed::xdp_mode) == Some(Mode::Native);
        let backlog = if native { VETH_RING } else { backlog.unwrap_or(BACKLOG) };
        let mut kernel = Self {
            settings,
            place,
            bed,
            tester_cpu,
            real_time,
            remote,
            neighbours: None,
            probed: false,
            instruments,
            scheme,
            backlog,
            flat_out: None,
            stop,
            replayed,
            limits,
            _held: held,
            _lock: lock,
        };
        kernel.neighbours = kernel.answer_neighbours()?;
        Ok(kernel)
    }

    /// Describes the device on one line.
    pub fn describe(&self) -> String {
        match (&self.place, &self.bed) {
            (Place::Ports { tx, rx, .. }, _) => format!("what lies between {tx} and {rx}"),
            (Place::Namespaces { forwarding, rules, .. }, bed) => {
                let cpu = bed.as_ref().map_or(0, |bed| bed.options().router_cpu);
                let what = match forwarding {
                    Forwarding::Route => "IP routing".to_owned(),
                    Forwarding::Netfilter => format!("IP routing, {rules} netfilter rules"),
                    Forwarding::Conntrack => "IP routing with connection tracking".to_owned(),
                    Forwarding::Bridge => "bridge".to_owned(),
                    Forwarding::Xdp | Forwarding::XdpGeneric => match bed.as_ref().and_then(ForwardBed::xdp_mode) {
                        Some(Mode::Native) => "XDP redirect (native mode, in NAPI threads)".to_owned(),
                        _ => "XDP redirect (generic mode)".to_owned(),
                    },
                };
                format!("this kernel in a namespace on CPU {cpu}, between veth pairs: {what}")
            }
        }
    }

    /// Describes the tester on one line.
    pub fn tester(&self) -> String {
        let priority = if self.real_time { ", real-time" } else { "" };
        format!("{}, in one thread on CPU {}{priority}", self.instruments.describe(), self.tester_cpu)
    }

    /// How frames were sent, received and stamped.
    pub fn instruments(&self) -> &Instruments {
        &self.instruments
    }

    /// Path by which any thread of this process can open the namespace of a side of the tester. `None` for real ports.
    pub fn netns_path(&self, side: usize) -> Option<PathBuf> {
        self.bed.as_ref().map(|bed| bed.netns_path(side))
    }

    /// Path by which any thread of this process can open the router's namespace. `None` for real ports.
    pub fn router_netns_path(&self) -> Option<PathBuf> {
        self.bed.as_ref().map(ForwardBed::router_netns_path)
    }

    /// Adds a sentence to the limits of the result, unless it is already there.
    fn limit(&mut self, limit: String) {
        if !self.limits.contains(&limit) {
            self.limits.push(limit);
        }
    }

    /// The places that are checked for changes during a trial: the namespaces of the testbed, or the ports.
    fn places(&self) -> Vec<stand::Place> {
        match (&self.place, &self.bed) {
            (Place::Ports { tx, rx, .. }, _) => vec![stand::Place::devices(None, [tx.clone(), rx.clone()])],
            (_, Some(bed)) => {
                let tester = (0..bed.sides().len()).map(|side| bed.netns_path(side));
                // The router comes first, because a change at the router also shows at the tester.
                std::iter::once(bed.router_netns_path()).chain(tester).map(stand::Place::whole).collect()
            }
            (_, None) => Vec::new(),
        }
    }

    /// Whether programs in the kernel generate the frames.
    fn is_live(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.tester().sending == Sending::Live)
    }

    /// Number of frames that the router's port dropped since the testbed was made, because the sink's port was full.
    /// Always 0 between real ports.
    fn refused_by_sink(&self) -> Result<u64, DeviceError> {
        Ok(self.bed.as_ref().map_or(Ok(0), ForwardBed::refused_by_sink)?)
    }

    /// Makes the trials in which the cost of a frame is measured. Live frames leave in batches of one size, so polls
    /// take that number of frames; a second trial with smaller batches separates the cost of a poll from the cost of a
    /// frame.
    fn cost_trial(&mut self, load_pps: f64) -> Result<Measured, DeviceError> {
        let measured = self.trial(Request::whole(COST_S, load_pps))?;
        if self.is_live() {
            self.run(WireTrial {
                load_pps,
                duration_s: COST_S,
                settle_s: self.settings.settle_s,
                max_burst: SMALL_BATCH,
                tagged_at_s: None,
                burst: None,
                most_lost: None,
            })?;
        }
        Ok(measured)
    }

    /// The CPU of the router in a namespace, and whether the tester has it, too.
    fn router_cpu(&self) -> Option<(u32, bool)> {
        let router_cpu = self.bed.as_ref()?.options().router_cpu;
        Some((router_cpu, router_cpu == self.tester_cpu))
    }

    /// Does `work` while a CPU is metered. The split is `None` without eBPF, which becomes a limit of the result.
    fn metered<T>(
        &mut self,
        cpu: u32,
        work: impl FnOnce(&mut Self) -> Result<T, DeviceError>,
    ) -> Result<(T, Option<CpuSplit>), DeviceError> {
        let spec = MeterSpec { cpus: vec![cpu as usize], watch: Vec::new() };
        let marked = cpu::choose(Preference::Only(Method::Ebpf), &spec)
            .and_then(|mut choice| choice.meter.mark().map(|()| choice.meter));
        let done = work(self)?;
        match marked.and_then(|mut meter| meter.read()) {
            Ok(splits) => Ok((done, splits.into_iter().next())),
            Err(error) => {
                self.limit(format!("no prediction of the throughput: {error}"));
                Ok((done, None))
            }
        }
    }

    /// Sends at a load (pps) for a time (s), and returns the work of the CPU that tester and router share.
    fn shared_work(
        &mut self,
        load_pps: f64,
        duration_s: f64,
    ) -> Result<(TrialReport, Option<FrameShare>), DeviceError> {
        let trial = WireTrial {
            load_pps,
            duration_s,
            settle_s: self.settings.settle_s,
            max_burst: MAX_BURST,
            tagged_at_s: None,
            burst: None,
            most_lost: None,
        };
        let (report, split) = self.metered(self.tester_cpu, |kernel| kernel.run(trial))?;
        let sent = report.directions.iter().map(|direction| direction.sent).sum();
        let sending_s = report.directions.iter().map(|direction| direction.sending_s).fold(0.0, f64::max);
        let share = split.and_then(|split| FrameShare::of(&split, sent, sending_s));
        Ok((report, share))
    }

    /// Predicts the throughput of a CPU that tester and router share from its work at two loads below it.
    fn predict_shared(&mut self, throughput_pps: f64) -> Result<Option<Predicted>, DeviceError> {
        // The work of a CPU is measured for all frames, a throughput for one direction.
        let Some(flat_out) = self.flat_out.filter(|_| !self.settings.both_ways) else { return Ok(None) };
        let load_pps = 0.5 * throughput_pps;
        let (_, half) = self.shared_work(load_pps, COST_S)?;
        let (_, quarter) = self.shared_work(0.5 * load_pps, COST_S)?;
        Ok(half.zip(quarter).and_then(|(half, quarter)| Predicted::of_shared_cpu(load_pps, quarter, half, flat_out)))
    }

    fn run(&mut self, trial: WireTrial) -> Result<TrialReport, DeviceError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(DeviceError::Stopped);
        }
        rest(self.settings.rest_s, &self.stop);
        let mut stand = Stand::on(&self.places());
        let before = self.refused_by_sink()?;
        let remote = self.remote.as_mut().ok_or(DeviceError::Stopped)?;
        let run = remote.run(trial);
        // A change is reported before the failure that it caused.
        if let Some(changed) = stand.changed() {
            return Err(WireError::Changed(changed).into());
        }
        let report = run?;
        let report = report.refused_by_sink(self.refused_by_sink()?.saturating_sub(before));
        if report.stopped { Err(DeviceError::Stopped) } else { Ok(report) }
    }
}

/// Load of the run that measures the sender's rate (pps): the highest possible, or the configured one if it is lower
/// and no bursts are tested. Bursts always leave as fast as possible.
fn most_pps(settings: &Settings) -> f64 {
    settings.max_pps.filter(|_| !settings.tests.back_to_back).unwrap_or(FLAT_OUT_PPS).min(FLAT_OUT_PPS)
}

/// Waits while the device rests, or until `stop` is set.
fn rest(rest_s: f64, stop: &AtomicBool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs_f64(rest_s);
    while std::time::Instant::now() < until && !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(std::time::Instant::now());
        std::thread::sleep(left.min(std::time::Duration::from_millis(20)));
    }
}

fn may_be_real_time() -> bool {
    let placement = Placement { priority: Priority::RealTime(PRIORITY), ..Placement::default() };
    // A separate thread tries the priority, so that the caller keeps its own.
    std::thread::spawn(move || placement.enter().is_ok()).join().unwrap_or(false)
}

impl Device for Kernel {
    type Error = DeviceError;

    fn frames(&mut self, frame: FrameSize) -> Result<(), DeviceError> {
        // The rings of the previous frames are closed first: two sinks at once would both receive all arriving frames.
        self.remote = None;
        let priority = if self.real_time { Priority::RealTime(PRIORITY) } else { Priority::Ordinary };
        let placement = Placement { netns: None, cpu: Some(self.tester_cpu as usize), priority };
        let directions = self.directions(frame)?;
        let stop = Arc::clone(&self.stop);
        let Settings { send_by: send, receive_by: receive, stamps, .. } = self.settings;
        let by = Methods { send, receive, stamps };
        if let Some(bed) = self.bed.as_ref().filter(|_| send == SendBy::Live) {
            bed.take_live_frames(true)?;
        }
        let remote = Remote::start(directions.clone(), by, MAX_BURST, placement, stop)?;
        if let Some(bed) = self.bed.as_ref().filter(|_| send == SendBy::Live) {
            match remote.tester().sending {
                Sending::Live => {
                    bed.count_on(self.tester_cpu)?;
                    if bed.polls_live_frames() {
                        self.backlog = VETH_RING;
                    }
                }
                _ => bed.take_live_frames(false)?,
            }
        }
        self.instruments.note(remote.tester()).into_iter().for_each(|limit| self.limit(limit));
        self.remote = Some(remote);
        self.probe(&directions)
    }

    fn sender_pps(&mut self) -> Result<f64, DeviceError> {
        let most_pps = most_pps(&self.settings);
        let is_shared = self.router_cpu().is_some_and(|(_, is_shared)| is_shared);
        let report = if is_shared {
            let (report, share) = self.shared_work(most_pps, FLAT_OUT_S)?;
            self.flat_out = share;
            report
        } else {
            self.run(WireTrial {
                load_pps: most_pps,
                duration_s: FLAT_OUT_S,
                settle_s: self.settings.settle_s,
                max_burst: MAX_BURST,
                tagged_at_s: None,
                burst: None,
                most_lost: None,
            })?
        };
        let rate = |one: &DirectionReport| reached_pps(one.sent, one.intended, one.sending_s, FLAT_OUT_S);
        Ok(report.directions.iter().map(rate).fold(f64::INFINITY, f64::min))
    }

    fn trial(&mut self, request: Request) -> Result<Measured, DeviceError> {
        let Request { duration_s, load_pps, most_lost } = request;
        // Programs in the kernel (live frames) tag a frame only for the latency test: recording times costs CPU time.
        let tagged = self.settings.tests.latency || !self.is_live();
        let directions = if self.settings.both_ways { 2 } else { 1 };
        let report = self.run(WireTrial {
            load_pps,
            duration_s,
            settle_s: self.settings.settle_s,
            max_burst: MAX_BURST,
            tagged_at_s: tagged.then_some(duration_s / 2.0),
            burst: None,
            most_lost: most_lost.map(|lost| directions * lost),
        })?;
        Ok(measured(&report, self.settings.stamps, load_pps))
    }

    fn burst(&mut self, frames: u64) -> Result<Burst, DeviceError> {
        let report = self.run(WireTrial {
            load_pps: FLAT_OUT_PPS,
            duration_s: FLAT_OUT_S,
            settle_s: self.settings.settle_s,
            max_burst: MAX_BURST,
            tagged_at_s: None,
            burst: Some(frames),
            most_lost: None,
        })?;
        let sending_s = report.directions.iter().map(|direction| direction.sending_s).fold(0.0, f64::max);
        Ok(Burst { complete: report.lost() == 0, burst_pps: frames as f64 / sending_s.max(1e-6) })
    }

    fn line_bps(&self) -> Option<f64> {
        let Place::Ports { tx, rx, .. } = &self.place else { return None };
        super::slower_line_bps(&nic::ask_all().unwrap_or_default(), [tx, rx])
    }

    fn ledger(&mut self, load_pps: f64) -> Result<Option<TrialLedger>, DeviceError> {
        if self.is_live() {
            self.limit(NO_LEDGER.to_owned());
            return Ok(None);
        }
        self.accounted(load_pps).map(Some)
    }

    fn predict(&mut self, throughput_pps: f64) -> Result<Option<Predicted>, DeviceError> {
        // The prediction is for frames at a constant rate.
        if self.settings.pcap.is_some() {
            return Ok(None);
        }
        let Some((router_cpu, is_shared)) = self.router_cpu() else { return Ok(None) };
        if is_shared {
            return self.predict_shared(throughput_pps);
        }
        let load_pps = 0.5 * throughput_pps;
        // At the throughput to be predicted the CPU never halts. A wake-up from a halt makes the polls after it longer.
        let _awake = Awake::hold(router_cpu, Heartbeat::plain());
        let (_, split) = self.metered(router_cpu, |kernel| kernel.cost_trial(load_pps))?;
        let costs = split.as_ref().and_then(Costs::of);
        Ok(costs.map(|costs| Predicted::from_costs(costs, load_pps, self.scheme.clone(), self.backlog)))
    }
}

mod held {
    //! Sets real ports up for a measurement, and restores them afterwards.

    use crate::tester::stamps::{End, PortStamps, Stamps};
    use netcliff_host::journal::HostLock;
    use netcliff_host::testbed::kept::{self, KeptOffloads};
    use netcliff_host::testbed::stamping::StampedPorts;
    use netcliff_packets::port::{ReceiveBy, SendBy};

    use super::{DeviceError, Place};
    use crate::settings::Settings;

    /// Changes of real ports during a measurement, made by netcliff or by the kernel. They are undone when this value
    /// is dropped.
    #[derive(Debug, Default)]
    pub(super) struct HeldPorts {
        _stamped: Option<StampedPorts>,
        _merging: Option<KeptOffloads>,
    }

    impl HeldPorts {
        /// Changes the ports as the settings require. Does nothing for namespaces, whose ports are removed with them;
        /// whether these ports offer the timestamps is checked when they are opened.
        pub(super) fn hold(settings: &Settings, place: &Place, lock: &HostLock) -> Result<Self, DeviceError> {
            let Place::Ports { tx, rx, .. } = place else { return Ok(Self::default()) };
            let ports = [tx.as_str(), rx.as_str()];
            // At a port with an XDP program the kernel switches off the merging of frames (LRO, hardware GRO).
            let by_packet = settings.send_by == SendBy::Packet && settings.receive_by == ReceiveBy::Packet;
            let merging = (!by_packet).then(|| KeptOffloads::hold(lock, &ports, &kept::MERGING)).transpose()?;
            Ok(Self { _stamped: stamp(settings, ports, lock)?, _merging: merging })
        }
    }

    /// Enables hardware timestamps of every frame, if they are requested.
    ///
    /// # Errors
    /// A port does not offer them.
    fn stamp(settings: &Settings, [tx, rx]: [&str; 2], lock: &HostLock) -> Result<Option<StampedPorts>, DeviceError> {
        if settings.stamps != Stamps::Hardware {
            return Ok(None);
        }
        let ends = [(tx, End::Near), (rx, End::Far), (rx, End::Near), (tx, End::Far)];
        for (port, end) in &ends[..if settings.both_ways { 4 } else { 2 }] {
            PortStamps::of(port).check(settings.stamps, *end)?;
        }
        Ok(Some(StampedPorts::hold(lock, &[tx, rx])?))
    }
}

mod tuned {
    //! The router, set up by the tuning planner.

    use netcliff_core::inspection::Objective;
    use netcliff_host::testbed::forward::RouterPlan;

    use super::{DeviceError, Kernel};

    impl Kernel {
        /// Applies a tuning plan for `objective` to the router's interfaces, without the tester's CPU, until the device
        /// is dropped. `None` for real ports, which do not belong to the router: nothing is set there.
        ///
        /// # Errors
        /// A setting cannot be made; those before it are undone.
        pub fn tune(&mut self, objective: Objective) -> Result<Option<RouterPlan>, DeviceError> {
            Ok(self.bed.as_mut().map(|bed| bed.tune(objective)).transpose()?)
        }

        /// The tester's CPU.
        pub fn tester_cpu(&self) -> u32 {
            self.tester_cpu
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Tests;

    #[test]
    fn the_run_that_finds_the_senders_rate_keeps_to_the_load_asked_for() {
        let asked = Settings { max_pps: Some(20e3), ..Settings::default() };
        assert_eq!(most_pps(&asked), 20e3);
        assert_eq!(most_pps(&Settings::default()), FLAT_OUT_PPS);
        let bursts = Tests { back_to_back: true, ..asked.tests };
        assert_eq!(most_pps(&Settings { tests: bursts, ..asked }), FLAT_OUT_PPS);
    }
}
