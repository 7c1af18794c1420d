//! Distribution of latency if busy periods begin with a gathering and an ISR, and all times except the timer are
//! exponential: the transform of an accepted packet's sojourn time, by the part of the busy period in which it arrives.
//!
//! A packet that arrives during the gathering waits for the end of the gathering, for the ISR, for the services of all
//! packets before it, and for its own service. A packet that arrives during the ISR waits for the rest of the ISR
//! (again exponential) and for the services; a later packet waits for the services only. Per busy period x_n/x_0
//! packets find n present; all that do not arrive during gathering or ISR arrive later. Exact; the gathering's integral
//! over the timer is by quadrature, the quantiles by [`inversion`].
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

/// Probability below which states have no influence on quantiles with an error of 1e-8.
const RARE: f64 = 1e-13;

/// Largest number of packets per timer for which e^-load is a normal number. With a larger load and few frames to
/// count, no result depends on the timer.
const MOST_LOAD: f64 = 700.0;
const FEW_FRAMES: u64 = 300;
/// Maximum number of terms of the transform: quantiles then take about a second.
const MOST_TERMS: usize = 40_000;

/// Packets of a busy period, by the number of packets that each finds on arrival.
pub struct Found {
    /// `[n]`: packets per busy period that arrive during the ISR and find n.
    in_interrupt: Vec<f64>,
    /// `[n]`: share of accepted packets that arrive later and find n.
    later: Vec<f64>,
    /// x_0: busy periods per accepted packet.
    periods: f64,
}

impl Found {
    /// `gathered[i]`: P(i + 1 packets present when the ISR begins); `left_behind`: x_n.
    pub fn new(gathered: &[f64], left_behind: &[f64], load_in_interrupt: f64) -> Self {
        let up = load_in_interrupt / (1.0 + load_in_interrupt);
        let mut in_interrupt = vec![0.0; left_behind.len()];
        let mut sum = 0.0;
        for (n, found) in in_interrupt.iter_mut().enumerate().skip(1) {
            sum = up * (sum + gathered.get(n - 1).copied().unwrap_or(0.0));
            *found = sum;
        }
        // During the gathering the (n+1)-th packet finds n packets: it arrives if more than n gather.
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

    /// Compresses the distributions for the transform.
    fn pieces(mut self) -> Served {
        self.in_interrupt.iter_mut().for_each(|early| *early *= self.periods);
        // A part with negligible weight only costs time, so that it is left out.
        let weight = |part: &[f64]| part.iter().sum::<f64>();
        let all = weight(&self.later) + weight(&self.in_interrupt);
        let kept = |part: &[f64]| Pieces::new(if weight(part) > RARE * all { part } else { &[] });
        Served { in_interrupt: kept(&self.in_interrupt), later: kept(&self.later) }
    }
}

/// Weights of the packets that arrive after the gathering, by the number of packets that each finds.
struct Served {
    in_interrupt: Pieces,
    later: Pieces,
}

impl Served {
    /// Transform of the latency from the start of the ISR.
    fn transform(&self, service: Complex64, interrupt: Complex64) -> Complex64 {
        service * (self.later.transform(service) + interrupt * self.in_interrupt.transform(service))
    }

    fn cost(&self) -> usize {
        self.later.cost() + self.in_interrupt.cost()
    }
}

/// Computes the distribution of latency; `None` if its transform would take too long.
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

/// Waiting times of the packets of a gathering until its end.
struct Waits {
    arrival_pps: f64,
    /// Number of frames that ends the gathering or fills the ring; `usize::MAX` for a timer without a count.
    frames: usize,
    timer_s: Option<f64>,
    packet_timer_s: Option<f64>,
    drops_restart: bool,
    /// True if reaching `frames` ends the gathering; false if it only fills the ring.
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
        // Gatherings with a count end long before a long timer.
        let most = frames as f64;
        let end_s = if counted { timer_s.min(furthest(most) / arrival_pps) } else { timer_s };
        let nodes = gauss_legendre(end_s, 8, 16)
            .into_iter()
            .map(|(age_s, weight)| {
                let load = arrival_pps * age_s;
                // More frames than this have a probability below RARE^2.
                let frames = frames.min((load + 12.0 * load.sqrt() + 60.0) as usize);
                let counts = ArrivalCounts::new(&TimeShape::Deterministic, load, frames);
                let width = counts.above.iter().position(|p| *p < RARE * RARE).map_or(frames, |last| last + 1);
                let wanted = width.min(frames.saturating_sub(1));
                (age_s, counts.equal[..wanted].iter().map(|p| p * arrival_pps * weight).collect())
            })
            .collect();
        // Without a count, the ring's places limit the number of accepted packets, but not the length of the gathering.
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

    /// Approximate number of terms of one evaluation of the transform.
    fn cost(&self) -> usize {
        let counted = if self.timer_s.is_none() || self.frames != usize::MAX { self.frames } else { 0 };
        let nodes: usize = self.nodes.iter().map(|(_, probabilities)| probabilities.len() + counted).sum();
        nodes + counted
    }

    /// Sum over the packets of a gathering of E[e^(-z wait)] x (transform of the services until the packet has been
    /// served).
    fn transform(&self, z: Complex64, service: Complex64) -> Complex64 {
        if let Some(packet_timer_s) = self.packet_timer_s {
            return self.by_gaps(packet_timer_s, z, service);
        }
        let further = self.arrival_pps / (self.arrival_pps + z);
        let Some(timer_s) = self.timer_s else {
            // The i-th of tau packets waits for tau - i more packets.
            let mut sum = Complex64::new(0.0, 0.0);
            let mut all = Complex64::new(1.0, 0.0);
            for _ in 0..self.frames {
                // Horner scheme from the first packet on: sum = further x sum + service^i.
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
            // If n further packets came before it, the new packet is the (n+2)-th.
            let rests = self.rest(z, timer_s - age_s, self.frames.saturating_sub(2), probabilities.len());
            let mut services = service * service;
            for (probability, rest) in probabilities.iter().zip(rests) {
                sum += services * rest * *probability;
                services *= service;
            }
        }
        sum
    }

    /// The same sum for a timer P that each packet restarts. With k packets gathered, the rest of the wait has the
    /// transform r_k = e^-(z + lambda) P + b r_(k+1), b = lambda/(lambda + z) (1 - e^-(z + lambda) P); r_k = 1 once the
    /// count is reached.
    fn by_gaps(&self, timer_s: f64, z: Complex64, service: Complex64) -> Complex64 {
        let followed = -math::exp_m1(-self.arrival_pps * timer_s);
        let alone = complex::exp(-(z + self.arrival_pps) * timer_s);
        let onwards = self.arrival_pps / (self.arrival_pps + z) * (1.0 - alone);
        // The probability of more packets than this is negligible.
        let counts = math::ln(RARE * RARE) / math::ln(followed);
        let length = if counts.is_finite() && counts < self.frames as f64 {
            counts.ceil().max(1.0) as usize
        } else {
            self.frames
        };
        // alone / (1 - onwards), written without cancellation.
        let endless = alone * (self.arrival_pps + z) / (z + self.arrival_pps * alone);
        let mut rest = match length < self.frames {
            true => endless,
            false if self.counted => Complex64::new(1.0, 0.0),
            // A dropped packet restarts the timer: the wait continues as if the ring had space.
            false if self.drops_restart => endless,
            // The packet took the ring's last place: later packets find the ring full and do not restart the timer.
            false => complex::exp(-z * timer_s),
        };
        // Horner scheme from the last packet on: sum = service x (rest + q x sum of the later ones).
        let mut sum = Complex64::new(0.0, 0.0);
        for k in (1..=length).rev() {
            if k < length {
                rest = alone + onwards * rest;
            }
            sum = service * (rest + followed * sum);
        }
        sum
    }

    /// E[e^(-z min(left, time until m more packets))] for `count` values of m: `missing`, `missing` - 1, ...
    fn rest(&self, z: Complex64, left_s: f64, missing: usize, count: usize) -> Vec<Complex64> {
        let by_timer = complex::exp(-z * left_s);
        if self.frames == usize::MAX {
            return vec![by_timer; count];
        }
        // With P_j = P(j packets within D) and a = lambda/(lambda + z): h_m = e^(-z D) P(fewer than m packets) +
        // integral over 0..D of e^(-z t) (density of the m-th), which is a^m - e^(-z D) sum over j < m of P_j a^(m-j).
        // No term exceeds 1.
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
