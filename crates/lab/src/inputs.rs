//! Reads the files that inputs name: hosts, tables of frame sizes, captures, measured times.

pub mod capture;
mod digest;
pub mod experiments;
mod times;

use std::path::Path;
use std::sync::Arc;

use netcliff_core::bounds;
use netcliff_core::experiment::FileError;
use netcliff_core::host::PRESETS;
use netcliff_core::quote::in_short;
use netcliff_core::traffic::FRAME_RANGE_BYTES;
use netcliff_core::{Arrivals, Finding, Flows, FrameSizes, Host, Learned, Load, Traffic};
use netcliff_host::files;

pub use times::measured_times;

/// Reads a host: a preset, a TOML file, or the calibrated host in a file of `find --json`.
///
/// # Errors
/// The name is neither a preset nor a readable file, or the file is invalid.
pub fn host(name: &str) -> Result<Host, FileError> {
    if let Some(host) = Host::preset(name) {
        return Ok(host);
    }
    let text = read(name).map_err(|error| FileError {
        message: format!(
            "{}; give a preset ({}), a TOML file of costs, find:3 or learn:3 (a run of the store), last-find or last-learn",
            error.message,
            PRESETS.join(", ")
        ),
        ..error
    })?;
    if let Some(host) = calibrated(&text) {
        return Ok(host);
    }
    Host::from_toml(name, &text).map_err(|error| match what_it_is(&text) {
        Some(what) => FileError {
            message: format!("is {what}; expected a TOML file of costs: [host] in docs/theory/host.md"),
            ..error
        },
        None => error,
    })
}

/// Reads a finding from a file of `find --json`, or of `learn --json` converted to one. `None` if the file contains
/// neither, or a version whose findings cannot be read as a whole.
pub fn finding(name: &str) -> Option<Finding> {
    // A pipe has been read already; a second reader would wait for ever.
    let text = Path::new(name).is_file().then(|| read(name).ok())??;
    let json: serde_json::Value = serde_json::Deserializer::from_str(&text).into_iter().next()?.ok()?;
    match json.get("kind").and_then(serde_json::Value::as_str) {
        Some("learn") => serde_json::from_value::<Learned>(json).ok()?.finding(),
        _ => serde_json::from_value(json).ok(),
    }
}

/// The calibrated host of a finding in JSON.
fn calibrated(text: &str) -> Option<Host> {
    let finding: serde_json::Value = serde_json::Deserializer::from_str(text).into_iter().next()?.ok()?;
    serde_json::from_value(finding.get("calibration")?.get("host")?.clone()).ok()
}

/// Describes a text that is not TOML: the kind of its JSON, and its first line. `None` if it is not JSON either.
fn what_it_is(text: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::Deserializer::from_str(text).into_iter().next()?.ok()?;
    let object = json.as_object()?;
    let kind = ["kind", "command"].iter().find_map(|key| object.get(*key)?.as_str());
    let what = match kind {
        Some(kind) => format!("JSON of `{}`", in_short(kind)),
        None if object.contains_key("calibration") => "JSON of a `find` whose costs cannot be read".to_owned(),
        None => "JSON".to_owned(),
    };
    Some(format!("{what}, beginning {}", in_short(text.lines().next().unwrap_or_default())))
}

/// Reads the text of an experiment: of a file, or of one of [`experiments::KNOWN`] if there is no such file.
///
/// # Errors
/// The name is neither a readable file nor a known experiment.
pub fn experiment(name: &str) -> Result<String, FileError> {
    match experiments::named(name) {
        Some(text) if !Path::new(name).is_file() => Ok(text.to_owned()),
        Some(_) => read(name),
        None => read(name).map_err(|error| {
            let names: Vec<&str> = experiments::KNOWN.iter().map(|(name, _)| *name).collect();
            let near = nearest(name, &names);
            let given = match near.is_empty() {
                true => format!("give a TOML file or one of {}", names.join(", ")),
                false => format!("did you mean {}? Give a TOML file or a known experiment", near.join(" or ")),
            };
            FileError { message: format!("{}; {given}", error.message), ..error }
        }),
    }
}

/// Default name of a run of an experiment's file: the file's name up to its last dot.
pub fn experiment_name(file: &Path) -> Option<String> {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned())
}

/// At most three names that are similar to the typed one, the most similar first.
fn nearest<'a>(typed: &str, names: &[&'a str]) -> Vec<&'a str> {
    /// Smallest similarity (Jaro-Winkler) at which a name is suggested; as in clap.
    const ALIKE: f64 = 0.8;
    let mut near: Vec<(f64, &str)> = names.iter().map(|name| (strsim::jaro_winkler(typed, name), *name)).collect();
    near.retain(|(alike, _)| *alike > ALIKE);
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

/// Frame sizes with the content of the named file, if they name one.
///
/// # Errors
/// The file cannot be read, or is invalid; with the place of the error.
pub fn frame_sizes(sizes: &FrameSizes) -> Result<FrameSizes, FileError> {
    match sizes {
        FrameSizes::File(path) if !path.ends_with(".csv") => Ok(FrameSizes::from(&capture::read(path)?)),
        FrameSizes::File(path) => sizes_from_csv(path, &read(path)?).map(FrameSizes::Mixture),
        other => Ok(other.clone()),
    }
}

/// Arrivals with the packets of the named capture, if they name one.
///
/// # Errors
/// The file cannot be read, or is invalid; with the place of the error.
pub fn arrivals(arrivals: &Arrivals) -> Result<Arrivals, FileError> {
    arrivals.with_capture(|file| capture::read(file).map(Arc::new))
}

/// Flows with the content of the named capture, if they name one.
///
/// # Errors
/// The file cannot be read, or is invalid; with the place of the error.
pub fn flows(flows: &Flows) -> Result<Flows, FileError> {
    match flows {
        Flows::Capture { file, capture: None } => {
            Ok(Flows::Capture { file: file.clone(), capture: Some(Arc::new(capture::read(file)?)) })
        }
        other => Ok(other.clone()),
    }
}

/// A traffic whose files are read. A trace provides the frame sizes if `size` is `trace`.
///
/// # Errors
/// A file cannot be read or is invalid.
pub fn traffic(arrivals: &Arrivals, size: &FrameSizes, link_bps: f64) -> Result<Traffic, FileError> {
    let arrivals = self::arrivals(arrivals)?;
    let Some(size) = size.with_capture_of(&arrivals) else {
        let message = "frame sizes `trace` need arrivals from a capture: give --arrivals trace:FILE".to_owned();
        return Err(FileError { path: "size".to_owned(), message });
    };
    Ok(Traffic { size: frame_sizes(&size)?, arrivals, link_bps, flows: None })
}

/// The offered load: `rate`. If `rate` is `None`, the load of the traffic's trace, multiplied by the trace's speed.
///
/// # Errors
/// No load is known, or the user gave both a rate and a speed of the trace.
pub fn load(traffic: &Traffic, rate: Option<Load>) -> Result<Load, FileError> {
    let own = |file: &str, message: &str| FileError { path: file.to_owned(), message: message.to_owned() };
    match (&traffic.arrivals, rate) {
        (Arrivals::Trace { file, speed: Some(_), .. }, Some(_)) => {
            Err(own(file, "has a speed and an offered load; give only one of them"))
        }
        (Arrivals::Trace { file, capture: Some(capture), speed, .. }, None) => {
            let own_pps = capture.rate_pps() * speed.unwrap_or(1.0);
            bounds::rate("rate", own_pps, Load::Pps(own_pps)).map_err(|error| {
                let (packets, seconds) = (capture.packets.len(), capture.packets.len() as f64 / capture.rate_pps());
                own(file, &format!("holds {packets} packets over {seconds:.0} s, {own_pps:e} packets/s as recorded ({error}); give --rate"))
            })?;
            Ok(Load::Pps(own_pps))
        }
        (_, Some(rate)) => Ok(rate),
        (_, None) => Err(own("rate", "is not given: give an offered load such as 100kpps")),
    }
}

/// Parses lines of `bytes,weight`. Skips a header line and lines that begin with `#`.
fn sizes_from_csv(path: &str, text: &str) -> Result<Vec<(u32, f64)>, FileError> {
    let mut sizes = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || (place == 0 && line.starts_with(|c: char| c.is_alphabetic())) {
            continue;
        }
        let (low, high) = (FRAME_RANGE_BYTES.start(), FRAME_RANGE_BYTES.end());
        let error = || FileError {
            path: path.to_owned(),
            message: format!(
                "line {}: \"{line}\": expected BYTES,WEIGHT with {low} to {high} bytes and a weight of at least 0, such as 64,7",
                place + 1
            ),
        };
        let (bytes, weight) = line.split_once(',').ok_or_else(error)?;
        let bytes: u32 = bytes.trim().parse().map_err(|_| error())?;
        let weight: f64 = weight.trim().parse().map_err(|_| error())?;
        if !FRAME_RANGE_BYTES.contains(&bytes) || !weight.is_finite() || weight < 0.0 {
            return Err(error());
        }
        sizes.push((bytes, weight));
    }
    if sizes.iter().all(|(_, weight)| *weight == 0.0) {
        let message = "no frame size has a weight above 0; expected lines of BYTES,WEIGHT such as 64,7".to_owned();
        return Err(FileError { path: path.to_owned(), message });
    }
    Ok(sizes)
}

fn read(path: &str) -> Result<String, FileError> {
    let error = |message: String| FileError { path: path.to_owned(), message };
    files::text(Path::new(path), files::MOST_BYTES).map_err(|cause| error(unread(&cause)))
}

/// Why a file was not read, in words that follow its name.
pub(crate) fn unread(cause: &std::io::Error) -> String {
    // The message already names the kind of the path, such as a directory.
    match cause.kind() {
        std::io::ErrorKind::InvalidInput => cause.to_string(),
        _ => format!("cannot be read: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_name_that_was_nearly_typed() {
        let said = experiment("fig-7").unwrap_err().to_string();
        assert!(said.contains("did you mean fig-7a"), "{said}");
        let said = experiment("nothing like it").unwrap_err().to_string();
        assert!(said.contains("one of ") && said.contains("fig-7a"), "{said}");
    }

    #[test]
    fn a_size_table_becomes_a_mixture() {
        let file = written("bytes,weight\n# small\n64, 7\n1518,1\n");
        let sizes = frame_sizes(&FrameSizes::File(file.path().display().to_string())).unwrap();
        assert_eq!(sizes, FrameSizes::Mixture(vec![(64, 7.0), (1518, 1.0)]));
    }

    #[test]
    fn a_bad_table_is_told_with_its_line() {
        for (text, part) in [
            ("64,7\n12,1\n", "line 2: \"12,1\""),
            ("64;7\n", "BYTES,WEIGHT"),
            ("64,NaN\n", "at least 0"),
            ("64,-1\n", "at least 0"),
            ("", "no frame size"),
            ("64,0\n", "no frame size"),
        ] {
            let error = sizes_from_csv("s.csv", text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("s.csv"), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_host_is_a_preset_or_a_file() {
        assert!(host("pentium4-2530mhz").is_ok());
        let missing = host("pentium5").unwrap_err().to_string();
        assert!(missing.contains("pentium5") && missing.contains("pentium4-2530mhz"), "{missing}");
        let directory = host("/tmp").unwrap_err().to_string();
        assert!(directory.contains("is a directory"), "{directory}");
        let file = written("protocol = \"5us\"\n");
        assert_eq!(host(&file.path().display().to_string()).unwrap().protocol_s, 5e-6);
    }
}
