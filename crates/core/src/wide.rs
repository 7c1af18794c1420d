//! Loops compiled for wider vectors, selected at run time: the simulator's random numbers and the model's chains. All
//! versions give the same bits (tests of both compare them), because Rust never fuses multiplication and addition, and
//! sums keep their order.

/// The vector instructions to use, among those that this machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width(Set);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    /// Instructions that every machine of the target has.
    Base,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Work that benefits from wide vectors. `run`, and functions that its loops call, must be `#[inline(always)]`.
pub trait Work {
    /// The result.
    type Output;
    /// Does the work.
    fn run(self) -> Self::Output;
}

impl Width {
    /// Instructions that every machine of the target has.
    pub const BASE: Self = Self(Set::Base);

    /// The widest instructions of this machine.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                return Self(Set::Avx512);
            }
            if is_x86_feature_detected!("avx2") {
                return Self(Set::Avx2);
            }
        }
        Self::BASE
    }

    /// All instruction sets of this machine, narrowest vectors first.
    pub fn all() -> Vec<Self> {
        let mut widths = vec![Self::BASE];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            widths.push(Self(Set::Avx2));
        }
        if !widths.contains(&Self::detect()) {
            widths.push(Self::detect());
        }
        widths
    }

    /// Does the work with these instructions.
    pub fn run<W: Work>(self, work: W) -> W::Output {
        match self.0 {
            Set::Base => work.run(),
            // SAFETY: a `Width` of this kind is made only if the machine has the features.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { run_avx2(work) },
            // SAFETY: a `Width` of this kind is made only if the machine has the features.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { run_avx512(work) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn run_avx512<W: Work>(work: W) -> W::Output {
    work.run()
}
