//! Latency with a two-state traffic source, by the transform of the state that an accepted packet finds. Quantiles are
//! computed by inversion ([`crate::queue::inversion`]), with an error of about 1e-6.

use netcliff_core::Scheme;
use num_complex::Complex64;

use crate::queue::qbd::Stationary;
use crate::schemes::modulated::{Modulated, Source};
use crate::schemes::{Work, exponential, napi};

/// State that an accepted packet finds on arrival, with the data needed to compute its wait.
pub enum Found<'a> {
    /// By number of packets that the arrival finds: weights of the stage before service and of the service stage.
    Stages { work: &'a Work, levels: Vec<[f64; 2]>, first: FirstStage },
    /// By number of packets that the arrival finds: weights of the source's states; services are interrupted by later
    /// arrivals.
    Interrupted { modulated: &'a Modulated<'a>, source: Source, levels: Vec<[f64; 2]> },
    /// NAPI, which has its own distribution.
    Napi { work: &'a Work, found: napi::Found },
}

/// What happens before the services of a packet that arrives during the first stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstStage {
    /// There is no stage before the services.
    Absent,
    /// The stage serves no packet.
    Interrupts,
    /// The stage serves the first packet.
    Serves,
}

impl<'a> Found<'a> {
    /// Collects the states; `None` if the distribution is unknown.
    pub fn new(
        modulated: &'a Modulated<'a>,
        source: Source,
        scheme: &Scheme,
        solution: &Stationary,
        loss: f64,
    ) -> Option<Self> {
        let work = modulated.work;
        // Weights of the states that an accepted packet finds: levels below the top.
        let weighted = |level: usize| solution.level(level).iter().enumerate().map(|(i, p)| p * modulated.rates[i % 2]);
        let levels = 0..solution.levels() - 1;
        let by_stage = || -> Vec<[f64; 2]> {
            let fold = |level: usize| {
                weighted(level).enumerate().fold([0.0; 2], |mut sums, (phase, weight)| {
                    sums[phase / 2] += weight;
                    sums
                })
            };
            scaled(levels.clone().map(fold).collect())
        };
        Some(match scheme {
            Scheme::Ideal => Self::Stages { work, levels: by_stage(), first: FirstStage::Absent },
            Scheme::DisableEnable { merged } => {
                let first = if *merged { FirstStage::Serves } else { FirstStage::Interrupts };
                Self::Stages { work, levels: by_stage(), first }
            }
            // If dropped packets raise no interrupts, services after a loss run uninterrupted, which the transform
            // ignores.
            Scheme::Interrupt { drops_interrupt } if *drops_interrupt || loss < 1e-6 => {
                let fold = |level: usize| {
                    weighted(level).enumerate().fold([0.0; 2], |mut sums, (phase, weight)| {
                        sums[phase % 2] += weight;
                        sums
                    })
                };
                Self::Interrupted { modulated, source, levels: scaled(levels.map(fold).collect()) }
            }
            Scheme::Napi(own) => {
                let stages = modulated.chain.roles.len();
                let mut weights = vec![0.0; solution.levels() * stages];
                for level in levels {
                    weighted(level).enumerate().for_each(|(phase, w)| weights[level * stages + phase / 2] += w);
                }
                Self::Napi { work, found: napi::found(work, own, &Stationary::normalised(stages, weights)) }
            }
            _ => return None,
        })
    }

    /// E[e^(-z T)] of the latency T.
    pub fn transform(&self, z: Complex64) -> Complex64 {
        match self {
            Self::Stages { work, levels, first } => stages(work, levels, *first, z),
            Self::Interrupted { modulated, source, levels } => interrupted(modulated, *source, levels, z),
            Self::Napi { work, found } => found.transform(work, z),
        }
    }
}

/// The weights divided by their sum.
fn scaled(mut levels: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    let total: f64 = levels.iter().flatten().sum();
    levels.iter_mut().flatten().for_each(|weight| *weight /= total);
    levels
}

fn stages(work: &Work, levels: &[[f64; 2]], first: FirstStage, z: Complex64) -> Complex64 {
    let service = exponential(z, work.service_s);
    let interrupt_s = work.mask_s + work.interrupt_s;
    // A packet that finds n packets in the first stage has the transform below x service^(n + 1). If the ring is idle,
    // the packet starts its own first stage; if that stage serves, n = 0 has one service less than the formula.
    let (idle, before) = match first {
        FirstStage::Absent => (service, Complex64::new(1.0, 0.0)),
        FirstStage::Interrupts => {
            let first = exponential(z, interrupt_s);
            (first * service, first)
        }
        FirstStage::Serves => {
            let first = exponential(z, interrupt_s + work.service_s);
            (first, first / service)
        }
    };
    let mut ahead = service * service;
    let mut sum = idle * (levels[0][0] + levels[0][1]);
    for [in_first, serving] in &levels[1..] {
        sum += ahead * (before * *in_first + serving);
        ahead *= service;
    }
    sum
}

type Square = [[Complex64; 2]; 2];

/// Computes rate x (z + rate + leaving - switches)^-1, the transform of an exponential time, by the source's state at
/// its beginning and end. `extra` is added to the matrix before inversion.
fn stage(source: Source, rate: f64, extra: Square, z: Complex64) -> Square {
    let [quiet, busy] = source.leaving;
    let a = z + rate + quiet + extra[0][0];
    let b = extra[0][1] - quiet;
    let c = extra[1][0] - busy;
    let d = z + rate + busy + extra[1][1];
    let scale = rate / (a * d - b * c);
    [[d * scale, -b * scale], [-c * scale, a * scale]]
}

/// Transform of the latency: an ISR (a new one, or the rest of the running one), then n + 1 services, each interrupted
/// by all arrivals.
fn interrupted(modulated: &Modulated<'_>, source: Source, levels: &[[f64; 2]], z: Complex64) -> Complex64 {
    let work = modulated.work;
    let zero = Complex64::new(0.0, 0.0);
    let isr = stage(source, work.stage_rate(work.interrupt_s), [[zero; 2]; 2], z);
    // Arrivals interrupt a service at the state's rate; the service continues after their ISR: Lambda (1 - ISR).
    let (quiet, busy) = (modulated.rates[0], modulated.rates[1]);
    let met = [[quiet * (1.0 - isr[0][0]), -quiet * isr[0][1]], [-busy * isr[1][0], busy * (1.0 - isr[1][1])]];
    let service = stage(source, work.service_pps(), met, z);
    let times = |m: &Square, v: [Complex64; 2]| [m[0][0] * v[0] + m[0][1] * v[1], m[1][0] * v[0] + m[1][1] * v[1]];
    let mut ahead = [Complex64::new(1.0, 0.0); 2];
    let mut sum = [zero; 2];
    // Sum of weight x ISR x service^(n + 1) x 1, with the ISR factored out to the left; weights are by the state that
    // the arrival finds.
    for [in_quiet, in_busy] in levels {
        ahead = times(&service, ahead);
        let all = times(&isr, ahead);
        sum = [sum[0] + all[0] * *in_quiet, sum[1] + all[1] * *in_busy];
    }
    sum[0] + sum[1]
}
