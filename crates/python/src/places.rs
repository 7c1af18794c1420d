//! Executors of replications: [`Asked`] calls a Python function, [`Until`] computes on this machine for a limited time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use netcliff_core::Point;
use netcliff_sim::{Executor, Filled, ReplicationRequest};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors::Fault;

/// Makes the error for bytes that are not a request for replications, or not an answer to one.
pub(crate) fn damaged(error: postcard::Error) -> Fault {
    Fault::usage(format!("is no part of a sweep of this version: {error}"))
}

/// Smallest number of arrivals in a part of a request. Such a part takes some hundredths of a second to compute, much
/// longer than to send. [`MOST_PACKETS`] is the largest number, some seconds.
const FEWEST_PACKETS: u64 = 500_000;
const MOST_PACKETS: u64 = 50_000_000;

/// Executor that passes requests to a Python function, which has them computed elsewhere.
pub(crate) struct Asked {
    /// The function: takes a list of requests as bytes, returns the list of answers as bytes.
    pub fetch: Py<PyAny>,
    /// Number of threads of all workers: a request is split into two parts per thread.
    pub threads: u64,
    /// Message of the error that the function raised; `None` if it raised no error.
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
        let reply = self.ask(order);
        if let Err(Fault::Usage(why) | Fault::Failed(why)) = &reply {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
        }
        reply.ok()
    }
}

/// Executor that computes on this machine until a time.
pub(crate) struct Until(Instant);

impl Until {
    pub(crate) fn from_now(limit: Duration) -> Self {
        let now = Instant::now();
        // If the clock cannot represent the sum, 2^30 s from now (34 years) serve as no limit.
        Self(now.checked_add(limit).unwrap_or(now + Duration::from_secs(1 << 30)))
    }
}

/// Arrivals computed between two checks of the clock: about a tenth of a second.
const LOOK_PACKETS: u64 = 2_000_000;

impl Executor for Until {
    fn fetch(&self, point: &Point, seed: u64, order: &ReplicationRequest) -> Option<Vec<Filled>> {
        let fill = |part: ReplicationRequest| (Instant::now() < self.0).then(|| part.fill(point, seed));
        order.parts(LOOK_PACKETS).map(fill).collect()
    }
}
