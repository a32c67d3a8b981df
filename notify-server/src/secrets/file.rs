//! Reads and creates the file of the master key, and checks the permissions of files with secrets.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use secrecy::SecretString;
use zeroize::Zeroizing;

use super::{MASTER_KEY_BYTES, MasterKey, MasterKeyError};

/// Longest master key file that is read, in bytes.
const MASTER_KEY_FILE_BYTES_MAX: u64 = 1_024;

impl MasterKey {
    /// Reads the key file; `None` if it does not exist.
    ///
    /// # Errors
    /// When the file cannot be read or contains no key.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, MasterKeyError> {
        let mut text = Zeroizing::new(String::new());
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        file.take(MASTER_KEY_FILE_BYTES_MAX).read_to_string(&mut text)?;
        Self::from_base64(&SecretString::from(text.as_str())).map(Some)
    }

    /// Reads the key file. If it does not exist, generates a key and creates the file (mode 0600).
    /// If two processes start at once, one of them creates the file, and both use its key.
    ///
    /// # Errors
    /// When the file can be neither read nor created.
    pub(crate) fn read_or_create(path: &Path) -> Result<Self, MasterKeyError> {
        if let Some(key) = Self::read(path)? {
            return Ok(key);
        }
        let mut bytes = Zeroizing::new([0_u8; MASTER_KEY_BYTES]);
        aws_lc_rs::rand::fill(bytes.as_mut()).expect("the operating system gives random bytes");
        let text = Zeroizing::new(BASE64.encode(bytes.as_ref()) + "\n");
        // The key is written to a temporary file that is then linked to its name, so that no
        // process reads a partial key.
        let temporary = path.with_extension(format!("draft-{}", std::process::id()));
        let write_result = write_private(&temporary, text.as_bytes())
            .and_then(|()| match std::fs::hard_link(&temporary, path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
                result => result,
            })
            .and_then(|()| sync_folder(path));
        let removal_result = std::fs::remove_file(&temporary);
        write_result.and(removal_result)?;
        let key = Self::read(path)?;
        key.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound).into())
    }
}

/// Creates a file that only this user can read (mode 0600), and writes it to the disk.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes the entry of a new file in its folder to the disk.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// Warns about a file with a secret that other users can read or change. The server does not refuse
/// it, because files that are mounted into containers often have such modes, and a container has no
/// other users.
pub(crate) fn warn_if_exposed(path: &Path) {
    if let Some(mode) = exposed_mode(path) {
        tracing::warn!(
            file = %path.display(),
            mode = format_args!("{mode:04o}"),
            "other users of this machine can read or change a secret file: chmod 600 it"
        );
    }
}

/// The mode of a file that other users can read or change; `None` for other files. As in ssh,
/// access by the group counts only if the file belongs to the server's own user. If it belongs to
/// another user, the server may need that access to read the file.
#[cfg(unix)]
fn exposed_mode(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    const GROUP: u32 = 0o070;
    const OTHERS: u32 = 0o007;
    const PERMISSIONS: u32 = 0o7777;
    let metadata = std::fs::metadata(path).ok()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let forbidden = if is_own { GROUP | OTHERS } else { OTHERS };
    let mode = metadata.mode() & PERMISSIONS;
    (mode & forbidden != 0).then_some(mode)
}

#[cfg(not(unix))]
fn exposed_mode(_: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_file_is_created_once_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let made = MasterKey::read_or_create(&path).unwrap();
        assert_eq!(MasterKey::read_or_create(&path).unwrap().id, made.id);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[cfg(unix)]
    #[test]
    fn secret_file_permissions_are_checked() {
        use std::os::unix::fs::PermissionsExt;
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
