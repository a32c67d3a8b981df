//! Files that the command writes. A file is replaced in one step, and none is written through a symbolic link
//! that another user could have put there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The mode of a file that only its owner may read.
pub(crate) const PRIVATE: u32 = 0o600;
/// The mode that every user gets, reduced by the umask.
pub(crate) const SHARED: u32 = 0o666;

/// The permissions of a file that contains the same data as `original`. A file without an original, such as
/// standard input, is private.
pub(crate) fn mode_of(original: &Path) -> u32 {
    fs::metadata(original)
        .ok()
        .filter(fs::Metadata::is_file)
        .map_or(PRIVATE, |found| permissions(&found))
}

#[cfg(unix)]
fn permissions(metadata: &fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(metadata) & SHARED
}

#[cfg(not(unix))]
fn permissions(_: &fs::Metadata) -> u32 {
    SHARED
}

/// Creates a file. A path that exists is an error, also if it is a symbolic link.
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

/// Writes a temporary file and renames it, so that a crash leaves the old file or the new one. A symbolic link
/// at `path` is replaced, and not followed.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // The process id keeps two runs apart.
    let mut temporary = path.to_owned().into_os_string();
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(temporary);
    // What an interrupted run with the same id left.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = create_new(&temporary, mode)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    drop(file);
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // The write has failed already; a second error would hide the first.
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("the file exists").permissions().mode() & 0o777
    }

    #[test]
    fn a_file_has_at_most_the_permissions_of_its_original() {
        let folder = tempfile::tempdir().unwrap();
        let original = folder.path().join("devices.csv");
        fs::write(&original, "").unwrap();
        for (given, expected) in [(0o600, 0o600), (0o640, 0o640), (0o400, 0o400), (0o700, 0o600)] {
            fs::set_permissions(&original, fs::Permissions::from_mode(given)).unwrap();
            assert_eq!(mode_of(&original), expected, "{given:o}");
            let copy = folder.path().join(format!("{given:o}"));
            create_new(&copy, mode_of(&original)).unwrap();
            assert_eq!(mode(&copy), expected, "{given:o}");
        }
        assert_eq!(mode_of(Path::new("-")), PRIVATE);
        assert_eq!(mode_of(folder.path()), PRIVATE, "not a file");
    }

    #[test]
    fn no_symbolic_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("state"), folder.path().join("victim"));
        let temporary = folder.path().join(format!("state.{}.new", std::process::id()));
        fs::write(&victim, "precious").unwrap();
        for link in [&path, &temporary] {
            symlink(&victim, link).unwrap();
            replace(&path, b"state", PRIVATE).unwrap();
            assert_eq!(fs::read(&victim).unwrap(), b"precious");
            assert_eq!(fs::read(&path).unwrap(), b"state");
            assert!(!path.is_symlink() && !temporary.exists());
            assert!(create_new(&path, PRIVATE).is_err(), "it exists");
            fs::remove_file(&path).unwrap();
            symlink(&victim, &path).unwrap();
            assert!(create_new(&path, PRIVATE).is_err(), "a link");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"new", PRIVATE).is_err(), "a folder cannot be replaced");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
