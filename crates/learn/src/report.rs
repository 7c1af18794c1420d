//! What was seen as a [`Learned`]: [`learned`].

use netcliff_core::finding::{Calibration, Cost, HostSummary, Missing};
use netcliff_core::learned::{Learned, LearnedPart, LearnedTraffic, PartKind, Watched};
use netcliff_core::{Figure, FrameSizes, Load, Napi, Provenance, Scheme, Traffic};
use netcliff_find::{cpu_name, kernel_name};
use netcliff_host::fingerprint;
use netcliff_host::serving::Program;

use crate::arrivals::dispersion;
use crate::cliff::{self, CONFIDENCE, Comes, Room};
use crate::costs::{Costs, Doubt, FEWEST, Fitted, Piece, fit};
use crate::slice::{Count, CpuSlice, Slice, Watch, of_cpu, stolen, without_what_gives_way};
use crate::watching::{Options, Taken};

/// Share of the packets from which a CPU is a receive CPU, and of the program's time from which it is one that the program runs on.
const TAKES: f64 = 0.05;
const RUNS: f64 = 0.05;
/// Packets/s of a CPU below which nothing is learnt from it.
const LEAST_PPS: f64 = 10.0;
/// Share of a thread's time on one CPU from which that CPU has it in its own account.
const STAYS: f64 = 0.9;
/// CPU time of a thread below which it is left out, as a share of a CPU.
const LEAST_THREAD: f64 = 0.02;
/// Length over which the highest load is taken (s).
const HIGHEST_OVER_S: f64 = 1.0;
/// What a small packet and one of the usual MTU take of a socket's room (bytes): the kernel's `truesize` of a packet in a page's half, and in a head
/// of its own.
const SMALL_PACKET: (f64, f64) = (768.0, 400.0);
const LARGE_PACKET: f64 = 2304.0;
/// Share of slices that something disturbed from which the reader is warned.
const DISTURBED: f64 = 0.3;
/// Share of a CPU that the hypervisor took from which the reader is warned, and pauses of a program cannot be separated from its.
const STOLEN: f64 = 0.005;
/// Shares of a slice from which a CPU is fully busy: of softirqs and program, and of all where they are not separated.
const SATURATED: f64 = 0.95;
const ALL: f64 = 0.99;
/// Share of a CPU that does not grow with the load from which the reader is warned.
const MUCH_FIXED: f64 = 0.2;
/// Seed of the resampling.
const SEED: u64 = 0x6c65_6172_6e00;

/// What follows from a watch alone, without the host it was of.
#[derive(Debug, Clone, PartialEq)]
pub struct Result {
    /// Parts, the one that gives out first in front.
    pub parts: Vec<LearnedPart>,
    /// What came.
    pub traffic: LearnedTraffic,
    /// Costs of the receive CPU that gives out first.
    pub calibration: Option<Calibration>,
    /// The scheme that the model computed with.
    pub scheme: Scheme,
    /// Slices with exact or ticked times, and those of them that were disturbed.
    pub slices: (u64, u64),
    /// What is not known.
    pub missing: Vec<Missing>,
    /// What speaks against relying on it.
    pub cautions: Vec<String>,
}

/// The record of a watch.
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
            "Packets were lost during the watch: something has reached its limit already, whatever the shares say."
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
        as_traffic: Traffic {
            size: FrameSizes::Fixed(size),
            rate: Load::Pps(result.traffic.packets_per_s.max(1.0)),
            ..Traffic::poisson(1.0)
        },
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

/// Whether most packets of the slices came through a backlog; `otherwise` where slices do not say.
fn is_backlog(watch: &Watch, otherwise: bool) -> bool {
    let of = |wanted: bool| -> f64 {
        let slices = watch.slices.iter().flat_map(|slice| &slice.cpus);
        slices.filter(|cpu| cpu.exact && cpu.backlog == wanted).map(|cpu| cpu.packets).sum()
    };
    let (backlog, device) = (of(true), of(false));
    if backlog + device > 0.0 { backlog >= device } else { otherwise }
}

/// Parts, costs and traffic of a watch. Pure.
pub fn from_watch(watch: &Watch, napi: &Napi, programs: &[Program], method: &str, loss: f64) -> Result {
    let watch = &Watch { slices: without_what_gives_way(&watch.slices), ..watch.clone() };
    let slices = &watch.slices;
    let traffic = traffic(watch);
    let backlog = is_backlog(watch, napi.backlog);
    let scheme = Scheme::Napi(Napi { backlog, ..napi.clone() });
    let packet_bytes = if traffic.mean_bytes.unwrap_or(0.0) <= SMALL_PACKET.1 { SMALL_PACKET.0 } else { LARGE_PACKET };
    let socket_bytes = watch.sockets.iter().map(|socket| socket.room_bytes).fold(0.0, f64::max);
    let room = Room {
        ring: watch.ring.unwrap_or(1000).max(1),
        // The kernel's own default (net.core.rmem_default) where no socket was seen.
        socket: ((if socket_bytes > 0.0 { socket_bytes } else { 212_992.0 }) / packet_bytes).round().max(1.0) as u64,
        tick_s: watch.tick_s.unwrap_or(4e-3),
    };
    let mut result = Result {
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
        result.add_cpu(watch, cpu, room, method, loss, &mut hosts);
    }
    result.add_threads(slices, programs);
    result.add_sockets(watch, packet_bytes, loss);
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

/// CPUs that take packets or that the program runs on.
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
    let rate = |group: &&[Slice]| {
        let (seconds, packets) = group.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.seconds, sum.1 + one.packets));
        packets / seconds.max(1e-9)
    };
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

/// Neighbouring slices of a second together.
fn grouped(slices: &[Slice]) -> Vec<&[Slice]> {
    let each_s = slices.first().map_or(1.0, |slice| slice.seconds).max(1e-3);
    slices.chunks(((HIGHEST_OVER_S / each_s).round() as usize).max(1)).collect()
}

fn highest_rate(slices: &[Slice], of: &dyn Fn(&Slice) -> f64) -> f64 {
    let rate = |group: &&[Slice]| {
        group.iter().map(of).sum::<f64>() / group.iter().map(|one| one.seconds).sum::<f64>().max(1e-9)
    };
    grouped(slices).iter().map(rate).fold(0.0, f64::max)
}

impl Result {
    fn lacks(&mut self, figure: &str, why: String) {
        if !self.missing.iter().any(|one| one.figure == figure && one.why == why) {
            self.missing.push(Missing { figure: figure.to_owned(), why });
        }
    }

    fn add_cpu(
        &mut self,
        watch: &Watch,
        cpu: u32,
        room: Room,
        method: &str,
        loss: f64,
        hosts: &mut Vec<(u32, netcliff_core::Host)>,
    ) {
        let slices = &watch.slices;
        let own = of_cpu(slices, cpu);
        let all = self.traffic.packets_per_s;
        // A meter that rests leaves slices without packets of the CPU: rates are of the others.
        let metered_s: f64 = own.iter().map(|(slice, _)| slice.seconds).sum::<f64>().max(1e-9);
        let rate = |of: fn(&CpuSlice) -> f64| own.iter().map(|(slice, _)| of(slice)).sum::<f64>() / metered_s;
        let own_pps = rate(|slice| slice.packets);
        let meant = |slice: &Slice| slice.cpus.iter().any(|one| one.cpu == cpu && one.seconds > 0.0);
        let metered_pps = {
            let of = |of: fn(&Slice) -> f64| slices.iter().filter(|slice| meant(slice)).map(of).sum::<f64>();
            of(|slice| slice.packets) / of(|slice| slice.seconds).max(1e-9)
        };
        let takes_packets = own_pps >= TAKES * metered_pps && own_pps > 0.0;
        // Its packets over those of the interfaces. Without counts of these it has all.
        let share = if takes_packets && metered_pps > 0.0 { own_pps / metered_pps } else { 1.0 };
        let load = |slice: &CpuSlice, of_all: f64| if takes_packets { slice.packets } else { of_all };
        let with_all = slices.iter().filter_map(|slice| {
            let one = slice.cpus.iter().find(|one| one.cpu == cpu && one.seconds > 0.0)?;
            Some((one, slice.packets * one.seconds / slice.seconds))
        });
        let pieces: Vec<Piece<'_>> = with_all
            .zip(own.iter().map(|(_, disturbed)| *disturbed))
            .filter(|(_, disturbed)| !disturbed)
            .map(|((slice, all), _)| (slice, load(slice, all)))
            .collect();
        self.slices.0 = self.slices.0.max(own.len() as u64);
        self.slices.1 = self.slices.1.max((own.len() - pieces.len()) as u64);
        let packets_per_s = share * all;
        let mut part = LearnedPart {
            kind: PartKind::Cpu,
            name: format!("CPU {cpu}"),
            cpu: Some(cpu),
            packets_per_s,
            cliff_pps: None,
            share: None,
            share_highest: None,
            busy: rate(CpuSlice::busy_s),
            softirq: rate(|slice| slice.interrupt_s + slice.protocol_s + slice.softirq_other_s),
            program: rate(|slice| slice.application_s),
            fixed: 0.0,
            costs: Vec::new(),
            why: None,
        };
        let fitted = if packets_per_s < LEAST_PPS {
            Err(format!("only {packets_per_s:.1} packets/s came: too few to say what one costs"))
        } else {
            fit(&pieces, SEED ^ u64::from(cpu)).ok_or_else(|| {
                format!(
                    "{} slices are usable: at least {FEWEST} with packets are needed, so watch longer",
                    pieces.len()
                )
            })
        };
        let runs: Vec<&[Count]> = watch
            .fine
            .iter()
            .map(Vec::as_slice)
            .chain([watch.counts.as_slice()])
            .filter(|run| !run.is_empty())
            .collect();
        let found = fitted.and_then(|fitted| {
            let comes = Comes { packets_per_s, counts: &runs, share, takes_packets };
            let plain = Scheme::Napi(Napi {
                backlog: matches!(&self.scheme, Scheme::Napi(napi) if napi.backlog),
                ..Napi::default()
            });
            let cliff = cliff::of_cpu(&fitted, &self.scheme, room, comes, loss)
                .or_else(|_| cliff::of_cpu(&fitted, &plain, room, comes, loss));
            Ok((cliff?, fitted))
        });
        // Where a CPU is fully busy, what costs a packet cannot be separated from what waits for one: the CPU is at its cliff.
        let saturated = own.iter().filter(|(slice, _)| {
            // Other tasks give way to some degree; by ticks they are not separated from the program.
            let (used_s, most) =
                if slice.exact { (slice.busy_s() - slice.other_s, SATURATED) } else { (slice.busy_s(), ALL) };
            used_s > most * slice.seconds
        });
        let saturated = saturated.count();
        let full = 2 * saturated > own.len() && packets_per_s >= LEAST_PPS;
        match found {
            _ if full => {
                let cliff = Figure::between(packets_per_s, 0.5 * packets_per_s, 1.1 * packets_per_s, CONFIDENCE);
                part.share = Some(share_of(packets_per_s, &cliff));
                part.share_highest = Some(highest_rate(slices, &|slice| slice.packets) * share / packets_per_s);
                part.cliff_pps = Some(cliff);
                part.why = Some("it was fully busy in most slices: it is at its cliff or beyond. Learn from a quieter time what a packet costs".to_owned());
            }
            Ok((cliff, fitted)) => {
                part.share = Some(share_of(packets_per_s, &cliff.cliff_pps));
                part.share_highest = Some(highest_rate(slices, &|slice| slice.packets) * share / cliff.cliff_pps.value);
                part.cliff_pps = Some(cliff.cliff_pps);
                part.fixed = fitted.costs.fixed;
                part.costs = costs(&fitted, method);
                part.why = cliff.why;
                self.doubt(cpu, &fitted);
                hosts.push((cpu, cliff.host));
            }
            Err(why) => {
                self.lacks(&format!("CPU {cpu}"), format!("CPU {cpu} has no cliff: {why}."));
                part.why = Some(why);
            }
        }
        self.parts.push(part);
    }

    fn doubt(&mut self, cpu: u32, fitted: &Fitted) {
        let moved = 100.0 * (fitted.moved - 1.0);
        for doubt in &fitted.doubts {
            let why = match doubt {
                Doubt::Polls => "what a packet costs cannot be separated from what a poll costs: polls took one packet each, or were too few. Traffic in bursts, or more of it, separates them".to_owned(),
                Doubt::Switches => "what reading a packet costs the program cannot be separated from what waking costs it: the program was woken as often a packet in every slice. Up to half of its time is taken to be waking; a load that moves more separates them".to_owned(),
                Doubt::Fixed => format!("what costs time by the clock cannot be separated from what costs time by the packet: the load moved by {moved:.0} % only, and 20 % are needed. A watch that covers a quiet and a busy hour separates them"),
                Doubt::Ticks => "interrupts, polls and wake-ups are in the cost of a packet, although packets share them near the cliff: ticks do not show them. With eBPF (root, a kernel with BTF) they are separated".to_owned(),
            };
            self.lacks(&format!("costs of CPU {cpu}"), format!("CPU {cpu}: {why}."));
        }
    }

    /// Threads that move between CPUs, or run where nothing else was learnt.
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
                .ok_or_else(|| "too few slices or packets".to_owned())
                .and_then(|fitted| Ok((cliff::of_thread(&fitted, all)?, fitted)));
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

    /// Sockets that fill because their program pauses.
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
                why: Some(format!(
                    "the program stops reading for up to {:.1} ms at a time, about every {:.1} s (seen in {seen} of {looks} looks at its socket): what comes during that has to fit into the socket. Look for a lock, a garbage collection or a disk in its way, or raise its receive buffer (SO_RCVBUF)",
                    1e3 * pausing.longest_s, pausing.every_s
                )),
            });
        }
    }

    /// What the reader has to know of the whole.
    fn explain(&mut self, slices: &[Slice]) {
        if slices.is_empty() {
            self.lacks("parts", "The watch ended before its first slice: watch longer.".to_owned());
        } else if self.traffic.packets_per_s < LEAST_PPS {
            self.lacks(
                "parts",
                format!(
                    "{:.1} packets/s came: there is no cliff to learn from an idle host. Watch while it has work.",
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

/// Load over cliff, with the cliff's interval.
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

/// The costs for the page, each with the interval of its draws.
fn costs(fitted: &Fitted, method: &str) -> Vec<Cost> {
    let how = if fitted.exact { "regression over slices" } else { "regression over slices of ticks" };
    let row = |key: &str, unit: &str, of: fn(&Costs) -> f64| {
        let value = of(&fitted.costs);
        let mut drawn: Vec<f64> = fitted.draws.iter().map(of).collect();
        drawn.sort_by(f64::total_cmp);
        let at = |share: f64| drawn.get((share * drawn.len() as f64) as usize).copied().unwrap_or(value);
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
