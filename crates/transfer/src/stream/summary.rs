//! Converts repeats into the report: the configuration, the values in force, and a row for each configuration.
//! Submodules compute CPU time and the rates on the wire.

mod asked;
mod counts;
mod cpu;
mod limit;
mod samples;
mod warned;
mod wire;

use std::collections::BTreeSet;

use crate::bulk::{End, Flow, Followed, Window, hardware};
use netcliff_core::stream::{FollowedRow, Spread, StreamReport, StreamRow};
use netcliff_core::{Fingerprint, units};
use netcliff_host::cpu::Method as CpuMethod;

use crate::hosts::Fingerprints;
use netcliff_trial::repeats;
use netcliff_trial::repeats::known;

use super::many;
use super::probe;
use super::{Config, Far, Meters, Repeat, StreamOptions, provenance};
use asked::{asked, in_force};
use counts::{datagrams, device, mapped, pacing, zero_copy};
use cpu::{end_cpu, exact, far_splits, far_ticks, near_splits, near_ticks, system, system_us_per_kib};
use warned::warnings;
use wire::{tcp, udp};

pub(super) use samples::samples;

/// Adds to the report the rate of the storage that a file is sent from (bit/s).
pub(super) fn add_storage(report: &mut StreamReport, storage_bps: Option<f64>) {
    let Some(bps) = storage_bps else { return };
    report.storage_bps = Some(bps);
    let rounded = (bps / 1e6).round() * 1e6;
    let alone = format!("{} without a network (one thread, read(2) of 1 MiB)", units::print_bps(rounded));
    report.asked.push(("storage".to_owned(), alone));
    report.warnings.extend(warned::storage(&report.rows, bps));
}

/// The report of all configurations.
pub(super) fn report(
    options: &StreamOptions,
    far: &Far<'_>,
    configs: &[Config],
    meters: &Meters,
    fingerprints: Fingerprints,
) -> StreamReport {
    let Fingerprints { near: fingerprint, far: far_fingerprint, not_had: no_far_fingerprint } = fingerprints;
    // An older agent reports its fingerprint only with a transfer.
    let far_fingerprint = far_fingerprint.or_else(|| told_beside(configs).filter(|_| !far.is_this_host()));
    let mut not_had = meters.not_had.clone();
    not_had.extend(no_far_fingerprint.filter(|_| far_fingerprint.is_none()));
    not_had.extend(hardware::refusal());
    not_had.extend(far_meter_refusals(configs));
    let measured = configs.iter().filter(|config| !config.repeats.is_empty());
    let rows: Vec<StreamRow> = measured.map(|config| row(options, far, config, meters)).collect();
    let udp = matches!(options.template.channel, crate::bulk::Channel::Udp { .. });
    if udp && rows.iter().any(|row| row.udp.is_none()) {
        not_had.push(
            "rate on the wire: the sending end does not report the MTU of the path (an agent of an older version)"
                .to_owned(),
        );
    }
    for config in configs.iter().filter(|config| config.repeats.is_empty()) {
        let why = config.ended.as_deref().unwrap_or("the run was stopped before");
        not_had.push(format!("{} of {}: {why}", config.path.name(), units::print_bytes(config.block_bytes as u64)));
    }
    StreamReport {
        asked: asked(options, far),
        in_force: in_force(configs),
        clock: options.method.clock().to_owned(),
        warnings: warnings(options, &rows, configs),
        partial: configs.iter().any(|config| config.ended.is_some() || config.repeats.is_empty()),
        rows,
        not_had,
        cpu_methods: cpu_methods(options, far, meters, configs),
        provenance: provenance(options, &fingerprint),
        fingerprint,
        far_fingerprint,
        storage_bps: None,
    }
}

/// The far host's fingerprint, as the last transfer reported it.
fn told_beside(configs: &[Config]) -> Option<Fingerprint> {
    let repeats = configs.iter().flat_map(|config| &config.repeats);
    repeats.filter_map(|repeat| repeat.transfer.far.as_ref()?.fingerprint.clone()).next_back()
}

/// Why the exact meter was not used on the far end's host, each reason once.
fn far_meter_refusals(configs: &[Config]) -> BTreeSet<String> {
    let repeats = configs.iter().flat_map(|config| &config.repeats);
    repeats.filter_map(|repeat| repeat.transfer.far.as_ref()?.cpu.as_ref()?.refusal()).collect()
}

fn cpu_methods(options: &StreamOptions, far: &Far<'_>, meters: &Meters, configs: &[Config]) -> Vec<(String, String)> {
    let mut ends = "getrusage of each end's threads: softirqs that ran elsewhere are not included".to_owned();
    if options.template.shared_threads().is_some() {
        ends += "; a thread's time is divided evenly among its flows with an open window";
    }
    let mut methods = vec![("ends".to_owned(), ends), repeats::method(repeats::SYSTEM)];
    if !far.is_this_host() {
        methods.push(repeats::method(repeats::FAR_SYSTEM));
    }
    if meters.method() == Some(CpuMethod::Ebpf) {
        methods.push(repeats::method(repeats::EXACT));
    }
    if configs.iter().flat_map(|config| &config.repeats).any(|repeat| !far_splits(repeat).is_empty()) {
        methods.push(repeats::method(repeats::FAR_EXACT));
    }
    methods
}

fn row(options: &StreamOptions, far: &Far<'_>, config: &Config, meters: &Meters) -> StreamRow {
    let repeats = &config.repeats;
    let elsewhere = !far.is_this_host();
    let sender_bps = goodput(repeats, |flow| &flow.sender);
    let receiver_bps = goodput(repeats, |flow| &flow.receiver);
    let by_clock = if options.method.clock() == "sender" { &sender_bps } else { &receiver_bps };
    let mean = || (!by_clock.is_empty()).then(|| by_clock.iter().sum::<f64>() / by_clock.len() as f64);
    let whole = repeats.iter().filter(|repeat| repeat.transfer.cut_short.is_none());
    let row = StreamRow {
        path: config.path.name().to_owned(),
        block_bytes: config.block_bytes as u64,
        repeats: whole
            .map(|repeat| repeat.transfer.flows.iter().map(|flow| flow.sender.windows.len()).max().unwrap_or(0))
            .sum::<usize>() as u32,
        samples: samples(options, config.block_bytes, repeats),
        known: Some(known("goodput_bps", &config.goodputs_bps(options), &options.repeats)),
        cut_short: config.ended.clone(),
        goodput_bps: Spread::of(by_clock.iter().copied()),
        mean_bps: if options.method.is_mean() { mean() } else { None },
        sends_per_s: Spread::of(summed(
            repeats,
            |flow| &flow.sender,
            |window| window.calls_per_s().unwrap_or(f64::NAN),
        )),
        bytes_per_receive: Spread::of(
            windows(repeats, |flow| &flow.receiver).map(|window| window.bytes as f64 / window.calls as f64),
        ),
        sender_cpu: end_cpu(repeats, |flow| &flow.sender),
        receiver_cpu: end_cpu(repeats, |flow| &flow.receiver),
        system: system(repeats, near_ticks),
        system_us_per_kib: system_us_per_kib(repeats, near_ticks),
        far_system: if elsewhere { system(repeats, far_ticks) } else { Vec::new() },
        far_us_per_kib: if elsewhere { system_us_per_kib(repeats, far_ticks) } else { None },
        exact: if meters.method() == Some(CpuMethod::Ebpf) { exact(repeats, near_splits) } else { Vec::new() },
        far_exact: if elsewhere { exact(repeats, far_splits) } else { Vec::new() },
        tcp: tcp(options, repeats),
        udp: udp(options, config.block_bytes, repeats),
        device: device(repeats),
        datagrams: datagrams(repeats),
        zero_copy: zero_copy(repeats),
        mapped: mapped(repeats),
        pacing: pacing(repeats),
        followed: followed(repeats),
        many: many::row(options, repeats),
        ledger: config.ledger.clone(),
        probe: probe::row(options, repeats, receiver_median(&receiver_bps)),
        sender_bps: Spread::of(sender_bps),
        receiver_bps: Spread::of(receiver_bps),
        limited_by: None,
    };
    StreamRow { limited_by: limit::limited_by(options, &row), ..row }
}

/// Placement of the threads that followed their flow's packets, in the last repeat.
fn followed(repeats: &[Repeat]) -> Vec<FollowedRow> {
    let flows = repeats.last().map_or(&[][..], |repeat| &repeat.transfer.flows[..]);
    let of = |flow: usize, end: &str, counted: &End| {
        let Followed { incoming_cpu, napi_id, cpu } = counted.followed?;
        Some(FollowedRow { flow: flow + 1, end: end.to_owned(), incoming_cpu, napi_id, cpu })
    };
    let both = |(at, flow): (usize, &Flow)| [of(at, "sender", &flow.sender), of(at, "receiver", &flow.receiver)];
    flows.iter().enumerate().flat_map(both).flatten().collect()
}

fn receiver_median(bps: &[f64]) -> Option<f64> {
    Spread::of(bps.iter().copied()).map(|spread| spread.median).filter(|bps| *bps > 0.0)
}

fn windows(repeats: &[Repeat], end: fn(&Flow) -> &End) -> impl Iterator<Item = &Window> {
    repeats.iter().flat_map(move |repeat| repeat.transfer.flows.iter().flat_map(move |flow| end(flow).windows.iter()))
}

/// The value of each window of all repeats, summed over the flows of the repeat.
fn summed(repeats: &[Repeat], end: fn(&Flow) -> &End, figure: impl Fn(&Window) -> f64) -> Vec<f64> {
    let of = |repeat: &Repeat| {
        let ends: Vec<&End> = repeat.transfer.flows.iter().map(end).collect();
        let count = ends.iter().map(|end| end.windows.len()).max().unwrap_or(0);
        let at = |place: usize| ends.iter().filter_map(|end| end.windows.get(place)).map(&figure).sum::<f64>();
        (0..count).map(at).collect::<Vec<f64>>()
    };
    repeats.iter().flat_map(of).collect()
}

fn goodput(repeats: &[Repeat], end: fn(&Flow) -> &End) -> Vec<f64> {
    summed(repeats, end, |window| window.goodput_bps().unwrap_or(f64::NAN))
}
