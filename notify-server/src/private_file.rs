//! Permissions of files with secrets.

use std::path::Path;

/// Warns about a file that others than its owner can read or change. Only a warning: files
/// that containers mount often have such modes, and there are no other users.
pub(crate) fn warn_if_exposed(path: &Path) {
    if let Some(mode) = exposed_mode(path) {
        tracing::warn!(
            file = %path.display(),
            mode = format_args!("{mode:04o}"),
            "other users of this machine can read or change a secret file: chmod 600 it"
        );
    }
}

/// The mode of a file that is open to others. Group access counts only for the server's own files, as
/// in ssh: another owner grants it so that the server can read the file.
#[cfg(unix)]
fn exposed_mode(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    const GROUP: u32 = 0o070;
    const OTHERS: u32 = 0o007;
    const PERMISSIONS: u32 = 0o7777;
    let metadata = std::fs::metadata(path).ok()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let watched = if is_own { GROUP | OTHERS } else { OTHERS };
    let mode = metadata.mode() & PERMISSIONS;
    (mode & watched != 0).then_some(mode)
}

#[cfg(not(unix))]
fn exposed_mode(_: &Path) -> Option<u32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn secret_file_permissions_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "secret").unwrap();
        for (mode, expected) in [
            (0o600, None),
            (0o400, None),
            (0o640, Some(0o640)),
            (0o604, Some(0o604)),
            (0o644, Some(0o644)),
            (0o620, Some(0o620)),
            (0o666, Some(0o666)),
        ] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(exposed_mode(&path), expected, "{mode:o}");
        }
        assert_eq!(exposed_mode(&folder.path().join("none")), None);
    }
}
