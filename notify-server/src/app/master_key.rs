//! Which master key an installation has. One is drawn only where nothing is sealed yet: beside
//! sealed credentials a new key would be accepted today and missed at the next delivery.

use std::path::PathBuf;

use super::AppError;
use crate::config::{Config, MASTER_KEY_FILE, MASTER_KEY_VARIABLE};
use crate::private_file::warn_if_exposed;
use crate::secrets::{MasterKey, MasterKeyError, SecretError};
use crate::store::SharedStore;

/// The key of the settings or of the data folder, which opens what the store holds.
///
/// # Errors
/// When it is missing although something is sealed, is another one, or cannot be used.
pub(super) async fn master_key(
    config: &Config,
    store: &SharedStore,
) -> Result<MasterKey, AppError> {
    let sealed = store.any_sealed().await?;
    let key = match existing_master_key(config)? {
        Some(key) => key,
        None if sealed.is_some() => return Err(failed(config, MasterKeyError::Missing)),
        None => make(config)?,
    };
    if let Some((app, row)) = sealed
        && matches!(key.open(app, row.provider, &row.sealed), Err(SecretError::OtherKey))
    {
        return Err(failed(config, MasterKeyError::Other));
    }
    Ok(key)
}

/// The key of the settings or of the data folder, `None` when its file is missing.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn existing_master_key(config: &Config) -> Result<Option<MasterKey>, AppError> {
    let is_given = config.master_key.is_some() || config.master_key_file.is_some();
    if config.database_url.is_some() && !is_given {
        return Err(AppError::NoMasterKey);
    }
    let key = match &config.master_key {
        Some(key) => MasterKey::from_base64(key).map(Some),
        None => MasterKey::read(&file(config)),
    };
    if config.master_key.is_none() && matches!(key, Ok(Some(_))) {
        warn_if_exposed(&file(config));
    }
    key.map_err(|source| failed(config, source))
}

fn make(config: &Config) -> Result<MasterKey, AppError> {
    let made = match &config.master_key_file {
        // Who names a file means one that is there.
        Some(_) => Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no such file").into()),
        None => MasterKey::read_or_make(&file(config)),
    };
    made.map_err(|source| failed(config, source))
}

fn file(config: &Config) -> PathBuf {
    let of_data_dir = || config.data_dir.join(MASTER_KEY_FILE);
    config.master_key_file.clone().unwrap_or_else(of_data_dir)
}

fn failed(config: &Config, source: MasterKeyError) -> AppError {
    let place = match &config.master_key {
        Some(_) => MASTER_KEY_VARIABLE.to_owned(),
        None => file(config).display().to_string(),
    };
    AppError::MasterKey { place, source }
}
