//! [`Draw`]: a stream of service times in clock ticks, drawn in blocks.

use netcliff_core::Service;
use netcliff_core::host::MeasuredTimes;
use netcliff_core::math;

use crate::clock::to_ticks;
use crate::random::{BLOCK, Purpose, Stream};

/// Fills a block with numbers of mean 1 and the distribution of `service`.
pub(crate) fn unit_block(stream: &mut Stream, service: &Service, out: &mut [f64; BLOCK]) {
    match service {
        Service::Exponential => stream.exponential(out),
        Service::Deterministic => out.fill(1.0),
        Service::Lognormal { cv } => {
            let variance = math::ln_1p(cv * cv);
            let sigma = variance.sqrt();
            stream.normal(out);
            out.iter_mut().for_each(|x| *x = math::exp(sigma * *x - variance / 2.0));
        }
        Service::Erlang { stages } => {
            let mut stage = [0.0; BLOCK];
            out.fill(0.0);
            for _ in 0..*stages {
                stream.exponential(&mut stage);
                out.iter_mut().zip(&stage).for_each(|(x, part)| *x += part);
            }
            out.iter_mut().for_each(|x| *x /= f64::from(*stages));
        }
        Service::Hyperexponential { cv } => {
            let [(often, short), (_, long)] = Service::balanced_phases(*cv);
            let mut which = [0.0; BLOCK];
            stream.uniform(&mut which);
            stream.exponential(out);
            out.iter_mut().zip(&which).for_each(|(x, u)| *x *= if *u < often { short } else { long });
        }
        Service::Empirical(empirical) => match &empirical.times {
            Some(times) => measured_block(stream, times, out),
            // Not reached: such a point is refused earlier.
            None => out.fill(1.0),
        },
    }
}

fn measured_block(stream: &mut Stream, times: &MeasuredTimes, out: &mut [f64; BLOCK]) {
    stream.uniform(out);
    out.iter_mut().for_each(|x| *x = times.pick(*x));
}

/// Fills a block with times of mean `mean_ticks` and the distribution of `service`.
pub(crate) fn ticks_block(stream: &mut Stream, service: &Service, mean_ticks: f64, out: &mut [u64; BLOCK]) {
    if *service == Service::Exponential {
        return stream.exponential_ticks(mean_ticks, out);
    }
    let mut units = [0.0; BLOCK];
    unit_block(stream, service, &mut units);
    out.iter_mut().zip(&units).for_each(|(ticks, unit)| *ticks = to_ticks(unit * mean_ticks));
}

/// One kind of service time with its own stream.
#[derive(Debug)]
pub(crate) struct Draw {
    stream: Stream,
    service: Service,
    mean_ticks: f64,
    block: Box<[f64; BLOCK]>,
    next: usize,
}

impl Draw {
    /// Times of mean `mean_ticks` with the distribution of `service`.
    pub(crate) fn new(seed: u64, purpose: Purpose, replication: u64, service: &Service, mean_ticks: f64) -> Self {
        let stream = Stream::new(seed, purpose, replication);
        Self { stream, service: service.clone(), mean_ticks, block: Box::new([0.0; BLOCK]), next: BLOCK }
    }

    /// Returns the next time, with the mean given at construction [ticks].
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.next_of_mean(self.mean_ticks)
    }

    /// Returns the next time, with the mean `mean_ticks`. If the mean is 0, no random number is drawn.
    #[inline]
    pub(crate) fn next_of_mean(&mut self, mean_ticks: f64) -> u64 {
        if mean_ticks == 0.0 {
            return 0;
        }
        if self.next == BLOCK {
            unit_block(&mut self.stream, &self.service, &mut self.block);
            self.next = 0;
        }
        let unit = self.block[self.next];
        self.next += 1;
        to_ticks(unit * mean_ticks)
    }

    /// Puts the last time back into the stream, so that the next call yields it again.
    pub(crate) fn give_back(&mut self) {
        if self.mean_ticks > 0.0 {
            self.next -= 1;
        }
    }

    /// Squared coefficient of variation: variance over squared mean.
    pub(crate) fn squared_cv(&self) -> f64 {
        match &self.service {
            Service::Exponential => 1.0,
            Service::Deterministic => 0.0,
            Service::Lognormal { cv } | Service::Hyperexponential { cv } => cv * cv,
            Service::Erlang { stages } => 1.0 / f64::from(*stages),
            Service::Empirical(_) => {
                let parts = self.service.measured().map_or(&[][..], MeasuredTimes::parts);
                parts.iter().map(|(time, share)| share * (time - 1.0).powi(2)).sum()
            }
        }
    }

    /// The mean [ticks].
    pub(crate) fn mean_ticks(&self) -> f64 {
        self.mean_ticks
    }
}

/// The same times as [`Draw::next`] returns, computed in advance.
#[derive(Debug)]
pub(crate) struct Times {
    stream: Stream,
    service: Service,
    mean_ticks: f64,
    ready: Vec<u64>,
    next: usize,
}

impl Times {
    /// Times of mean `mean_ticks` with the distribution of `service`.
    pub(crate) fn new(seed: u64, purpose: Purpose, replication: u64, service: &Service, mean_ticks: f64) -> Self {
        let stream = Stream::new(seed, purpose, replication);
        Self { stream, service: service.clone(), mean_ticks, ready: Vec::new(), next: 0 }
    }

    /// Returns at least the next `count` times, without consuming them. Call [`Times::took`] with the number of times
    /// that were used.
    #[inline]
    pub(crate) fn ahead(&mut self, count: usize) -> &[u64] {
        while self.ready.len() - self.next < count {
            self.refill();
        }
        &self.ready[self.next..]
    }

    #[inline(never)]
    fn refill(&mut self) {
        self.ready.drain(..self.next);
        self.next = 0;
        let mut block = [0; BLOCK];
        if self.mean_ticks > 0.0 {
            ticks_block(&mut self.stream, &self.service, self.mean_ticks, &mut block);
        }
        self.ready.extend(block);
    }

    /// Consumes the next `count` times.
    #[inline]
    pub(crate) fn took(&mut self, count: usize) {
        self.next += count;
    }

    /// The next time.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let time = self.ahead(1)[0];
        self.took(1);
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_made_ahead_are_those_drawn_one_by_one() {
        for (service, mean) in
            [(Service::Exponential, 3e6), (Service::Erlang { stages: 2 }, 3e6), (Service::Exponential, 0.0)]
        {
            let mut draw = Draw::new(4, Purpose::Interrupt, 1, &service, mean);
            let mut times = Times::new(4, Purpose::Interrupt, 1, &service, mean);
            for n in 0..1000 {
                let ahead = times.ahead(n % 300).to_vec();
                times.took(n % 7 * usize::from(n % 300 > 7));
                let mut expected = (0..n % 7 * usize::from(n % 300 > 7)).map(|_| draw.next());
                assert!(ahead.iter().zip(expected.by_ref()).all(|(time, drawn)| *time == drawn));
                assert_eq!(times.next(), draw.next());
            }
        }
    }

    fn measured(times: &[(f64, f64)]) -> Service {
        Service::from_times("made", times.to_vec()).unwrap()
    }

    /// Seed 11, 100 000 draws of each distribution: mean and squared coefficient of variation are within 4 standard
    /// errors.
    #[test]
    fn shapes_have_their_mean_and_variance() {
        for (service, scv, fourth) in [
            (Service::Exponential, 1.0, 9.0),
            (Service::Deterministic, 0.0, 0.0),
            (Service::Lognormal { cv: 0.5 }, 0.25, 1.0),
            (Service::Erlang { stages: 4 }, 0.25, 0.4),
            (Service::Hyperexponential { cv: 2.0 }, 4.0, 350.0),
            (measured(&[(0.0, 1.0), (1.0, 7.0), (3.0, 2.0)]), 25.0 / 1.69 / 10.0 - 1.0, 0.5),
        ] {
            let mut draw = Draw::new(11, Purpose::Protocol, 0, &service, 1e6);
            let n = 100_000;
            let xs: Vec<f64> = (0..n).map(|_| draw.next() as f64 / 1e6).collect();
            let mean = xs.iter().sum::<f64>() / f64::from(n);
            assert!((draw.squared_cv() - scv).abs() < 1e-12, "{service}: {}", draw.squared_cv());
            let variance = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
            assert!((mean - 1.0).abs() <= 4.0 * (scv / f64::from(n)).sqrt(), "{service}: mean {mean}");
            assert!((variance - scv).abs() <= 4.0 * (fourth / f64::from(n)).sqrt(), "{service}: variance {variance}");
        }
    }
}
