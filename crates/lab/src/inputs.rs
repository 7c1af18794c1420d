//! Inputs that name a file: hosts and frame-size tables.

use std::path::Path;

use netcliff_core::experiment::FileError;
use netcliff_core::host::PRESETS;
use netcliff_core::traffic::FRAME_RANGE_BYTES;
use netcliff_core::{FrameSizes, Host};

/// Largest input file that is read (bytes): more is surely not a host or a size table.
const LARGEST_BYTES: u64 = 16 << 20;

/// A host by preset name or from a TOML file.
///
/// # Errors
/// Neither a preset nor a readable file, or what is wrong in the file.
pub fn host(name: &str) -> Result<Host, FileError> {
    if let Some(host) = Host::preset(name) {
        return Ok(host);
    }
    let text = read(name).map_err(|error| FileError {
        message: format!("{}; give a preset ({}) or a TOML file of costs", error.message, PRESETS.join(", ")),
        ..error
    })?;
    Host::from_toml(name, &text)
}

/// The text of an experiment file.
///
/// # Errors
/// The file cannot be read.
pub fn experiment(path: &str) -> Result<String, FileError> {
    read(path)
}

/// Frame sizes with a CSV file replaced by what it holds.
///
/// # Errors
/// The file cannot be read, or what is wrong in it and where.
pub fn frame_sizes(sizes: &FrameSizes) -> Result<FrameSizes, FileError> {
    match sizes {
        FrameSizes::File(path) => sizes_from_csv(path, &read(path)?).map(FrameSizes::Mixture),
        other => Ok(other.clone()),
    }
}

/// Lines of `bytes,weight`; a header line and lines that begin with `#` are passed over.
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
    let metadata = std::fs::metadata(Path::new(path)).map_err(|cause| error(format!("cannot be read: {cause}")))?;
    if metadata.is_dir() {
        return Err(error("is a directory, not a file".to_owned()));
    }
    if metadata.len() > LARGEST_BYTES {
        return Err(error(format!("is {} bytes long; at most {LARGEST_BYTES} are read", metadata.len())));
    }
    std::fs::read_to_string(path).map_err(|cause| error(format!("cannot be read: {cause}")))
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
