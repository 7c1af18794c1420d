//! [`rfc2544`]: RFC 2544's tables in long form.

use netcliff_rfc2544::missing::Reason;
use netcliff_rfc2544::procedures::{BackToBack, Latency, LossCurve};
use netcliff_rfc2544::report::{Limit, Rfc2544Report, SearchTurn, SizeReport};

use super::{line, number};

/// One row per frame size, test, load and figure, in base units. `limit` and `missing` are words. A throughput whose
/// `limit` is not `device` is a lower limit of the device's throughput.
pub fn rfc2544(report: &Rfc2544Report) -> String {
    let mut rows = vec![["frame", "mean_bytes", "test", "load_pps", "figure", "value"].map(str::to_owned).to_vec()];
    for size in &report.sizes {
        let mut of_size = Rows { size, line_bps: report.line_bps, rows: &mut rows };
        of_size.tester();
        of_size.throughput();
        of_size.predicted();
        size.latency.iter().for_each(|latency| of_size.latency(latency));
        size.loss.iter().for_each(|curve| of_size.loss(curve));
        size.back_to_back.iter().for_each(|found| of_size.bursts(found));
        of_size.missing();
    }
    rows.iter().map(|fields| line(fields)).collect()
}

/// Adds the rows of a frame size to `rows`.
struct Rows<'a> {
    size: &'a SizeReport,
    line_bps: Option<f64>,
    rows: &'a mut Vec<Vec<String>>,
}

impl Rows<'_> {
    /// Adds one figure, unless it was not measured.
    fn row(&mut self, test: &str, load_pps: Option<f64>, figure: &str, value: Option<f64>) {
        if value.is_some() {
            self.word(test, load_pps, figure, number(value));
        }
    }

    fn word(&mut self, test: &str, load_pps: Option<f64>, figure: &str, value: String) {
        let own = [self.size.frame.to_string(), number(Some(self.size.mean_bytes))];
        let rest = [test.to_owned(), number(load_pps), figure.to_owned(), value];
        self.rows.push(own.into_iter().chain(rest).collect());
    }

    fn limit(&mut self, test: &str, limit: Option<Limit>) {
        limit.into_iter().for_each(|limit| self.word(test, None, "limit", limit.to_string()));
    }

    fn tester(&mut self) {
        let SizeReport { sender_pps, seen, .. } = *self.size;
        self.row("tester", None, "sender_pps", Some(sender_pps).filter(|pps| *pps > 0.0));
        self.word("tester", None, "trials", seen.trials.to_string());
        self.word("tester", None, "void_trials", seen.void_trials.to_string());
    }

    fn throughput(&mut self) {
        let size = self.size;
        if let Some(found) = size.throughput.as_ref().and_then(|searched| searched.found.first()) {
            self.row("throughput", None, "lower_pps", found.lower_pps);
            self.row("throughput", None, "upper_pps", found.upper_pps);
            self.row("throughput", None, "conditional_pps", found.throughput_pps);
        }
        if let Some(mean) = &size.throughput_pps {
            self.row("throughput", None, "mean_pps", Some(mean.value));
            self.row("throughput", None, "mean_low_pps", mean.interval.map(|ends| ends.low));
            self.row("throughput", None, "mean_high_pps", mean.interval.map(|ends| ends.high));
        }
        self.limit("throughput", size.limit);
        for turn in &size.searches {
            let search = format!("search {}", turn.round);
            self.row(&search, None, "sender_pps", Some(turn.sender_pps));
            if let Some((lower_pps, upper_pps)) = turn.searched.bounds() {
                self.row(&search, None, "lower_pps", Some(lower_pps));
                self.row(&search, None, "upper_pps", upper_pps);
            }
            self.limit(&search, turn.limit);
        }
        if let Some(turn) = &size.unfinished {
            self.unfinished(turn);
        }
        for (at, of) in size.goals.iter().enumerate() {
            let (goal, limit) = (format!("goal {}", at + 1), of.limit);
            self.word(&goal, None, "goal", of.goal.to_string());
            self.row(&goal, None, "lower_pps", of.lower_pps.map(|found| found.value));
            self.row(&goal, None, "lower_low_pps", of.lower_pps.and_then(|found| Some(found.interval?.low)));
            self.row(&goal, None, "lower_high_pps", of.lower_pps.and_then(|found| Some(found.interval?.high)));
            self.row(&goal, None, "upper_pps", of.upper_pps);
            self.row(&goal, None, "conditional_pps", of.conditional_pps);
            self.limit(&goal, limit);
        }
        if let Some((line_bps, pps)) = self.line_bps.zip(size.forwarded_pps()) {
            let line_pps = size.frame.line_pps(line_bps);
            self.row("throughput", Some(line_pps), &format!("share_of_{line_bps:.0}_bps"), Some(pps / line_pps));
        }
    }

    /// Adds the bounds so far of the search that ended early, and its trials.
    fn unfinished(&mut self, turn: &SearchTurn) {
        let test = "unfinished search";
        if let Some(found) = turn.searched.found.first() {
            self.row(test, None, "lower_pps", found.lower_pps);
            self.row(test, None, "upper_pps", found.upper_pps);
        }
        for trial in &turn.searched.trials {
            self.row(test, Some(trial.load_pps), "loss_ratio", Some(trial.loss_ratio()));
        }
    }

    fn predicted(&mut self) {
        let Some(predicted) = self.size.predicted else { return };
        let load = Some(predicted.load_pps);
        self.row("predicted", load, "frame_s", Some(predicted.frame_s));
        self.row("predicted", load, "poll_s", Some(predicted.poll_s));
        self.row("predicted", load, "one_server_pps", Some(predicted.server_pps));
        self.row("predicted", load, "simulated_pps", predicted.simulated_pps);
    }

    fn latency(&mut self, latency: &Latency) {
        let load = Some(latency.load_pps);
        self.row("latency", load, "tagged_mean_s", Some(latency.mean_s));
        // Clock of the stamps, if there are any.
        let by_stamps = latency.absent.map(|_| latency.mean_s);
        self.row("latency", load, &format!("tagged_mean_{}_s", latency.clock), by_stamps);
        self.row("latency", load, "tagged_uncertainty_s", latency.uncertainty_s);
        self.row("latency", load, "tagged_mean_application_s", latency.application_mean_s);
        self.row("latency", load, "tagged_mean_kernel_s", latency.kernel_mean_s);
        self.row("latency", load, "absent_stamps", latency.absent_stamps().map(f64::from));
        self.row("latency", load, "typical_s", Some(latency.typical_s.median));
        self.row("latency", load, "worst_case_s", Some(latency.worst_s.median));
    }

    fn loss(&mut self, curve: &LossCurve) {
        for trial in &curve.trials {
            self.row("loss", Some(trial.load_pps), "loss_ratio", Some(trial.loss_ratio()));
        }
        for load_pps in &curve.void_pps {
            self.word("loss", Some(*load_pps), "void", "1".to_owned());
        }
        self.word("loss", None, "clean", u8::from(curve.clean).to_string());
    }

    fn bursts(&mut self, found: &BackToBack) {
        let load = Some(found.burst_pps);
        self.row("back-to-back", load, "mean_frames", Some(found.mean));
        self.row("back-to-back", load, "deviation_frames", found.deviation);
        self.row("back-to-back", load, "implied_buffer_s", Some(found.implied_buffer_s));
        let corrected = if found.corrected_at_most { "corrected_buffer_at_most_s" } else { "corrected_buffer_s" };
        self.row("back-to-back", load, corrected, Some(found.corrected_buffer_s));
    }

    /// Adds the figures that are missing, with the reason.
    fn missing(&mut self) {
        for missing in &self.size.missing {
            let Reason { figure, why } = missing.reason();
            self.word(figure, None, "missing", why.clone());
        }
    }
}
