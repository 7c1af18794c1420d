//! [`Arrivals`]: the arrival process.

use std::sync::Arc;

use crate::bounds;
use crate::capture::{self, Capture};
use crate::error::{Invalid, ParseError};
use crate::params::{self, Params};
use crate::units;

/// The arrival process.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Poisson batches of a fixed size.
    Batch {
        /// Packets per batch.
        size: u32,
    },
    /// Two-state Markov-modulated Poisson process.
    Mmpp {
        /// Rate in the busy state divided by the mean rate.
        peak: f64,
        /// Share of time in the busy state.
        busy: f64,
        /// Mean duration of the busy state (s).
        stay_s: f64,
    },
    /// Superposition of Pareto ON/OFF sources that send at link speed.
    OnOff(OnOff),
    /// A random part of another process: each packet is kept with a fixed probability, independently of the others, as
    /// RSS does for one queue. The offered load is the load of the kept packets.
    Thinned {
        /// Probability that a packet is kept.
        keep: f64,
        /// The other process.
        of: Box<Arrivals>,
    },
    /// Arrivals of a capture file, repeated or once, with times scaled to the offered load.
    Trace {
        /// pcap or pcapng file.
        file: String,
        /// Factor by which the capture is replayed faster than it was recorded; used if no load is given.
        speed: Option<f64>,
        /// True: the capture is read once from start to end. False: it is repeated.
        once: bool,
        /// Its packets; None while it has not been read.
        capture: Option<Arc<Capture>>,
    },
}

/// Most ON/OFF sources: each needs memory.
const MOST_SOURCES: u32 = 1 << 20;
/// Smallest share of time in the busy state of MMPP.
const LEAST_BUSY: f64 = 1e-6;

/// N superposed ON/OFF sources whose periods are Pareto distributed (Salah et al. 2007, section 5.1).
#[derive(Debug, Clone, PartialEq)]
pub struct OnOff {
    /// N: number of sources.
    pub sources: u32,
    /// Pareto shape of ON periods.
    pub alpha_on: f64,
    /// Pareto shape of OFF periods.
    pub alpha_off: f64,
    /// Shortest ON period (s).
    pub min_on_s: f64,
    /// True: sources send independently; false: they share one link.
    pub superpose: bool,
    /// True: OFF periods by the printed formula of Salah et al. (2007) for b_OFF ([`OnOff::printed_least_off_s`]), with
    /// which the actual load differs from the requested one. False: OFF periods that give the requested load.
    pub printed_off: bool,
    /// Longest period; longer ones are cut. None: no limit.
    pub cutoff_s: Option<f64>,
}

impl Default for OnOff {
    fn default() -> Self {
        Self {
            sources: 8,
            alpha_on: 1.3,
            alpha_off: 1.5,
            min_on_s: 512e-9,
            superpose: false,
            printed_off: false,
            cutoff_s: None,
        }
    }
}

impl Arrivals {
    /// Reads the capture, if the arrivals are from one that has not been read, by a call of `read` with the file's
    /// name. Other arrivals remain unchanged.
    ///
    /// # Errors
    /// Errors of `read`.
    pub fn with_capture<E>(&self, read: impl FnOnce(&str) -> Result<Arc<Capture>, E>) -> Result<Self, E> {
        match self {
            Self::Trace { file, speed, once, capture: None } => {
                let capture = Some(read(file)?);
                Ok(Self::Trace { file: file.clone(), speed: *speed, once: *once, capture })
            }
            other => Ok(other.clone()),
        }
    }
}

impl std::str::FromStr for Arrivals {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some(rest) = text.strip_prefix("trace:") {
            return trace_of(rest);
        }
        if let Some(rest) = text.strip_prefix("thinned:") {
            let form =
                || ParseError::new("arrivals", text, "expected thinned:SHARE:ARRIVALS, such as thinned:25%:constant");
            let (keep, of) = rest.split_once(':').ok_or_else(form)?;
            return Ok(Self::Thinned { keep: units::parse_share(keep)?, of: Box::new(of.parse()?) });
        }
        let (name, mut params) = Params::split("arrivals", text)?;
        let arrivals = match name {
            "poisson" => Self::Poisson,
            "constant" => Self::Constant,
            "batch" => Self::Batch { size: params.count_u32("size")?.unwrap_or(8) },
            "mmpp" => Self::Mmpp {
                peak: params.number("peak")?.unwrap_or(4.0),
                busy: params.number("busy")?.unwrap_or(0.1),
                stay_s: params.time_s("stay")?.unwrap_or(1e-3),
            },
            "onoff" => Self::OnOff(on_off(&mut params)?),
            _ => {
                return Err(ParseError::new(
                    "arrivals",
                    text,
                    "expected poisson, constant, batch:size=8, mmpp:peak=4,busy=10%,stay=1ms, onoff:sources=8 or trace:FILE",
                ));
            }
        };
        params.finish()?;
        Ok(arrivals)
    }
}

/// Parses `FILE` followed by any of `,mtu=9000`, `,speed=2` and `,once`, in any order. The name of the file may contain
/// commas and these words, too.
fn trace_of(text: &str) -> Result<Arrivals, ParseError> {
    let (mut file, mut mtu, mut speed, mut once) = (text, "", None, false);
    loop {
        if let (false, Some(name)) = (once, file.strip_suffix(",once")) {
            (file, once) = (name, true);
        } else if let (true, Some(at)) =
            (mtu.is_empty(), file.rfind(",mtu=").filter(|at| !file[at + 1..].contains(',')))
        {
            (file, mtu) = file.split_at(at);
        } else if let (None, Some((name, text))) = (speed, file.rsplit_once(",speed="))
            && !capture::is_name(file)
        {
            (file, speed) = (name, Some(speed_of(text)?));
        } else {
            // The MTU is an option of the capture's name.
            return Ok(Arrivals::Trace { file: format!("{file}{mtu}"), speed, once, capture: None });
        }
    }
}

fn speed_of(text: &str) -> Result<f64, ParseError> {
    let speed = text.parse().ok().filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| ParseError::new("trace speed", text, "expected a factor above 0, such as 2 for twice as fast"))
}

fn on_off(params: &mut Params<'_>) -> Result<OnOff, ParseError> {
    let default = OnOff::default();
    Ok(OnOff {
        sources: params.count_u32("sources")?.unwrap_or(default.sources),
        alpha_on: params.number("alpha_on")?.unwrap_or(default.alpha_on),
        alpha_off: params.number("alpha_off")?.unwrap_or(default.alpha_off),
        min_on_s: params.time_s("min_on")?.unwrap_or(default.min_on_s),
        superpose: match params.take("rule") {
            None | Some("serialise") => false,
            Some("superpose") => true,
            Some(other) => return Err(ParseError::new("arrivals `rule`", other, "expected serialise or superpose")),
        },
        printed_off: match params.take("off") {
            None | Some("scaled") => false,
            Some("printed") => true,
            Some(other) => return Err(ParseError::new("arrivals `off`", other, "expected scaled or printed")),
        },
        cutoff_s: params.time_s("cutoff")?,
    })
}

impl std::fmt::Display for Arrivals {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Poisson => write!(out, "poisson"),
            Self::Constant => write!(out, "constant"),
            Self::Batch { size } => write!(out, "batch:size={size}"),
            Self::Mmpp { peak, busy, stay_s } => {
                write!(out, "mmpp:peak={peak},busy={},stay={}", units::print_share(*busy), units::print_time_s(*stay_s))
            }
            Self::OnOff(on_off) => out.write_str(&params::print(
                "onoff",
                &[
                    ("sources", Some(on_off.sources.to_string())),
                    ("alpha_on", Some(on_off.alpha_on.to_string())),
                    ("alpha_off", Some(on_off.alpha_off.to_string())),
                    ("min_on", Some(units::print_time_s(on_off.min_on_s))),
                    ("rule", Some(if on_off.superpose { "superpose" } else { "serialise" }.to_owned())),
                    ("off", on_off.printed_off.then(|| "printed".to_owned())),
                    ("cutoff", on_off.cutoff_s.map(units::print_time_s)),
                ],
            )),
            Self::Thinned { keep, of } => write!(out, "thinned:{keep}:{of}"),
            Self::Trace { file, speed, once, .. } => {
                let speed = speed.map_or_else(String::new, |speed| format!(",speed={speed}"));
                write!(out, "trace:{file}{speed}{}", if *once { ",once" } else { "" })
            }
        }
    }
}

crate::units::serde_as_text!(Arrivals);

impl Arrivals {
    /// Number of packets of a capture that is read once; None for other arrivals.
    pub fn read_once(&self) -> Option<usize> {
        match self {
            Self::Trace { once: true, capture: Some(capture), .. } => Some(capture.packets.len()),
            _ => None,
        }
    }

    /// The capture; None for other arrivals, or if it has not been read.
    pub fn capture(&self) -> Option<&Capture> {
        match self {
            Self::Trace { capture, .. } => capture.as_deref(),
            Self::Thinned { of, .. } => of.capture(),
            _ => None,
        }
    }

    /// These arrivals with each packet kept with probability `keep`. Poisson and Markov-modulated Poisson arrivals are
    /// returned unchanged: the rest is a process of the same kind.
    #[must_use]
    pub fn thinned(&self, keep: f64) -> Self {
        match self {
            Self::Poisson | Self::Mmpp { .. } => self.clone(),
            _ if keep == 1.0 => self.clone(),
            Self::Thinned { keep: before, of } => Self::Thinned { keep: keep * before, of: of.clone() },
            other => Self::Thinned { keep, of: Box::new(other.clone()) },
        }
    }
}

impl Arrivals {
    /// Checks every number against its range.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Thinned { keep, of } => {
                if !(*keep > 0.0 && *keep <= 1.0) {
                    return Err(Invalid::new("thinned share", keep, "must be above 0 and at most 1"));
                }
                of.validate()
            }
            Self::Batch { size } => bounds::packets("batch size", u64::from(*size), "packets"),
            Self::Mmpp { peak, busy, stay_s } => {
                if !(*busy > 0.0 && *busy < 1.0) {
                    return Err(Invalid::new("mmpp busy", busy, "must be a share between 0 and 1"));
                }
                if !(*peak >= 1.0 && peak * busy <= 1.0) {
                    return Err(Invalid::new("mmpp peak", peak, "must be at least 1, and peak x busy at most 1"));
                }
                if *busy < LEAST_BUSY {
                    return Err(Invalid::new("mmpp busy", busy, "must be at least 1e-6"));
                }
                bounds::time("mmpp stay", *stay_s)
            }
            Self::OnOff(on_off) => on_off.validate(),
            _ => Ok(()),
        }
    }
}

impl OnOff {
    /// Shortest OFF period (s) by the printed formula of Salah et al. (2007, section 5.1), for sources that together
    /// load a link by `load`: b_OFF = E\[ON\] (1/rho_i - 1) (alpha_OFF - 1)/alpha_OFF, with rho_i = load/N and E\[ON\]
    /// = b_ON alpha_ON/(alpha_ON - 1). The formula ignores that an ON period sends whole frames, and any cut-off.
    /// Negative if a source would have to be ON for more than all of its time.
    pub fn printed_least_off_s(&self, load: f64) -> f64 {
        let mean_on_s = self.min_on_s * self.alpha_on / (self.alpha_on - 1.0);
        mean_on_s * (f64::from(self.sources) / load - 1.0) * (self.alpha_off - 1.0) / self.alpha_off
    }

    fn validate(&self) -> Result<(), Invalid> {
        if !(1..=MOST_SOURCES).contains(&self.sources) {
            return Err(Invalid::new("onoff sources", self.sources, format!("must be from 1 to {MOST_SOURCES}")));
        }
        for (name, alpha) in [("onoff alpha_on", self.alpha_on), ("onoff alpha_off", self.alpha_off)] {
            if !(alpha > 1.0 && alpha.is_finite()) {
                return Err(Invalid::new(name, alpha, "must be above 1, or the mean is infinite"));
            }
        }
        self.cutoff_s.map_or(Ok(()), |cutoff_s| bounds::time("onoff cutoff", cutoff_s))?;
        bounds::time("onoff min_on", self.min_on_s)
    }
}
