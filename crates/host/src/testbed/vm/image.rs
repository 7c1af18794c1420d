//! Contents of the guest: netcliff with its shared libraries, and modules of the guest's kernel.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::kernel::Module;
use super::{VmError, step};

/// Directory of the modules in the guest, in load order, and the file with the parameters of the last module.
pub(super) const MODULES: &str = "lib/modules";
pub(super) const PARAMETERS: &str = "etc/parameters";

/// The initramfs.
pub(super) fn of_this_program(modules: &[Module], parameters: &str) -> Result<Vec<u8>, VmError> {
    let mut archive = Archive::default();
    ["dev", "proc", "root", "run", "sys", "tmp", "var"].iter().for_each(|path| archive.directory(path));
    let program = fs::read("/proc/self/exe").map_err(step("read this program"))?;
    archive.file("netcliff", &loadable(program));
    for library in libraries() {
        let content = fs::read(&library).map_err(step(format!("read {}", library.display())))?;
        archive.file(library.to_string_lossy().trim_start_matches('/'), &loadable(content));
    }
    for (place, module) in modules.iter().enumerate() {
        archive.file(&format!("{MODULES}/{place:03}-{}.ko", module.name), &module.content);
    }
    archive.file(PARAMETERS, parameters.as_bytes());
    Ok(archive.end())
}

/// Shared libraries of this process by the paths at which the loader found them; empty for a static program.
fn libraries() -> Vec<PathBuf> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, found: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader passes a valid entry, and `found` as it is passed below.
        let (name, found) = unsafe { ((*info).dlpi_name, &mut *found.cast::<Vec<PathBuf>>()) };
        if !name.is_null() {
            // SAFETY: the loader's names end with a NUL.
            let name = unsafe { CStr::from_ptr(name) };
            found.push(PathBuf::from(OsStr::from_bytes(name.to_bytes())));
        }
        0
    }
    let mut found: Vec<PathBuf> = Vec::new();
    // SAFETY: `note` casts the pointer back to its original type.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    // The main program has no name, and the vDSO a name without a directory.
    found.retain(|path| path.is_absolute() && Path::new(path).is_file());
    found
}

/// Truncates a 64-bit ELF file after its last segment: removes symbols and debug information, which are most of a
/// build. Returns any other file unchanged.
fn loadable(mut file: Vec<u8>) -> Vec<u8> {
    if let Some(end) = segments_end(&file) {
        file.truncate(end);
        // No section headers: e_shoff, e_shnum, e_shstrndx (elf(5)).
        file[40..48].fill(0);
        file[60..64].fill(0);
    }
    file
}

fn segments_end(file: &[u8]) -> Option<usize> {
    let long = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?) as usize);
    let short = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?) as usize);
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (long(32)?, short(54)?, short(56)?);
    let mut end = table + size * count;
    for place in 0..count {
        let header = table + place * size;
        end = end.max(long(header + 8)?.checked_add(long(header + 32)?)?);
    }
    (64..=file.len()).contains(&end).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn a_program_runs_without_what_follows_its_segments() {
        let whole = fs::read("/proc/self/exe").unwrap();
        let cut = loadable(whole.clone());
        assert!(cut.len() < whole.len());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cut");
        fs::write(&file, cut).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let told = Command::new(&file).args(["--list", "a_program_runs_without"]).output().unwrap();
        assert!(String::from_utf8_lossy(&told.stdout).contains("a_program_runs_without"), "{told:?}");
        assert_eq!(loadable(b"no ELF".to_vec()), b"no ELF");
    }
}
