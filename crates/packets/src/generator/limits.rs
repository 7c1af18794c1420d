//! Limits of a generator: its highest rate, and the time for which it may send without a message from the end that
//! requested it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock;

/// With a highest rate ([`super::GeneratorConfig::most_pps`]), the frames of this time may leave at any speed when the
/// generator catches up \[ns\]. Random arrivals are sometimes this far ahead of their mean rate.
pub const BUCKET_NS: u64 = 100_000_000;

/// Relative amount by which a reservation may exceed the rate that is left, because of rounding.
const ROUNDING: f64 = 1e-9;

/// The time until which a generator may send without a message from the end that requested it. Clones share this time.
#[derive(Debug, Clone, Default)]
pub struct Lease(Option<Arc<AtomicU64>>);

impl Lease {
    /// A lease that expires `length_ns` from now.
    pub fn of(length_ns: u64) -> Self {
        let lease = Self(Some(Arc::default()));
        lease.extend(length_ns);
        lease
    }

    /// Sets the lease to expire `length_ns` from now.
    pub fn extend(&self, length_ns: u64) {
        if let Some(until) = &self.0 {
            until.store(clock::monotonic_ns() + length_ns, Ordering::Relaxed);
        }
    }

    /// Whether the lease has expired at `now` [ns of `CLOCK_MONOTONIC`].
    #[inline]
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.0.as_ref().is_some_and(|until| now > until.load(Ordering::Relaxed))
    }
}

/// A highest rate, enforced by the generic cell rate algorithm (ITU-T I.371): each frame is due one gap after the
/// previous frame, and may leave [`BUCKET_NS`] before it is due. Several generators can share one limit.
#[derive(Debug)]
pub(super) struct Limit {
    gap_ns: f64,
    /// Time at which the next frame is due \[ns\], as the bits of a float.
    next_ns: AtomicU64,
}

impl Limit {
    /// A limit of `most_pps` [packets/s].
    pub(super) fn of(most_pps: f64) -> Self {
        Self { gap_ns: 1e9 / most_pps, next_ns: AtomicU64::new(0_f64.to_bits()) }
    }

    /// Claims up to `wanted` frames that leave at `now`. Returns the number granted.
    pub(super) fn claim(&self, now: u64, wanted: usize) -> usize {
        let mut granted = 0;
        self.change(|next_ns| {
            let next_ns = next_ns.max(now as f64 - BUCKET_NS as f64);
            granted = (((now as f64 - next_ns) / self.gap_ns) as usize).min(wanted);
            next_ns + granted as f64 * self.gap_ns
        });
        granted
    }

    /// Returns claimed frames that did not leave.
    pub(super) fn give_back(&self, frames: usize) {
        self.change(|next_ns| next_ns - frames as f64 * self.gap_ns);
    }

    fn change(&self, mut next: impl FnMut(f64) -> f64) {
        let change = |bits| Some(next(f64::from_bits(bits)).to_bits());
        let _ = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
}

/// The highest rate of all generators of an agent together, for each interface. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct RateLimits {
    most_pps: Option<f64>,
    interfaces: Arc<Mutex<BTreeMap<String, Shared>>>,
}

#[derive(Debug)]
struct Shared {
    limit: Arc<Limit>,
    /// Sum of the reserved rates [packets/s].
    used_pps: f64,
}

impl RateLimits {
    /// A limit of `most_pps` [packets/s] for each interface. `None`: no limit.
    pub fn of(most_pps: Option<f64>) -> Self {
        Self { most_pps, interfaces: Arc::default() }
    }

    /// The highest rate [packets/s]. `None`: no limit.
    pub fn most_pps(&self) -> Option<f64> {
        self.most_pps
    }

    /// Reserves `wanted_pps` at an interface for one generator. `None` if there is no limit.
    ///
    /// # Errors
    /// Less than `wanted_pps` is left; the error is the rate that is left [packets/s].
    pub fn share(&self, interface: &str, wanted_pps: f64) -> Result<Option<Arc<RateShare>>, f64> {
        let Some(most_pps) = self.most_pps else { return Ok(None) };
        // For a negative rate, which no schedule accepts, nothing is reserved.
        let wanted_pps = wanted_pps.max(0.0);
        let mut interfaces = self.interfaces.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = interfaces
            .entry(interface.to_owned())
            .or_insert_with(|| Shared { limit: Arc::new(Limit::of(most_pps)), used_pps: 0.0 });
        if shared.used_pps + wanted_pps > most_pps * (1.0 + ROUNDING) {
            return Err((most_pps - shared.used_pps).max(0.0));
        }
        shared.used_pps += wanted_pps;
        let limit = Arc::clone(&shared.limit);
        Ok(Some(Arc::new(RateShare { limit, pps: wanted_pps, interface: interface.to_owned(), of: self.clone() })))
    }
}

/// A generator's share of a common rate: the common limit, and a reservation that ends when this value is dropped.
#[derive(Debug)]
pub struct RateShare {
    pub(super) limit: Arc<Limit>,
    pps: f64,
    interface: String,
    of: RateLimits,
}

impl Drop for RateShare {
    fn drop(&mut self) {
        let mut interfaces = self.of.interfaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = interfaces.get_mut(&self.interface) {
            // Sums of fractions leave a rounding error.
            shared.used_pps = if shared.used_pps - self.pps < 1e-3 { 0.0 } else { shared.used_pps - self.pps };
        }
    }
}
