//! [`Applications`]: several applications that share one CPU, each with its own socket.

use super::Host;
use crate::bounds;
use crate::error::{Invalid, ParseError};
use crate::params::{self, Params};
use crate::units;

/// Largest accepted number of applications on one CPU; more are probably a typing error.
pub const MOST_APPLICATIONS: u32 = 256;
/// Accepted difference of the sum of shares from 1, for rounding in their text.
const ROUNDING: f64 = 1e-6;

/// Applications and their shares of the packets. Each packet is for one of them, at random and independently of others.
#[derive(Debug, Clone, PartialEq)]
pub struct Applications {
    /// Number of applications.
    pub count: u32,
    /// Share of the offered packets for each application, with sum 1; empty: equal shares.
    pub shares: Vec<f64>,
    /// Time per packet of each application (s); empty: the host's `application`.
    pub times_s: Vec<f64>,
    /// Packets that each application's socket holds; empty: the host's `socket_buffer`.
    pub buffers: Vec<u64>,
}

/// One of the applications.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneApplication {
    /// Share of the offered packets.
    pub share: f64,
    /// Time per packet (s).
    pub time_s: f64,
    /// Packets that its socket holds.
    pub buffer: u64,
}

impl Applications {
    /// `count` equal applications.
    pub fn even(count: u32) -> Self {
        Self { count, shares: Vec::new(), times_s: Vec::new(), buffers: Vec::new() }
    }

    fn validate(&self) -> Result<(), Invalid> {
        let count = self.count as usize;
        if !(1..=MOST_APPLICATIONS).contains(&self.count) {
            return Err(Invalid::new("applications", self.count, format!("must be from 1 to {MOST_APPLICATIONS}")));
        }
        for (key, given) in
            [("shares", self.shares.len()), ("times", self.times_s.len()), ("buffers", self.buffers.len())]
        {
            if given != 0 && given != count {
                let accepted = format!("must be one for each of {count} applications");
                return Err(Invalid::new(format!("applications {key}"), given, accepted));
            }
        }
        if let Some(share) = self.shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(Invalid::new("applications share", share, "must be from 0 to 1"));
        }
        let sum: f64 = self.shares.iter().sum();
        if !self.shares.is_empty() && (sum - 1.0).abs() > ROUNDING {
            return Err(Invalid::new("sum of the applications' shares", sum, "must be 1"));
        }
        self.times_s.iter().try_for_each(|time| bounds::time_or_none("applications time", *time))?;
        self.buffers.iter().try_for_each(|buffer| bounds::packets("applications buffer", *buffer, "packets"))
    }
}

impl Host {
    /// All applications; empty if none is modelled.
    pub fn each_application(&self) -> Vec<OneApplication> {
        let Some(time_s) = self.application_s else { return Vec::new() };
        let one = Applications::even(1);
        let all = self.applications.as_ref().unwrap_or(&one);
        let each = |place: usize| OneApplication {
            share: all.shares.get(place).copied().unwrap_or(1.0 / f64::from(all.count)),
            time_s: all.times_s.get(place).copied().unwrap_or(time_s),
            buffer: all.buffers.get(place).copied().unwrap_or(self.socket_buffer),
        };
        (0..all.count as usize).map(each).collect()
    }

    /// True if more than one application shares the CPU.
    pub fn has_several_applications(&self) -> bool {
        self.applications.as_ref().is_some_and(|applications| applications.count > 1)
    }

    /// Mean time per packet over all applications, by their shares (s); None if none is modelled.
    pub fn mean_application_s(&self) -> Option<f64> {
        let each = self.each_application();
        (!each.is_empty()).then(|| each.iter().map(|one| one.share * one.time_s).sum())
    }

    pub(super) fn validate_applications(&self) -> Result<(), Invalid> {
        let Some(applications) = &self.applications else { return Ok(()) };
        applications.validate()?;
        if self.application_s.is_none() {
            return Err(Invalid::new("applications", applications, "needs application, the time a packet"));
        }
        if self.queues.is_some() {
            let form = "cannot go with queues, each of which has an application of its own on its core";
            return Err(Invalid::new("applications", applications, form));
        }
        Ok(())
    }
}

const FORM: &str = "expected a number of applications with options, such as 3 or 2:shares=90%/10%,times=1us/20us (keys: \
                    shares=50%/30%/20%, times=1us/2us/8us, buffers=256/64/64)";

impl std::str::FromStr for Applications {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        fn list<T>(value: Option<&str>, read: impl Fn(&str) -> Result<T, ParseError>) -> Result<Vec<T>, ParseError> {
            value.map_or_else(|| Ok(Vec::new()), |value| value.split('/').map(|item| read(item.trim())).collect())
        }
        let (count, mut params) = Params::split("applications", text)?;
        let applications = Self {
            count: count.parse().map_err(|_| ParseError::new("applications", text, FORM))?,
            shares: list(params.take("shares"), units::parse_share)?,
            times_s: list(params.take("times"), units::parse_time_s)?,
            buffers: list(params.take("buffers"), |item| units::parse_count("applications `buffers`", item))?,
        };
        params.finish()?;
        Ok(applications)
    }
}

impl std::fmt::Display for Applications {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let joined = |items: Vec<String>| (!items.is_empty()).then(|| items.join("/"));
        out.write_str(&params::print(
            &self.count.to_string(),
            &[
                ("shares", joined(self.shares.iter().map(|share| units::print_share(*share)).collect())),
                ("times", joined(self.times_s.iter().map(|time| units::print_time_s(*time)).collect())),
                ("buffers", joined(self.buffers.iter().map(ToString::to_string).collect())),
            ],
        ))
    }
}

crate::units::serde_as_text!(Applications);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_read_as_they_are_printed() {
        for text in ["3", "2:shares=90%/10%", "2:shares=90%/10%,times=1us/20us,buffers=256/64"] {
            assert_eq!(text.parse::<Applications>().unwrap().to_string(), text);
        }
        let error = "many".parse::<Applications>().unwrap_err().to_string();
        assert!(error.contains("many") && error.contains("2:shares=90%/10%"), "{error}");
        assert!("2:colour=red".parse::<Applications>().unwrap_err().to_string().contains("shares, times, buffers"));
    }

    #[test]
    fn each_has_what_it_is_given_or_the_hosts() {
        let mut host = Host::pentium4_2530mhz();
        assert!(host.each_application().is_empty() && host.mean_application_s().is_none());
        host.set("application=2us").unwrap();
        assert_eq!(host.each_application(), [OneApplication { share: 1.0, time_s: 2e-6, buffer: 256 }]);
        host.set("applications=2:times=1us/8us,shares=75%/25%").unwrap();
        host.validate().unwrap();
        assert_eq!(host.each_application()[1], OneApplication { share: 0.25, time_s: 8e-6, buffer: 256 });
        assert!((host.mean_application_s().unwrap() - 2.75e-6).abs() < 1e-18);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (assignments, part) in [
            (&["applications=2"][..], "needs application"),
            (&["application=1us", "applications=0"], "from 1 to 256"),
            (&["application=1us", "applications=2:shares=50%/40%"], "must be 1"),
            (&["application=1us", "applications=2:shares=100%"], "one for each of 2"),
            (&["application=1us", "applications=2:buffers=1/0"], "at least 1"),
            (&["application=1us", "applications=2", "queues=2"], "cannot go with queues"),
        ] {
            let mut host = Host::pentium4_2530mhz();
            assignments.iter().for_each(|assignment| host.set(assignment).unwrap());
            let error = host.validate().unwrap_err().to_string();
            assert!(error.contains(part), "{assignments:?}: {error}");
        }
    }
}
