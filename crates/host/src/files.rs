//! Files that others may have written: [`open`], [`bytes`], [`text`]; and all files that a user names for writing:
//! [`write()`], [`append`], [`check`]. Their paths may name anything.
//!
//! Only regular files are read, and no more than requested: a FIFO would block, reading a device may never end, and the
//! length reported by stat may differ from the content.
//!
//! Only regular files are replaced, and completely: a failure leaves the old file unchanged. Terminals, pipes and other
//! character devices are written to and remain what they are. Directories, sockets, block devices and links of other
//! users are refused.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions, Permissions},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, ErrorKind, Read, Seek, SeekFrom, Write},
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Most bytes that are read of a file written by people, or by netcliff for them.
pub const MOST_BYTES: u64 = 16 << 20;

/// Longest time that a write waits for a pipe without a reader, or whose reader does not read.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two attempts to write to a pipe.
const LOOK: Duration = Duration::from_millis(10);
/// Most symbolic links that are followed: the kernel's own limit (MAXSYMLINKS).
const MOST_LINKS: usize = 40;

/// Opens a regular file for reading, following symbolic links.
///
/// # Errors
/// The file cannot be opened, or is not a regular file (the error says what it is).
pub fn open(path: &Path) -> io::Result<File> {
    // Checked first, because opening a device can have effects; and again once it is open, because it may have been
    // replaced.
    regular(&fs::metadata(path)?)?;
    // With these flags the call neither waits for the writer of a FIFO nor makes a terminal the controlling terminal.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// The whole content of a regular file.
///
/// # Errors
/// The errors of [`open`]; the file has more than `most_bytes`, or cannot be read.
pub fn bytes(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(unfit(format!("is longer than {most_bytes} bytes, the most that is read")));
    }
    Ok(bytes)
}

/// The whole content of a regular text file.
///
/// # Errors
/// The errors of [`bytes`]; the content is not UTF-8.
pub fn text(path: &Path, most_bytes: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, most_bytes)?).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("byte {place} is not UTF-8"))
    })
}

/// How [`write()`] creates a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Form {
    /// Permissions; `None`: those of the replaced file, or 0666 minus the umask.
    pub mode: Option<u32>,
    /// True: an existing file is an error (`AlreadyExists`).
    pub is_new: bool,
    /// True: netcliff chose the name, in a directory that the user named: an existing link is replaced, not followed.
    pub is_own_name: bool,
}

/// Target of a path.
enum Target {
    /// Nothing: a file may be created there.
    New(PathBuf),
    /// A regular file, with its real name.
    Regular(PathBuf),
    /// Something to write to: a pipe, a character device, an open file of this process (/dev/stdout).
    Stream,
}

/// Writes a file completely: writes a new file in the same directory, syncs it, and then renames it to `path`. Links
/// are followed to their target. If the name cannot be replaced (a second hard link, another owner, a directory without
/// write permission), the file itself is written, and its content restored if that fails. `gives_up` returns true once
/// a stop was requested: the write then no longer waits for a pipe.
///
/// # Errors
/// The file cannot be written, it is of a refused kind, or a pipe has no reader for ten seconds.
pub fn write(path: &Path, bytes: &[u8], form: Form, gives_up: &dyn Fn() -> bool) -> io::Result<()> {
    if form.is_own_name && fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink()) {
        return replace(path, None, bytes, form);
    }
    match target(path)? {
        Target::Stream => Stream::open(path, gives_up)?.write(bytes, gives_up),
        _ if form.is_new && fs::symlink_metadata(path).is_ok() => Err(ErrorKind::AlreadyExists.into()),
        Target::New(path) => replace(&path, None, bytes, form),
        Target::Regular(path) => {
            let (file, about) = writable(&path)?;
            if about.nlink() > 1 {
                return overwrite(file, bytes);
            }
            match replace(&path, Some(&about), bytes, form) {
                Err(error) if cannot_take_name(&error) => overwrite(file, bytes),
                other => other,
            }
        }
    }
}

/// Checks before the work whether [`write()`] would probably succeed; makes no lasting changes.
///
/// # Errors
/// The errors of [`write()`], except for a full disk and a pipe without a reader.
pub fn check(path: &Path) -> io::Result<()> {
    match target(path)? {
        Target::Stream => Ok(()),
        Target::Regular(path) => writable(&path).map(drop),
        Target::New(path) => {
            let (_, beside) = temporary(&path, 0o600)?;
            fs::remove_file(beside)
        }
    }
}

/// Opens a file to add bytes at its end. A file that does not exist is created; a pipe or a character device is opened
/// as by [`write()`].
///
/// # Errors
/// The errors of [`write()`].
pub fn append(path: &Path, gives_up: &dyn Fn() -> bool) -> io::Result<Appender> {
    let to = match target(path)? {
        Target::Stream => To::Stream(Stream::open(path, gives_up)?),
        Target::New(path) | Target::Regular(path) => {
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
            let file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)?;
            regular(&file.metadata()?)?;
            To::File(file)
        }
    };
    Ok(Appender { to })
}

/// A file opened by [`append`].
#[derive(Debug)]
pub struct Appender {
    to: To,
}

#[derive(Debug)]
enum To {
    File(File),
    Stream(Stream),
}

impl Appender {
    /// Adds all bytes. If a write to a regular file fails, the file is cut back to its former length.
    ///
    /// # Errors
    /// The disk is full, or nobody reads the pipe.
    pub fn add(&mut self, bytes: &[u8], gives_up: &dyn Fn() -> bool) -> io::Result<()> {
        match &mut self.to {
            To::Stream(stream) => stream.write(bytes, gives_up),
            To::File(file) => {
                let before = file.metadata()?.len();
                file.write_all(bytes).inspect_err(|_| _ = file.set_len(before))
            }
        }
    }
}

/// Creates a directory and its missing parents, accessible to this user only. Directories that exist are not changed.
///
/// # Errors
/// A directory cannot be created.
pub fn private_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a lock file. If it does not exist, it is created with access for this user only; an existing file's content is
/// not changed. A symbolic link is refused.
///
/// # Errors
/// The file cannot be opened, or is not a regular file.
pub fn lock(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// The reason why a symbolic link must not be followed: another user owns it. `None` if `path` is no link, or a link of
/// root or of this user.
pub fn linked_by_others(path: &Path) -> Option<String> {
    let about = fs::symlink_metadata(path).ok().filter(Metadata::is_symlink)?;
    let own = nix::unistd::geteuid().as_raw();
    let is_foreign = about.uid() != 0 && about.uid() != own;
    is_foreign.then(|| format!("{} is a symbolic link of another user's ({})", path.display(), about.uid()))
}

fn target(path: &Path) -> io::Result<Target> {
    match fs::metadata(path) {
        Ok(about) if about.file_type().is_fifo() => return Ok(Target::Stream),
        Ok(about) if about.file_type().is_char_device() => return Ok(Target::Stream),
        Ok(about) => regular(&about)?,
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::symlink_metadata(&at) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Target::New(at)),
            Err(error) => return Err(error),
            Ok(about) if !about.is_symlink() => return regular(&about).map(|()| Target::Regular(at)),
            Ok(_) => {}
        }
        if is_open_file(&at) {
            return Ok(Target::Stream);
        }
        if let Some(why) = linked_by_others(&at) {
            return Err(unfit(why));
        }
        at = directory(&at).join(fs::read_link(&at)?);
    }
    Err(unfit("goes over too many symbolic links".to_owned()))
}

/// Whether the path names a descriptor of this process, such as /proc/self/fd/1. The file behind it is already open and
/// may have no name.
fn is_open_file(path: &Path) -> bool {
    fs::canonicalize(directory(path)).is_ok_and(|dir| dir.starts_with("/proc"))
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a regular file for writing; changes nothing in it.
fn writable(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    // Without read permission the old content could not be restored, so the file is replaced or refused.
    let file = match file {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            OpenOptions::new().write(true).custom_flags(flags).open(path)?
        }
        other => other?,
    };
    let about = file.metadata()?;
    regular(&about)?;
    Ok((file, about))
}

/// Creates a new file in the directory of `path`, with a random name.
fn temporary(path: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    let number = RandomState::new().build_hasher().finish();
    let beside = directory(path).join(format!(".netcliff-{number:016x}"));
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    Ok((file, beside))
}

fn replace(path: &Path, old: Option<&Metadata>, bytes: &[u8], form: Form) -> io::Result<()> {
    let (file, beside) = temporary(path, form.mode.unwrap_or(0o666))?;
    let written = filled(&file, old, bytes, form).and_then(|()| match form.is_new {
        // Unlike a rename, a hard link does not replace an existing file.
        true => fs::hard_link(&beside, path).and_then(|()| fs::remove_file(&beside)),
        false => fs::rename(&beside, path),
    });
    if let Err(error) = written {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    // Syncing the directory makes the name survive a crash; not every file system supports it, so errors are ignored.
    let _ = File::open(directory(path)).and_then(|dir| dir.sync_all());
    Ok(())
}

/// Fills a new file and gives it the owner and the mode of the file that it replaces.
fn filled(mut file: &File, old: Option<&Metadata>, bytes: &[u8], form: Form) -> io::Result<()> {
    let about = file.metadata()?;
    if let Some(old) = old.filter(|old| (old.uid(), old.gid()) != (about.uid(), about.gid())) {
        fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    if let Some(mode) = form.mode.or(old.map(|old| old.mode() & 0o7777)) {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

/// Whether the error means that no new file can be made or renamed here; the old file may still be writable.
fn cannot_take_name(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            | ErrorKind::CrossesDevices
    )
}

/// Writes new content to an open file, and restores the old content if that fails.
fn overwrite(mut file: File, bytes: &[u8]) -> io::Result<()> {
    let mut old = Vec::new();
    file.read_to_end(&mut old)?;
    let mut anew = |bytes: &[u8]| {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    };
    anew(bytes).inspect_err(|_| _ = anew(&old))
}

/// A pipe, a character device or a descriptor of this process. A write to it has a time limit.
#[derive(Debug)]
struct Stream(File);

impl Stream {
    fn open(path: &Path, gives_up: &dyn Fn() -> bool) -> io::Result<Self> {
        let about = fs::metadata(path)?;
        if about.is_file() {
            return open_again(path).map(Self);
        }
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        let begun = Instant::now();
        loop {
            match OpenOptions::new().write(true).custom_flags(flags).open(path) {
                Err(error) if about.file_type().is_fifo() && error.raw_os_error() == Some(libc::ENXIO) => {
                    if begun.elapsed() > PATIENCE || gives_up() {
                        return Err(unfit("nobody reads this pipe: start its reader first".to_owned()));
                    }
                    thread::sleep(LOOK);
                }
                opened => return opened.map(Self),
            }
        }
    }

    fn write(&mut self, mut bytes: &[u8], gives_up: &dyn Fn() -> bool) -> io::Result<()> {
        let mut since = Instant::now();
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => (bytes, since) = (&bytes[written..], Instant::now()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if since.elapsed() > PATIENCE || gives_up() {
                        let why =
                            format!("its reader has stopped: it took nothing for {} s", since.elapsed().as_secs());
                        return Err(io::Error::new(ErrorKind::TimedOut, why));
                    }
                    thread::sleep(LOOK);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens a descriptor's regular file again: stdout and stderr at their current offset, any other at its end.
fn open_again(path: &Path) -> io::Result<File> {
    let path = fs::read_link(path).ok().filter(|to| is_open_file(to)).unwrap_or_else(|| path.to_owned());
    let owned = match path.file_name().and_then(OsStr::to_str) {
        Some("1") => io::stdout().as_fd().try_clone_to_owned(),
        Some("2") => io::stderr().as_fd().try_clone_to_owned(),
        _ => return OpenOptions::new().append(true).open(path),
    };
    owned.map(File::from)
}

/// Refuses an existing path that is not a regular file.
///
/// # Errors
/// The path is a directory, a pipe, a socket or a device.
pub fn refuse_other_than_file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(about) => regular(&about),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn regular(about: &fs::Metadata) -> io::Result<()> {
    let kind = about.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "is a directory",
        () if kind.is_fifo() => "is a pipe",
        () if kind.is_socket() => "is a socket",
        () => "is a device",
    };
    Err(unfit(format!("{what}, not a file")))
}

fn unfit(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn only_regular_files_are_read_and_no_further_than_asked() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "12345").unwrap();
        assert_eq!(text(&file, 5).unwrap(), "12345");
        assert!(text(&file, 4).unwrap_err().to_string().contains("longer than 4 bytes"));
        fs::write(&file, b"ab\xff").unwrap();
        assert!(text(&file, 5).unwrap_err().to_string().contains("byte 2 is not UTF-8"));
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        let begun = Instant::now();
        for (path, what) in [(&pipe, "a pipe"), (&link, "a device"), (&dir.path().to_owned(), "a directory")] {
            let told = bytes(path, MOST_BYTES).unwrap_err().to_string();
            assert!(told.contains(what), "{told}");
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        // stat(2) reports length 0 for a file of /proc; it is read to its end, up to the limit.
        assert!(!text(Path::new("/proc/self/status"), MOST_BYTES).unwrap().is_empty());
        assert!(text(Path::new("/proc/self/status"), 10).is_err());
    }

    fn written(path: &Path, text: &str) -> io::Result<()> {
        write(path, text.as_bytes(), Form::default(), &|| false)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_links_lead_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, foreign) = (dir.path().join("file"), dir.path().join("link"), dir.path().join("file.new"));
        fs::write(&foreign, "another's").unwrap();
        written(&file, "new").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        let inode = fs::metadata(&file).unwrap().ino();
        written(&link, "newer").unwrap();
        let about = fs::metadata(&file).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(about.ino() != inode && about.mode() & 0o777 == 0o640, "{about:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "newer");
        // After the write both hard links still name the same file.
        fs::hard_link(&file, dir.path().join("second")).unwrap();
        written(&file, "both").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("second")).unwrap(), "both");
        let new = Form { is_new: true, ..Form::default() };
        assert_eq!(write(&file, b"x", new, &|| false).unwrap_err().kind(), ErrorKind::AlreadyExists);
        write(&dir.path().join("third"), b"x", new, &|| false).unwrap();
        check(&dir.path().join("fourth")).unwrap();
        assert!(check(&dir.path().join("no/such")).is_err() && check(dir.path()).is_err());
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "another's");
        assert_eq!(names(dir.path()), ["file", "file.new", "link", "second", "third"]);
    }

    #[test]
    fn pipes_and_devices_stay_what_they_are_and_are_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let begun = Instant::now();
        let told = write(&pipe, b"x", Form::default(), &|| true).unwrap_err().to_string();
        assert!(told.contains("nobody reads"), "{told}");
        // A reader that reads gets all bytes. If the reader does not read, the write ends with an error.
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
        written(&pipe, "page").unwrap();
        let told = write(&pipe, &vec![b'x'; 1 << 20], Form::default(), &|| true).unwrap_err();
        assert_eq!(told.kind(), ErrorKind::TimedOut);
        drop(reader);
        assert!(begun.elapsed() < Duration::from_secs(5) && fs::metadata(&pipe).unwrap().file_type().is_fifo());
        // A device node that the test creates, if it has the right to.
        let (null, link) = (dir.path().join("null"), dir.path().join("link"));
        use nix::sys::stat::{Mode, SFlag, makedev, mknod};
        if mknod(&null, SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, makedev(1, 3)).is_ok() {
            std::os::unix::fs::symlink(&null, &link).unwrap();
            for path in [&null, &link] {
                // A file system mounted without devices refuses the write.
                let _ = written(path, "page");
                assert!(fs::metadata(path).unwrap().file_type().is_char_device());
            }
        }
        assert!(fs::symlink_metadata(&pipe).is_ok());
    }
}
