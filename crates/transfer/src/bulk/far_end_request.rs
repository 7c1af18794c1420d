//! The near end's request to the far end of a transfer, in the form of the control channel.

use std::net::IpAddr;
use std::sync::Arc;

use netcliff_core::units;
use serde::{Deserialize, Serialize};

use super::{
    Amount, Burst, Channel, DatagramPath, Direction, LARGEST_BLOCK_BYTES, ReceivePath, SendPath, Settings,
    SocketOptions, linux, sampler,
};
use netcliff_packets::error::WireError;
use netcliff_packets::thread::Placement;
use netcliff_remote::far_meter::FAR_METER_BYTES;

/// Longest stall limit of a far end (s): a client that is gone must not hold threads for longer.
pub const LONGEST_FAR_STALL_S: f64 = 60.0;

/// Largest number of flows per direction that an agent accepts.
pub const MOST_FAR_FLOWS: u32 = 1024;

/// Largest memory of a far end's buffers (bytes).
pub const MOST_FAR_BYTES: u64 = 1 << 30;

/// Largest size of a far end's own files for sendfile (bytes).
pub const MOST_FAR_FILE_BYTES: u64 = 1 << 30;

/// Largest number of windows of all flows together that an agent counts. With `MOST_SAMPLES` TCP_INFO samples their
/// report stays below the largest message. 1024 flows have 16 windows each.
pub const MOST_FAR_WINDOWS: u64 = 16_384;

/// Memory of a datagram flow in addition to its blocks (bytes): a batch of the largest messages.
const DATAGRAM_BUFFER_BYTES: u64 = 5 << 20;

/// Memory of a flow in addition to its buffers (bytes): the touched part of its thread's stack, counters, its part of
/// the report. `cargo test -p netcliff-cli --test attack_agent -- --ignored` compares these three constants with the
/// resident memory of an agent.
const FLOW_BYTES: u64 = 64 << 10;

/// Memory of a window (bytes): as a count, as a JSON tree, and as JSON text, which is copied and encrypted.
const WINDOW_BYTES: u64 = 6 << 10;

/// Memory of a TCP_INFO sample (bytes): as a value, as a JSON tree, and as JSON text.
const SAMPLE_BYTES: u64 = 5 << 10;

/// The transport between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Carrier {
    Tcp,
    Multipath,
    Udp(DatagramPath),
}

/// The settings of a far end, in the form of the control channel (JSON).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FarEndRequest {
    pub carrier: Carrier,
    pub path: SendPath,
    pub options: SocketOptions,
    pub direction: Direction,
    pub flows: u32,
    pub block_bytes: usize,
    pub read_bytes: usize,
    #[serde(default)]
    pub receive: ReceivePath,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_water_bytes: Option<u32>,
    pub warm_up_s: f64,
    pub amount: Amount,
    pub windows: u32,
    pub acknowledged: bool,
    pub interval_s: Option<f64>,
    pub stall_s: f64,
    /// CPU of the far end's threads. `None`: any.
    pub cpu: Option<usize>,
    /// CPUs of the far end's threads, used round robin. Only for an agent with
    /// [`CPU_LISTS`](netcliff_remote::control::CPU_LISTS).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// Number of threads of the far end, if it is less than the number of its flows. Only for an agent with
    /// [`SHARED_THREADS`](netcliff_remote::control::SHARED_THREADS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Whether to use the exact CPU meter. Only for an agent with [`CPU_METER`](netcliff_remote::control::CPU_METER).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub meter: bool,
    /// Whether to count at the far end's devices. Only for an agent with
    /// [`DEVICE_COUNTS`](netcliff_remote::control::DEVICE_COUNTS).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub devices: bool,
    /// Distance (in CPUs) of the far end's threads from the CPU that handles their flow's packets. Only for an agent
    /// with [`RX_CPU`](netcliff_remote::control::RX_CPU).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx: Option<u32>,
    /// Whether all ends start at a time that is sent later. Only for an agent with
    /// [`COMMON_START`](netcliff_remote::control::COMMON_START).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// Bursts. Only for an agent with [`COMMON_START`](netcliff_remote::control::COMMON_START).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
}

impl FarEndRequest {
    /// The far end's part of the settings of a transfer.
    ///
    /// # Errors
    /// The channel needs both ends on one host.
    pub fn of(settings: &Settings) -> Result<Self, WireError> {
        let carrier = match &settings.channel {
            Channel::Tcp { multipath: false, .. } => Carrier::Tcp,
            Channel::Tcp { multipath: true, .. } => Carrier::Multipath,
            Channel::Udp { path, .. } => Carrier::Udp(*path),
            Channel::Unix | Channel::Pipe => {
                return Err(WireError::setting("channel", "unix or pipe", "tcp, mptcp or udp between two hosts"));
            }
        };
        let far_sends = settings.direction != Direction::Send;
        let order = Self {
            carrier,
            // The name of a file is not sent to an end that does not send the file.
            path: if far_sends { settings.path.clone() } else { SendPath::Write },
            options: settings.options.clone(),
            direction: settings.direction,
            flows: settings.flows,
            block_bytes: settings.block_bytes,
            read_bytes: settings.read_bytes,
            receive: settings.receive,
            low_water_bytes: settings.low_water_bytes,
            warm_up_s: settings.warm_up_s,
            amount: settings.amount,
            windows: settings.windows,
            acknowledged: settings.acknowledged,
            interval_s: settings.interval_s,
            stall_s: settings.stall_s,
            cpu: settings.far.cpu,
            cpus: settings.far_cpus.clone(),
            threads: settings.shared_threads(),
            meter: settings.far_meter,
            devices: settings.far_devices,
            rx: settings.far_rx,
            together: settings.start.is_some(),
            burst: settings.burst,
        };
        order.check()?;
        Ok(order)
    }

    /// Refuses what an agent does for no client: invalid values, sending files of the agent's host, and requests beyond
    /// the agent's limits.
    pub fn check(&self) -> Result<(), WireError> {
        for (what, bytes) in [("block_bytes", self.block_bytes), ("read_bytes", self.read_bytes)] {
            if !(1..=LARGEST_BLOCK_BYTES).contains(&bytes) {
                return Err(WireError::setting(what, bytes, format!("1 to {LARGEST_BLOCK_BYTES} bytes")));
            }
        }
        if matches!(self.path, SendPath::SendFile { .. }) {
            let accepted =
                "a file that the far end makes for itself, where it sends: an agent opens no files for others";
            return Err(WireError::setting("path", "sendfile", accepted));
        }
        let files = self.file_bytes();
        if files > MOST_FAR_FILE_BYTES {
            let most = units::print_bytes(MOST_FAR_FILE_BYTES);
            let accepted = format!("at most {most} in an agent, all flows together");
            return Err(WireError::setting("temporary files", files, accepted));
        }
        if !(0.0..=LONGEST_FAR_STALL_S).contains(&self.stall_s) {
            let accepted = format!("at most {LONGEST_FAR_STALL_S} seconds with an agent");
            return Err(WireError::setting("stall_s", self.stall_s, accepted));
        }
        if self.flows > MOST_FAR_FLOWS {
            return Err(WireError::setting("flows", self.flows, format!("at most {MOST_FAR_FLOWS} with an agent")));
        }
        let windows = self.windows_of_all();
        if windows > MOST_FAR_WINDOWS {
            let value = format!("{} of {} flows", self.windows, self.flows_of_all());
            let accepted = format!("at most {MOST_FAR_WINDOWS} of all flows together with an agent");
            return Err(WireError::setting("windows", value, accepted));
        }
        if self.cpus.len() > MOST_FAR_FLOWS as usize {
            let accepted = format!("at most {MOST_FAR_FLOWS} of them with an agent, a flow each");
            return Err(WireError::setting("cpus", self.cpus.len(), accepted));
        }
        let of_bytes = matches!(self.amount, Amount::Bytes(_));
        if of_bytes && self.warm_up_s > 0.0 && matches!(self.carrier, Carrier::Udp(_)) {
            let accepted = "0 for a number of bytes over UDP with an agent: a receiver cannot tell where they begin";
            return Err(WireError::setting("warm_up_s", self.warm_up_s, accepted));
        }
        if let Some(burst) = self.burst {
            let seconds = if let Amount::Seconds(seconds) = self.amount { seconds } else { f64::INFINITY };
            burst.check(self.block_bytes, self.warm_up_s + seconds)?;
            if self.direction != Direction::Receive || matches!(self.carrier, Carrier::Udp(_)) {
                return Err(WireError::setting("burst", "to an agent", "a stream that agents send: direction receive"));
            }
        }
        let bytes = self.buffer_bytes();
        if bytes > MOST_FAR_BYTES {
            let most = units::print_bytes(MOST_FAR_BYTES);
            let accepted = format!("at most {most} for a test in an agent: fewer flows, smaller blocks or reads");
            return Err(WireError::setting("memory for buffers", units::print_bytes(bytes), accepted));
        }
        Ok(())
    }

    /// Memory of the far end (bytes).
    pub fn memory_bytes(&self) -> u64 {
        let meter = if self.meter { FAR_METER_BYTES } else { 0 };
        let parts = [self.buffer_bytes(), self.file_bytes(), self.report_bytes(), meter];
        parts.into_iter().fold(self.flows_of_all().saturating_mul(FLOW_BYTES), u64::saturating_add)
    }

    fn flows_of_all(&self) -> u64 {
        u64::from(self.flows).saturating_mul(if self.direction == Direction::Both { 2 } else { 1 })
    }

    fn windows_of_all(&self) -> u64 {
        self.flows_of_all().saturating_mul(u64::from(self.windows.max(1)))
    }

    /// Memory of the counts and of the report (bytes).
    fn report_bytes(&self) -> u64 {
        let windows = self.windows_of_all().saturating_mul(WINDOW_BYTES);
        windows.saturating_add(self.samples_of_all().saturating_mul(SAMPLE_BYTES))
    }

    /// Largest number of TCP_INFO samples.
    fn samples_of_all(&self) -> u64 {
        if self.direction == Direction::Send || matches!(self.carrier, Carrier::Udp(_)) {
            return 0;
        }
        let within = match (self.interval_s, self.amount) {
            (None, _) => 0,
            (Some(every_s), Amount::Seconds(s)) => (s / every_s * f64::from(self.windows.max(1))) as u64,
            // The duration of a transfer of bytes is unknown.
            (Some(_), Amount::Bytes(_)) => u64::MAX,
        };
        let most = sampler::MOST_SAMPLES as u64;
        within.saturating_add(2).saturating_mul(u64::from(self.flows)).min(most.saturating_add(u64::from(self.flows)))
    }

    /// Size of the temporary files that the far end makes for sendfile (bytes). They occupy the page cache, or memory
    /// if the directory for temporary files is in memory.
    fn file_bytes(&self) -> u64 {
        let SendPath::SendOwnFile { bytes, .. } = self.path else { return 0 };
        bytes.saturating_mul(u64::from(self.flows))
    }

    fn buffer_bytes(&self) -> u64 {
        let datagrams = if matches!(self.carrier, Carrier::Udp(_)) { DATAGRAM_BUFFER_BYTES } else { 0 };
        // Memory is needed twice: for bytes that are mapped, and for bytes that are copied because they cannot be
        // mapped.
        let received = match self.receive {
            ReceivePath::Read | ReceivePath::Truncate | ReceivePath::Ktls => self.read_bytes,
            ReceivePath::Mapped => self.read_bytes.saturating_mul(2),
            ReceivePath::Uring if matches!(self.carrier, Carrier::Udp(_)) => linux::receive_bytes(self.block_bytes + 1),
            ReceivePath::Uring => linux::receive_bytes(self.read_bytes.max(1)),
        };
        let of_flow = (self.block_bytes as u64).saturating_add(received as u64).saturating_add(datagrams);
        of_flow.saturating_mul(self.flows_of_all())
    }

    /// The settings of a transfer whose far end is at `address`.
    pub fn settings(self, address: IpAddr) -> Settings {
        let channel = match self.carrier {
            Carrier::Tcp => Channel::Tcp { address, multipath: false },
            Carrier::Multipath => Channel::Tcp { address, multipath: true },
            Carrier::Udp(path) => Channel::Udp { address, path },
        };
        Settings {
            path: self.path,
            options: self.options,
            direction: self.direction,
            flows: self.flows,
            block_bytes: self.block_bytes,
            read_bytes: self.read_bytes,
            receive: self.receive,
            low_water_bytes: self.low_water_bytes,
            warm_up_s: self.warm_up_s,
            amount: self.amount,
            windows: self.windows,
            acknowledged: self.acknowledged,
            interval_s: self.interval_s,
            stall_s: self.stall_s,
            far: Placement { cpu: self.cpu, ..Placement::default() },
            far_cpus: self.cpus,
            threads: self.threads,
            far_meter: self.meter,
            far_devices: self.devices,
            far_rx: self.rx,
            burst: self.burst,
            start: self.together.then(Arc::default),
            ..Settings::new(channel)
        }
    }
}
