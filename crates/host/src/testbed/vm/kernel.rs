//! The guest's kernel and the modules that the NIC and the control channel need.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Model, VmError, VmOptions, step};
use crate::files;

/// The driver of the control channel and its bus.
const CONTROL: [&str; 2] = ["virtio_pci", "virtio_console"];
/// Offset of the pointer to a bzImage's release text (Documentation/arch/x86/boot.rst, kernel_version), relative to
/// [`SETUP`].
const KERNEL_VERSION: usize = 0x20e;
const SETUP: usize = 0x200;

/// A kernel that can boot.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) path: PathBuf,
    /// Release, as printed by `uname -r`.
    pub(super) release: String,
}

/// A module, unpacked.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

/// The requested kernel, or the newest of this host.
pub(super) fn find(options: &VmOptions) -> Result<Kernel, VmError> {
    let path = options.kernel.clone().or_else(newest).ok_or_else(|| {
        VmError::Kernel(
            "no kernel for the guest in /boot: install one (Debian: linux-image-amd64), or give --vm-kernel FILE, a bzImage".into(),
        )
    })?;
    let mut head = Vec::new();
    let read = files::open(&path).and_then(|file| file.take(64 << 10).read_to_end(&mut head));
    read.map_err(|error| {
        VmError::Kernel(format!("{} cannot be read: {error}; expected a bzImage for x86-64", path.display()))
    })?;
    let release = release(&head).ok_or_else(|| {
        VmError::Kernel(format!("{} is no kernel for the guest: expected a bzImage for x86-64", path.display()))
    })?;
    Ok(Kernel { path, release })
}

/// The newest kernel below /boot by modification time; `None` if there is no kernel.
fn newest() -> Option<PathBuf> {
    let files = fs::read_dir("/boot").ok()?.flatten().map(|entry| entry.path());
    let kernels =
        files.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")));
    kernels.max_by_key(|path| fs::metadata(path).and_then(|data| data.modified()).ok())
}

fn release(head: &[u8]) -> Option<String> {
    if head.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let at = u16::from_le_bytes(head.get(KERNEL_VERSION..KERNEL_VERSION + 2)?.try_into().ok()?) as usize + SETUP;
    let text = head.get(at..)?.split(|byte| matches!(byte, 0 | b' ')).next()?;
    String::from_utf8(text.to_vec()).ok().filter(|release| !release.is_empty())
}

impl Kernel {
    /// The modules that the guest loads, in order; the NIC's driver is last.
    pub(super) fn modules(&self, options: &VmOptions) -> Result<Vec<Module>, VmError> {
        let directory = self.directory(options)?;
        let mut files = BTreeMap::new();
        index(&directory.join("kernel"), &mut files);
        let built_in = fs::read_to_string(directory.join("modules.builtin")).unwrap_or_default();
        let mut wanted = Wanted { release: &self.release, files, built_in: names(&built_in), found: Vec::new() };
        for name in CONTROL.into_iter().chain([options.model.module()]) {
            wanted.add(name, options.model)?;
        }
        Ok(wanted.found)
    }

    /// Directory of the modules: the requested one, one next to the kernel (as in an unpacked package), or this host's.
    fn directory(&self, options: &VmOptions) -> Result<PathBuf, VmError> {
        let release = &self.release;
        if let Some(directory) = &options.modules {
            let given = [directory.clone(), directory.join(release)];
            return given.into_iter().find(|directory| directory.join("kernel").is_dir()).ok_or_else(|| {
                VmError::Kernel(format!(
                    "{} has no modules of the kernel {release}: expected its directory, such as /lib/modules/{release}",
                    directory.display()
                ))
            });
        }
        let beside = self.path.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let places = [beside.join("lib/modules"), beside.join("usr/lib/modules"), "/lib/modules".into()];
        places.into_iter().map(|place| place.join(release)).find(|place| place.join("kernel").is_dir()).ok_or_else(|| {
            VmError::Kernel(format!(
                "the modules of the guest's kernel {} are missing: expected /lib/modules/{release}, or give --vm-modules DIR",
                self.path.display()
            ))
        })
    }
}

/// Indexes modules by name; `-` and `_` are equal in names.
fn index(directory: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            index(&path, files);
        } else if let Some(name) = name(&path.to_string_lossy()) {
            files.insert(name, path);
        }
    }
}

fn name(path: &str) -> Option<String> {
    let (name, _) = path.rsplit('/').next()?.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

fn names(built_in: &str) -> Vec<String> {
    built_in.lines().filter_map(name).collect()
}

struct Wanted<'a> {
    release: &'a str,
    files: BTreeMap<String, PathBuf>,
    built_in: Vec<String>,
    found: Vec<Module>,
}

impl Wanted<'_> {
    /// Adds a module after the modules that it needs.
    fn add(&mut self, name: &str, model: Model) -> Result<(), VmError> {
        let known = |names: &[String]| names.iter().any(|known| known == name);
        if known(&self.built_in) || self.found.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let Some(path) = self.files.get(name).cloned() else {
            let why = format!("the guest's kernel {} has no module {name}, which vm:{model} needs", self.release);
            return Err(VmError::Kernel(why));
        };
        let content = unpacked(&path)?;
        for needed in depends(&content) {
            self.add(&needed, model)?;
        }
        self.found.push(Module { name: name.to_owned(), content });
        Ok(())
    }
}

fn unpacked(path: &Path) -> Result<Vec<u8>, VmError> {
    let failed = || step(format!("read the guest's module {}", path.display()));
    let packed = fs::read(path).map_err(failed())?;
    let by = |program: &str| {
        let input = File::open(path).map_err(failed())?;
        let ran = Command::new(program).args(["-dc"]).stdin(Stdio::from(input)).output();
        match ran {
            Ok(output) if output.status.success() => Ok(output.stdout),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(VmError::Kernel(format!("{program} cannot unpack {}: {}", path.display(), said.trim())))
            }
            Err(error) => {
                Err(VmError::Kernel(format!("{program}, which unpacks {}, cannot be run: {error}", path.display())))
            }
        }
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => by("xz"),
        Some("zst") => by("zstd"),
        Some("gz") => {
            let mut content = Vec::new();
            flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut content).map_err(failed())?;
            Ok(content)
        }
        _ => Ok(packed),
    }
}

/// The module names in the `depends=` entry of a module's .modinfo section (include/linux/module.h).
fn depends(module: &[u8]) -> Vec<String> {
    let entries = module.split(|byte| *byte == 0);
    let list = entries.filter_map(|entry| entry.strip_prefix(b"depends=")).next().unwrap_or_default();
    let names = list.split(|byte| *byte == b',').filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_those_they_need() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("kernel/drivers");
        fs::create_dir_all(&kernel).unwrap();
        let module = |name: &str, needs: &str| {
            fs::write(kernel.join(name), format!("\x7fELF\0license=GPL\0depends={needs}\0name=x\0")).unwrap();
        };
        module("virtio_pci.ko", "virtio,virtio_ring");
        module("virtio.ko", "");
        module("virtio_ring.ko", "virtio");
        module("virtio_console.ko", "virtio");
        module("e1000e.ko", "ptp");
        fs::write(dir.path().join("modules.builtin"), "kernel/drivers/ptp/ptp.ko\n").unwrap();
        let options = VmOptions {
            model: Model::E1000e,
            qemu: None,
            monitor: None,
            kernel: None,
            modules: Some(dir.path().to_owned()),
            parameters: String::new(),
            cpus: 1,
            sender_cpu: None,
            whole_segments: false,
            router: false,
        };
        let own = Kernel { path: "/boot/vmlinuz-1".into(), release: "1".into() };
        let found = own.modules(&options).unwrap();
        let names: Vec<&str> = found.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "virtio_pci", "virtio_console", "e1000e"]);
        let missing = own.modules(&VmOptions { model: Model::Igb, ..options }).unwrap_err().to_string();
        assert!(missing.contains("no module igb, which vm:igb needs"), "{missing}");
    }

    #[test]
    fn the_release_of_a_kernel_stands_in_its_head() {
        let mut head = vec![0; 0x400];
        head[0x202..0x206].copy_from_slice(b"HdrS");
        head[KERNEL_VERSION..KERNEL_VERSION + 2].copy_from_slice(&0x100_u16.to_le_bytes());
        head[0x300..0x310].copy_from_slice(b"6.1.0-9-amd64 (d");
        assert_eq!(release(&head).as_deref(), Some("6.1.0-9-amd64"));
        assert_eq!(release(b"\x7fELF"), None);
    }
}
