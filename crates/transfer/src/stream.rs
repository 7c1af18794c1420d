//! `netcliff stream`: a sweep of bulk transfers with interleaved repeats, metered at both ends, at the hosts' CPUs and
//! at the devices.
//!
//! [`run`] makes the transfers ([`crate::bulk`]) and meters CPU and devices over the same windows
//! (`meters`); `summary` turns the repeats of a configuration into a row.

mod devices;
mod far;
mod ledger;
mod many;
mod meters;
mod method;
mod probe;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bulk::{self, Channel, DatagramPath, Direction, ReceivePath, SendPath, Settings, Transfer};
use netcliff_core::ledger::TrialLedger;
use netcliff_core::repeats::Repeats;
use netcliff_core::stream::{StreamReport, StreamWarning};
use netcliff_core::{Fingerprint, Provenance, units};
use netcliff_host::cpu::{CpuSplit, Method as CpuMethod, Preference, system::SystemShares};
use netcliff_host::disturbance::Disturbances;
use netcliff_host::inventory::Inventory;
use netcliff_packets::WireError;
use netcliff_remote::ground::FarGround;

use crate::hosts::Fingerprints;
use netcliff_trial::repeats;
use netcliff_trial::stand::Stand;

pub use crate::bulk::{Agent, Burst};
pub use crate::exchange::Transport as ProbeTransport;
pub use devices::Sides;
pub use far::Far;
pub use live::{Interval, Live, LiveEvent};
pub use meters::Meters;
pub use method::{LMBENCH2_BLOCK_BYTES, Method};
pub use probe::ProbeOptions;
pub use testbed::{in_testbed, placed};

/// How a block is sent. The configurations of a sweep differ in this and in the block size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// Over a stream socket.
    Stream(SendPath),
    /// As a datagram.
    Datagram(DatagramPath),
}

impl Path {
    /// The path's name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stream(SendPath::Write) => "write",
            Self::Stream(SendPath::WriteV) => "writev",
            Self::Stream(SendPath::SendFile { .. } | SendPath::SendOwnFile { .. }) => "sendfile",
            Self::Stream(SendPath::Splice) => "splice",
            Self::Stream(SendPath::Ktls) => "ktls",
            Self::Stream(SendPath::ZeroCopy) => "zerocopy",
            Self::Stream(SendPath::Uring { zero_copy: false }) => "uring",
            Self::Stream(SendPath::Uring { zero_copy: true }) => "uring-zc",
            Self::Datagram(DatagramPath::Single) => "single",
            Self::Datagram(DatagramPath::Batch) => "batch",
            Self::Datagram(DatagramPath::Segmented) => "gso",
            Self::Datagram(DatagramPath::SegmentedOut) => "gso-tx",
            Self::Datagram(DatagramPath::SegmentedIn) => "gro-rx",
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    /// The settings that all configurations share. The sweep and the method set block, path and amount.
    pub template: Settings,
    /// The measuring method.
    pub method: Method,
    /// Block sizes (bytes).
    pub blocks_bytes: Vec<usize>,
    /// Bytes that one read requests. `None`: [`read_bytes`] of each block.
    pub read_bytes: Option<usize>,
    /// Paths. Each is combined with each block size.
    pub paths: Vec<Path>,
    /// Repeats of each configuration. A precision refers to goodput.
    pub repeats: Repeats,
    /// Warm-up (s). `None`: the method's own.
    pub warm_up_s: Option<f64>,
    /// Measured time of a repeat (s), for methods that are bounded by time.
    pub time_s: f64,
    /// Bytes of a repeat and flow, for methods that are bounded by bytes. `None`: 256 Ki blocks, at most 1 GiB.
    pub bytes: Option<u64>,
    /// The link's rate (bit/s). `None` if it is not known.
    pub link_bps: Option<f64>,
    /// How CPU time is measured in addition to the kernel's ticks.
    pub cpu: Preference,
    /// Requests during the transfers. `None`: no requests.
    pub probe: Option<ProbeOptions>,
    /// Whether one more transfer follows the repeats of datagrams, in which all packets are accounted for.
    pub ledger: bool,
    /// Description of the far end's host if it is a guest of this host. Host-wide results are then those of the guest.
    pub guest: Option<String>,
    /// Receives the interim reports. `None`: no interim reports.
    pub live: Option<Live>,
    /// Flag that ends the run early; the results so far are returned.
    pub stop: Arc<AtomicBool>,
    /// The command line.
    pub command: String,
    /// Start of the run (s since the Unix epoch).
    pub started_unix_s: f64,
}

/// Largest number of bytes that a read requests by default.
pub const MOST_READ_BYTES: usize = 128 << 10;

/// Default number of bytes that one read of a stream requests. read(2) requests a block, as iperf3, nuttcp and qperf
/// do. A reader that requests more empties the socket sooner and sleeps more often, so the sender has to wake it more
/// often. With writes of 64 bytes over veth, reads of 128 KiB reached 0.35 Gbit/s and reads of 64 bytes 0.55 Gbit/s
/// (`netcliff stream --testbed netns --block 64B --read 128KiB`, and without `--read`). The other methods of receiving
/// fill buffers whatever the block size, and a reader with a low-water mark takes at once all that has arrived when it
/// wakes.
pub fn read_bytes(receive: ReceivePath, low_water_bytes: Option<u32>, block_bytes: usize) -> usize {
    match receive {
        ReceivePath::Read | ReceivePath::Ktls if low_water_bytes.is_none() => block_bytes.min(MOST_READ_BYTES),
        ReceivePath::Read | ReceivePath::Ktls => MOST_READ_BYTES,
        ReceivePath::Truncate | ReceivePath::Mapped | ReceivePath::Uring => MOST_READ_BYTES,
    }
}

impl StreamOptions {
    /// Refuses options with which nothing could be measured, before anything is set up.
    ///
    /// # Errors
    /// The first reason, if no configuration is possible. If only some are impossible, the report names them.
    pub fn check(&self) -> Result<(), WireError> {
        let mut refused = None;
        for config in configurations(self) {
            let (warm_up, settings) = config.settings(self);
            let probe = self.probe.as_ref().map_or(Ok(()), |probe| probe.check(&settings, self.time_s));
            match probe.and_then(|()| warm_up.iter().chain([&settings]).try_for_each(Settings::check)) {
                Ok(()) => return Ok(()),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

/// One configuration with its repeats.
#[derive(Debug)]
struct Config {
    path: Path,
    block_bytes: usize,
    repeats: Vec<Repeat>,
    /// Why the configuration ended early. `None` if it did not.
    ended: Option<String>,
    /// Packet accounting of one transfer of datagrams.
    ledger: Option<TrialLedger>,
}

impl Config {
    /// Goodput of each repeat (bit/s).
    fn goodputs_bps(&self, options: &StreamOptions) -> Vec<f64> {
        summary::samples(options, self.block_bytes, &self.repeats)
            .iter()
            .filter_map(|sample| sample.goodput_bps)
            .collect()
    }

    /// The transfer to make, after the warm-up transfer if there is one.
    fn settings(&self, options: &StreamOptions) -> (Option<Settings>, Settings) {
        let mut template = options.template.clone();
        template.block_bytes = self.block_bytes;
        let read_bytes = || read_bytes(template.receive, template.low_water_bytes, self.block_bytes);
        template.read_bytes = options.read_bytes.unwrap_or_else(read_bytes);
        template.stop = Some(Arc::clone(&options.stop));
        match (&self.path, &mut template.channel) {
            (Path::Stream(path), _) => {
                template.path = path.clone();
                // Both ends have to use TLS.
                if *path == SendPath::Ktls {
                    template.receive = ReceivePath::Ktls;
                }
            }
            (Path::Datagram(wanted), Channel::Udp { path, .. }) => *path = *wanted,
            (Path::Datagram(_), _) => {}
        }
        options.method.settings(options, template)
    }

    /// Whether the configuration is measured in a round (counted from 0).
    fn wants(&self, options: &StreamOptions, round: u32) -> bool {
        self.ended.is_none() && options.repeats.wants(round, repeats::half_width(&self.goodputs_bps(options)))
    }
}

/// One transfer, and the meters' values around it.
#[derive(Debug)]
struct Repeat {
    transfer: Transfer,
    ticks: Vec<SystemShares>,
    exact: Vec<CpuSplit>,
    /// Counts of the sending and the receiving side's devices.
    devices: Option<Sides>,
    /// Requests during the transfer.
    probe: Option<probe::Probed>,
}

/// Measures the sweep with both ends in this process. `said` receives the progress.
///
/// # Errors
/// The first reason, if no configuration could be measured. If only some could not, the report names them.
pub fn run(options: &StreamOptions, said: &mut dyn FnMut(&str)) -> Result<StreamReport, WireError> {
    run_with(options, &mut Far::Here, said)
}

/// Measures the sweep with the far end at `far`.
///
/// # Errors
/// An error of [`run`]. If the agent is gone, all configurations end.
pub fn run_with(
    options: &StreamOptions,
    far: &mut Far<'_>,
    said: &mut dyn FnMut(&str),
) -> Result<StreamReport, WireError> {
    let fingerprints = far.fingerprints();
    let mut linked = options.clone();
    linked.link_bps = options.link_bps.or_else(|| fingerprints.link_bps());
    let mut report = measured(&linked, far, fingerprints, &limits_of_this_host(), said)?;
    if let (None, Some(link_bps)) = (options.link_bps, linked.link_bps) {
        let link = format!("{}, as this host's device on the path has it", units::print_bps(link_bps));
        report.asked.push(("link".to_owned(), link));
    }
    Ok(report)
}

/// Makes the transfers of a larger run, which reports the hosts and their limits itself.
///
/// # Errors
/// An error of [`run_with`].
pub(crate) fn run_as_part(options: &StreamOptions, far: &mut Far<'_>) -> Result<StreamReport, WireError> {
    measured(options, far, Fingerprints::default(), &[], &mut |_| {})
}

/// What limits this host's results, a sentence each. Called before a run, because the run's own work loads the host
/// too.
pub(crate) fn limits_of_this_host() -> Vec<String> {
    Inventory::of_this_host().limits().iter().map(ToString::to_string).collect()
}

/// Measures the sweep. `fingerprints` and `limits` of the hosts are reported.
fn measured(
    options: &StreamOptions,
    far: &mut Far<'_>,
    fingerprints: Fingerprints,
    limits: &[String],
    said: &mut dyn FnMut(&str),
) -> Result<StreamReport, WireError> {
    let begin = std::time::Instant::now();
    // Read the file before the transfers, which leave it in the page cache.
    let storage_bps = storage_bps(options);
    let mut configs = configurations(options);
    let mut meters = Meters::start(options, far);
    let mut before = Disturbances::of_this_host();
    let mut first_error = None;
    let rounds = options.method.rounds(options.repeats.most);
    for round in 0..rounds {
        let stopped = options.stop.load(Ordering::Relaxed);
        if stopped || !configs.iter().any(|config| config.wants(options, round)) {
            break;
        }
        said(&format!(
            "round {} of {}{rounds}",
            round + 1,
            if round < options.repeats.least { "" } else { "at most " }
        ));
        for place in 0..configs.len() {
            // Start each round with another configuration, so that drift does not always affect the same one.
            let place = (place + round as usize) % configs.len();
            if options.stop.load(Ordering::Relaxed) {
                break;
            }
            if configs[place].wants(options, round) {
                measure(options, &mut configs[place], far, &mut meters, &mut first_error);
                before.widen(&Disturbances::frequencies_of_this_host());
            }
        }
    }
    if let (Some(error), true) = (first_error, configs.iter().all(|config| config.repeats.is_empty())) {
        return Err(error);
    }
    if options.ledger {
        ledger::account(options, far, &mut configs, &mut meters, said);
    }
    let stopped = options.stop.load(Ordering::Relaxed);
    let mut report = summary::report(options, far, &configs, &meters, fingerprints);
    summary::add_storage(&mut report, storage_bps);
    report.warnings.extend(Disturbances::of_this_host().since(&before).into_iter().map(StreamWarning::Other));
    // Sentences of a rig: other runs are among them.
    report.warnings.extend(limits.iter().cloned().map(StreamWarning::from));
    report.partial |= stopped;
    report.provenance.elapsed_s = Some(begin.elapsed().as_secs_f64());
    Ok(report)
}

/// Rate at which this host reads the file of a path that sends one from a disk (bit/s). `None` if this end sends no
/// such file, or if it cannot be read, which the transfer reports.
fn storage_bps(options: &StreamOptions) -> Option<f64> {
    if options.method.direction().unwrap_or(options.template.direction) == Direction::Receive {
        return None;
    }
    let rate = |path: &Path| if let Path::Stream(path) = path { bulk::storage_bps(path)?.ok() } else { None };
    options.paths.iter().find_map(rate)
}

fn configurations(options: &StreamOptions) -> Vec<Config> {
    let pairs = options.paths.iter().flat_map(|path| options.blocks_bytes.iter().map(move |block| (path, *block)));
    pairs
        .map(|(path, block_bytes)| Config {
            path: path.clone(),
            block_bytes,
            repeats: Vec::new(),
            ended: None,
            ledger: None,
        })
        .collect()
}

/// Measures one repeat of a configuration. A failure ends the configuration, not the run.
fn measure(
    options: &StreamOptions,
    config: &mut Config,
    far: &mut Far<'_>,
    meters: &mut Meters,
    first_error: &mut Option<WireError>,
) {
    let (mut warm_up, mut settings) = config.settings(options);
    for settings in warm_up.iter_mut().chain([&mut settings]) {
        // If both ends are on one host, the meter of this process sees both.
        settings.far_meter = !far.is_this_host() && options.cpu.allows(CpuMethod::Ebpf);
        settings.far_devices = far.counts_devices();
    }
    let warm = warm_up.map_or(Ok(()), |settings| far.transfer(&settings, &mut ()).map(drop));
    if let Some(live) = &options.live {
        let (path, repeat) = (config.path.name(), config.repeats.len() + 1);
        let _ = live.to.send(LiveEvent::Repeat { path, block_bytes: config.block_bytes, repeat });
    }
    let mut stand = Stand::on(&far.places(&settings));
    let there = far.watch();
    meters.probe(options, &settings, far);
    let made = warm.and_then(|()| far.transfer(&settings, meters));
    let probe = meters.probed(options);
    let changed = far.changed(there.as_ref(), stand.changed());
    meters.note(there.as_ref().and_then(FarGround::refusal));
    match made {
        Ok(mut transfer) => {
            // The change is named first, then what the transfer itself reported.
            transfer.cut_short = match (changed, transfer.cut_short) {
                (Some(changed), Some(why)) => Some(format!("{changed} ({why})")),
                (changed, why) => changed.or(why),
            };
            config.ended.clone_from(&transfer.cut_short);
            let (ticks, exact, devices) = meters.take();
            let there = transfer.far.as_ref().and_then(|far| far.devices);
            let devices = devices.map(|sides| sides.with_far(there));
            config.repeats.push(Repeat { transfer, ticks, exact, devices, probe });
        }
        Err(error) => {
            let error = match changed {
                Some(changed) => WireError::Changed(format!("{changed} ({error})")),
                None => error,
            };
            config.ended = Some(error.to_string());
            first_error.get_or_insert(error);
        }
    }
}

/// Provenance of a stream.
fn provenance(options: &StreamOptions, fingerprint: &Fingerprint) -> Provenance {
    Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: options.command.clone(),
        started_unix_s: options.started_unix_s,
        fingerprint_id: Some(fingerprint.id()),
        ..Provenance::default()
    }
}

mod live {
    //! Reports while a sweep runs: [`LiveEvent`].

    use std::sync::mpsc;
    use std::time::Duration;

    pub use crate::bulk::Interval;

    /// The receiver and the interval of interim reports.
    #[derive(Debug, Clone)]
    pub struct Live {
        /// Length of an interval.
        pub every: Duration,
        /// The receiver. Reports are dropped if it is gone.
        pub to: mpsc::Sender<LiveEvent>,
    }

    /// An interim report.
    #[derive(Debug, Clone, PartialEq)]
    pub enum LiveEvent {
        /// A repeat begins.
        Repeat {
            /// The path's name on the command line.
            path: &'static str,
            /// Bytes of one write or datagram.
            block_bytes: usize,
            /// Number of the repeat, from 1.
            repeat: usize,
        },
        /// An interval of the repeat has passed.
        Passed(Interval),
    }
}

mod testbed {
    //! A sweep in a testbed: bytes go from the testbed's sender to its host under test.

    use crate::bulk::{Channel, Direction};
    use netcliff_core::stream::StreamReport;
    use netcliff_host::testbed::netns::Side;
    use netcliff_packets::WireError;
    use netcliff_packets::thread::Placement;

    use super::{Far, StreamOptions, measured};
    use crate::hosts::Fingerprints;
    use netcliff_trial::rig::Rig;

    /// Measures the sweep in a testbed. The sending end of the connection (in both directions: the near end) runs in
    /// the testbed's sender, on its CPU.
    ///
    /// # Errors
    /// An error of [`super::run`].
    pub fn in_testbed(
        options: &StreamOptions,
        rig: &Rig,
        said: &mut dyn FnMut(&str),
    ) -> Result<StreamReport, WireError> {
        let placed = placed(options, rig);
        let mut report = measured(&placed, &mut Far::Here, Fingerprints::of_rig(rig), &rig.limits, said)?;
        report.asked.push(("testbed".to_owned(), rig.describe()));
        report.asked.extend(rig.link().map(|link| ("link".to_owned(), link)));
        Ok(report)
    }

    /// Copies `options` with both ends placed in the testbed.
    pub fn placed(options: &StreamOptions, rig: &Rig) -> StreamOptions {
        let mut placed = options.clone();
        let place = |side, cpu: u32| Placement {
            netns: rig.netns(side),
            cpu: Some(cpu as usize),
            priority: options.template.near.priority,
        };
        let ipv6 = match &options.template.channel {
            Channel::Tcp { address, .. } | Channel::Udp { address, .. } => address.is_ipv6(),
            Channel::Unix | Channel::Pipe => false,
        };
        let (from, to) = rig.ends(ipv6).unwrap_or_else(|| (rig.host_address(), rig.host_address()));
        let (sender, receiver) = (place(Side::Sender, rig.sender_cpu), place(Side::HostUnderTest, rig.host_cpu));
        let direction = options.method.direction().unwrap_or(options.template.direction);
        let far_address = match direction {
            Direction::Receive => {
                (placed.template.near, placed.template.far) = (receiver, sender);
                from
            }
            Direction::Send | Direction::Both => {
                (placed.template.near, placed.template.far) = (sender, receiver);
                to
            }
        };
        if let Channel::Tcp { address, .. } | Channel::Udp { address, .. } = &mut placed.template.channel {
            // Datagrams are sent to their receiver's address, at either end.
            let datagrams = direction == Direction::Receive && matches!(options.template.channel, Channel::Udp { .. });
            *address = if datagrams { to } else { far_address };
        }
        placed.template.near_address = (direction == Direction::Both).then_some(from);
        placed
    }
}
