//! The settings of a question: the options of `predict` and `simulate`, as texts.

use std::sync::Arc;

use netcliff_core::capture::Capture;
use netcliff_core::experiment::Rates;
use netcliff_core::traffic::Traffic;
use netcliff_core::{Arrivals, Flows, FrameSizes, Host, Load, Point, Scheme, units};
use serde::{Deserialize, Serialize};

use crate::captures;

/// Reason why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The invalid input or failed step: `host`, `set.2`, `scheme`, `rates`, `engine`.
    pub part: String,
    /// The message, with the invalid value and the accepted form.
    pub text: String,
}

impl Refused {
    /// Makes a refusal of `part` with the text of `error`.
    pub fn of(part: impl Into<String>, error: impl ToString) -> Self {
        Self { part: part.into(), text: error.to_string() }
    }
}

/// A point or a sweep; the fields are the command line's options of the same names.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Name of a host preset.
    pub host: String,
    /// Changes to the preset, `KEY=VALUE`, applied in this order.
    #[serde(default)]
    pub set: Vec<String>,
    /// `--scheme`.
    pub scheme: String,
    /// `--arrivals`.
    #[serde(default = "poisson")]
    pub arrivals: String,
    /// `--size`.
    #[serde(default = "smallest")]
    pub size: String,
    /// `--link`.
    #[serde(default = "gigabit")]
    pub link: String,
    /// `--queues`, in full (`4:map=spread`).
    #[serde(default)]
    pub queues: Option<String>,
    /// `--flows`.
    #[serde(default)]
    pub flows: Option<String>,
}

fn poisson() -> String {
    "poisson".to_owned()
}
fn smallest() -> String {
    "64B".to_owned()
}
fn gigabit() -> String {
    "1Gbit/s".to_owned()
}

/// Parses one option; an error names `part`.
pub fn option<T: std::str::FromStr>(part: &str, text: &str) -> Result<T, Refused>
where
    T::Err: ToString,
{
    text.trim().parse().map_err(|error: T::Err| Refused::of(part, error))
}

impl Setting {
    /// Makes the host with its changes.
    pub fn host(&self) -> Result<Host, Refused> {
        let presets = netcliff_core::host::PRESETS.join(", ");
        let mut host = Host::preset(&self.host).ok_or_else(|| {
            Refused::of("host", format!("host: cannot read \"{}\": expected a preset ({presets})", self.host))
        })?;
        for (number, assignment) in self.set.iter().enumerate() {
            host.set(assignment).map_err(|error| Refused::of(format!("set.{number}"), error))?;
        }
        if let Some(queues) = &self.queues {
            host.queues = Some(option("queues", queues)?);
        }
        Ok(host)
    }

    /// Makes the point at a load.
    ///
    /// # Errors
    /// The errors of [`Self::parts`]; an impossible load.
    pub fn point(&self, load: Load) -> Result<Point, Refused> {
        let (host, scheme, traffic) = self.parts()?;
        check_load(&traffic, load)?;
        Ok(Point { host, scheme, traffic, load })
    }

    /// Makes host, scheme and traffic, without a load.
    ///
    /// # Errors
    /// A text that cannot be parsed, an impossible value, or the name of a file.
    pub fn parts(&self) -> Result<(Host, Scheme, Traffic), Refused> {
        let host = self.host()?;
        let scheme: Scheme = option("scheme", &self.scheme)?;
        let arrivals = arrivals(option::<Arrivals>("arrivals", &self.arrivals)?)?;
        let size = sizes(option::<FrameSizes>("size", &self.size)?, &arrivals)?;
        let link_bps = units::parse_bps(self.link.trim()).map_err(|error| Refused::of("link", error))?;
        let flows: Option<Flows> = self.flows.as_deref().map(|flows| option("flows", flows)).transpose()?;
        host.validate().map_err(|error| Refused::of(format!("host.{}", error.parameter), error))?;
        scheme.validate(&host).map_err(|error| Refused::of("scheme", error))?;
        let traffic = Traffic { arrivals, size, link_bps, flows };
        traffic.validate().map_err(|error| Refused::of(error.parameter.clone(), error))?;
        Ok((host, scheme, traffic))
    }
}

/// Refuses a load that is out of range or exceeds the capacity of the link.
pub fn check_load(traffic: &Traffic, load: Load) -> Result<(), Refused> {
    traffic.admits(load, true).map_err(|error| Refused::of("rate", error))
}

/// Parses the loads of `--rates`.
pub fn rates(text: &str) -> Result<Vec<Load>, Refused> {
    option::<Rates>("rates", text).map(|rates| rates.0)
}

/// Adds the packets of the capture to arrivals that name a capture.
fn arrivals(asked: Arrivals) -> Result<Arrivals, Refused> {
    if let Arrivals::Trace { file, speed: Some(_), .. } = &asked {
        let why = format!("arrivals = trace:{file}: has a speed and an offered load; leave out the speed");
        return Err(Refused::of("arrivals", why));
    }
    asked.with_capture(|file| dropped("arrivals", file))
}

/// Adds the packets of the capture to frame sizes that name a capture, or that are the sizes of the arrivals' capture.
fn sizes(asked: FrameSizes, arrivals: &Arrivals) -> Result<FrameSizes, Refused> {
    let lacking = || Refused::of("size", "size = trace: frame sizes `trace` need arrivals from a capture, trace:FILE");
    match asked.with_capture_of(arrivals).ok_or_else(lacking)? {
        FrameSizes::File(file) => Ok(FrameSizes::from(&*dropped("size", &file)?)),
        other => Ok(other),
    }
}

fn dropped(part: &str, file: &str) -> Result<Arc<Capture>, Refused> {
    captures::kept(file).ok_or_else(|| {
        Refused::of(
            part,
            format!("{part} names the file {file}, which the page does not have: drop the capture onto it"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_known_by_its_name_once_it_was_dropped() {
        let asked = || "trace:a, b.pcap".parse::<Arrivals>().unwrap();
        let refused = arrivals(asked()).unwrap_err();
        assert_eq!((refused.part.as_str(), refused.text.contains("a, b.pcap")), ("arrivals", true), "{}", refused.text);
        captures::take("a, b.pcap", &captures::tests::capture()).unwrap();
        let with = arrivals(asked()).unwrap();
        assert!(matches!(sizes(FrameSizes::Trace(None), &with).unwrap(), FrameSizes::Trace(Some(_))));
        assert!(matches!(sizes(FrameSizes::File("a, b.pcap".into()), &Arrivals::Poisson), Ok(FrameSizes::Captured(_))));
        assert!(sizes(FrameSizes::Trace(None), &Arrivals::Poisson).is_err());
        assert!(arrivals("trace:a, b.pcap,speed=2".parse().unwrap()).is_err());
    }
}
