//! RFC 2544's tests on a device: which trials are made for each frame size, and their results.
//!
//! With one search per size, all tests of a size are done before the next size. With several, each round searches all
//! sizes once, every second round in reverse order, so that drift affects all sizes alike. The other tests of each size
//! follow, at the mean throughput of its searches.

mod device;
mod latency;
mod searches;

use netcliff_core::stream::Spread;

use super::missing::MissingFigure;
use super::procedures;
use super::report::{LineShare, Pacing, SearchTurn, Seen, SizeReport};
use super::settings::{FrameSize, Settings};
use netcliff_mlrsearch::trial::{Answer, Request};

pub use device::{Burst, Device, Measured, Tagged};

/// Rates of the lines that charts show for comparison, as frame rates by frame size (bit/s).
pub const LINES_BPS: [f64; 3] = [1e9, 1e10, 25e9];

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// A frame size starts.
    Size(FrameSize),
    /// One of several searches of a frame size starts.
    Search {
        /// The frame size.
        frame: FrameSize,
        /// The round, from 1.
        round: u32,
        /// Number of rounds.
        rounds: u32,
    },
    /// A trial ended.
    Trial {
        /// Load (pps).
        load_pps: f64,
        /// Length of the trial (s).
        duration_s: f64,
        /// Result of the trial.
        answer: Answer,
    },
}

/// Runs all tests of all frame sizes. After an error, the list contains the results so far; sizes that were not started
/// are omitted.
pub fn conduct<D: Device>(
    settings: &Settings,
    device: &mut D,
    watch: &mut dyn FnMut(Step),
) -> (Vec<SizeReport>, Option<D::Error>) {
    let mut sizes: Vec<Size> = settings.frames.iter().map(|frame| Size::new(*frame)).collect();
    let mut conduct = Conduct { settings, device, watch };
    let ended = if settings.searches > 1 { conduct.in_rounds(&mut sizes) } else { conduct.in_turn(&mut sizes) };
    let line_bps = device.line_bps();
    let begun = sizes.into_iter().filter(|size| size.begun);
    (begun.map(|size| size.finish(settings, line_bps)).collect(), ended.err())
}

/// A frame size being tested.
struct Size {
    report: SizeReport,
    /// Searches that are not yet in the report.
    turns: Vec<SearchTurn>,
    /// Pacing of the valid trials so far.
    pacing: Vec<Pacing>,
    begun: bool,
}

impl Size {
    fn new(frame: FrameSize) -> Self {
        Self { report: SizeReport::new(frame, 0.0, 0.0), turns: Vec::new(), pacing: Vec::new(), begun: false }
    }

    fn settle(&mut self, settings: &Settings) {
        searches::settle(&mut self.report, std::mem::take(&mut self.turns), settings);
    }

    fn finish(mut self, settings: &Settings, line_bps: Option<f64>) -> SizeReport {
        self.settle(settings);
        let interrupted = self.report.unfinished.as_ref().map(|turn| searches::interrupted(turn, settings));
        self.report.missing.extend(interrupted);
        let (frame, throughput_pps) = (self.report.frame, self.report.forwarded_pps());
        let share = |line_bps| {
            let line_pps = frame.line_pps(line_bps);
            Some(LineShare { line_bps, line_pps, share: throughput_pps? / line_pps })
        };
        let line_shares = line_bps.and_then(share).into_iter().collect();
        SizeReport { pacing: pacing(&self.pacing), line_shares, ..self.report }
    }
}

/// A run in progress.
struct Conduct<'a, D: Device> {
    settings: &'a Settings,
    device: &'a mut D,
    watch: &'a mut dyn FnMut(Step),
}

impl<D: Device> Conduct<'_, D> {
    /// Tests one size after the other.
    fn in_turn(&mut self, sizes: &mut [Size]) -> Result<(), D::Error> {
        for size in sizes {
            self.begin(size, Step::Size(size.report.frame))?;
            if self.settings.tests.needs_search() {
                self.search(size, 1)?;
                size.settle(self.settings);
            }
            self.others(size)?;
        }
        Ok(())
    }

    /// Makes all searches round by round, and then the other tests of each size.
    fn in_rounds(&mut self, sizes: &mut [Size]) -> Result<(), D::Error> {
        let rounds = self.settings.searches;
        for round in 1..=rounds {
            for at in 0..sizes.len() {
                let place = if round % 2 == 1 { at } else { sizes.len() - 1 - at };
                let size = &mut sizes[place];
                self.begin(size, Step::Search { frame: size.report.frame, round, rounds })?;
                self.search(size, round)?;
            }
        }
        for size in sizes {
            size.settle(self.settings);
            self.begin(size, Step::Size(size.report.frame))?;
            self.others(size)?;
        }
        Ok(())
    }

    /// Sets the device to a size and measures the sender's highest rate.
    fn begin(&mut self, size: &mut Size, step: Step) -> Result<(), D::Error> {
        (self.watch)(step);
        self.device.frames(size.report.frame)?;
        size.begun = true;
        size.report.sender_pps = self.device.sender_pps()?;
        size.report.max_pps = searches::max_pps(self.settings, size.report.sender_pps);
        Ok(())
    }

    fn search(&mut self, size: &mut Size, round: u32) -> Result<(), D::Error> {
        let Size { report, turns, pacing, .. } = size;
        let turn =
            self.asking(report, pacing, |settings, asker, report| searches::search(settings, round, report, asker))?;
        turns.push(turn);
        Ok(())
    }

    /// Runs the tests of a size other than the searches.
    fn others(&mut self, size: &mut Size) -> Result<(), D::Error> {
        let Size { report, pacing, .. } = size;
        self.asking(report, pacing, others)
    }

    /// Runs `tests` and counts their trials, also if an error ends them.
    fn asking<T>(
        &mut self,
        report: &mut SizeReport,
        pacing: &mut Vec<Pacing>,
        tests: impl FnOnce(&Settings, &mut Asker<'_, D>, &mut SizeReport) -> Result<T, D::Error>,
    ) -> Result<T, D::Error> {
        let mut asker = Asker { device: self.device, watch: self.watch, seen: report.seen, pacing, last: None };
        let ended = tests(self.settings, &mut asker, report);
        report.seen = asker.seen;
        ended
    }
}

/// Makes trials on a device and counts the trials.
struct Asker<'a, D: Device> {
    device: &'a mut D,
    watch: &'a mut dyn FnMut(Step),
    seen: Seen,
    pacing: &'a mut Vec<Pacing>,
    last: Option<Measured>,
}

impl<D: Device> Asker<'_, D> {
    fn ask(&mut self, request: Request) -> Result<Answer, D::Error> {
        let measured = self.device.trial(request)?;
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
        let duration_s = answer.length_s(request.duration_s);
        (self.watch)(Step::Trial { load_pps: request.load_pps, duration_s, answer });
        self.last = Some(measured);
        Ok(answer)
    }
}

fn others<D: Device>(settings: &Settings, asker: &mut Asker<'_, D>, size: &mut SizeReport) -> Result<(), D::Error> {
    let tests = settings.tests;
    if let Some(pps) = size.forwarded_pps() {
        size.predicted = asker.device.predict(pps)?;
    }
    if tests.latency {
        latency::latency(settings, asker, size)?;
    }
    if tests.loss {
        let mut ask = |duration_s, load_pps| asker.ask(Request::whole(duration_s, load_pps));
        let (curve, ended) = procedures::loss_curve(size.max_pps, settings.loss_step, settings.trial_s, &mut ask);
        if let Some(error) = ended {
            let loads = curve.trials.len() + curve.void_pps.len();
            let why = format!("ended early after {loads} loads; lower ones were not tried");
            size.missing.push(MissingFigure::new("loss", why));
            size.loss = Some(curve).filter(|_| loads > 0);
            return Err(error);
        }
        size.missing.extend(curve.missing());
        size.loss = Some(curve);
    }
    if tests.back_to_back {
        back_to_back(settings, asker, size)?;
    }
    if let Some(load_pps) = ledger_pps(size) {
        size.ledger = asker.device.ledger(load_pps)?;
    }
    Ok(())
}

/// Load of the trial in which all frames are accounted for: twice the throughput, so that frames are lost, but at most
/// 95 % of the highest load. `None` if the sender sends nothing.
fn ledger_pps(size: &SizeReport) -> Option<f64> {
    let most_pps = Some(0.95 * size.max_pps).filter(|pps| *pps > 0.0)?;
    Some(size.forwarded_pps().map_or(most_pps, |pps| (2.0 * pps).min(most_pps)))
}

fn back_to_back<D: Device>(
    settings: &Settings,
    asker: &mut Asker<'_, D>,
    size: &mut SizeReport,
) -> Result<(), D::Error> {
    let missing = |why: String, size: &mut SizeReport| size.missing.push(MissingFigure::new("back-to-back", why));
    let Some(throughput_pps) = size.forwarded_pps() else {
        missing("there is no throughput to correct the buffer time by".to_owned(), size);
        return Ok(());
    };
    let mut rates = Vec::new();
    let bursts = settings.bursts(size.sender_pps);
    let (found, ended) = procedures::back_to_back(bursts, size.sender_pps, throughput_pps, |frames| {
        let burst = asker.device.burst(frames)?;
        rates.push(burst.burst_pps);
        Ok(burst.complete)
    });
    let burst_pps = Spread::of(rates).map_or(size.sender_pps, |rates| rates.median);
    if ended.is_some() {
        let (had, asked) = (found.as_ref().map_or(0, |found| found.bursts.len()), settings.burst_repeats);
        missing(format!("ended early after {had} of {asked} repeats"), size);
    }
    match found {
        Some(found) if found.capped as usize == found.bursts.len() => {
            missing(format!("bursts of {} frames were forwarded whole each time", bursts.longest), size);
        }
        Some(mut found) => {
            found.at_rate(burst_pps);
            found.corrected_at_most = size.is_lower_limit();
            size.back_to_back = Some(found);
        }
        None if ended.is_some() => {}
        None => missing("no burst was forwarded whole".to_owned(), size),
    }
    ended.map_or(Ok(()), Err)
}

fn pacing(all: &[Pacing]) -> Option<Pacing> {
    let worst = |get: fn(&Pacing) -> f64| Spread::of(all.iter().map(get)).map(|spread| spread.max);
    Some(Pacing {
        lateness_p99_s: worst(|one| one.lateness_p99_s)?,
        gap_error_p50_s: Spread::of(all.iter().map(|one| one.gap_error_p50_s))?.median,
        gap_error_p99_s: worst(|one| one.gap_error_p99_s)?,
        batch_frames: all.iter().filter_map(|one| one.batch_frames).max(),
        batch_s: all.iter().filter_map(|one| one.batch_s).reduce(f64::max),
    })
}

#[cfg(test)]
mod tests;
