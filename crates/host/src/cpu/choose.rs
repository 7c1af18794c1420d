//! Chooses the best meter that works on this host.

use super::{
    ebpf::EbpfMeter,
    procfs::ProcfsMeter,
    soaker::SoakerMeter,
    types::{CpuMeter, MeterError, MeterSpec, Method},
};
use std::time::Duration;

/// Which meter is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// eBPF if it works, otherwise procfs. The soaker is never chosen automatically, because it changes what it
    /// measures.
    #[default]
    Best,
    /// This method, or an error.
    Only(Method),
}

impl Preference {
    /// True if a method may be chosen.
    pub fn allows(self, method: Method) -> bool {
        match self {
            Self::Best => method != Method::Soaker,
            Self::Only(only) => only == method,
        }
    }
}

/// The chosen meter.
pub struct Choice {
    /// The meter, started.
    pub meter: Box<dyn CpuMeter>,
    /// Better methods that were tried first, and why they are not available.
    pub passed_over: Vec<MeterError>,
}

impl std::fmt::Debug for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Choice").field("method", &self.meter.method()).field("passed_over", &self.passed_over).finish()
    }
}

/// Length of the soaker's calibration: 40 batches, of which the upper 10 count.
const SOAKER_CALIBRATION: Duration = Duration::from_millis(200);

/// Starts the preferred meter.
///
/// # Errors
/// A CPU or task does not exist, or none of the allowed methods works.
pub fn choose(preference: Preference, spec: &MeterSpec) -> Result<Choice, MeterError> {
    let start = |method| start(method, spec.clone());
    match preference {
        Preference::Only(method) => Ok(Choice { meter: start(method)?, passed_over: Vec::new() }),
        Preference::Best => match start(Method::Ebpf) {
            Ok(meter) => Ok(Choice { meter, passed_over: Vec::new() }),
            // Another error (a CPU that does not exist) would also make the next method fail.
            Err(error @ MeterError::Unavailable { .. }) => {
                Ok(Choice { meter: start(Method::Procfs)?, passed_over: vec![error] })
            }
            Err(error) => Err(error),
        },
    }
}

fn start(method: Method, spec: MeterSpec) -> Result<Box<dyn CpuMeter>, MeterError> {
    Ok(match method {
        Method::Ebpf => Box::new(EbpfMeter::start(spec)?),
        Method::Procfs => Box::new(ProcfsMeter::start(spec)?),
        Method::Soaker => Box::new(SoakerMeter::start(spec, SOAKER_CALIBRATION)?),
    })
}
