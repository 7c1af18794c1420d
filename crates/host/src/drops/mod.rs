//! Packets dropped on this host, by reason and place: [`Tracer`] at the kernel's tracepoint skb:kfree_skb
//! (bpf/drops.bpf.c), or [`counters`] where that does not work.
//!
//! Names of reasons are from the running kernel's BTF (`names`), places from its symbols (`symbols`); no list of them
//! is stored here. Before Linux 5.17 the kernel gives no reasons, only places.
//!
//! The tracepoint does not see packets that never became an skb (lost in a NIC's ring, dropped by an XDP program in the
//! driver), nor packets refused by a sender's socket. [`ledger`] adds counters of these losses.

pub mod counters;
pub mod ledger;
pub mod owners;
mod rules;
pub mod sources;
pub mod symbols;
#[cfg(test)]
mod tests;

#[cfg(not(have_bpf))]
mod absent;
#[cfg(have_bpf)]
mod load;
#[cfg(have_bpf)]
mod names;
#[cfg(have_bpf)]
mod trace;

#[cfg(not(have_bpf))]
pub use absent::{Follower, Tracer};
#[cfg(have_bpf)]
pub use load::Tracer;
pub use rules::{Rule, advice, all as all_rules};
#[cfg(have_bpf)]
pub use trace::Follower;

use netcliff_core::drops::{DropRow, Drops, Flow, Method, Process, SAMPLED, Socket};
use netcliff_core::filter::Filter;
use netcliff_core::ledger::Place;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;
use symbols::Symbols;

/// Drop rate of the whole host (drops/s) above which by default only a sample is examined: examining every drop takes
/// 0.2 us with a filter and a flow, a fifth of a CPU at this rate.
pub const BOUND_PER_S: u64 = 1_000_000;

/// Why drops cannot be traced.
#[derive(Debug, thiserror::Error)]
#[error("drops cannot be traced by eBPF: {reason}")]
pub struct TracerError {
    /// The reason, and a remedy.
    pub reason: String,
}

impl TracerError {
    /// An error with this reason and remedy.
    #[cfg(have_bpf)]
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// What drops are distinguished by, besides reason and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct By {
    /// Addresses, ports and protocol.
    pub flow: bool,
    /// The running task; in a softirq the interrupted one.
    pub process: bool,
    /// The kernel's stack.
    pub stack: bool,
    /// Network namespace, interface, and the socket that the packet was for.
    pub owner: bool,
    /// The socket that sent the packet, if it was for no known socket.
    pub sender: bool,
}

impl By {
    fn any(self) -> bool {
        self.flow || self.process || self.stack || self.owner || self.sender
    }
}

/// Which drops to count.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Filter of packets; `None`: all packets.
    pub filter: Option<Filter>,
    /// Network namespaces (inode numbers, at most 4); empty: all.
    pub spaces: Vec<u64>,
    /// What to distinguish drops by.
    pub by: By,
    /// Drop rate of the host above which only a sample is examined (drops/s); `None`: every drop is examined.
    pub bound_per_s: Option<u64>,
    /// True: segments of a large packet count as packets.
    pub segments: bool,
    /// True: as on a kernel that gives no reasons.
    pub without_reasons: bool,
}

/// Place and reason, as the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Address in the kernel's code.
    pub location: u64,
    /// Number of the reason; 0 if the kernel gives none.
    pub reason: u32,
}

/// Place, reason, and the other properties that drops are distinguished by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Where and why.
    pub site: Site,
    /// (addresses as words of bpf/skb.h, IP version, protocol, source port, destination port).
    flow: ([u32; 8], u8, u8, u16, u16),
    process: u32,
    stack: i32,
    name: [u8; 16],
    owner: Owner,
}

/// `struct owner` of bpf/skb.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Owner {
    socket: u64,
    space: u32,
    port: u16,
    family: u8,
    protocol: u8,
    address: [u8; 16],
    device: [u8; 16],
}

/// Counts of drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Number of drops.
    pub drops: u64,
    /// Number of packets: more than drops if segments of large packets are counted.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Tally {
    #[cfg(have_bpf)]
    fn add(&mut self, more: Tally) {
        self.drops += more.drops;
        self.packets += more.packets;
        self.bytes += more.bytes;
    }

    fn since(self, before: Tally) -> Tally {
        Tally {
            drops: self.drops.saturating_sub(before.drops),
            packets: self.packets.saturating_sub(before.packets),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

/// Counts over all CPUs since the tracer was started.
#[derive(Debug, Clone)]
pub struct Reading {
    at: Instant,
    /// Number of times that the table of details was emptied before this reading.
    forgotten: u64,
    /// All drops, whatever the filter.
    pub seen: u64,
    /// Drops that were examined.
    pub looked_at: u64,
    /// Drops not counted because the table of places was full.
    pub full_places: u64,
    /// Drops without flow, process and stack because the table of details was full.
    pub full_details: u64,
    /// Drops without a stack because the table of stacks was full.
    pub full_stacks: u64,
    /// Drops while a thread of process 1 was running.
    pub in_first: u64,
    /// Drops during a run of the tracer on the same CPU. The kernel does not run the tracer for them.
    pub nested: u64,
    /// Number of runs of the program whose duration was measured: a part of the runs that examined a drop.
    pub timed: u64,
    /// CPU time of the timed runs (ns), without the call of the program.
    pub timed_ns: u64,
    /// By reason and place.
    pub sites: BTreeMap<Site, Tally>,
    /// By place, reason and the other properties.
    pub details: BTreeMap<Key, Tally>,
}

impl Reading {
    /// Increase of the counts until a later reading.
    #[must_use]
    pub fn until(&self, later: &Reading) -> Reading {
        fn grown<K: Ord + Clone>(before: &BTreeMap<K, Tally>, after: &BTreeMap<K, Tally>) -> BTreeMap<K, Tally> {
            let since = |(key, now): (&K, &Tally)| {
                let grown = now.since(before.get(key).copied().unwrap_or_default());
                (grown.drops > 0).then(|| (key.clone(), grown))
            };
            after.iter().filter_map(since).collect()
        }
        let none = BTreeMap::new();
        let details = if self.forgotten == later.forgotten { &self.details } else { &none };
        Reading {
            at: later.at,
            forgotten: later.forgotten,
            seen: later.seen.saturating_sub(self.seen),
            looked_at: later.looked_at.saturating_sub(self.looked_at),
            full_places: later.full_places.saturating_sub(self.full_places),
            full_details: later.full_details.saturating_sub(self.full_details),
            full_stacks: later.full_stacks.saturating_sub(self.full_stacks),
            in_first: later.in_first.saturating_sub(self.in_first),
            nested: later.nested.saturating_sub(self.nested),
            timed: later.timed.saturating_sub(self.timed),
            timed_ns: later.timed_ns.saturating_sub(self.timed_ns),
            sites: grown(&self.sites, &later.sites),
            details: grown(details, &later.details),
        }
    }

    /// Counts by place that are in no detail; all counts if no other properties were requested. The two tables are read
    /// one after the other: if the table of details was not full, a difference is of drops in between, which are in the
    /// details of one reading.
    fn without_details(&self) -> BTreeMap<Site, Tally> {
        if !self.details.is_empty() && self.full_details == 0 {
            return BTreeMap::new();
        }
        let mut left = self.sites.clone();
        for (key, tally) in &self.details {
            if let Some(site) = left.get_mut(&key.site) {
                *site = site.since(*tally);
            }
        }
        left.retain(|_, tally| tally.drops > 0);
        left
    }

    /// Time to a later reading (s).
    fn seconds_to(&self, later: &Reading) -> f64 {
        later.at.duration_since(self.at).as_secs_f64()
    }

    /// Number of drops per examined drop.
    pub fn factor(&self) -> f64 {
        if self.looked_at == 0 { 1.0 } else { (self.seen as f64 / self.looked_at as f64).max(1.0) }
    }

    /// What limits these counts, a sentence each.
    pub fn limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        if self.factor() > 1.001 {
            limits.push(format!(
                "{SAMPLED}: {} of {} drops were examined, because at times they came too fast to examine each; rows are scaled to all drops",
                self.looked_at, self.seen
            ));
        }
        let full = [
            (self.full_places, "among the places, so that it is in no row (there is room for 4096)"),
            (
                self.full_details,
                "among flows, processes and stacks (there is room for 16384), so that their rows have \"-\": count fewer by --filter",
            ),
            (self.full_stacks, "among the stacks (there is room for 4096), so that its stack is not shown"),
        ];
        for (drops, what) in full {
            if drops > 0 {
                limits.push(format!("{drops} drops found no room {what}"));
            }
        }
        if self.nested > 0 {
            limits.push(format!(
                "{} drops happened inside the counting of another on the same CPU; the kernel leaves them out",
                self.nested
            ));
        }
        limits
    }
}

impl Tracer {
    /// Name of a reason at a function: `XDP` if a driver gives none for a drop by an XDP program (veth_xdp_rcv_skb).
    pub fn reason_at(&self, number: u32, function: &str) -> String {
        let reason = self.reason(number);
        let is_xdp = reason == "NOT_SPECIFIED" && Place::of(&reason, function) == Place::Xdp;
        if is_xdp { "XDP".to_owned() } else { reason }
    }

    /// Drops between two readings, as shown by `netcliff drops`.
    pub fn drops(&self, ask: &Ask, before: &Reading, after: &Reading, symbols: &Symbols) -> Drops {
        let grown = before.until(after);
        let site = |site: &Site, tally: &Tally| {
            let place = symbols.at(site.location);
            DropRow {
                reason: self.reason_at(site.reason, function_of(&place)),
                place,
                method: Method::Ebpf,
                drops: tally.drops,
                bytes: Some(tally.bytes),
                ..DropRow::default()
            }
        };
        let detail = |(key, tally): (&Key, &Tally)| DropRow {
            flow: ask.by.flow.then(|| key.flow()).flatten(),
            process: ask.by.process.then(|| key.process()),
            stack: if ask.by.stack { self.stack(key.stack, symbols) } else { Vec::new() },
            netns_inode: Some(u64::from(key.owner.space)).filter(|inode| *inode > 0),
            device: key.owner.device(),
            socket: key.owner.socket(),
            ..site(&key.site, tally)
        };
        let mut rows = Vec::new();
        if ask.by.any() {
            rows.extend(grown.details.iter().map(detail));
        }
        // All drops, or those without details: only place and reason are known.
        rows.extend(grown.without_details().iter().map(|(key, tally)| site(key, tally)));
        let closed = |row: &DropRow| is_close(&row.reason, function_of(&row.place));
        let (at_close, rows) = rows.into_iter().partition(closed);
        let mut drops = Drops {
            seconds: before.seconds_to(after),
            method: Method::Ebpf,
            filter: ask.filter.as_ref().map(ToString::to_string),
            seen: Some(grown.seen),
            sampling_factor: grown.factor(),
            rows,
            at_close,
            limits: self.limits().iter().cloned().chain(symbols.limit()).chain(grown.limits()).collect(),
            ..Drops::default()
        };
        drops.settle();
        drops.advice = advice(&drops.rows);
        drops
    }
}

/// Reasons of packets that were in a queue when it was emptied, or for a closed connection. Sources:
/// include/net/dropreason-core.h, net/core/skbuff.c.
const PURGED: &[&str] = &["QUEUE_PURGE", "SOCKET_CLOSE", "TCP_CLOSE"];

/// True if a packet was freed because its socket, connection or queue was closed.
fn is_close(reason: &str, function: &str) -> bool {
    PURGED.contains(&reason) || ledger::EMPTIED.contains(&function)
}

/// Name of the function in the source, from a text such as `udp_destruct_common.part.0+0x1a`.
pub(crate) fn function_of(place: &str) -> &str {
    place.split(['+', '.']).next().unwrap_or_default()
}

impl Owner {
    /// Parses `struct owner` from the bytes that the programs wrote.
    #[cfg(have_bpf)]
    fn of(bytes: &[u8]) -> Option<Owner> {
        Some(Owner {
            socket: u64::from_ne_bytes(*bytes.first_chunk()?),
            space: u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?),
            port: u16::from_ne_bytes(*bytes.get(12..)?.first_chunk()?),
            family: *bytes.get(14)?,
            protocol: *bytes.get(15)?,
            address: *bytes.get(16..)?.first_chunk()?,
            device: *bytes.get(32..)?.first_chunk()?,
        })
    }

    fn device(&self) -> Option<String> {
        let name: Vec<u8> = self.device.iter().copied().take_while(|byte| *byte != 0).collect();
        let name = String::from_utf8(name).ok()?;
        (!name.is_empty() && name.chars().all(|c| c.is_ascii_graphic())).then_some(name)
    }

    fn socket(&self) -> Option<Socket> {
        let [a, b, c, d, ..] = self.address;
        let address = match i32::from(self.family) {
            libc::AF_INET => Ipv4Addr::new(a, b, c, d).into(),
            libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(self.address)),
            _ => return None,
        };
        let Owner { protocol, port, socket: inode, .. } = *self;
        // A closed connection has neither a port nor an inode.
        if port == 0 && inode == 0 {
            return None;
        }
        Some(Socket { protocol, address, port, inode, process: None })
    }
}

impl Key {
    /// Reads `struct flow` of bpf/skb.h.
    #[cfg(have_bpf)]
    fn of_flow(site: Site, flow: &[u8; 40]) -> Option<Key> {
        let (words, rest) = flow.as_chunks::<4>();
        debug_assert!(rest.is_empty());
        let mut addresses = [0; 8];
        for (place, word) in addresses.iter_mut().zip(words) {
            *place = u32::from_ne_bytes(*word);
        }
        let half = |at: usize| Some(u16::from_ne_bytes(*flow.get(at..)?.first_chunk()?));
        let flow = (addresses, flow[37], flow[36], half(32)?, half(34)?);
        Some(Key { site, flow, process: 0, stack: 0, name: [0; 16], owner: Owner::default() })
    }

    /// The packet's flow; `None` if it is not an IP packet.
    fn flow(&self) -> Option<Flow> {
        let (words, version, protocol, source_port, destination_port) = self.flow;
        let address = |first: usize| -> Option<IpAddr> {
            let bits = |n: usize| u128::from(words[first + n]) << (96 - 32 * n);
            match version {
                4 => Some(Ipv4Addr::from_bits(words[first]).into()),
                6 => Some(Ipv6Addr::from_bits((0..4).map(bits).sum()).into()),
                _ => None,
            }
        };
        Some(Flow { protocol, source: address(0)?, source_port, destination: address(4)?, destination_port })
    }

    /// The task that was running at the drop. A task can choose its name, so unprintable characters are replaced by
    /// `?`.
    fn process(&self) -> Process {
        let name: Vec<u8> = self.name.iter().copied().take_while(|byte| *byte != 0).collect();
        let name = String::from_utf8_lossy(&name)
            .chars()
            .map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' })
            .collect();
        Process { id: self.process, name }
    }
}

mod witness {
    //! A second count at skb:kfree_skb, of drops while a thread of process 1 is running.
    //!
    //! Some kernels run no tracing program while process 1 is running (docs/accuracy.md, "Packets accounted for"),
    //! without counting that in recursion_misses. Drops by a softirq in this time are in no map, but perf counts them.
    //! Only this time is counted, because a count of all drops takes most of a microsecond for each, while this one
    //! takes almost nothing: perf's probe returns if no event of this CPU is active (include/trace/perf.h,
    //! `hlist_empty(head)`).

    use crate::perf::{Counter, Event, Of, tracepoint};
    use crate::process::other_pid_namespace;
    use crate::procfs;
    use std::io;

    /// Counts the drops during each thread of process 1.
    #[derive(Debug)]
    pub(super) struct Witness(Vec<Counter>);

    impl Witness {
        /// Counts from now on.
        ///
        /// # Errors
        /// Why it cannot, as a sentence.
        pub(super) fn start() -> Result<Self, String> {
            let number = tracepoint::number("skb/kfree_skb")
                .map_err(|error| format!("tracefs does not tell the number of skb:kfree_skb: {error}"))?;
            let threads = threads().map_err(|why| format!("the threads of process 1 are not known: {why}"))?;
            let open = |thread: u32| Counter::open(Event::Tracepoint(number), Of::Another(thread));
            let all: io::Result<Vec<Counter>> = threads.into_iter().map(open).collect();
            all.map(Self).map_err(|error| format!("perf does not count skb:kfree_skb of process 1: {error}"))
        }

        /// Drops so far while process 1 was running; `None` if a counter cannot be read.
        pub(super) fn read(&self) -> Option<u64> {
            self.0.iter().map(|counter| counter.read().ok()).sum()
        }
    }

    /// Threads of the process that the tracer's program knows as 1.
    fn threads() -> Result<Vec<u32>, String> {
        if other_pid_namespace().is_some() {
            return Err("this is a container with a process 1 of its own".to_owned());
        }
        let threads: Vec<u32> = procfs::numbered("/proc/1/task", "").into_iter().map(|(number, _)| number).collect();
        if threads.is_empty() { Err("/proc/1/task cannot be read".to_owned()) } else { Ok(threads) }
    }
}
