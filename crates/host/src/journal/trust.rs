//! Checks who owns the state directory and its files. Root acts on their content, so root itself must have written
//! them.

use crate::{files, procfs};
use nix::unistd::geteuid;
use std::{
    fs::{self, Metadata, OpenOptions, Permissions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

/// Most symbolic links that are followed in a path.
const MOST_LINKS: u32 = 16;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const FOR_OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// Creates a directory that only this user can enter, or checks an existing one. `is_ours`: the name shows that the
/// directory is netcliff's own; then, if others can enter it (an earlier version allowed that), it is closed to them.
/// Any other directory is not changed but refused.
///
/// # Errors
/// The directory cannot be created; or it or a directory above it belongs to another user or can be changed by others;
/// or it is a symbolic link; or others can enter it.
pub(super) fn private_directory(path: &Path, is_ours: bool) -> io::Result<()> {
    files::private_directory(path)?;
    let about = checked(path)?;
    if about.uid() != geteuid().as_raw() {
        return Err(refused(path, &format!("belongs to {}", user(about.uid()))));
    }
    match about.mode() & 0o7777 {
        mode if mode & FOR_OTHERS == 0 => Ok(()),
        _ if is_ours => fs::set_permissions(path, Permissions::from_mode(0o700)),
        mode => Err(refused(path, &format!("can be entered by others (mode {mode:04o})"))),
    }
}

/// Whether others can enter a directory, or it is root's and this user is not root. This user's files must then be in a
/// private subdirectory. False if the directory does not exist.
///
/// # Errors
/// The errors of [`private_directory`] for a directory that cannot be trusted.
pub(super) fn is_shared(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        Ok(about) if !about.is_dir() && !about.is_symlink() => Err(refused(path, "is no directory")),
        Ok(_) => {
            let about = checked(path)?;
            Ok(about.uid() != geteuid().as_raw() || about.mode() & FOR_OTHERS != 0)
        }
    }
}

/// The metadata of a directory that is no symbolic link and whose parents nobody else can change.
fn checked(path: &Path) -> io::Result<Metadata> {
    let about = fs::symlink_metadata(path)?;
    if about.is_symlink() {
        return Err(refused(path, "is a symbolic link: name the directory itself"));
    }
    walk(&std::path::absolute(path)?, MOST_LINKS)?;
    Ok(about)
}

/// The content of a file of this user; the inner error is the reason why the file is not trusted.
pub(super) fn read(path: &Path) -> io::Result<Result<Vec<u8>, String>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Ok(Err("it is a symbolic link".to_owned()));
        }
        other => other?,
    };
    let about = file.metadata()?;
    if let Some(why) = foreign(&about) {
        return Ok(Err(why));
    }
    // Checked by the open descriptor: the name may by now belong to another file.
    let open = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
    files::bytes(&open, files::MOST_BYTES).map(Ok)
}

/// The reason why a file is not this user's own; `None` if it is.
pub(super) fn foreign(about: &Metadata) -> Option<String> {
    match () {
        () if !about.is_file() => Some("it is no regular file".to_owned()),
        () if about.uid() != geteuid().as_raw() => Some(format!("it belongs to {}", user(about.uid()))),
        () if about.mode() & WRITABLE_BY_OTHERS != 0 => {
            Some(format!("others can write it (mode {:04o})", about.mode() & 0o7777))
        }
        () if about.nlink() > 1 => Some("it has a second name (a hard link)".to_owned()),
        () => None,
    }
}

/// Checks that every directory on the path belongs to root or to this user and that others cannot change it, so that no
/// name in it can be replaced between check and use. In a sticky directory (/tmp) others cannot rename files that are
/// not theirs.
fn walk(path: &Path, links: u32) -> io::Result<()> {
    let mut at = PathBuf::from("/");
    let mut parts = path.components();
    while let Some(part) = parts.next() {
        match part {
            Component::Normal(name) => at.push(name),
            Component::ParentDir => _ = at.pop(),
            _ => {}
        }
        let about = fs::symlink_metadata(&at)?;
        if !is_trusted(about.uid()) {
            return Err(refused(&at, &format!("belongs to {}", user(about.uid()))));
        }
        if about.is_symlink() {
            let links = links.checked_sub(1).ok_or_else(|| refused(path, "goes over too many symbolic links"))?;
            let target = at.parent().unwrap_or(Path::new("/")).join(fs::read_link(&at)?);
            return walk(&target.join(parts.as_path()), links);
        }
        // The caller checks the last directory.
        if about.mode() & STICKY != 0 || parts.as_path().as_os_str().is_empty() {
            continue;
        }
        if about.mode() & 0o002 != 0 {
            return Err(refused(&at, "can be changed by every user"));
        }
        // Only root refuses a directory that a group can change, unless it is root's own group (0). Other users often
        // have a group without other members.
        if about.mode() & 0o020 != 0 && about.gid() != 0 && geteuid().is_root() && !is_in_user_namespace() {
            return Err(refused(&at, &format!("can be changed by the members of group {}", about.gid())));
        }
    }
    Ok(())
}

fn is_trusted(uid: u32) -> bool {
    // In a user namespace all users outside it, including root, have the same overflow ID.
    uid == 0 || uid == geteuid().as_raw() || (is_in_user_namespace() && uid == overflow_uid())
}

fn is_in_user_namespace() -> bool {
    let map = procfs::text("/proc/self/uid_map").unwrap_or_default();
    !map.is_empty() && !map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn overflow_uid() -> u32 {
    procfs::number("/proc/sys/kernel/overflowuid").unwrap_or(65_534)
}

/// The name, if known, and the number of a user.
pub(super) fn user(uid: u32) -> String {
    match nix::unistd::User::from_uid(uid.into()) {
        Ok(Some(user)) => format!("user {} ({uid})", user.name),
        _ => format!("user {uid}"),
    }
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn only_a_directory_of_ours_becomes_private() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("a/b");
        private_directory(&new, false).unwrap();
        assert_eq!((mode(&new), is_shared(&new).unwrap()), (0o700, false));
        for (of_the_users, ours) in [(0o1777, 0o700), (0o755, 0o700), (0o710, 0o700), (0o500, 0o500)] {
            fs::set_permissions(&new, Permissions::from_mode(of_the_users)).unwrap();
            let refused = private_directory(&new, false);
            assert_eq!(is_shared(&new).unwrap(), refused.is_err());
            assert_eq!(mode(&new), of_the_users);
            private_directory(&new, true).unwrap();
            assert_eq!(mode(&new), ours);
        }
    }

    #[test]
    fn links_and_directories_that_others_can_change_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link, open) = (dir.path().join("real"), dir.path().join("link"), dir.path().join("open"));
        files::private_directory(&real).unwrap();
        symlink(&real, &link).unwrap();
        assert!(private_directory(&link, true).unwrap_err().to_string().contains("symbolic link"));
        // A symbolic link of this user on the path is followed.
        private_directory(&link.join("state"), false).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert!(private_directory(&open.join("state"), false).unwrap_err().to_string().contains("every user"));
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        private_directory(&open.join("state"), false).unwrap();
        if netcliff_testkit::has(netcliff_testkit::Need::Root) {
            chown(&open, None, Some(65_534)).unwrap();
            fs::set_permissions(&open, Permissions::from_mode(0o775)).unwrap();
            assert!(private_directory(&open.join("state"), false).unwrap_err().to_string().contains("group 65534"));
        }
    }

    #[test]
    fn what_is_another_users_is_refused() {
        // Only root can change the owner of a file.
        if !netcliff_testkit::has(netcliff_testkit::Need::Root) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(65_534), None).unwrap();
        for path in [theirs.clone(), theirs.join("state")] {
            assert!(private_directory(&path, true).unwrap_err().to_string().contains("65534"));
        }
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        assert_eq!(read(&file).unwrap().unwrap(), b"x");
        let link = dir.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(read(&link).unwrap().unwrap_err().contains("symbolic link"));
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        assert!(read(&file).unwrap().unwrap_err().contains("0666"));
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(65_534), None).unwrap();
        assert!(read(&file).unwrap().unwrap_err().contains("65534"));
    }
}
