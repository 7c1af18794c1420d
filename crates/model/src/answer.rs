//! [`Ring`]: solution of a scheme's queue with interrupt, poll and protocol, and its conversion to an [`Outcome`].

use std::rc::Rc;

use netcliff_core::note::Note;
use netcliff_core::outcome::packets_per_poll;
use netcliff_core::{CpuShares, Figure, Latency, Loss, Outcome};
use num_complex::Complex64;

use crate::queue::inversion::{Part, mixture_quantile};

/// Shares of one CPU, with sum 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Shares {
    /// Interrupt handling, masking included.
    pub interrupt: f64,
    /// Poll overhead.
    pub poll: f64,
    /// Protocol processing.
    pub protocol: f64,
    /// Share that is left for other work, V in docs/theory.
    pub available: f64,
}

impl Shares {
    /// Returns the shares divided by their sum, which rounding errors may have moved away from 1.
    #[must_use]
    pub fn normalised(self) -> Self {
        let total = self.interrupt + self.poll + self.protocol + self.available;
        Self {
            interrupt: self.interrupt / total,
            poll: self.poll / total,
            protocol: self.protocol / total,
            available: self.available / total,
        }
    }
}

/// Quantiles of a latency (s).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// Median (s).
    pub p50: f64,
    /// 90th percentile (s).
    pub p90: f64,
    /// 99th percentile (s).
    pub p99: f64,
    /// 99.9th percentile (s).
    pub p999: f64,
}

/// Distribution of a latency T, given by its Laplace transform E[e^(-z T)].
#[derive(Clone)]
pub struct Distribution {
    transform: Rc<dyn Fn(Complex64) -> Complex64>,
    /// Mean (s).
    mean_s: f64,
}

impl Distribution {
    /// A distribution with this mean (s) and Laplace transform.
    pub fn new(mean_s: f64, transform: impl Fn(Complex64) -> Complex64 + 'static) -> Self {
        Self { transform: Rc::new(transform), mean_s }
    }

    /// Returns the four quantiles of a mixture of (weight, distribution); weights need not sum to 1. `None` if the
    /// transform cannot be inverted.
    pub fn quantiles(parts: &[(f64, &Self)]) -> Option<Quantiles> {
        let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
        let parts: Vec<Part<'_>> =
            parts.iter().map(|(weight, one)| (weight / total, &*one.transform as _, one.mean_s)).collect();
        let at = |share| mixture_quantile(&parts, share);
        Some(Quantiles { p50: at(0.5)?, p90: at(0.9)?, p99: at(0.99)?, p999: at(0.999)? })
    }
}

impl std::fmt::Debug for Distribution {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Distribution(mean {} s)", self.mean_s)
    }
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.transform, &other.transform)
    }
}

/// The part of a host below the socket, in equilibrium.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring {
    /// Packets that leave protocol processing (pps).
    pub throughput_pps: f64,
    /// Share of offered packets lost at the ring (1).
    pub loss: f64,
    /// Mean packets in ring and protocol.
    pub mean_present: f64,
    /// Mean latency from arrival in memory to the end of protocol processing (s).
    pub mean_latency_s: f64,
    /// Quantiles of the latency whose mean is `mean_latency_s`; `None` if they are unknown.
    pub quantiles: Option<Quantiles>,
    /// Distribution of that latency (arrival in memory to end of protocol processing); `None` if it is unknown or no
    /// quantiles are wanted.
    pub latencies: Option<Distribution>,
    /// Interrupts (1/s).
    pub interrupts_per_s: f64,
    /// Busy periods of the ring (1/s).
    pub cycles_per_s: f64,
    /// True: timers or packet counts start the busy periods, so that packets wait while the CPU is free.
    pub clocked: bool,
    /// Polls (1/s); `None` if the scheme does not poll.
    pub polls_per_s: Option<f64>,
    /// CPU shares without an application.
    pub shares: Shares,
    /// True: the figures are exact for the scheme as defined, up to rounding and events that are too rare to matter.
    pub exact: bool,
    /// Notes for the user: approximations and limits of this solution.
    pub notes: Vec<Note>,
}

/// `cpu_method` of figures computed without approximation.
pub const EXACT: &str = "exact";
/// `cpu_method` of figures computed with an approximation, which a note names.
pub const APPROXIMATE: &str = "approximate";

impl Ring {
    /// Converts to the outcome of a host without an application; `frame_bytes` is the mean frame size.
    pub fn outcome(self, frame_bytes: f64) -> Outcome {
        let Shares { interrupt, poll, protocol, available } = self.shares.normalised();
        let exact = |value: f64| Some(Figure::exact(value));
        let quantile = |pick: fn(&Quantiles) -> f64| self.quantiles.as_ref().map(pick).map(Figure::exact);
        Outcome {
            throughput_pps: exact(self.throughput_pps),
            goodput_bps: exact(self.throughput_pps * 8.0 * frame_bytes),
            loss_fraction: exact(self.loss),
            loss: Some(Loss { ring: exact(self.loss), ..Loss::default() }),
            latency_s: Some(Latency {
                mean: exact(self.mean_latency_s),
                p50: quantile(|q| q.p50),
                p90: quantile(|q| q.p90),
                p99: quantile(|q| q.p99),
                p999: quantile(|q| q.p999),
                max: None,
                done_mean: None,
            }),
            latency_to: Some("protocol".to_owned()),
            cpu: Some(CpuShares {
                interrupt: exact(interrupt),
                poll: exact(poll),
                protocol: exact(protocol),
                application: None,
                paused: None,
                available: exact(available),
            }),
            cpu_method: Some(if self.exact { EXACT } else { APPROXIMATE }.to_owned()),
            interrupts_per_s: exact(self.interrupts_per_s),
            polls_per_s: self.polls_per_s.map(Figure::exact),
            packets_per_poll: self.polls_per_s.and_then(|polls| packets_per_poll(self.throughput_pps, polls)),
            packets_in_system: exact(self.mean_present),
            precision: None,
            notes: self.notes,
            ..Outcome::default()
        }
    }
}
