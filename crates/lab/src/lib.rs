//! The laboratory: calibrates the host, searches its cliff on three engines, keeps the records.
//!
//! | module | holds |
//! | --- | --- |
//! | [`inputs`] | files a user names |
//! | [`mod@forwarding`] | experiments of forwarding: a router in several set-ups, over the frame sizes |
//! | [`rfc2544`] | forwarding through a device: throughput, latency, loss, bursts |
//! | [`rig`] | the testbed with the CPUs it uses |
//! | [`trial`] | one measurement at one load |
//! | [`mod@bench`] | the measurements that calibration and search need; [`wire_bench`] makes them with real packets |
//! | [`calibrate`] | costs by regression |
//! | [`rfc2544::search`] | MLRsearch (RFC 9971): the one search of `find` and `rfc2544`, pure |
//! | [`find`] | the main job: calibrate, predict, simulate, measure |
//! | [`run`] | an experiment on model, simulator and wire, continued where it was stopped |
//! | [`advise`] | settings for an objective: screened by the model, simulated, picked at a confidence |
//! | [`limits`] | the roofline |
//! | [`monitor`] | counters and headroom for a monitoring system |
//! | [`rr`] | request/response between two ends on this host, or against an agent |
//! | [`companion`] | the far end on this host as a process of its own |
//! | [`cpus`] | the CPUs of both ends' hosts over the repeats of a test |
//! | [`mod@headroom`] | how near this host is to its calibrated cliff now |
//! | [`hosts`] | the fingerprints of both ends' hosts |
//! | [`mod@compare`] | one run against another, point by point |
//! | [`stream`] | bulk transfers: a sweep, metered |
//! | [`mod@trend`] | the runs of one name over time, and where a figure changed its level |
//! | [`tuning`] | what a tuning plan is expected to change, and the host measured with and without it in turns |
//! | [`transfers`] | experiments of bulk transfers: settings varied by a design, and their effects |
//! | [`store`] | records in SQLite |
//! | [`stored`] | what a run keeps, whatever its kind, and its JSON |
//! | `alike` | sentences that differ in their numbers only, as one |
//! | [`stand`] | the devices, addresses and CPUs that a measurement depends on: what changed meanwhile |
//! | [`stats`] | intervals and least squares |
//!
//! # How `find` answers
//!
//! 4. `lab::find` runs the stages: sender alone, rough search, calibration (its trials drawn anew:
//!    `calibrate/resample.rs`, through the model: `find/sureness.rs`), predicted and simulated cliff, measured cliffs
//!    (searches by MLRsearch, behind a NIC from the lowest load that loses: `find/cliff/climb.rs`; each trial read
//!    with and without disturbances; `find/recorder.rs` keeps what disturbed each trial and how fast the machine
//!    was), model and simulation once more for the speed of each part in those trials (`calibrate/present.rs`) and
//!    for what disturbances leave behind (`find/fluid.rs`), sweep past twice the cliff, the same loads on the other
//!    engines, conclusions, suggestions; then, on testbeds of their own (`find/later.rs`), other set-ups (`check.rs`)
//!    and the best suggestion (`tried.rs`). What could not be measured goes to `Finding::missing` with the reason.
//!    Where another host is under test, its agent runs the stages, and the client that sends the load computes, too
//!    (`find/elsewhere.rs`). `lab::costs` gives other commands the costs of a stored finding.
//!
//! 5. `lab::store` keeps each record as it comes (SQLite, one transaction each) and the `Finding` at the end.
//!    `netcliff run` takes points from a file instead: `core::experiment` expands it to tasks, `lab::run` answers
//!    them on all cores, each record goes to the store under its task, so that a run that was killed goes on
//!    (`store/experiments.rs`).
//!
//! # Forwarding
//!
//! `host::testbed::forward` makes three namespaces instead, for `rfc2544`: generator, router, sink. `lab::rfc2544`
//! asks a `conduct::Device` (the real one, `kernel`, or a fake) for trials; the searches are pure. `lab::forwarding`
//! lets several set-ups of the router take turns; what the tuning planner proposes for it is set inside its
//! namespace.
//!
//! Latency of the tagged frame by stamps (`wire::forward::stamps`): it alone goes through a socket that is told when
//! it left, and a socket whose filter lets only it pass tells when it came. `host::nic::phc` brings two devices'
//! clocks together (pure), `host::nic::stamping` is what a device is set to stamp, `host::testbed::stamping` sets it
//! with undo.
//!
//! # Monitoring and trend
//!
//! `lab::headroom` holds a `Moment` of `host::watch` against the newest `find` (pure); `lab::monitor` keeps the last
//! reading; `report::metrics` writes it, `wire::scrape` answers for it. `lab::trend` divides the kept runs of one
//! name (`trend/divisive.rs`). `report::builds` writes what build servers read.

// Names of Linux that another system lacks, each refused there.
#[cfg(not(target_os = "linux"))]
extern crate netcliff_bsd as nix;

pub mod account;
pub mod advise;
mod alike;
pub mod bench;
pub mod calibrate;
pub mod companion;
pub mod compare;
pub mod costs;
pub mod find;
pub mod forwarding;
pub mod headroom;
pub mod hosts;
pub mod inputs;
mod ledger;
pub mod limits;
pub mod monitor;
pub mod rfc2544;
pub mod rig;
pub mod rr;
pub mod run;
pub mod stand;
pub mod stats;
pub mod store;
pub mod stored;
pub mod stream;
pub mod transfers;
pub mod trend;
pub mod trial;
pub mod tuning;
pub mod wire_bench;

pub use netcliff_host::inventory::lasting;

mod chance {
    //! Seeded random numbers for simulated devices.

    use netcliff_core::math::SplitMix64;

    /// Draws of several distributions.
    #[derive(Debug, Clone)]
    pub(crate) struct Chance(SplitMix64);

    impl Chance {
        /// From a seed.
        pub(crate) fn new(seed: u64) -> Self {
            Self(SplitMix64(seed))
        }

        /// Uniform in (0, 1).
        pub(crate) fn uniform(&mut self) -> f64 {
            self.0.uniform()
        }

        /// Exponential with mean 1.
        pub(crate) fn exponential(&mut self) -> f64 {
            -self.uniform().ln()
        }

        /// Standard normal.
        pub(crate) fn normal(&mut self) -> f64 {
            normal_quantile(self.uniform())
        }
    }

    /// Quantile of the standard normal distribution.
    pub(crate) fn normal_quantile(p: f64) -> f64 {
        use statrs::distribution::{ContinuousCDF, Normal};
        Normal::standard().inverse_cdf(p)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Seed 1, 10 000 draws: mean and variance within five standard errors (false alarm 6e-7 each).
        #[test]
        fn moments_are_those_of_the_distributions() {
            let mut chance = Chance::new(1);
            let count = 10_000;
            let error = 5.0 / f64::from(count).sqrt();
            let mut mean =
                |draw: fn(&mut Chance) -> f64| (0..count).map(|_| draw(&mut chance)).sum::<f64>() / f64::from(count);
            assert!((mean(Chance::uniform) - 0.5).abs() < error / 12f64.sqrt());
            assert!((mean(Chance::exponential) - 1.0).abs() < error);
            assert!(mean(Chance::normal).abs() < error);
            assert!((mean(|chance| chance.normal().powi(2)) - 1.0).abs() < error * 2f64.sqrt());
        }
    }
}

pub mod cpus {
    //! The CPUs of both ends' hosts over the repeats of a test, by ticks and exactly, with the methods.

    use netcliff_core::cpus::{CpuRow, ExactRow};
    use netcliff_host::cpu::CpuSplit;
    use netcliff_host::cpu::system::SystemShares;

    /// How a figure was measured, under the name of its figures in JSON.
    type Method = (&'static str, &'static str);

    /// The near end's host by ticks.
    pub const SYSTEM: Method = ("system", "/proc/stat: sampled by the timer tick");
    /// The far end's.
    pub const FAR_SYSTEM: Method = ("far system", "the far host's /proc/stat over its own windows, a round trip apart");
    /// The near end's host exactly.
    pub const EXACT: Method = ("exact", "eBPF at the kernel's transitions: exclusive of each other");
    /// The far end's.
    pub const FAR_EXACT: Method =
        ("far exact", "eBPF on the far host, over its own windows; the application is the agent");

    /// A method as a report has it.
    pub fn told((name, method): Method) -> (String, String) {
        (name.to_owned(), method.to_owned())
    }

    /// The CPUs of one host: medians over its repeats, whose shares these are.
    pub fn by_ticks<'a>(shares: impl Iterator<Item = &'a SystemShares>) -> Vec<CpuRow> {
        CpuRow::medians(shares.map(SystemShares::row))
    }

    /// The same by the exact meter.
    pub fn exactly<'a>(splits: impl Iterator<Item = &'a CpuSplit>) -> Vec<ExactRow> {
        ExactRow::medians(splits.map(exact))
    }

    fn exact(split: &CpuSplit) -> ExactRow {
        let known = |share: Option<f64>| share.unwrap_or(0.0);
        let shares = &split.shares;
        ExactRow {
            cpu: split.cpu,
            application: known(shares.application),
            softirq: known(shares.protocol) + known(shares.transmit) + known(shares.softirq_other),
            interrupt: known(shares.interrupt),
            other: known(shares.other) + known(shares.ksoftirqd) + known(shares.unaccounted),
            idle: known(shares.idle),
            overhead: known(split.overhead_share),
        }
    }
}

pub mod repeats {
    //! When repeats are enough: the statistics behind [`Repeats`].

    use netcliff_core::repeats::{Known, Repeats};

    use crate::stats::{CONFIDENCE, mean};

    /// Half width of the interval of the mean over the mean; None for fewer than two values, or where nothing bounds it.
    pub fn half_width(values: &[f64]) -> Option<f64> {
        let mean = mean(values)?;
        let ends = mean.interval?;
        Some((ends.high - ends.low) / 2.0 / mean.value.abs()).filter(|width| width.is_finite())
    }

    /// How well `figure` is known by the values of the repeats.
    pub fn known(figure: &str, values: &[f64], repeats: &Repeats) -> Known {
        Known {
            figure: figure.to_owned(),
            half_width: half_width(values),
            confidence: CONFIDENCE,
            repeats: values.len() as u32,
            asked: repeats.precision,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_half_width_is_students() {
            // Mean 10, deviation 1, five values: 2.776 / sqrt(5) / 10.
            let values = [9.0, 9.0, 10.0, 11.0, 11.0];
            let width = half_width(&values).expect("five values");
            assert!((width - 2.776_445 / 5f64.sqrt() / 10.0).abs() < 1e-6, "{width}");
            assert_eq!((half_width(&[1.0]), half_width(&[]), half_width(&[0.0, 0.0])), (None, None, None));
            let known = known("goodput_bps", &values, &Repeats::new(5, Some(0.1), None).expect("it fits"));
            assert!(known.shortfall().is_some_and(|said| said.contains("12.4")) && known.repeats == 5);
        }
    }
}
