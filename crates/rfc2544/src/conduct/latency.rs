//! Latency at the throughput.

use crate::tester::stamps::{Absent, Stamps};
use netcliff_packets::latency::{Latency as Histogram, LatencyRecord};

use super::{Asker, Device, Tagged};
use crate::missing::MissingFigure;
use crate::procedures::{self, Latency, LatencyRepeat};
use crate::report::SizeReport;
use crate::settings::Settings;
use netcliff_mlrsearch::trial::{Answer, Request};

/// Measures latency at the throughput (RFC 2544, section 26.2). A trial is twice as long as others, and a tagged frame
/// leaves in its middle.
pub(super) fn latency<D: Device>(
    settings: &Settings,
    asker: &mut Asker<'_, D>,
    size: &mut SizeReport,
) -> Result<(), D::Error> {
    let Some(load_pps) = size.forwarded_pps() else {
        size.missing.push(MissingFigure::new("latency", "there is no throughput to measure it at"));
        return Ok(());
    };
    let trial_s = 2.0 * settings.trial_s;
    let (mut repeats, mut all, mut made, mut void, mut unstamped) = (Vec::new(), Histogram::new(), 0, 0, 0);
    let mut absent = Absent::default();
    let mut ended = Ok(());
    for _ in 0..settings.latency_repeats {
        match asker.ask(Request::whole(trial_s, load_pps)) {
            Err(error) => {
                ended = Err(error);
                break;
            }
            Ok(Answer::Void { .. }) => {
                void += 1;
                continue;
            }
            Ok(Answer::Valid(_)) => made += 1,
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
        let lost = u32::saturating_sub(made, had + unstamped);
        let early = if ended.is_err() { format!(" (ended early after {})", made + void) } else { String::new() };
        let why = format!(
            "{had} of {asked} repeats count{early}; in {void} the sender or the sink was too slow, in {lost} the tagged frame was \
             lost{}",
            without_stamps(unstamped, absent)
        );
        size.missing.push(MissingFigure::new("latency", why));
    }
    let clock = settings.stamps;
    let absent = (clock != Stamps::Application).then_some(absent);
    size.latency = procedures::latency(load_pps, trial_s, repeats).map(|found| Latency { clock, absent, ..found });
    size.latency_frames = LatencyRecord::of(&all);
    ended
}

/// Returns the end of a warning that repeats do not count because their timestamps are missing; empty if no repeat
/// lacks any.
fn without_stamps(repeats: u32, absent: Absent) -> String {
    if repeats == 0 {
        return String::new();
    }
    let Absent { left, came, clock } = absent;
    format!(
        ", in {repeats} it came, but {left} stamps of frames that left and {came} of frames that came were not available, and \
         {clock} pairs of stamps were of clocks that were set between them"
    )
}
