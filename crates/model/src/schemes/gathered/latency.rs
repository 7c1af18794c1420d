//! The distribution of latency when busy periods begin with a gathering and an ISR, all times exponential but the
//! timer: the transform of the sojourn of an accepted packet, by where in the busy period it comes.
//!
//! A packet that comes in the gathering waits for its end, the ISR and the services of all before it and its own; one
//! that comes in the ISR for the rest of the ISR (again exponential) and the services; one that comes later for the
//! services. Of the x_n/x_0 packets a busy period that find n present, what does not come in gathering and ISR comes
//! later. Exact; the gathering's integral over the timer is by quadrature, the quantiles by [`inversion`].
//!
//! [`inversion`]: crate::queue::inversion

use crate::queue::complex;
use netcliff_core::math;
use num_complex::Complex64;

use super::Gathering;
use crate::answer::Distribution;
use crate::queue::arrivals::{ArrivalCounts, TimeShape};
use crate::queue::pieces::Pieces;
use crate::queue::quadrature::gauss_legendre;
use crate::queue::uniform::furthest;
use crate::schemes::{Work, exponential};

/// States rarer than this play no part in a quantile that is good to 1e-8.
const RARE: f64 = 1e-13;

/// e^-load is a number up to this many packets a timer; with few frames to count nothing depends on it beyond.
const MOST_LOAD: f64 = 700.0;
const FEW_FRAMES: u64 = 300;
/// Terms of the transform at the most: the quantiles then take about a second.
const MOST_TERMS: usize = 40_000;

/// What a busy period brings, by the number of packets that a newcomer finds.
pub struct Found {
    /// Packets a busy period that come in the ISR and find n.
    in_interrupt: Vec<f64>,
    /// Share of accepted packets that come later and find n.
    later: Vec<f64>,
    /// x_0: busy periods an accepted packet.
    periods: f64,
}

impl Found {
    /// `gathered[i]`: P(i + 1 present when the ISR begins); `left_behind`: x_n.
    pub fn new(gathered: &[f64], left_behind: &[f64], load_in_interrupt: f64) -> Self {
        let up = load_in_interrupt / (1.0 + load_in_interrupt);
        let mut in_interrupt = vec![0.0; left_behind.len()];
        let mut sum = 0.0;
        for (n, found) in in_interrupt.iter_mut().enumerate().skip(1) {
            sum = up * (sum + gathered.get(n - 1).copied().unwrap_or(0.0));
            *found = sum;
        }
        // In the gathering the (n+1)-th packet finds n: it comes if more than n gather.
        let mut tail = 0.0;
        let mut in_gathering: Vec<f64> = gathered
            .iter()
            .rev()
            .map(|share| {
                tail += share;
                tail
            })
            .collect();
        in_gathering.reverse();
        let periods = left_behind[0];
        let later = left_behind
            .iter()
            .enumerate()
            .map(|(n, x)| {
                let earlier = in_interrupt[n] + in_gathering.get(n).copied().unwrap_or(0.0);
                (x - periods * earlier).max(0.0)
            })
            .collect();
        Self { in_interrupt, later, periods }
    }

    /// As few numbers as do for a transform.
    fn pieces(mut self) -> Served {
        self.in_interrupt.iter_mut().for_each(|early| *early *= self.periods);
        // What weighs nothing beside the other part only takes time.
        let weight = |part: &[f64]| part.iter().sum::<f64>();
        let all = weight(&self.later) + weight(&self.in_interrupt);
        let kept = |part: &[f64]| Pieces::new(if weight(part) > RARE * all { part } else { &[] });
        Served { in_interrupt: kept(&self.in_interrupt), later: kept(&self.later) }
    }
}

/// Weights of the packets that come after the gathering, by what they find.
struct Served {
    in_interrupt: Pieces,
    later: Pieces,
}

impl Served {
    /// Transform of the part of latency that belongs to ISR and later.
    fn transform(&self, service: Complex64, interrupt: Complex64) -> Complex64 {
        service * (self.later.transform(service) + interrupt * self.in_interrupt.transform(service))
    }

    fn cost(&self) -> usize {
        self.later.cost() + self.in_interrupt.cost()
    }
}

/// The distribution; None where its transform would take too long.
pub fn latency(work: &Work, gathering: Gathering, interrupt_s: f64, found: Found, mean_s: f64) -> Option<Distribution> {
    let load = work.arrival_pps * gathering.timer_s.unwrap_or(0.0);
    if load > MOST_LOAD && gathering.frames.is_none_or(|frames| frames > FEW_FRAMES) {
        return None;
    }
    let waits = Waits::new(gathering, work.arrival_pps, work.places as usize);
    let periods = found.periods;
    let served = found.pieces();
    if served.cost() + waits.cost() > MOST_TERMS {
        return None;
    }
    let service_s = work.service_s;
    let transform = move |z: Complex64| {
        let (service, interrupt) = (exponential(z, service_s), exponential(z, interrupt_s));
        served.transform(service, interrupt) + periods * interrupt * waits.transform(z, service)
    };
    Some(Distribution::new(mean_s, transform))
}

/// How long the packets of a gathering wait for its end.
struct Waits {
    arrival_pps: f64,
    /// Frames that end it; at most the places.
    frames: usize,
    timer_s: Option<f64>,
    packet_timer_s: Option<f64>,
    drops_restart: bool,
    /// The last of `frames` ends the gathering.
    counted: bool,
    /// (time since the first packet, weight x P(n further packets by then) for n = 0, 1, ...).
    nodes: Vec<(f64, Vec<f64>)>,
}

impl Waits {
    fn new(gathering: Gathering, arrival_pps: f64, places: usize) -> Self {
        let frames = gathering.frames.map_or(places, |frames| frames.min(places as u64) as usize);
        let counted = gathering.frames.is_some_and(|counted| counted <= places as u64);
        let Some(timer_s) = gathering.timer_s else {
            let packet_timer_s = gathering.packet_timer_s;
            let drops_restart = gathering.drops_restart;
            return Self {
                arrival_pps,
                frames,
                timer_s: None,
                packet_timer_s,
                drops_restart,
                counted,
                nodes: Vec::new(),
            };
        };
        // Counted gatherings are over long before a long timer.
        let most = frames as f64;
        let end_s = if counted { timer_s.min(furthest(most) / arrival_pps) } else { timer_s };
        let nodes = gauss_legendre(end_s, 8, 16)
            .into_iter()
            .map(|(age_s, weight)| {
                let load = arrival_pps * age_s;
                // Beyond these less than RARE^2 lies.
                let frames = frames.min((load + 12.0 * load.sqrt() + 60.0) as usize);
                let counts = ArrivalCounts::new(&TimeShape::Deterministic, load, frames);
                let width = counts.above.iter().position(|p| *p < RARE * RARE).map_or(frames, |last| last + 1);
                let wanted = width.min(frames.saturating_sub(1));
                (age_s, counts.equal[..wanted].iter().map(|p| p * arrival_pps * weight).collect())
            })
            .collect();
        // Without a count the ring's places only limit who is accepted, not when the gathering ends.
        Self {
            arrival_pps,
            frames: if counted { frames } else { usize::MAX },
            timer_s: Some(timer_s),
            packet_timer_s: None,
            drops_restart: false,
            counted,
            nodes,
        }
    }

    /// Terms of a transform, roughly.
    fn cost(&self) -> usize {
        let counted = if self.timer_s.is_none() || self.frames != usize::MAX { self.frames } else { 0 };
        let nodes: usize = self.nodes.iter().map(|(_, probabilities)| probabilities.len() + counted).sum();
        nodes + counted
    }

    /// Sum over the packets of a gathering of E[e^(-z wait)] x (transform of the services until it is through).
    fn transform(&self, z: Complex64, service: Complex64) -> Complex64 {
        if let Some(packet_timer_s) = self.packet_timer_s {
            return self.by_gaps(packet_timer_s, z, service);
        }
        let further = self.arrival_pps / (self.arrival_pps + z);
        let Some(timer_s) = self.timer_s else {
            // The i-th of tau waits for tau - i more.
            let mut sum = Complex64::new(0.0, 0.0);
            let mut all = Complex64::new(1.0, 0.0);
            for _ in 0..self.frames {
                // Horner from the first packet on: sum = further x sum + service^i.
                all *= service;
                sum = sum * further + all;
            }
            return sum;
        };
        if self.frames == 1 {
            return service;
        }
        let mut sum = service * self.rest(z, timer_s, self.frames.saturating_sub(1), 1)[0];
        for (age_s, probabilities) in &self.nodes {
            // With n further packets before it, the newcomer is the (n+2)-th.
            let rests = self.rest(z, timer_s - age_s, self.frames.saturating_sub(2), probabilities.len());
            let mut services = service * service;
            for (probability, rest) in probabilities.iter().zip(rests) {
                sum += services * rest * *probability;
                services *= service;
            }
        }
        sum
    }

    /// The same where the timer starts anew with each packet: with k gathered the rest is r_k = e^-(z + lambda) P + b
    /// r_(k+1), b = lambda/(lambda + z) (1 - e^-(z + lambda) P), and none once the count is full.
    fn by_gaps(&self, timer_s: f64, z: Complex64, service: Complex64) -> Complex64 {
        let followed = -math::exp_m1(-self.arrival_pps * timer_s);
        let alone = complex::exp(-(z + self.arrival_pps) * timer_s);
        let onwards = self.arrival_pps / (self.arrival_pps + z) * (1.0 - alone);
        // Packets beyond these come too rarely to matter.
        let counts = math::ln(RARE * RARE) / math::ln(followed);
        let length = if counts.is_finite() && counts < self.frames as f64 {
            counts.ceil().max(1.0) as usize
        } else {
            self.frames
        };
        // alone / (1 - onwards), which would cancel.
        let endless = alone * (self.arrival_pps + z) / (z + self.arrival_pps * alone);
        let mut rest = match length < self.frames {
            true => endless,
            false if self.counted => Complex64::new(1.0, 0.0),
            // It restarts it: the wait goes on as if there were room.
            false if self.drops_restart => endless,
            // The ring's last place: what comes then finds it full and restarts nothing.
            false => complex::exp(-z * timer_s),
        };
        // Horner from the last packet on: sum = service x (rest + q x sum of the later ones).
        let mut sum = Complex64::new(0.0, 0.0);
        for k in (1..=length).rev() {
            if k < length {
                rest = alone + onwards * rest;
            }
            sum = service * (rest + followed * sum);
        }
        sum
    }

    /// E[e^(-z min(left, time of m more packets))] for m = `missing`, `missing` - 1, ..., `count` of them.
    fn rest(&self, z: Complex64, left_s: f64, missing: usize, count: usize) -> Vec<Complex64> {
        let by_timer = complex::exp(-z * left_s);
        if self.frames == usize::MAX {
            return vec![by_timer; count];
        }
        // With P_j = P(j come within D) and a = lambda/(lambda + z): h_m = e^(-z D) P(fewer than m come) + integral over
        // 0..D of e^(-z t) (density of the m-th), which is a^m - e^(-z D) sum over j < m of P_j a^(m-j). No term exceeds 1.
        let further = self.arrival_pps / (self.arrival_pps + z);
        let load = self.arrival_pps * left_s;
        let (mut probability, mut fewer) = (math::exp(-load), 0.0);
        let (mut power, mut came) = (Complex64::new(1.0, 0.0), Complex64::new(0.0, 0.0));
        let mut all = vec![power; missing + 1];
        for (m, rest) in all.iter_mut().enumerate() {
            *rest = power + by_timer * (fewer - came);
            fewer += probability;
            came = further * (came + probability);
            probability *= load / (m + 1) as f64;
            power *= further;
        }
        all.reverse();
        all.truncate(count);
        all
    }
}
