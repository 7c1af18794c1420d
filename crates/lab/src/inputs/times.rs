//! Measured times: of packets (`service=empirical:FILE`), and of pauses (`pause_times=empirical:FILE`).

use std::collections::HashMap;
use std::sync::Arc;

use netcliff_core::experiment::FileError;
use netcliff_core::host::{Empirical, MeasuredTimes, PauseTimes, Service};
use netcliff_core::{Host, units};

/// Largest number of times in a file. A file is at most 16 MiB.
const MOST_TIMES: usize = 1_000_000;

/// Reads the files that the hosts' `service` and `pause_times` name, if they are not read yet. Each file is read once.
///
/// # Errors
/// A file cannot be read, or is invalid; with the place of the error.
pub fn measured_times<'a>(hosts: impl IntoIterator<Item = &'a mut Host>) -> Result<(), FileError> {
    let mut known = HashMap::<String, Arc<MeasuredTimes>>::new();
    let mut empirical = |file: &str| -> Result<Empirical, FileError> {
        let times = match known.get(file) {
            Some(times) => Arc::clone(times),
            None => {
                let times = Arc::new(read(file)?);
                known.insert(file.to_owned(), Arc::clone(&times));
                times
            }
        };
        Ok(Empirical { file: file.to_owned(), times: Some(times) })
    };
    for host in hosts {
        if let Some(file) = host.service.unread() {
            host.service = Service::Empirical(empirical(file)?);
        }
        if let Some(file) = host.unread_pauses() {
            host.pause_times = Some(PauseTimes::Empirical(empirical(file)?));
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<MeasuredTimes, FileError> {
    let text = super::read(path)?;
    let wrong = |message: String| FileError { path: path.to_owned(), message };
    let times = parse(&text).map_err(wrong)?;
    let mut times = MeasuredTimes::new(times).map_err(|error| FileError::invalid(path, &error))?;
    times.sha256 = Some(super::digest::of(text.as_bytes()));
    Ok(times)
}

/// Parses lines of a time (s) with an optional weight. Skips empty lines, comments after `#`, and a header line.
fn parse(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut times = Vec::new();
    let mut weighted = None;
    for (place, whole) in text.lines().enumerate() {
        let line = whole.split('#').next().unwrap_or_default().trim();
        let header =
            times.is_empty() && place == 0 && line.starts_with(|c: char| c.is_alphabetic()) && !is_number(line);
        if line.is_empty() || header {
            continue;
        }
        let said = |message: &str| format!("line {}: \"{}\": {message}", place + 1, whole.trim());
        let (time, weight) = match line.split_once(',') {
            None => (line, None),
            Some((time, weight)) => (time.trim(), Some(weight.trim())),
        };
        if *weighted.get_or_insert(weight.is_some()) != weight.is_some() {
            return Err(said("expected TIME on every line, or TIME,WEIGHT on every line"));
        }
        if times.len() == MOST_TIMES {
            return Err(format!(
                "holds more than {MOST_TIMES} times; count equal ones and give TIME,WEIGHT, such as 5.2us,17"
            ));
        }
        let weight = match weight {
            None => Some(1.0),
            Some(text) => text.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight >= 0.0),
        };
        let (Some(seconds), Some(weight)) = (seconds(time), weight) else {
            return Err(said(
                "expected a time of at least 0, in seconds or with a unit, and where there is a weight one of at least 0, \
                 such as 5.2us or 5.2us,17",
            ));
        };
        times.push((seconds, weight));
    }
    if times.is_empty() {
        return Err("holds no time; expected one a line, in seconds or with a unit, such as 5.2us".to_owned());
    }
    Ok(times)
}

/// Whether a line starts with a number. `nan` and `inf` count, so that a first line with them is an error and no
/// header.
fn is_number(line: &str) -> bool {
    line.split(',').next().is_some_and(|time| time.trim().parse::<f64>().is_ok())
}

fn seconds(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    plain.or_else(|| units::parse_time_s(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_and_without_weights() {
        assert_eq!(
            parse("# us\n5us # first\n\n0.000002\n1.5 ms\n").unwrap(),
            [(5e-6, 1.0), (2e-6, 1.0), (1.5e-3, 1.0)]
        );
        assert_eq!(parse("time,weight\n5us,7\n1e-6, 0.5\n").unwrap(), [(5e-6, 7.0), (1e-6, 0.5)]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, part) in [
            ("", "holds no time"),
            ("# nothing\n", "holds no time"),
            ("5us\n-3us\n", "line 2: \"-3us\": expected a time of at least 0"),
            ("-0.5\n", "line 1"),
            ("5us\nNaN\n", "line 2: \"NaN\""),
            ("nan\n", "line 1: \"nan\""),
            ("inf\n", "line 1"),
            ("5us\n7\u{b5}\n", "line 2"),
            ("5us,1\n6us\n", "line 2: \"6us\": expected TIME on every line, or TIME,WEIGHT"),
            ("5us,-1\n", "line 1"),
            ("5us,many\n", "line 1"),
            ("5 packets\n", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        let long = parse(&"1\n".repeat(MOST_TIMES + 1)).unwrap_err();
        assert!(long.contains("more than 1000000 times"), "{long}");
    }

    #[test]
    fn a_file_is_read_once_for_all_hosts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "1us\n3us\n").unwrap();
        let mut hosts = [Host::pentium4_2530mhz(), Host::pentium4_2530mhz(), Host::pentium4_2530mhz()];
        for host in &mut hosts[..2] {
            host.set(&format!("service=empirical:{}", file.path().display())).unwrap();
        }
        measured_times(&mut hosts).unwrap();
        let times = |host: &Host| host.service.measured().unwrap().parts().as_ptr();
        assert_eq!(times(&hosts[0]), times(&hosts[1]));
        assert_eq!(hosts[0].service.measured().unwrap().parts(), [(0.5, 0.5), (1.5, 0.5)]);
        assert_eq!(hosts[0].service.measured().unwrap().sha256.as_ref().unwrap().len(), 64);
        assert_eq!(hosts[2], Host::pentium4_2530mhz());
        for setting in ["pause_every=10ms".to_owned(), format!("pause_times=empirical:{}", file.path().display())] {
            hosts[1].set(&setting).unwrap();
        }
        measured_times(&mut hosts).unwrap();
        assert_eq!(hosts[1].pauses().unwrap().mean_s, 2e-6);
        hosts[2].set("service=empirical:/no/such/file").unwrap();
        let error = measured_times(&mut hosts).unwrap_err().to_string();
        assert!(error.contains("/no/such/file") && error.contains("No such file"), "{error}");
    }
}
