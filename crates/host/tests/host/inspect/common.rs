//! Builds captures from a base and the files and values that a test replaces in it.

use netcliff_host::inspect::capture::ANSWERS;
use serde_json::Value;
use std::{fs, path::Path};

/// A capture to be laid out.
#[derive(Clone)]
pub struct Overlay {
    files: Vec<(String, String)>,
    answers: Value,
}

/// A router: two packages of four cores with two threads (CPU n and n + 8), two 10 Gbit/s ports with four queues each,
/// on node 0, one interrupt per queue and core.
pub fn base() -> Overlay {
    captured(include_str!("../../fixtures/router.tree")).equal_rss("eth0", 4).equal_rss("eth1", 4)
}

/// A capture that is stored as one file, in which the netlink answers are one of the sections.
pub fn captured(tree: &str) -> Overlay {
    let sections = tree.split("== ").skip(1).map(|section| section.split_once('\n').unwrap());
    let (answers, files): (Vec<_>, Vec<_>) = sections.partition(|(path, _)| *path == ANSWERS);
    let files = files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
    Overlay { files, answers: serde_json::from_str(answers[0].1).unwrap() }
}

impl Overlay {
    /// Returns the capture with another text of a file, or with an additional file.
    pub fn file(&self, path: &str, text: &str) -> Overlay {
        let mut overlay = self.clone();
        overlay.files.push((path.to_owned(), text.to_owned()));
        overlay
    }

    /// Returns the capture without a file.
    pub fn without(&self, path: &str) -> Overlay {
        let mut overlay = self.clone();
        overlay.files.retain(|(file, _)| file != path);
        overlay
    }

    /// Returns the capture with another value in the netlink answer about an interface, by JSON pointer. A missing last
    /// key is added.
    pub fn nic(&self, name: &str, pointer: &str, value: impl Into<Value>) -> Overlay {
        let mut overlay = self.clone();
        let nics = overlay.answers.as_array_mut().unwrap();
        let nic = nics.iter_mut().find(|nic| nic["name"] == name).unwrap();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        nic.pointer_mut(parent).unwrap()[key] = value.into();
        overlay
    }

    /// Returns the capture with these CPUs in both CPU lists of an interrupt.
    pub fn irq(&self, irq: u32, cpus: &str) -> Overlay {
        let effective = if cpus.contains('-') { "" } else { cpus };
        self.file(&format!("proc/irq/{irq}/smp_affinity_list"), &format!("{cpus}\n"))
            .file(&format!("proc/irq/{irq}/effective_affinity_list"), &format!("{effective}\n"))
    }

    /// Returns the capture with an RSS table of 128 entries, round robin over the queues.
    pub fn equal_rss(&self, name: &str, queues: u32) -> Overlay {
        self.nic(name, "/rss/indirection", (0..128).map(|entry| entry % queues).collect::<Vec<_>>())
    }

    /// Writes the capture into a temporary directory and returns that directory.
    pub fn lay(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        self.files.iter().for_each(|(path, text)| write(path, text));
        write(ANSWERS, &self.answers.to_string());
        dir
    }
}

/// All files below a directory, relative to it, with their text.
pub fn files(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_file() {
                let text = fs::read_to_string(entry.path()).unwrap();
                found.push((entry.path().strip_prefix(dir).unwrap().to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// The journal's directory of a state directory. Others can enter the temporary directory, so the state is in a
/// subdirectory.
pub fn journal(dir: &tempfile::TempDir) -> std::path::PathBuf {
    netcliff_host::journal::StateDir::at(dir.path()).unwrap().path().join("journal")
}
