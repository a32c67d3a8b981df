//! Detects that the files of an open database were deleted or replaced. Such a file still accepts
//! writes, and they are lost.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::store::sql::FileMissing;

/// Device and inode of a file.
type Identity = (u64, u64);

/// The identity of the opened files.
#[derive(Debug, Clone)]
pub(super) struct Places(Vec<(PathBuf, Identity)>);

impl Places {
    /// The database and its log, which exists as long as a connection is open.
    pub(super) fn of(path: &Path) -> Self {
        let files = [path.to_owned(), log_of(path)];
        Self(files.into_iter().filter_map(|file| Some((file.clone(), identity(&file)?))).collect())
    }

    /// Checks each path with two system calls, without opening a file.
    pub(super) fn check(&self) -> Result<(), FileMissing> {
        let is_missing = |file: &&(PathBuf, Identity)| identity(&file.0) != Some(file.1);
        self.0.iter().find(is_missing).map_or(Ok(()), |(path, _)| Err(FileMissing(path.clone())))
    }
}

/// The log of a database.
fn log_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("-wal");
    name.into()
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// On other systems an open file cannot be deleted or replaced.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    path.exists().then_some((0, 0))
}
