//! RFC 2544's tests other than throughput, as pure functions of a function that makes a trial.
//!
//! - [`loss_curve`]: frame loss rate (RFC 2544 26.3), from the highest load down to two trials in a row without loss,
//!   or to a thousandth of the highest load.
//! - [`back_to_back`]: the longest burst without loss (RFC 9004), repeated, and the buffer time that follows from it,
//!   corrected for the frames that the device forwards during the burst.
//! - [`latency`]: RFC 2544's mean, and RFC 8219's typical and worst case, from repeated trials.

use crate::missing::MissingFigure;
use crate::tester::stamps::{Absent, Stamps};
use netcliff_core::stream::Spread;
use serde::{Deserialize, Serialize};

use netcliff_mlrsearch::trial::{Answer, Trial};

/// Frame loss at decreasing loads (RFC 2544, section 26.3).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossCurve {
    /// Valid trials, in order of decreasing load.
    pub trials: Vec<Trial>,
    /// Loads of the void trials, in which the sender or the sink did not keep up (pps).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub void_pps: Vec<f64>,
    /// True if two trials in a row lost no frame; otherwise the curve goes down to the lowest load, unless an error
    /// ended it.
    pub clean: bool,
}

impl LossCurve {
    /// Whether no frame of any valid trial was forwarded, or no trial was valid.
    pub fn nothing_came(&self) -> bool {
        self.trials.iter().all(|trial| trial.lost >= trial.sent)
    }

    /// What the curve lacks.
    pub fn missing(&self) -> Vec<MissingFigure> {
        let end = match self {
            _ if self.clean => None,
            _ if self.trials.is_empty() => Some("the sender reached no load: nothing is known of the device"),
            _ if self.nothing_came() => {
                Some("not one frame came through: does the device forward, and is it addressed (--device-mac)?")
            }
            _ => Some("no two trials in a row were without loss, down to a thousandth of the highest load"),
        };
        let void = match self.void_pps.len() {
            0 => None,
            1 => Some("1 load is void: the sender or the sink did not keep up".to_owned()),
            loads => Some(format!("{loads} loads are void: the sender or the sink did not keep up")),
        };
        end.map(str::to_owned).into_iter().chain(void).map(|why| MissingFigure::new("loss", why)).collect()
    }
}

/// Lowest load of a curve as a share of its highest load.
const LOWEST_SHARE: f64 = 1e-3;

/// Loads of a curve as shares of its highest load: down in steps, then by halves (RFC 2544 permits finer steps).
fn shares(step: f64) -> Vec<f64> {
    let steps = (1.0 / step).ceil().max(1.0) as u32;
    let mut shares: Vec<f64> = (0..steps).map(|at| 1.0 - f64::from(at) * step).collect();
    // If `step` divides 1, rounding may leave a tiny share at the end, which is removed.
    shares.retain(|share| *share > step * 1e-6);
    let last = shares.last().copied().unwrap_or(1.0);
    shares.extend((1..).map(|halves| last * 0.5_f64.powi(halves)).take_while(|share| *share > LOWEST_SHARE));
    if last > LOWEST_SHARE * 1.000_001 {
        shares.push(LOWEST_SHARE);
    }
    shares
}

/// Measures the loss at loads from `max_pps` down in steps of `step` times `max_pps` (RFC 2544: at most 0.1), and below
/// the last step by halves. Ends when two trials in a row lose nothing or a thousandth of `max_pps` is reached. An
/// error of `ask` also ends the curve, which then has the trials before the error.
pub fn loss_curve<E>(
    max_pps: f64,
    step: f64,
    trial_s: f64,
    ask: &mut dyn FnMut(f64, f64) -> Result<Answer, E>,
) -> (LossCurve, Option<E>) {
    let mut curve = LossCurve::default();
    let mut clean = 0;
    for share in shares(step) {
        let load = max_pps * share;
        match ask(trial_s, load) {
            Err(error) => return (curve, Some(error)),
            Ok(Answer::Void { .. }) => curve.void_pps.push(load),
            Ok(Answer::Valid(trial)) => {
                clean = if trial.lost == 0 { clean + 1 } else { 0 };
                curve.trials.push(trial);
            }
        }
        if clean == 2 {
            curve.clean = true;
            break;
        }
    }
    (curve, None)
}

/// Result of RFC 9004's back-to-back test for one frame size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackToBack {
    /// Longest burst without loss of each repeat (frames).
    pub bursts: Vec<u64>,
    /// Mean of `bursts` (frames).
    pub mean: f64,
    /// Median, minimum and maximum of `bursts` (frames).
    pub spread: Spread,
    /// Standard deviation of `bursts` (frames); absent with fewer than two repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// Rate at which the bursts were sent (pps).
    pub burst_pps: f64,
    /// Throughput with which the buffer time is corrected (pps).
    pub throughput_pps: f64,
    /// Buffer time if the device forwarded nothing during a burst (s): `mean` / `burst_pps`.
    pub implied_buffer_s: f64,
    /// Buffer time if the device forwards at `throughput_pps` during a burst (s): `implied_buffer_s` times (1 -
    /// `throughput_pps` / `burst_pps`), RFC 9004, section 6.4.
    pub corrected_buffer_s: f64,
    /// True if `throughput_pps` is only a lower limit of the device's throughput, so that `corrected_buffer_s` is an
    /// upper limit; absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub corrected_at_most: bool,
    /// Number of repeats in which even the longest permitted burst was forwarded without loss. Above 0, the result is a
    /// lower limit.
    pub capped: u32,
}

impl BackToBack {
    /// Sets the rate at which the bursts were sent (pps), and computes the buffer times from it.
    pub fn at_rate(&mut self, burst_pps: f64) {
        self.burst_pps = burst_pps;
        self.implied_buffer_s = self.mean / burst_pps;
        self.corrected_buffer_s = self.implied_buffer_s * (1.0 - (self.throughput_pps / burst_pps).min(1.0));
    }
}

/// Bursts to search among (frames).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bursts {
    /// The longest burst that is tried.
    pub longest: u64,
    /// A search ends when the shortest burst that lost frames and the longest that lost none differ by at most this.
    pub resolution: u64,
    /// Number of searches.
    pub repeats: u32,
}

/// Searches for the longest burst without loss, in `bursts.repeats` repeats. `ask` sends a number of frames back to
/// back and returns whether all were forwarded. `None` if no burst passed. An error of `ask` ends the search; the
/// repeats before it count.
///
/// The buffer time is corrected as in RFC 9004, section 6.4: it is multiplied by one minus the ratio of throughput to
/// burst rate.
pub fn back_to_back<E>(
    bursts: Bursts,
    burst_pps: f64,
    throughput_pps: f64,
    mut ask: impl FnMut(u64) -> Result<bool, E>,
) -> (Option<BackToBack>, Option<E>) {
    let (mut found, mut ended) = (Vec::new(), None);
    let mut capped = 0;
    for _ in 0..bursts.repeats.max(1) {
        let longest = match longest_burst(bursts, &mut ask) {
            Ok(longest) => longest,
            Err(error) => {
                ended = Some(error);
                break;
            }
        };
        capped += u32::from(longest == bursts.longest);
        found.push(longest);
    }
    let values: Vec<f64> = found.iter().map(|frames| *frames as f64).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let Some(spread) = Spread::of(values.iter().copied()).filter(|spread| spread.max > 0.0) else {
        return (None, ended);
    };
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt());
    let mut result = BackToBack {
        bursts: found,
        mean,
        spread,
        deviation,
        burst_pps,
        throughput_pps,
        implied_buffer_s: 0.0,
        corrected_buffer_s: 0.0,
        corrected_at_most: false,
        capped,
    };
    result.at_rate(burst_pps);
    (Some(result), ended)
}

/// The longest burst that passes; the true value is longer by less than the resolution. 0 if no burst passed.
fn longest_burst<E>(bursts: Bursts, ask: &mut impl FnMut(u64) -> Result<bool, E>) -> Result<u64, E> {
    let (mut passed, mut failed) = (0, None);
    let mut next = bursts.longest.min(bursts.resolution.max(1) * 16);
    loop {
        if ask(next)? {
            passed = next;
        } else {
            failed = Some(next);
        }
        next = match failed {
            _ if passed >= bursts.longest => return Ok(bursts.longest),
            None => (passed * 4).min(bursts.longest),
            Some(failed) if failed - passed <= bursts.resolution.max(1) => return Ok(passed),
            Some(failed) => passed + (failed - passed) / 2,
        };
    }
}

/// Latency in one repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyRepeat {
    /// Latency of the tagged frame, as in RFC 2544 (s); with traffic both ways, the mean of the two directions.
    pub tagged_s: f64,
    /// Median latency of all frames (s): RFC 8219's typical latency.
    pub p50_s: f64,
    /// 99.9th percentile of the latency of all frames (s): RFC 8219's worst-case latency.
    pub p999_s: f64,
    /// Uncertainty of `tagged_s` from relating the clocks of both ends (s); absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty_s: Option<f64>,
    /// Latency of the tagged frame from just before it was written (s); absent if `tagged_s` is already by this clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_s: Option<f64>,
    /// Latency of the tagged frame by the kernel's timestamps (s); absent unless `tagged_s` is by hardware timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_s: Option<f64>,
}

impl LatencyRepeat {
    /// The tagged frame's latency by the clock `wanted` (s). `clock` is the clock of [`Self::tagged_s`].
    pub fn tagged_by(&self, wanted: Stamps, clock: Stamps) -> Option<f64> {
        match wanted {
            _ if wanted == clock => Some(self.tagged_s),
            Stamps::Application => self.application_s,
            Stamps::Kernel => self.kernel_s,
            Stamps::Hardware => None,
        }
    }
}

/// Latency at one load, over all repeats that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Load (pps): the throughput, as RFC 2544 requires.
    pub load_pps: f64,
    /// Length of each repeat (s).
    pub trial_s: f64,
    /// The repeats that count.
    pub repeats: Vec<LatencyRepeat>,
    /// Mean latency of the tagged frames (s): the result of RFC 2544.
    pub mean_s: f64,
    /// Typical latency of RFC 8219 (s): median, minimum and maximum of `p50_s` over the repeats.
    pub typical_s: Spread,
    /// Worst-case latency of RFC 8219 (s): median, minimum and maximum of `p999_s` over the repeats.
    pub worst_s: Spread,
    /// Clock that measured the latency of the tagged frames. Typical and worst-case latency are always by the
    /// application's clock.
    #[serde(default)]
    pub clock: Stamps,
    /// Largest `uncertainty_s` of the repeats (s); absent if a repeat has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty_s: Option<f64>,
    /// Mean latency of the tagged frames from just before they were written (s), with the time that the tester itself
    /// takes to send; absent if `mean_s` is already by this clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_mean_s: Option<f64>,
    /// Mean latency of the tagged frames by the kernel's timestamps (s); absent unless `mean_s` is by hardware
    /// timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_mean_s: Option<f64>,
    /// Counts of tagged frames whose requested timestamps are missing or cannot be used; their repeats do not count.
    /// Absent for the application's clock, which needs no timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<Absent>,
}

impl Latency {
    /// Mean latency of the tagged frames by the kernel's timestamps (s), if they were requested or measured together
    /// with the hardware timestamps.
    pub fn by_kernel_s(&self) -> Option<f64> {
        if self.clock == Stamps::Kernel { Some(self.mean_s) } else { self.kernel_mean_s }
    }

    /// Number of requested timestamps that are missing. `None` for the application's clock, which needs none.
    pub fn absent_stamps(&self) -> Option<u32> {
        self.absent.map(|all| all.left + all.came + all.clock)
    }

    /// Latency that the tester itself adds to a frame (s): the time from just before the frame is written until the
    /// kernel hands it to the driver. `None` if one of these times was not measured.
    pub fn tester_share_s(&self) -> Option<f64> {
        Some(self.application_mean_s? - self.by_kernel_s()?)
    }
}

/// Summarizes the repeats. `None` without a repeat.
pub fn latency(load_pps: f64, trial_s: f64, repeats: Vec<LatencyRepeat>) -> Option<Latency> {
    let mean_s = mean(&repeats, |repeat| Some(repeat.tagged_s))?;
    let typical_s = Spread::of(repeats.iter().map(|repeat| repeat.p50_s))?;
    let worst_s = Spread::of(repeats.iter().map(|repeat| repeat.p999_s))?;
    let uncertainties: Option<Vec<f64>> = repeats.iter().map(|repeat| repeat.uncertainty_s).collect();
    Some(Latency {
        load_pps,
        trial_s,
        mean_s,
        typical_s,
        worst_s,
        clock: Stamps::Application,
        uncertainty_s: uncertainties.and_then(Spread::of).map(|spread| spread.max),
        application_mean_s: mean(&repeats, |repeat| repeat.application_s),
        kernel_mean_s: mean(&repeats, |repeat| repeat.kernel_s),
        absent: None,
        repeats,
    })
}

/// Mean over all repeats; `None` if there are no repeats or one of them lacks the value.
fn mean(repeats: &[LatencyRepeat], of: impl Fn(&LatencyRepeat) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = repeats.iter().map(of).collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests;
