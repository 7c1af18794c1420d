//! The experiments built into the program, for hosts without its source.

macro_rules! known {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../experiments/", $name, ".toml")))),*]
    };
}

/// Names and texts of the files in the directory experiments/.
pub const KNOWN: &[(&str, &str)] = known!(
    "affinity" "align" "block-sweep" "coalescing" "coalescing-on-a-driver" "feature-matrix"
    "features-one-by-one" "fig-10a" "fig-10b" "fig-10c" "fig-10d" "fig-11a" "fig-11b" "fig-11c" "fig-11d" "fig-11e"
    "fig-11f" "fig-11g" "fig-11h" "fig-11i" "fig-7a" "fig-7b" "fig-7b-printed" "fig-7c" "fig-7c-exact" "fig-7c-printed"
    "fig-7d" "flow-control" "forwarding-optimised" "hybrid" "ip-versions" "kernel-share" "method-comparison" "mlfrr"
    "moderation" "mtu-and-sendfile" "one-byte" "queues" "receive-starvation" "reception-on-a-driver" "ring-size"
    "roofline" "shared-threads" "slow-link" "socket-buffers" "table-1" "table-1-readings" "transmission-on-a-driver"
    "transmit-starvation" "two-timers" "udp-line" "udp-size" "without-tso"
);

/// The text of the experiment with this name.
pub fn named(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use netcliff_core::experiment::Experiment;

    use super::super::experiment;
    use super::*;

    #[test]
    fn every_file_of_the_directory_is_known_by_its_name() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut stems: Vec<String> = files
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        stems.sort();
        assert_eq!(stems, KNOWN.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>());
        for (name, text) in KNOWN {
            Experiment::from_toml(name, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(experiment(name).unwrap(), *text);
        }
    }

    #[test]
    fn a_name_that_is_neither_is_told_with_what_there_is() {
        let error = experiment("feature-matrx").unwrap_err().to_string();
        assert!(error.contains("feature-matrx") && error.contains("did you mean feature-matrix?"), "{error}");
    }
}
