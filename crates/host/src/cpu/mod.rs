//! How the time of a CPU is spent, measured by one of three methods.
//!
//! | method | measures | resolution | overhead |
//! | --- | --- | --- | --- |
//! | [`Method::Ebpf`] | every class, exclusive of each other; polls and packets | nanoseconds | some tens of ns an event, measured and reported |
//! | [`Method::Procfs`] | classes as the timer tick saw them; softirq and IPI counts | 1/HZ samples, printed in 1/USER_HZ | nothing |
//! | [`Method::Soaker`] | only what is left over for others | its iteration rate, with batch means | the CPU never idles |
//!
//! Where to start: [`choose`] selects the best method that works here, and reports why better ones do not; [`CpuMeter`]
//! is their common interface; [`CpuSplit`] is the result, which names its method. [`ebpf::EbpfMeter`] also gives the
//! table of poll durations by packets that calibration uses.

mod choose;
pub mod ebpf;
pub mod heartbeat;
mod kernel_counts;
pub mod procfs;
pub mod soaker;
pub mod system;
mod types;
pub(crate) mod util;

pub use choose::{Choice, Preference, choose};
pub use types::{
    Counters, CpuMeter, CpuSplit, Estimate, MeterError, MeterSpec, Method, PollCell, PollKind, PollTable, Reception,
    Shares, Watch,
};
pub use util::switch_s;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_round_trip() {
        for method in [Method::Ebpf, Method::Procfs, Method::Soaker] {
            assert_eq!(method.to_string().parse::<Method>().unwrap(), method);
        }
        let error = "perf".parse::<Method>().unwrap_err().to_string();
        assert!(error.contains("perf") && error.contains("soaker"), "{error}");
    }

    #[test]
    fn bad_specifications_are_named() {
        let cases = [
            (vec![], vec![], "at least one CPU"),
            (vec![99_999], vec![], "99999"),
            (vec![0], vec![Watch::Process(0)], "process 0"),
            (vec![0], vec![Watch::Thread(u32::MAX)], "thread 4294967295"),
        ];
        for (cpus, watch, expected) in cases {
            for preference in [
                Preference::Best,
                Preference::Only(Method::Ebpf),
                Preference::Only(Method::Procfs),
                Preference::Only(Method::Soaker),
            ] {
                let spec = MeterSpec { cpus: cpus.clone(), watch: watch.clone() };
                let error = choose(preference, &spec).unwrap_err();
                // A build or machine without eBPF may report the missing eBPF before the expected error if only eBPF is
                // requested.
                if !matches!(error, MeterError::Unavailable { .. }) {
                    assert!(error.to_string().contains(expected), "{error}");
                }
            }
        }
    }

    #[test]
    fn quantiles_of_t() {
        assert_eq!(util::t_95(1), 12.706);
        assert!((util::t_95(40) - 2.0211).abs() < 2e-3);
        assert!((util::t_95(120) - 1.9799).abs() < 1e-3);
        assert!(util::t_95(0).is_infinite());
    }

    #[test]
    fn splits_survive_json() {
        let split = CpuSplit {
            cpu: 1,
            method: Method::Procfs,
            elapsed_s: 0.5,
            shares: Shares { idle: Some(0.25), ..Shares::default() },
            available: None,
            counters: Counters::default(),
            resolution_share: 0.02,
            overhead_share: None,
            polls: None,
            notes: vec!["Sampled.".to_owned()],
        };
        let text = serde_json::to_string(&split).unwrap();
        assert!(text.contains(r#""method":"procfs""#), "{text}");
        assert_eq!(serde_json::from_str::<CpuSplit>(&text).unwrap(), split);
    }
}
