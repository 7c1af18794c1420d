//! RFC 2544's tests on a device: which trials are made for each frame size, and what is said of them.

use netcliff_core::stream::Spread;
use netcliff_wire::forward::stamps::{Absent, Stamps};
use netcliff_wire::latency::{Latency as Histogram, LatencyRecord};

use super::cost::Predicted;
use super::procedures::{self, Latency, LatencyRepeat};
use super::report::{Limit, LineShare, Pacing, Seen, SizeReport};
use super::search::binary::{self, Binary};
use super::search::mlr::{self, Mlr};
use super::search::{End, Searched};
use super::settings::{FrameSize, SearchBy, Settings};
use super::trial::{Answer, Range};

/// Lines whose share is reported (bit/s).
pub const LINES_BPS: [f64; 3] = [1e9, 1e10, 25e9];

/// What a device is asked: one frame size for one trial after the other.
pub trait Device {
    /// Why it cannot answer.
    type Error: std::fmt::Display;

    /// Sets the frames that follow.
    ///
    /// # Errors
    /// They cannot be sent here.
    fn frames(&mut self, frame: FrameSize) -> Result<(), Self::Error>;

    /// What the sender reaches flat out (pps, each way).
    ///
    /// # Errors
    /// Stopped, or a port went away.
    fn sender_pps(&mut self) -> Result<f64, Self::Error>;

    /// A trial of (s) at (pps, each way).
    ///
    /// # Errors
    /// Stopped, or a port went away: the trial is void.
    fn trial(&mut self, duration_s: f64, load_pps: f64) -> Result<Measured, Self::Error>;

    /// So many frames as fast as the sender can.
    ///
    /// # Errors
    /// As [`Device::trial`].
    fn burst(&mut self, frames: u64) -> Result<Burst, Self::Error>;

    /// The throughput that follows from what frames cost the device's CPU at half of the one found (pps); None where the
    /// device does not let itself be looked into.
    ///
    /// # Errors
    /// As [`Device::trial`].
    fn predict(&mut self, throughput_pps: f64) -> Result<Option<Predicted>, Self::Error> {
        let _ = throughput_pps;
        Ok(None)
    }
}

/// What a trial gave.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What the searches ask.
    pub answer: Answer,
    /// Counts of this trial.
    pub seen: Seen,
    /// How well the schedule was kept.
    pub pacing: Option<Pacing>,
    /// Latency of every frame.
    pub latency: Option<Histogram>,
    /// The frame in the middle.
    pub tagged: Tagged,
}

/// Latency of a trial's tagged frames: means over the directions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tagged {
    /// By the clock asked for (s); None: one of them was lost or lacks a stamp.
    pub latency_s: Option<f64>,
    /// How far that may be off by bringing the clocks of both ends together (s).
    pub uncertainty_s: Option<f64>,
    /// From before they were written (s), where stamps were asked for.
    pub application_s: Option<f64>,
    /// By the kernel's stamps (s), where those of hardware were asked for.
    pub kernel_s: Option<f64>,
    /// Stamps that did not come back.
    pub absent: Absent,
}

/// What a burst gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Every frame was forwarded.
    pub complete: bool,
    /// Rate at which it was sent (pps).
    pub burst_pps: f64,
}

/// Where a run stands, for whoever watches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// A frame size begins.
    Size(FrameSize),
    /// A trial ended.
    Trial {
        /// Load (pps).
        load_pps: f64,
        /// Length (s).
        duration_s: f64,
        /// What it said.
        answer: Answer,
    },
}

/// Runs every test of every size. What was had before an error is in the list.
pub fn conduct<D: Device>(
    settings: &Settings,
    device: &mut D,
    watch: &mut dyn FnMut(Step),
) -> (Vec<SizeReport>, Option<D::Error>) {
    let mut sizes = Vec::new();
    for frame in &settings.frames {
        watch(Step::Size(*frame));
        let mut size = SizeReport::new(*frame, 0.0, 0.0);
        let ended = one_size(settings, device, watch, &mut size);
        sizes.push(size);
        if let Err(error) = ended {
            return (sizes, Some(error));
        }
    }
    (sizes, None)
}

fn one_size<D: Device>(
    settings: &Settings,
    device: &mut D,
    watch: &mut dyn FnMut(Step),
    size: &mut SizeReport,
) -> Result<(), D::Error> {
    device.frames(size.frame)?;
    size.sender_pps = device.sender_pps()?;
    size.max_pps = settings.max_pps.unwrap_or(f64::INFINITY).min(SENDER_SHARE * size.sender_pps);
    let mut asker = Asker { device, watch, seen: Seen::default(), pacing: Vec::new(), last: None };
    let ended = tests(settings, &mut asker, size);
    size.seen = asker.seen;
    size.pacing = pacing(&asker.pacing);
    ended
}

/// Share of the sender's flat-out rate up to which loads are asked for: at all of it every trial would be void.
const SENDER_SHARE: f64 = 0.97;
/// Lowest load over the highest.
const LOWEST: f64 = 1e-3;

/// Asks a device and keeps count.
struct Asker<'a, D: Device> {
    device: &'a mut D,
    watch: &'a mut dyn FnMut(Step),
    seen: Seen,
    pacing: Vec<Pacing>,
    last: Option<Measured>,
}

impl<D: Device> Asker<'_, D> {
    fn ask(&mut self, duration_s: f64, load_pps: f64) -> Result<Answer, D::Error> {
        let measured = self.device.trial(duration_s, load_pps)?;
        let (seen, answer) = (&mut self.seen, measured.answer);
        seen.trials += 1;
        seen.sent += measured.seen.sent;
        seen.duplicates += measured.seen.duplicates;
        seen.reordered += measured.seen.reordered;
        seen.corrupt += measured.seen.corrupt;
        match answer {
            Answer::Void { .. } => seen.void_trials += 1,
            Answer::Valid(_) => self.pacing.extend(measured.pacing),
        }
        (self.watch)(Step::Trial { load_pps, duration_s, answer });
        self.last = Some(measured);
        Ok(answer)
    }
}

fn tests<D: Device>(settings: &Settings, asker: &mut Asker<'_, D>, size: &mut SizeReport) -> Result<(), D::Error> {
    let tests = settings.tests;
    if tests.throughput || tests.latency || tests.back_to_back {
        let searched = throughput(settings, size.max_pps, asker)?;
        say_end(searched.found[0].end, settings.max_pps, size);
        let lower = searched.found[0].lower_pps;
        size.throughput = Some(searched);
        if let Some(pps) = lower {
            size.predicted = asker.device.predict(pps)?;
        }
        size.line_shares = lower.map(|pps| line_shares(size.frame, pps)).unwrap_or_default();
    }
    if tests.latency {
        latency(settings, asker, size)?;
    }
    if tests.loss {
        let mut ask = |duration_s, load_pps| asker.ask(duration_s, load_pps);
        size.loss = Some(procedures::loss_curve(size.max_pps, settings.loss_step, settings.trial_s, &mut ask)?);
    }
    if tests.back_to_back {
        back_to_back(settings, asker, size)?;
    }
    Ok(())
}

fn throughput<D: Device>(settings: &Settings, max_pps: f64, asker: &mut Asker<'_, D>) -> Result<Searched, D::Error> {
    let (goal, range) = (settings.goal(), Range { min_pps: LOWEST * max_pps, max_pps });
    let mut ask = |duration_s, load_pps| asker.ask(duration_s, load_pps);
    match settings.search {
        SearchBy::Binary => {
            let goal = Binary { trial_s: goal.final_trial_s, loss_ratio: goal.loss_ratio, width: goal.width };
            binary::search(goal, range, &mut ask)
        }
        SearchBy::Mlr | SearchBy::MlrTypical => {
            // Noise can make a search revise its bounds for long; the binary search's time is enough for any.
            let at_most_s = Some(30.0 * goal.duration_sum_s);
            mlr::search(&Mlr { goals: vec![goal], range, at_most_s }, &mut ask)
        }
    }
}

/// What a search's end says of the device, and what it does not. `max_pps`: highest load asked for, None: no limit.
fn say_end(end: End, max_pps: Option<f64>, size: &mut SizeReport) {
    let below_sender = max_pps.is_some_and(|max_pps| max_pps <= SENDER_SHARE * size.sender_pps);
    size.limit = match end {
        End::Regular => Some(Limit::Device),
        End::AboveMaximum if below_sender => Some(Limit::Asked),
        End::AboveMaximum | End::AboveSender => Some(Limit::Tester),
        End::BelowMinimum | End::SenderTooSlow | End::OutOfTime => None,
    };
    let missing = match (size.limit, end) {
        (Some(Limit::Asked), _) => "the highest load asked for was forwarded; the device can do more",
        (Some(Limit::Tester), _) => {
            "the tester is the limit: the device forwarded all that it can offer, and can do more"
        }
        (_, End::BelowMinimum) => "even a thousandth of the highest load lost frames",
        (_, End::SenderTooSlow) => "the sender did not reach even a thousandth of the highest load",
        (_, End::OutOfTime) => {
            "the bounds were not close within 30 full trials; the device's loss is not a matter of load alone"
        }
        _ => return,
    };
    size.missing.push(format!("throughput: {missing}"));
}

/// Shares of [`LINES_BPS`] that a throughput is.
pub(crate) fn line_shares(frame: FrameSize, throughput_pps: f64) -> Vec<LineShare> {
    let share = |line_bps| {
        let line_pps = frame.line_pps(line_bps);
        LineShare { line_bps, line_pps, share: throughput_pps / line_pps }
    };
    LINES_BPS.map(share).to_vec()
}

/// RFC 2544 26.2: at the throughput, trials twice as long as others, a tagged frame in the middle.
fn latency<D: Device>(settings: &Settings, asker: &mut Asker<'_, D>, size: &mut SizeReport) -> Result<(), D::Error> {
    let Some(load_pps) = size.forwarded_pps() else {
        size.missing.push("latency: there is no throughput to measure it at".to_owned());
        return Ok(());
    };
    let trial_s = 2.0 * settings.trial_s;
    let (mut repeats, mut all, mut void, mut unstamped) = (Vec::new(), Histogram::new(), 0, 0);
    let mut absent = Absent::default();
    for _ in 0..settings.latency_repeats {
        if let Answer::Void { .. } = asker.ask(trial_s, load_pps)? {
            void += 1;
            continue;
        }
        let Some(measured) = asker.last.take() else { continue };
        let Some(frames) = measured.latency else { continue };
        let tagged = measured.tagged;
        absent.add(tagged.absent);
        unstamped += u32::from(tagged.absent != Absent::default());
        let figures = (tagged.latency_s, frames.quantile_s(0.5), frames.quantile_s(0.999));
        if let (Some(tagged_s), Some(p50_s), Some(p999_s)) = figures {
            let Tagged { uncertainty_s, application_s, kernel_s, .. } = tagged;
            repeats.push(LatencyRepeat { tagged_s, p50_s, p999_s, uncertainty_s, application_s, kernel_s });
        }
        all.merge(&frames);
    }
    let had = repeats.len() as u32;
    if had < settings.latency_repeats {
        let asked = settings.latency_repeats;
        let lost = asked.saturating_sub(had + void + unstamped);
        size.missing.push(format!(
            "latency: {had} of {asked} repeats count; in {void} the sender or the sink was too slow, in {lost} the tagged \
             frame was lost{}",
            without_stamps(unstamped, absent)
        ));
    }
    let clock = settings.stamps;
    let absent = (clock != Stamps::Application).then_some(absent);
    size.latency = procedures::latency(load_pps, trial_s, repeats).map(|found| Latency { clock, absent, ..found });
    size.latency_frames = LatencyRecord::of(&all);
    Ok(())
}

/// The end of a sentence on repeats that do not count.
fn without_stamps(repeats: u32, absent: Absent) -> String {
    if repeats == 0 {
        return String::new();
    }
    let Absent { left, came, clock } = absent;
    format!(
        ", in {repeats} it came, but {left} stamps of frames that left and {came} of frames that came were not to be had, and \
         {clock} pairs of stamps were of clocks that were set meanwhile"
    )
}

fn back_to_back<D: Device>(
    settings: &Settings,
    asker: &mut Asker<'_, D>,
    size: &mut SizeReport,
) -> Result<(), D::Error> {
    let Some(throughput_pps) = size.forwarded_pps() else {
        size.missing.push("back-to-back: there is no throughput to correct the buffer time by".to_owned());
        return Ok(());
    };
    let mut rates = Vec::new();
    let bursts = settings.bursts(size.sender_pps);
    let found = procedures::back_to_back(bursts, size.sender_pps, throughput_pps, |frames| {
        let burst = asker.device.burst(frames)?;
        rates.push(burst.burst_pps);
        Ok(burst.complete)
    })?;
    let burst_pps = Spread::of(rates).map_or(size.sender_pps, |rates| rates.median);
    match found {
        Some(found) if found.capped == settings.burst_repeats => {
            size.missing
                .push(format!("back-to-back: bursts of {} frames were forwarded whole each time", bursts.longest));
        }
        Some(mut found) => {
            found.at_rate(burst_pps);
            size.back_to_back = Some(found);
        }
        None => size.missing.push("back-to-back: no burst was forwarded whole".to_owned()),
    }
    Ok(())
}

fn pacing(all: &[Pacing]) -> Option<Pacing> {
    let worst = |get: fn(&Pacing) -> f64| Spread::of(all.iter().map(get)).map(|spread| spread.max);
    Some(Pacing {
        lateness_p99_s: worst(|one| one.lateness_p99_s)?,
        gap_error_p50_s: Spread::of(all.iter().map(|one| one.gap_error_p50_s))?.median,
        gap_error_p99_s: worst(|one| one.gap_error_p99_s)?,
    })
}

#[cfg(test)]
mod tests;
