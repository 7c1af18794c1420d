//! Converts observations to a [`Learned`]: [`learned`].

use netcliff_core::finding::{Calibration, Cost, FigurePath, HostSummary, Missing};
use netcliff_core::learned::{Learned, LearnedPart, LearnedTraffic, PartKind, PartLimit, Watched};
use netcliff_core::units::{print_pps, three_digits};
use netcliff_core::{Figure, FrameSizes, Host, Load, Napi, Provenance, Scheme, Traffic, written};
use netcliff_find::{cpu_name, kernel_name};
use netcliff_host::fingerprint;
use netcliff_host::serving::{DEFAULT_RECEIVE_BUFFER_BYTES, Program, SMALL_DATAGRAM_BYTES};

use crate::arrivals::dispersion;
use crate::cliff::{self, CONFIDENCE, Comes, CpuCliff, Room};
use crate::costs::{Costs, Doubt, FEWEST, Fitted, Piece, fit};
use crate::slice::{Count, CpuSlice, Slice, Watch, of_cpu, stolen, without_what_gives_way};
use crate::watching::{Options, Taken};

/// A CPU counts as a receive CPU above this share of the packets; the program counts as running on a CPU above this
/// share of its time.
const TAKES: f64 = 0.05;
const RUNS: f64 = 0.05;
/// Packet rate of a CPU below which its costs are not estimated (packets/s).
const LEAST_PPS: f64 = 10.0;
/// A thread gets no separate entry if it spends at least this share of its time on one CPU whose cliff is known.
const STAYS: f64 = 0.9;
/// CPU time of a thread, as a share of one CPU, below which it is left out.
const LEAST_THREAD: f64 = 0.02;
/// Time over which the highest load is averaged (s).
const HIGHEST_OVER_S: f64 = 1.0;
/// Small packets: (memory of a packet in a socket, largest mean length for which it is used), in bytes. Below, the
/// memory of a longer packet (bytes). The memory is the kernel's `truesize`, i.e. data buffer and sk_buff.
const SMALL_PACKET: (f64, f64) = (SMALL_DATAGRAM_BYTES as f64, 400.0);
const LARGE_PACKET: f64 = 2304.0;
/// Share of disturbed slices above which the report warns.
const DISTURBED: f64 = 0.3;
/// Share of CPU time taken by the hypervisor above which the report warns, and above which pauses of a program cannot
/// be distinguished from pauses by the hypervisor.
const STOLEN: f64 = 0.005;
/// A CPU counts as fully busy in a slice if interrupts, softirqs and program use more than this share of it.
const SATURATED: f64 = 0.95;
/// Limit for the share of all work of the CPU, used instead with ticks, which do not separate the program from other
/// tasks.
const ALL: f64 = 0.99;
/// Share of CPU time that does not grow with the load, above which the report warns.
const MUCH_FIXED: f64 = 0.2;
/// Seed of the resampling.
const SEED: u64 = 0x6c65_6172_6e00;

/// Results of a watch, without the description of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusions {
    /// Parts of the host. The first is the part that overloads first.
    pub parts: Vec<LearnedPart>,
    /// Traffic during the watch.
    pub traffic: LearnedTraffic,
    /// Costs of the receive CPU that overloads first; `None` if no costs could be estimated.
    pub calibration: Option<Calibration>,
    /// The scheme used for the model.
    pub scheme: Scheme,
    /// (number of slices with exact or ticked times, number of disturbed ones among them).
    pub slices: (u64, u64),
    /// Figures that are missing, with the reasons.
    pub missing: Vec<Missing>,
    /// Reasons to doubt the results, one sentence each.
    pub cautions: Vec<String>,
}

/// Converts a watch to its result.
pub fn learned(taken: &Taken, options: &Options) -> Learned {
    let inventory = &taken.host.host;
    let port = taken.interfaces.first().and_then(|name| taken.host.port(name));
    let napi = inventory.napi(port.is_some_and(|port| port.nic.uses_backlog()));
    let backlog_slots = taken.host.sysctl("net.core.netdev_max_backlog");
    let ring_slots = port.and_then(|port| port.nic.rings.get("rx")).map(|slots| u64::from(*slots));
    let watch = Watch {
        ring: if is_backlog(&taken.watch, napi.backlog) { backlog_slots } else { ring_slots.or(backlog_slots) },
        tick_s: inventory.kernel.hz.map(|hz| 1.0 / f64::from(hz)),
        ..taken.watch.clone()
    };
    let mut result = from_watch(&watch, &napi, &taken.programs, &taken.method, options.loss);
    result.traffic.queues = taken.queues.clone();
    let fingerprint =
        fingerprint::of_host(inventory, &taken.host.ports.iter().map(|port| port.nic.clone()).collect::<Vec<_>>());
    let size = result.traffic.mean_bytes.map_or(64, |bytes| (bytes + 4.0).round().clamp(64.0, 9018.0) as u32);
    let mut cautions = taken.cautions.clone();
    cautions.append(&mut result.cautions);
    if !taken.lost.is_empty() {
        cautions.push(
            "Packets were lost during the watch: a part of the host has already reached its limit, even if its share is below 100 %."
                .to_owned(),
        );
    }
    let driver = port.map_or_else(String::new, |port| {
        let driver =
            port.nic.driver.clone().or_else(|| port.nic.kind.clone()).unwrap_or_else(|| "unknown driver".to_owned());
        format!("{}: {driver}", port.nic.name)
    });
    Learned {
        kind: "learn".to_owned(),
        host: HostSummary {
            cpu: cpu_name(inventory),
            kernel: kernel_name(inventory),
            testbed: "none: watched at work".to_owned(),
            driver,
            limits: Vec::new(),
            at: None,
        },
        watched: Watched {
            interfaces: taken.interfaces.clone(),
            programs: taken.programs.iter().map(Program::title).collect(),
            seconds: taken.seconds,
            slice_s: taken.slice_s,
            slices: watch.slices.len() as u64,
            metered: result.slices.0,
            disturbed: result.slices.1,
            method: taken.method.clone(),
            own_cpu: taken.own_s / taken.seconds,
            meter_cpu: taken.meter_s.map(|meter_s| meter_s / taken.seconds),
        },
        as_traffic: written::Traffic::new(
            Traffic { size: FrameSizes::Fixed(size), ..Traffic::default() },
            Some(Load::Pps(result.traffic.packets_per_s.max(1.0))),
        ),
        traffic: result.traffic,
        parts: result.parts,
        calibration: result.calibration,
        scheme: result.scheme,
        loss_target: options.loss,
        lost: taken.lost.clone(),
        missing: result.missing,
        cautions,
        provenance: Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: options.command.clone(),
            started_unix_s: taken.started_unix_s,
            elapsed_s: Some(taken.seconds),
            fingerprint_id: Some(fingerprint.id()),
            ..Provenance::default()
        },
        fingerprint,
        partial: taken.partial,
    }
}

/// Returns true if most packets of the slices came through a backlog; `otherwise` if the slices do not show this.
fn is_backlog(watch: &Watch, otherwise: bool) -> bool {
    let of = |wanted: bool| -> f64 {
        let slices = watch.slices.iter().flat_map(|slice| &slice.cpus);
        slices.filter(|cpu| cpu.exact && cpu.backlog == wanted).map(|cpu| cpu.packets).sum()
    };
    let (backlog, device) = (of(true), of(false));
    if backlog + device > 0.0 { backlog >= device } else { otherwise }
}

/// Computes parts, costs and traffic from a watch.
pub fn from_watch(watch: &Watch, napi: &Napi, programs: &[Program], method: &str, loss: f64) -> Conclusions {
    let watch = &Watch { slices: without_what_gives_way(&watch.slices), ..watch.clone() };
    let slices = &watch.slices;
    let traffic = traffic(watch);
    let backlog = is_backlog(watch, napi.backlog);
    let scheme = Scheme::Napi(Napi { backlog, ..napi.clone() });
    let packet_bytes = if traffic.mean_bytes.unwrap_or(0.0) <= SMALL_PACKET.1 { SMALL_PACKET.0 } else { LARGE_PACKET };
    let socket_bytes = watch.sockets.iter().map(|socket| socket.room_bytes).fold(0.0, f64::max);
    let room = Room {
        ring: watch.ring.unwrap_or(1000).max(1),
        // If no socket was observed, use the kernel's default (net.core.rmem_default).
        socket: ((if socket_bytes > 0.0 { socket_bytes } else { DEFAULT_RECEIVE_BUFFER_BYTES as f64 }) / packet_bytes)
            .round()
            .max(1.0) as u64,
        tick_s: watch.tick_s.unwrap_or(4e-3),
    };
    let mut result = Conclusions {
        parts: Vec::new(),
        traffic,
        calibration: None,
        scheme,
        slices: (0, 0),
        missing: Vec::new(),
        cautions: Vec::new(),
    };
    let mut hosts = Vec::new();
    for cpu in cpus(slices) {
        hosts.extend(result.add_cpu(watch, cpu, room, method, loss).map(|host| (cpu, host)));
    }
    result.add_threads(slices, programs);
    result.add_sockets(watch, packet_bytes, loss);
    result.refuse_contradicted(slices);
    let nearness = |part: &LearnedPart| part.share.map_or(-1.0, |share| share.value);
    result.parts.sort_by(|a, b| nearness(b).total_cmp(&nearness(a)));
    let first = result.parts.iter().find(|part| part.kind == PartKind::Cpu && part.cliff_pps.is_some());
    result.calibration = first.and_then(|part| {
        let (_, host) = hosts.iter().find(|(cpu, _)| Some(*cpu) == part.cpu)?;
        Some(Calibration {
            costs: part.costs.clone(),
            host: host.clone(),
            cpu_method: method.to_owned(),
            r_squared: None,
            correlated: Vec::new(),
        })
    });
    result.explain(slices);
    result
}

/// CPUs that receive packets, or on which the program runs.
fn cpus(slices: &[Slice]) -> Vec<u32> {
    let mut sums = std::collections::BTreeMap::<u32, (f64, f64)>::new();
    for cpu in slices.iter().flat_map(|slice| &slice.cpus) {
        let sum = sums.entry(cpu.cpu).or_default();
        sum.0 += cpu.packets;
        sum.1 += cpu.application_s;
    }
    let (packets, program_s) = sums.values().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    let counts = |(_, sum): &(&u32, &(f64, f64))| {
        (packets > 0.0 && sum.0 >= TAKES * packets) || (program_s > 0.0 && sum.1 >= RUNS * program_s)
    };
    sums.iter().filter(counts).map(|(cpu, _)| *cpu).collect()
}

fn traffic(watch: &Watch) -> LearnedTraffic {
    let slices = &watch.slices;
    let sum = |of: fn(&Slice) -> f64| slices.iter().map(of).sum::<f64>();
    let (seconds, packets) = (sum(|slice| slice.seconds).max(1e-9), sum(|slice| slice.packets));
    let groups = grouped(slices);
    let rate = |group: &&[Slice]| packets_per_s(group);
    let highest = groups.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let fine: Vec<&[Count]> = watch.fine.iter().map(Vec::as_slice).collect();
    let mut scales = dispersion(&fine);
    let coarse = dispersion(&[watch.counts.as_slice()]);
    let shortest_s = coarse.first().map_or(f64::INFINITY, |one| one.scale_s);
    scales.retain(|one| one.scale_s < 0.9 * shortest_s);
    scales.extend(coarse);
    LearnedTraffic {
        packets_per_s: packets / seconds,
        lowest_pps: groups.iter().map(rate).fold(f64::INFINITY, f64::min).min(packets / seconds),
        highest_pps: highest.map_or(0.0, rate),
        highest_unix_s: highest.and_then(|group| group.first()).map_or(0.0, |slice| slice.at_unix_s),
        mean_bytes: (packets > 0.0).then(|| sum(|slice| slice.bytes) / packets),
        sent_pps: sum(|slice| slice.sent) / seconds,
        dispersion: scales,
        queues: Vec::new(),
    }
}

/// Groups neighbouring slices into pieces of about a second.
fn grouped(slices: &[Slice]) -> Vec<&[Slice]> {
    let each_s = slices.first().map_or(1.0, |slice| slice.seconds).max(1e-3);
    slices.chunks(((HIGHEST_OVER_S / each_s).round() as usize).max(1)).collect()
}

fn packets_per_s(slices: &[Slice]) -> f64 {
    let (seconds, packets) = slices.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.seconds, sum.1 + one.packets));
    packets / seconds.max(1e-9)
}

/// Observations of one CPU.
struct OwnCpu<'a> {
    cpu: u32,
    /// (slice with times, whether it was disturbed) of this CPU.
    slices: Vec<(&'a CpuSlice, bool)>,
    /// Undisturbed slices, each with the packets to which its times are attributed.
    pieces: Vec<Piece<'a>>,
    /// This CPU's packets divided by all packets; 1 if only the program runs on the CPU.
    share: f64,
    takes_packets: bool,
    packets_per_s: f64,
}

impl<'a> OwnCpu<'a> {
    fn of(watch: &'a Watch, cpu: u32, all_pps: f64) -> Self {
        let slices = of_cpu(&watch.slices, cpu);
        let own_pps = rate(&slices, |slice| slice.packets);
        // While the meter is off, slices have no packets by CPU: rates are taken from the slices with the meter on.
        let metered = watch.slices.iter().filter_map(|slice| {
            let own = slice.cpus.iter().find(|one| one.cpu == cpu && one.seconds > 0.0)?;
            Some((slice, own))
        });
        let sum = |of: fn(&Slice) -> f64| metered.clone().map(|(slice, _)| of(slice)).sum::<f64>();
        let metered_pps = sum(|slice| slice.packets) / sum(|slice| slice.seconds).max(1e-9);
        let takes_packets = own_pps >= TAKES * metered_pps && own_pps > 0.0;
        // If the interfaces have no counts, the CPU counts as having all packets.
        let share = if takes_packets && metered_pps > 0.0 { own_pps / metered_pps } else { 1.0 };
        let load = |(slice, own): (&Slice, &CpuSlice)| {
            if takes_packets { own.packets } else { slice.packets * own.seconds / slice.seconds }
        };
        let pieces = metered
            .clone()
            .zip(&slices)
            .filter(|(_, (_, disturbed))| !disturbed)
            .map(|((slice, own), _)| (own, load((slice, own))))
            .collect();
        Self { cpu, slices, pieces, share, takes_packets, packets_per_s: share * all_pps }
    }

    /// Makes the report's entry for this CPU, without a cliff.
    fn part(&self) -> LearnedPart {
        LearnedPart {
            kind: PartKind::Cpu,
            name: format!("CPU {}", self.cpu),
            cpu: Some(self.cpu),
            packets_per_s: self.packets_per_s,
            cliff_pps: None,
            share: None,
            share_highest: None,
            busy: rate(&self.slices, CpuSlice::busy_s),
            softirq: rate(&self.slices, |slice| slice.interrupt_s + slice.protocol_s + slice.softirq_other_s),
            program: rate(&self.slices, |slice| slice.application_s),
            fixed: 0.0,
            costs: Vec::new(),
            why: None,
        }
    }

    /// Computes the CPU's cliff, and the costs from which it follows; the error is the reason why not.
    fn cliff(&self, watch: &Watch, scheme: &Scheme, room: Room, loss: f64) -> Result<(CpuCliff, Fitted), PartLimit> {
        if self.packets_per_s < LEAST_PPS {
            return Err(PartLimit::few_packets(self.packets_per_s));
        }
        let fitted = fit(&self.pieces, SEED ^ u64::from(self.cpu)).ok_or_else(|| {
            let usable = self.pieces.len();
            PartLimit::Other(format!(
                "{usable} slices are usable: at least {FEWEST} with packets are needed, so watch longer"
            ))
        })?;
        let runs = watch.fine.iter().map(Vec::as_slice).chain([watch.counts.as_slice()]);
        let runs: Vec<&[Count]> = runs.filter(|run| !run.is_empty()).collect();
        let comes = Comes {
            packets_per_s: self.packets_per_s,
            counts: &runs,
            share: self.share,
            takes_packets: self.takes_packets,
        };
        let backlog = matches!(scheme, Scheme::Napi(napi) if napi.backlog);
        let plain = Scheme::Napi(Napi { backlog, ..Napi::default() });
        let cliff = cliff::of_cpu(&fitted, scheme, room, comes, loss)
            .or_else(|_| cliff::of_cpu(&fitted, &plain, room, comes, loss))
            .map_err(PartLimit::Other)?;
        Ok((cliff, fitted))
    }

    /// Returns true if the CPU was fully busy in most slices: the cost of a packet then cannot be separated from the
    /// time of waiting packets. Other tasks yield in part, and with ticks they cannot be separated from the program.
    fn is_full(&self) -> bool {
        let saturated = self.slices.iter().filter(|(slice, _)| {
            let (used_s, most) =
                if slice.exact { (slice.busy_s() - slice.other_s, SATURATED) } else { (slice.busy_s(), ALL) };
            used_s > most * slice.seconds
        });
        2 * saturated.count() > self.slices.len() && self.packets_per_s >= LEAST_PPS
    }
}

/// Sum of `of` over the slices per second.
fn rate(slices: &[(&CpuSlice, bool)], of: fn(&CpuSlice) -> f64) -> f64 {
    let seconds: f64 = slices.iter().map(|(slice, _)| slice.seconds).sum::<f64>().max(1e-9);
    slices.iter().map(|(slice, _)| of(slice)).sum::<f64>() / seconds
}

impl Conclusions {
    fn lacks(&mut self, figure: &str, why: String) {
        self.add_missing(Missing { figure: FigurePath::Named(figure.to_owned()), why });
    }

    fn add_missing(&mut self, missing: Missing) {
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    fn add_cpu(&mut self, watch: &Watch, cpu: u32, room: Room, method: &str, loss: f64) -> Option<Host> {
        let own = OwnCpu::of(watch, cpu, self.traffic.packets_per_s);
        self.slices.0 = self.slices.0.max(own.slices.len() as u64);
        self.slices.1 = self.slices.1.max((own.slices.len() - own.pieces.len()) as u64);
        let mut part = own.part();
        let found = own.cliff(watch, &self.scheme, room, loss);
        let highest_pps = self.traffic.highest_pps * own.share;
        let at_cliff = |part: &mut LearnedPart, cliff_pps: Figure| {
            part.share = Some(share_of(own.packets_per_s, &cliff_pps));
            part.share_highest = Some(highest_pps / cliff_pps.value);
            part.cliff_pps = Some(cliff_pps);
        };
        let mut host = None;
        match found {
            _ if own.is_full() => {
                let pps = own.packets_per_s;
                at_cliff(&mut part, Figure::between(pps, 0.5 * pps, 1.1 * pps, CONFIDENCE));
                let why = "it was fully busy in most slices: it is at its cliff or beyond. Learn from a quieter time what a packet costs";
                part.why = Some(PartLimit::Other(why.to_owned()));
            }
            Ok((cliff, fitted)) => {
                at_cliff(&mut part, cliff.cliff_pps);
                part.fixed = fitted.costs.fixed;
                part.costs = costs(&fitted, method);
                part.why = cliff.why.map(PartLimit::Other);
                self.doubt(cpu, &fitted);
                host = Some(cliff.host);
            }
            Err(why) => {
                self.lacks(&format!("CPU {cpu}"), format!("CPU {cpu}: its cliff is unknown: {why}."));
                part.why = Some(why);
            }
        }
        self.parts.push(part);
        host
    }

    fn doubt(&mut self, cpu: u32, fitted: &Fitted) {
        let moved = 100.0 * (fitted.moved - 1.0);
        for doubt in &fitted.doubts {
            let why = match doubt {
                Doubt::Polls => "most polls took one packet, or polls were too few: the cost of a packet includes its poll. In bursts packets share polls and cost less, so that the cliff may be higher than shown. Traffic in bursts, or more traffic, separates the two".to_owned(),
                Doubt::Switches => "the program's cost of reading a packet cannot be separated from its cost of waking: the number of wake-ups per packet was the same in every slice. Up to half of its time is assumed to be waking; a load that changes more separates the two".to_owned(),
                Doubt::Fixed => format!("time per second (timers) cannot be separated from time per packet: the load changed by {moved:.0} % only, and 20 % are needed. A watch that covers a quiet and a busy hour separates them"),
                Doubt::Ticks => "interrupts, polls and wake-ups are in the cost of a packet, although packets share them near the cliff: ticks do not show them. With eBPF (root, a kernel with BTF) they are separated".to_owned(),
            };
            self.add_missing(Missing::of_cpu(cpu, &why));
        }
    }

    /// Adds threads that move between CPUs, or that run on CPUs whose costs were not estimated.
    fn add_threads(&mut self, slices: &[Slice], programs: &[Program]) {
        let mut sums = std::collections::BTreeMap::<(u32, u32), (f64, std::collections::BTreeMap<u32, f64>)>::new();
        for thread in slices.iter().flat_map(|slice| &slice.threads) {
            let sum = sums.entry((thread.pid, thread.tid)).or_default();
            sum.0 += thread.ran_s;
            *sum.1.entry(thread.cpu).or_default() += thread.ran_s;
        }
        let seconds: f64 = slices.iter().map(|slice| slice.seconds).sum::<f64>().max(1e-9);
        for ((pid, tid), (ran_s, by_cpu)) in sums {
            let most = by_cpu.iter().max_by(|a, b| a.1.total_cmp(b.1));
            let covered = most.is_some_and(|(cpu, on)| {
                *on >= STAYS * ran_s && self.parts.iter().any(|part| part.cpu == Some(*cpu) && part.cliff_pps.is_some())
            });
            if covered || ran_s < LEAST_THREAD * seconds {
                continue;
            }
            let piece = |slice: &Slice| {
                let own = slice.threads.iter().find(|one| (one.pid, one.tid) == (pid, tid));
                let other_s = own.map_or(0.0, |one| one.ran_s);
                (CpuSlice { seconds: slice.seconds, other_s, ..CpuSlice::default() }, slice.packets)
            };
            let pieces: Vec<(CpuSlice, f64)> = slices.iter().map(piece).collect();
            let pieces: Vec<Piece<'_>> = pieces.iter().map(|(slice, load)| (slice, *load)).collect();
            let all = self.traffic.packets_per_s;
            let name =
                programs.iter().find(|program| program.pid == pid).map_or_else(|| format!("pid {pid}"), Program::title);
            let cliff = fit(&pieces, SEED ^ u64::from(tid))
                .ok_or_else(PartLimit::few_slices)
                .and_then(|fitted| Ok((cliff::of_thread(&fitted, all).map_err(PartLimit::Other)?, fitted)));
            let (cliff_pps, fixed, why) = match cliff {
                Ok((cliff, fitted)) => (Some(cliff), fitted.costs.fixed, None),
                Err(why) => (None, 0.0, Some(why)),
            };
            self.parts.push(LearnedPart {
                kind: PartKind::Thread,
                name: format!("thread {tid} of {name}"),
                cpu: None,
                packets_per_s: all,
                share: cliff_pps.map(|cliff| share_of(all, &cliff)),
                share_highest: cliff_pps.map(|cliff| self.traffic.highest_pps / cliff.value),
                cliff_pps,
                busy: ran_s / seconds,
                softirq: 0.0,
                program: ran_s / seconds,
                fixed,
                costs: Vec::new(),
                why,
            });
        }
    }

    /// Adds sockets that fill because their program pauses reading.
    fn add_sockets(&mut self, watch: &Watch, packet_bytes: f64, loss: f64) {
        for socket in &watch.sockets {
            let Some(pausing) = cliff::pausing(socket, packet_bytes, loss) else { continue };
            let all = self.traffic.packets_per_s;
            let (seen, looks) = pausing.looks;
            let stolen = stolen(&watch.slices);
            if stolen > STOLEN {
                self.cautions.push(format!(
                    "The socket {} filled to what comes in {:.1} ms ({seen} of {looks} looks), while the hypervisor took {:.1} % of a CPU: whether it was that or the program is not known, and it is no part of the cliff.",
                    socket.name, 1e3 * pausing.longest_s, 100.0 * stolen
                ));
                continue;
            }
            self.parts.push(LearnedPart {
                kind: PartKind::Socket,
                name: socket.name.clone(),
                cpu: None,
                packets_per_s: all,
                cliff_pps: Some(pausing.cliff_pps),
                share: Some(share_of(all, &pausing.cliff_pps)),
                share_highest: Some(self.traffic.highest_pps / pausing.cliff_pps.value),
                busy: 0.0,
                softirq: 0.0,
                program: 0.0,
                fixed: 0.0,
                costs: Vec::new(),
                why: Some(PartLimit::Other(format!(
                    "the program stops reading for up to {:.1} ms at a time, about every {:.1} s (seen in {seen} of {looks} looks at its socket): packets that arrive in that time must fit into the socket buffer. Look for a lock, a garbage collection or a disk in its way, or raise its receive buffer (SO_RCVBUF)",
                    1e3 * pausing.longest_s, pausing.every_s
                ))),
            });
        }
    }

    /// Removes each cliff that is below a load which was carried for a second without losses: its fit must be wrong.
    fn refuse_contradicted(&mut self, slices: &[Slice]) {
        let carried = grouped(slices).into_iter().filter(|group| group.iter().all(|slice| slice.lost == 0.0));
        let Some(carried_pps) = carried.map(packets_per_s).reduce(f64::max) else { return };
        let all_pps = self.traffic.packets_per_s.max(1e-9);
        for at in 0..self.parts.len() {
            let part = &self.parts[at];
            let Some(cliff) = part.cliff_pps else { continue };
            let own_pps = carried_pps * part.packets_per_s / all_pps;
            if own_pps <= cliff.interval.map_or(cliff.value, |interval| interval.high) {
                continue;
            }
            let (name, carried) = (part.name.clone(), print_pps(three_digits(own_pps)));
            let why = format!(
                "its costs say {}, but it carried {carried} for a second without a loss: the load changed too much for one fit. Watch a steadier \
                 time",
                print_pps(three_digits(cliff.value))
            );
            self.lacks(&name, format!("{name}: its cliff is unknown: {why}."));
            let part = &mut self.parts[at];
            (part.cliff_pps, part.share, part.share_highest, part.why) =
                (None, None, None, Some(PartLimit::Other(why)));
        }
    }

    /// Adds cautions on the whole result.
    fn explain(&mut self, slices: &[Slice]) {
        if slices.is_empty() {
            self.lacks("parts", "The watch ended before its first slice: watch longer.".to_owned());
        } else if self.traffic.packets_per_s < LEAST_PPS {
            self.lacks(
                "parts",
                format!(
                    "The watched interfaces received {:.1} packets/s, too few to learn a cliff: watch an interface that receives traffic (--if).",
                    self.traffic.packets_per_s
                ),
            );
        }
        let stolen = stolen(slices);
        if stolen > STOLEN {
            self.cautions.push(format!("The hypervisor took {:.1} % of a CPU during the watch: that time is in the costs, and packets that come in it may be lost at any load.", 100.0 * stolen));
        }
        let (metered, disturbed) = self.slices;
        if metered > 0 && disturbed as f64 > DISTURBED * metered as f64 {
            self.cautions.push(format!(
                "Other tasks or the hypervisor disturbed {disturbed} of {metered} slices, which are left out."
            ));
        }
        for part in self.parts.iter().filter(|part| part.kind == PartKind::Cpu && part.fixed > MUCH_FIXED) {
            self.cautions.push(format!(
                "Other programs and interrupts that do not come with packets had {:.0} % of {}: the cliff is what is left if they keep it, where tasks keep half of a CPU at most.",
                100.0 * part.fixed, part.name
            ));
        }
    }
}

/// Load divided by the cliff, with the cliff's interval.
fn share_of(load: f64, cliff: &Figure) -> Figure {
    match cliff.interval {
        Some(interval) => Figure::between(
            load / cliff.value,
            load / interval.high,
            load / interval.low.max(1e-9),
            interval.confidence,
        ),
        None => Figure::exact(load / cliff.value),
    }
}

/// Lists the costs for the report, each with its interval from the draws.
fn costs(fitted: &Fitted, method: &str) -> Vec<Cost> {
    let how = if fitted.exact { "regression over slices" } else { "regression over slices of ticks" };
    let row = |key: &str, unit: &str, of: fn(&Costs) -> f64| {
        let value = of(&fitted.costs);
        let mut drawn: Vec<f64> = fitted.draws.iter().map(of).collect();
        drawn.sort_by(f64::total_cmp);
        let at = |share: f64| netcliff_stats::at_share(&drawn, share).unwrap_or(value);
        let outside = (1.0 - CONFIDENCE) / 2.0;
        let figure = Figure::between(value, at(outside).min(value), at(1.0 - outside).max(value), CONFIDENCE);
        (value > 0.0).then(|| Cost {
            key: key.to_owned(),
            figure,
            unit: unit.to_owned(),
            how: format!("{how} ({method})"),
        })
    };
    let rows = [
        row("interrupt", "s", |costs| costs.interrupt_s),
        row("poll", "s", |costs| costs.poll_s),
        row("protocol", "s", |costs| costs.packet_s),
        row("wakeup", "s", |costs| costs.wakeup_s),
        row("application", "s", |costs| costs.application_s),
        row("context_switch", "s", |costs| costs.switch_s),
        row("other", "s", |costs| costs.other_s),
    ];
    rows.into_iter().flatten().collect()
}
