//! CPU time and device counts over the windows of a transfer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use netcliff_host::cpu::system::{SystemShares, SystemStamp};
use netcliff_host::cpu::{self, CpuMeter, CpuSplit, MeterSpec, Method, Watch as WatchTask};
use netcliff_wire::thread::Placement;
use netcliff_wire::transfer::{Channel, Direction, Watch};

use super::StreamOptions;

/// What the devices of a network namespace have counted, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped on the way in or out.
    pub dropped: u64,
}

impl DeviceCounts {
    /// The increase since `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            tx_packets: self.tx_packets.saturating_sub(earlier.tx_packets),
            tx_bytes: self.tx_bytes.saturating_sub(earlier.tx_bytes),
            dropped: self.dropped.saturating_sub(earlier.dropped),
        }
    }

    /// Reads the table of /proc/net/dev: the loopback device only, or all others.
    pub(super) fn parse(table: &str, loopback: bool) -> Self {
        let mut sum = Self::default();
        for line in table.lines() {
            let Some((name, columns)) = line.split_once(':') else { continue };
            if (name.trim() == "lo") != loopback {
                continue;
            }
            let columns: Vec<u64> = columns.split_ascii_whitespace().map_while(|text| text.parse().ok()).collect();
            if let [_, _, _, rx_dropped, _, _, _, _, tx_bytes, tx_packets, _, tx_dropped, ..] = columns[..] {
                sum.tx_packets += tx_packets;
                sum.tx_bytes += tx_bytes;
                sum.dropped += rx_dropped + tx_dropped;
            }
        }
        sum
    }
}

/// Where devices are counted.
#[derive(Debug, Clone)]
struct Devices {
    sending: Option<PathBuf>,
    receiving: Option<PathBuf>,
    loopback: bool,
}

impl Devices {
    /// None where no device is involved, or traffic goes both ways.
    fn of(options: &StreamOptions) -> Option<Self> {
        let address = match options.template.channel {
            Channel::Tcp { address, .. } | Channel::Udp { address, .. } => address,
            Channel::Unix | Channel::Pipe => return None,
        };
        let (near, far) = (&options.template.near.netns, &options.template.far.netns);
        let (sending, receiving) = match options.method.direction().unwrap_or(options.template.direction) {
            Direction::Send => (near, far),
            Direction::Receive => (far, near),
            Direction::Both => return None,
        };
        // To an address of its own a namespace always speaks through lo.
        let loopback = address.is_loopback() || near == far;
        Some(Self { sending: sending.clone(), receiving: receiving.clone(), loopback })
    }

    fn read(&self) -> Option<(DeviceCounts, DeviceCounts)> {
        let of = |netns: &Option<PathBuf>| {
            let placement = Placement { netns: netns.clone(), ..Placement::default() };
            let table = std::thread::scope(|scope| {
                let read = scope.spawn(move || {
                    placement.enter().ok()?;
                    std::fs::read_to_string("/proc/thread-self/net/dev").ok()
                });
                read.join().ok().flatten()
            })?;
            Some(DeviceCounts::parse(&table, self.loopback))
        };
        Some((of(&self.sending)?, of(&self.receiving)?))
    }
}

/// What was metered of one transfer.
type Metered = (Vec<SystemShares>, Vec<CpuSplit>, Option<(DeviceCounts, DeviceCounts)>);

/// Meters the windows of one transfer after the other.
pub struct Meters {
    exact: Option<Box<dyn CpuMeter>>,
    devices: Option<Devices>,
    from: Option<SystemStamp>,
    devices_from: Option<(DeviceCounts, DeviceCounts)>,
    metered: Metered,
    /// What could not be metered, with the reason.
    pub not_had: Vec<String>,
}

impl Meters {
    /// Starts them on all CPUs; those that do not work here are named.
    pub(super) fn start(options: &StreamOptions) -> Self {
        let cpus = netcliff_host::inventory::Inventory::of_this_host().cpu.online;
        let cpus = cpus.into_iter().map(|cpu| cpu as usize).collect();
        let spec = MeterSpec { cpus, watch: vec![WatchTask::Process(std::process::id())] };
        let mut not_had = Vec::new();
        let exact = match cpu::choose(options.cpu, &spec) {
            Ok(choice) => {
                not_had.extend(choice.passed_over.iter().map(|why| format!("exact CPU shares: {why}")));
                Some(choice.meter)
            }
            Err(why) => {
                not_had.push(format!("CPU shares: {why}"));
                None
            }
        };
        let devices = Devices::of(options);
        Self { exact, devices, from: None, devices_from: None, metered: Metered::default(), not_had }
    }

    /// How the finer CPU shares are measured.
    pub fn method(&self) -> Option<Method> {
        self.exact.as_ref().map(|meter| meter.method())
    }

    /// What was metered since the windows opened, once.
    pub(super) fn take(&mut self) -> Metered {
        std::mem::take(&mut self.metered)
    }

    fn once(&mut self, why: String) {
        if !self.not_had.contains(&why) {
            self.not_had.push(why);
        }
    }
}

impl Watch for Meters {
    fn opened(&mut self) {
        self.metered = Metered::default();
        self.devices_from = self.devices.as_ref().and_then(Devices::read);
        if let Some(Err(why)) = self.exact.as_mut().map(|meter| meter.mark()) {
            self.once(why.to_string());
        }
        self.from = SystemStamp::now().ok();
    }

    fn closed(&mut self) {
        if let (Some(from), Ok(to)) = (&self.from, SystemStamp::now()) {
            self.metered.0 = from.until(&to);
        }
        match self.exact.as_mut().map(|meter| meter.read()) {
            Some(Ok(splits)) => self.metered.1 = splits,
            Some(Err(why)) => self.once(why.to_string()),
            None => {}
        }
        let devices = self.devices.as_ref().and_then(Devices::read);
        if let (Some(from), Some(to)) = (&self.devices_from, devices) {
            self.metered.2 = Some((to.0.since(&from.0), to.1.since(&from.1)));
        }
    }
}

/// Shares of one CPU by class.
pub(super) fn by_cpu<T>(rows: impl Iterator<Item = (usize, T)>) -> BTreeMap<usize, Vec<T>> {
    let mut sorted: BTreeMap<usize, Vec<T>> = BTreeMap::new();
    for (cpu, row) in rows {
        sorted.entry(cpu).or_default().push(row);
    }
    sorted
}
