//! The exact CPU meter of the far end's host, run by the agent during a test.

use netcliff_host::cpu::ebpf::EbpfMeter;
use netcliff_host::cpu::{CpuMeter, CpuSplit, MeterError, MeterSpec, Watch};
use netcliff_host::inventory::Inventory;
use serde::{Deserialize, Serialize};

/// Memory of a meter while it runs, and while the kernel's type information is read for it (bytes).
pub const FAR_METER_BYTES: u64 = 24 << 20;

/// CPU use of the far end's host by the exact meter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FarCpu {
    /// Each CPU over the far end's windows, by eBPF. The application is the agent.
    Exact(Vec<CpuSplit>),
    /// The meter is not available, with the reason.
    NotAvailable(String),
}

impl FarCpu {
    /// CPU use for each CPU. Empty without a meter.
    pub fn splits(&self) -> &[CpuSplit] {
        match self {
            Self::Exact(splits) => splits,
            Self::NotAvailable(_) => &[],
        }
    }

    /// Explains why nothing was measured, as a line for the report. `None` if something was measured.
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Exact(_) => None,
            Self::NotAvailable(why) => Some(format!("exact CPU shares of the far end's host: not available: {why}")),
        }
    }
}

/// A meter of all CPUs of this host for the duration of a test, or the reason why there is none.
#[derive(Debug)]
pub struct FarMeter(Result<Box<EbpfMeter>, String>);

impl FarMeter {
    /// Starts the meter, which takes about a tenth of a second.
    pub fn start() -> Self {
        let cpus = Inventory::of_this_host().cpu.online.iter().map(|cpu| *cpu as usize).collect();
        let spec = MeterSpec { cpus, watch: vec![Watch::Process(std::process::id())] };
        let meter = EbpfMeter::start(spec);
        Self(meter.map(Box::new).map_err(reason))
    }

    /// Starts an interval.
    pub fn mark(&mut self) {
        let failed = self.0.as_mut().ok().and_then(|meter| meter.mark().err());
        if let Some(error) = failed {
            self.0 = Err(error.to_string());
        }
    }

    /// Reads the CPU use since the mark, without the parts that would make a message long.
    pub fn read(&mut self) -> FarCpu {
        let splits = match &mut self.0 {
            Ok(meter) => meter.read().map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        let short = |split: CpuSplit| CpuSplit { polls: None, notes: Vec::new(), ..split };
        splits.map_or_else(FarCpu::NotAvailable, |splits| FarCpu::Exact(splits.into_iter().map(short).collect()))
    }
}

/// Explains why there is no meter. The caller names the method.
fn reason(error: MeterError) -> String {
    match error {
        MeterError::Unavailable { reason, .. } => reason,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_split_or_the_reason_told() {
        let mut meter = FarMeter::start();
        meter.mark();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let found = meter.read();
        let back: FarCpu = serde_json::from_str(&serde_json::to_string(&found).expect("JSON")).expect("what was sent");
        assert_eq!(back.splits().len(), found.splits().len());
        match found {
            FarCpu::Exact(splits) => {
                assert!(splits.iter().all(|split| (split.shares.sum() - 1.0).abs() < 0.02), "{splits:?}");
            }
            FarCpu::NotAvailable(why) => {
                assert!(!why.is_empty());
                let line = FarCpu::NotAvailable(why).refusal().expect("a reason");
                assert!(line.contains("not available"), "{line}");
            }
        }
    }
}
