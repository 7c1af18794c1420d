//! Any capture is refused or read. A file of packets (pcap or pcapng) that was read has sound figures. From a directory
//! of `inspect --capture` that was read, every page and plan is made, and none contains a control character.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use netcliff_core::capture::{CapturedStream, reading};
use netcliff_core::inspection::Objective;
use netcliff_host::inspect::{Inspection, page, rules};
use netcliff_host::tune::{Wish, plan};
use netcliff_lab::inputs;
use netcliff_report::{Style, terminal};

use super::plans;

/// In an input that describes a directory, begins a file. The rest of the line is the path of the file.
const FILE: &str = "== ";
/// Most bytes of TCP connections that are read.
const STORED_BYTES: usize = 1 << 16;

/// Reads the input as a file of packets, or, if it begins with [`FILE`], as the files of a directory.
pub fn run(bytes: &[u8]) {
    let place = place();
    match std::str::from_utf8(bytes).ok().filter(|text| text.starts_with(FILE)) {
        Some(text) => directory(text, &place.with_extension("d")),
        None => packets(bytes, &place.with_extension("pcap")),
    }
}

/// A path that only this thread uses, in `/dev/shm` (memory) if that directory exists.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    let thread = format!("{:?}", std::thread::current().id());
    dir.join(format!("netcliff-fuzz-{}-{}", process::id(), thread.replace(['(', ')'], "")))
}

fn packets(bytes: &[u8], path: &Path) {
    fs::write(path, bytes).expect("room for the input");
    let read = inputs::capture::read(&path.to_string_lossy());
    let _ = fs::remove_file(path);
    if let Ok(read) = reading::streams(bytes, 80, STORED_BYTES) {
        let stored = read.streams.iter().map(|stream| stream.bytes.len()).sum::<usize>();
        assert!(stored <= STORED_BYTES, "{stored} bytes");
        let timed = |stream: &CapturedStream| (0..stream.bytes.len()).all(|offset| stream.at_ns(offset).is_some());
        assert!(read.streams.iter().all(timed), "a byte without a time");
    }
    let Ok(capture) = read else { return };
    assert!(capture.packets.len() >= 2);
    let rate_pps = capture.rate_pps();
    assert!(rate_pps.is_finite() && rate_pps > 0.0, "{rate_pps} packets/s of {:?}", capture.packets);
    assert!(capture.sizes().iter().all(|(bytes, packets)| *bytes >= 64 && *packets >= 1.0), "{:?}", capture.sizes());
    let in_flows: u64 = capture.flows.iter().map(|flow| flow.packets).sum();
    assert!(in_flows <= capture.packets.len() as u64);
}

fn directory(text: &str, dir: &Path) {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir(dir).expect("room for the input");
    for file in text.split(FILE).skip(1) {
        let (name, content) = file.split_once('\n').unwrap_or((file, ""));
        // File names are not tested here. A name that would lead out of the directory is skipped.
        let is_inside = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
        if name.len() > 200 || !name.split('/').all(is_inside) {
            continue;
        }
        let path = dir.join(name);
        let _ = path.parent().map(fs::create_dir_all);
        let _ = fs::write(&path, content);
    }
    let read = Inspection::of_capture(dir);
    let _ = fs::remove_dir_all(dir);
    if let Ok(inspection) = read {
        pages(&inspection);
    }
}

fn pages(inspection: &Inspection) {
    for objective in [Objective::Latency, Objective::Cpu, Objective::Throughput] {
        let aim = rules::Aim { objective: Some(objective), rtt_s: 1e-3 };
        let remarks = rules::check(inspection, &aim);
        plans::plain(&terminal::inspection(&page::sheet(inspection, remarks), Style::default()));
        let interfaces = inspection.ports.iter().map(|port| port.nic.name.clone()).collect();
        if let Ok(plan) = plan(inspection, &Wish { interfaces, ..Wish::new(objective) }) {
            plans::forms(&plan, inspection);
        }
    }
    let written = serde_json::to_string(inspection).expect("an inspection is written");
    let _: Inspection = serde_json::from_str(&written).expect("and read again");
}
