//! Places where replications are computed: by whoever Python asks, and here for a limited time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use netcliff_core::Point;
use netcliff_sim::{Executor, Filled, ReplicationRequest};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors::Fault;

/// Bytes that are no order, or no answer to one.
pub(crate) fn damaged(error: postcard::Error) -> Fault {
    Fault::usage(format!("is no part of a sweep of this version: {error}"))
}

/// Arrivals of a part of an order: some hundredths of a second, well above what its way takes, to some seconds.
const FEWEST_PACKETS: u64 = 500_000;
const MOST_PACKETS: u64 = 50_000_000;

/// A function of Python has them computed.
pub(crate) struct Asked {
    /// Takes a list of orders as bytes, returns a list of what fills them.
    pub fetch: Py<PyAny>,
    /// Workers' threads: an order is cut into two parts for each.
    pub threads: u64,
    /// What it raised.
    pub raised: Mutex<Option<String>>,
}

impl Asked {
    fn ask(&self, order: &ReplicationRequest) -> Result<Vec<Filled>, Fault> {
        let each = (order.packets() / self.threads.saturating_mul(2).max(1)).clamp(FEWEST_PACKETS, MOST_PACKETS);
        let bytes = |part: ReplicationRequest| postcard::to_allocvec(&part).map_err(damaged);
        let orders: Vec<Vec<u8>> = order.parts(each).map(bytes).collect::<Result<_, _>>()?;
        let filled: Vec<Vec<u8>> = Python::attach(|py| {
            let orders = PyList::new(py, orders.iter().map(|order| PyBytes::new(py, order)))?;
            self.fetch.call1(py, (orders,))?.extract(py)
        })
        .map_err(|error: PyErr| Fault::Failed(error.to_string()))?;
        filled.iter().map(|bytes| postcard::from_bytes(bytes).map_err(damaged)).collect()
    }
}

impl Executor for Asked {
    fn fetch(&self, _: &Point, _: u64, order: &ReplicationRequest) -> Option<Vec<Filled>> {
        let told = self.ask(order);
        if let Err(Fault::Usage(why) | Fault::Failed(why)) = &told {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
        }
        told.ok()
    }
}

/// This machine, until a time.
pub(crate) struct Until(Instant);

impl Until {
    pub(crate) fn from_now(limit: Duration) -> Self {
        let now = Instant::now();
        // Longer than the clock counts is for ever.
        Self(now.checked_add(limit).unwrap_or(now + Duration::from_secs(1 << 30)))
    }
}

/// Arrivals between two looks at the clock: a tenth of a second.
const LOOK_PACKETS: u64 = 2_000_000;

impl Executor for Until {
    fn fetch(&self, point: &Point, seed: u64, order: &ReplicationRequest) -> Option<Vec<Filled>> {
        let fill = |part: ReplicationRequest| (Instant::now() < self.0).then(|| part.fill(point, seed));
        order.parts(LOOK_PACKETS).map(fill).collect()
    }
}
