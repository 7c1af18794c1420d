//! The initramfs: a cpio archive in the "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;

/// Kinds of entries and their permissions (inode(7)).
const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// An archive to which files are added; their parent directories are added automatically.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    inodes: u32,
    directories: BTreeSet<String>,
}

impl Archive {
    /// Adds an empty directory; `path` has no `/` at its ends.
    pub(super) fn directory(&mut self, path: &str) {
        if self.directories.contains(path) {
            return;
        }
        self.above(path);
        self.directories.insert(path.to_owned());
        self.entry(path, DIRECTORY, &[]);
    }

    /// Adds an executable file.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.above(path);
        self.entry(path, FILE, content);
    }

    /// Finishes the archive.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn above(&mut self, path: &str) {
        if let Some((directory, _)) = path.rsplit_once('/') {
            self.directory(directory);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.inodes += 1;
        let (size, name_size) = (content.len() as u32, path.len() as u32 + 1);
        // Inode, mode, user, group, links, time, size, four device numbers, length of the name, no checksum.
        let fields = [self.inodes, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        fields.iter().for_each(|field| self.bytes.extend_from_slice(format!("{field:08x}").as_bytes()));
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode and content of each entry, read as the kernel does (init/initramfs.c).
    fn entries(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut at = 0;
        let mut found = Vec::new();
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(bytes[at + 110..at + 110 + name_size - 1].to_vec()).unwrap();
            let begin = (at + 110 + name_size).next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert_eq!(begin, bytes.len());
                return found;
            }
            found.push((name, mode, bytes[begin..begin + size].to_vec()));
            at = (begin + size).next_multiple_of(4);
        }
    }

    #[test]
    fn files_come_after_their_directories_and_whole() {
        let mut archive = Archive::default();
        archive.file("lib/modules/a.ko", b"12345");
        archive.file("lib/modules/b.ko", b"");
        archive.directory("proc");
        let entries = entries(&archive.end());
        let names: Vec<&str> = entries.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["lib", "lib/modules", "lib/modules/a.ko", "lib/modules/b.ko", "proc"]);
        assert_eq!((entries[2].1, entries[2].2.as_slice()), (FILE, &b"12345"[..]));
        assert_eq!(entries[4].1, DIRECTORY);
    }
}
