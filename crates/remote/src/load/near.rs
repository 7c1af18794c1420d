//! A far generator, seen from the near end.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use netcliff_core::Fingerprint;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{LOAD, Load, LoadReady, LoadReport, LoadRequest, far_failure};
use crate::control::client::{Progress, Session};
use crate::fingerprint::far_fingerprint;
use netcliff_packets::error::ControlError;
use netcliff_packets::error::WireError;
use netcliff_packets::generator::{Ceiling, SenderFailure, SenderReport, Window};
use netcliff_packets::source::{Part, Source, Timing};

/// Interval between progress requests to a generator: much shorter than [`super::UNHEARD_S`].
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Longest time that a generator may take beyond its schedule \[s\].
const PATIENCE_S: f64 = 10.0;

/// Carries requests to a generator on another host: a session with an agent, or its reverse (`load::reverse`).
pub trait Carrier: Send + std::fmt::Debug {
    /// Makes the generator send. The answer comes before the first frame.
    ///
    /// # Errors
    /// The far end refuses the request, or is gone.
    fn begin(&mut self, request: &LoadRequest) -> Result<LoadReady, WireError>;

    /// Asks for the generator's progress, or its report if it has ended.
    ///
    /// # Errors
    /// The far end is gone.
    fn ask(&mut self) -> Result<LoadProgress, WireError>;

    /// Returns the generator's report if it has ended, without a request to the far end.
    ///
    /// # Errors
    /// The far end is gone.
    fn ended(&mut self) -> Result<Option<LoadReport>, WireError>;

    /// Ends the generator and returns its report.
    ///
    /// # Errors
    /// The far end is gone.
    fn stop(&mut self) -> Result<LoadReport, WireError>;

    /// Whether both ends read the same `CLOCK_MONOTONIC`.
    fn shares_clock(&self) -> bool;

    /// Facts of the host that sends. `None` if that host does not report them.
    fn fingerprint(&mut self) -> Option<Fingerprint>;

    /// Name of the other end, for messages.
    fn peer(&self) -> String;
}

/// The answer to a progress request.
#[derive(Debug)]
pub enum LoadProgress {
    /// Number of frames offered so far.
    Sent(u64),
    /// The generator has ended, with this report.
    Ended(Box<LoadReport>),
}

fn read<T: DeserializeOwned>(peer: &str, value: Value) -> Result<T, WireError> {
    let malformed = |e: serde_json::Error| ControlError::Malformed { peer: peer.to_owned(), why: e.to_string() };
    Ok(serde_json::from_value(value).map_err(malformed)?)
}

impl Carrier for Session {
    fn begin(&mut self, request: &LoadRequest) -> Result<LoadReady, WireError> {
        let ready = self.start(LOAD, request)?;
        read(Session::peer(self), ready.info)
    }

    fn ask(&mut self) -> Result<LoadProgress, WireError> {
        let progress = self.progress()?;
        let peer = Session::peer(self);
        Ok(match progress {
            Progress::Running(report) => LoadProgress::Sent(read::<LoadReport>(peer, report)?.sent),
            Progress::Ended(last) => LoadProgress::Ended(Box::new(ended(peer, last.report, last.partial)?)),
        })
    }

    fn ended(&mut self) -> Result<Option<LoadReport>, WireError> {
        let last = self.last(Duration::ZERO)?;
        last.map(|last| ended(Session::peer(self), last.report, last.partial)).transpose()
    }

    fn stop(&mut self) -> Result<LoadReport, WireError> {
        let last = Session::stop(self)?;
        ended(Session::peer(self), last.report, last.partial)
    }

    fn shares_clock(&self) -> bool {
        Session::shares_clock(self)
    }

    fn fingerprint(&mut self) -> Option<Fingerprint> {
        let address = self.address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        far_fingerprint(self, address).ok()
    }

    fn peer(&self) -> String {
        Session::peer(self).to_owned()
    }
}

/// Explains why a generator sent no report. A generator that missed its start (`late_s`) can be started again.
fn failure(late_s: Option<f64>, failed: Option<String>, what: &str) -> WireError {
    match late_s {
        Some(late_s) => WireError::StartMissed { late_s },
        None => far_failure(failed.unwrap_or_else(|| format!("the generator sent no {what}"))),
    }
}

fn ended(peer: &str, report: Value, partial: Option<String>) -> Result<LoadReport, WireError> {
    let report: LoadReport = read(peer, report)?;
    let failed = report.failed.clone().or(partial);
    Ok(LoadReport { failed, ..report })
}

/// A far generator, used for one measurement.
pub struct FarSource<'a> {
    carrier: &'a mut dyn Carrier,
    request: LoadRequest,
    sent: u64,
    /// Time of the last progress request, and the time by which the generator must have ended.
    asked: Instant,
    until: Instant,
    report: Option<LoadReport>,
    failed: Option<WireError>,
    stopped: bool,
    /// The far end accepted the request; a refused one has nothing to stop.
    begun: bool,
    /// Highest rate that the far end allows [packets/s]. `None` without a limit.
    pub most_pps: Option<f64>,
    part: Option<Part>,
}

impl<'a> FarSource<'a> {
    /// Prepares a request; the timing in it is replaced by the timing of the measurement.
    pub fn new(carrier: &'a mut dyn Carrier, request: LoadRequest) -> Self {
        let now = Instant::now();
        Self {
            carrier,
            request,
            sent: 0,
            asked: now,
            until: now,
            report: None,
            failed: None,
            stopped: false,
            begun: false,
            most_pps: None,
            part: None,
        }
    }

    fn note(&mut self, outcome: Result<Option<LoadReport>, WireError>) {
        match outcome {
            Ok(Some(report)) => self.report = Some(report),
            Ok(None) => {}
            Err(error) => self.failed = Some(error),
        }
    }

    /// Whether the generator failed or is out of reach.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn is_over(&self) -> bool {
        self.report.is_some() || self.failed.is_some()
    }
}

impl Source for FarSource<'_> {
    fn prepare(&mut self, timing: Timing) -> Result<Vec<Window>, WireError> {
        if let Load::Paced { timing: asked, .. } = &mut self.request.load {
            *asked = timing;
        }
        let ready = self.carrier.begin(&self.request)?;
        self.asked = Instant::now();
        self.until = self.asked + Duration::from_secs_f64(self.request.load.seconds() + PATIENCE_S);
        self.begun = true;
        self.most_pps = ready.most_pps;
        ready.window.map(|window| vec![window]).ok_or_else(|| far_failure("it did not say when it sends"))
    }

    fn start(&mut self) -> Result<(), WireError> {
        Ok(())
    }

    fn sent(&mut self) -> u64 {
        if !self.is_over() && self.asked.elapsed() >= ASK_EVERY {
            match self.carrier.ask() {
                Ok(LoadProgress::Sent(sent)) => self.sent = sent,
                Ok(LoadProgress::Ended(report)) => self.report = Some(*report),
                Err(error) => self.failed = Some(error),
            }
            self.asked = Instant::now();
        }
        self.sent
    }

    fn is_finished(&mut self) -> bool {
        if !self.is_over() {
            let ended = self.carrier.ended();
            self.note(ended);
        }
        if !self.is_over() && Instant::now() > self.until {
            self.stop();
        }
        self.is_over()
    }

    fn stop(&mut self) {
        if self.begun && !self.stopped && !self.is_over() {
            self.stopped = true;
            let report = self.carrier.stop().map(Some);
            self.note(report);
        }
    }

    fn finish(&mut self) -> Result<SenderReport, SenderFailure> {
        while !self.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
            self.sent();
        }
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        let report = self.report.take().unwrap_or_default();
        self.part = report.sender.as_ref().map(|sender| Part::of(self.carrier.peer(), sender));
        match (report.sender, report.failed) {
            (Some(sender), None) => Ok(sender),
            (sender, failed) => {
                Err(SenderFailure { reason: failure(report.late_s, failed, "report"), measured: sender.map(Box::new) })
            }
        }
    }

    fn parts(&self) -> Vec<Part> {
        self.part.iter().cloned().collect()
    }

    fn shares_clock(&self) -> bool {
        self.carrier.shares_clock()
    }
}

/// Measures the highest rate of a far generator. The load in the request is the time to send.
///
/// # Errors
/// The far end refuses the request, fails or is gone, or `stop` returns true.
pub fn far_ceiling(
    carrier: &mut dyn Carrier,
    request: &LoadRequest,
    stop: &dyn Fn() -> bool,
) -> Result<Ceiling, WireError> {
    carrier.begin(request)?;
    let mut asked = Instant::now();
    let until = asked + Duration::from_secs_f64(request.load.seconds() + PATIENCE_S);
    let report = loop {
        if let Some(report) = carrier.ended()? {
            break report;
        }
        if stop() || Instant::now() > until {
            break carrier.stop()?;
        }
        if asked.elapsed() >= ASK_EVERY {
            if let LoadProgress::Ended(report) = carrier.ask()? {
                break *report;
            }
            asked = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    report.ceiling.ok_or_else(|| failure(report.late_s, report.failed, "rate"))
}
