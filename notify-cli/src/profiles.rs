//! Profiles: addresses and keys of servers, in a file that only the user can read.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use etcetera::BaseStrategy;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use crate::failure::Failure;
use crate::files;

/// The file of profiles.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    /// The profile that is used if the command does not select one.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// A server and the keys for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "key")]
    pub(crate) api_key: Option<SecretString>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "key")]
    pub(crate) admin_key: Option<SecretString>,
}

/// Reads and writes a key. No other code writes keys in plain text.
mod key {
    use super::{Deserialize, ExposeSecret, SecretString, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        key: &Option<SecretString>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        key.as_ref().map(|key| key.expose_secret().to_owned()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SecretString>, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(SecretString::from))
    }
}

impl Profiles {
    /// Reads the file. If the file is missing, there are no profiles.
    pub(crate) fn load() -> Result<Self, Failure> {
        let path = path()?;
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text)
                .map_err(|error| Failure::Usage(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::file(path)(error)),
        }
    }

    /// Parses the file. The error does not repeat its lines, which may contain keys.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    /// Replaces the file atomically, with mode 0600.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        let path = path()?;
        let text = toml::to_string(self).expect("profiles are plain tables of strings");
        let folder = path.parent().expect("the path of a file has a folder");
        let written = fs::create_dir_all(folder)
            .and_then(|()| files::replace(&path, text.as_bytes(), files::PRIVATE));
        written.map_err(Failure::file(path))
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Profile, Failure> {
        self.profiles.get(name).ok_or_else(|| {
            Failure::Usage(format!("no profile is named `{name}`: see `notify profile list`"))
        })
    }

    /// The name of the profile that is used if the command does not select one.
    pub(crate) fn current(&self) -> Option<&str> {
        self.current.as_deref().filter(|name| self.profiles.contains_key(*name))
    }

    /// Names, profiles, and whether each is the current one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Profile, bool)> {
        self.profiles
            .iter()
            .map(|(name, profile)| (&**name, profile, self.current.as_ref() == Some(name)))
    }

    /// Adds or replaces a profile. The first profile becomes the current one.
    pub(crate) fn set(&mut self, name: &str, profile: Profile) {
        self.profiles.insert(name.to_owned(), profile);
        self.current.get_or_insert_with(|| name.to_owned());
    }

    pub(crate) fn set_current(&mut self, name: &str) -> Result<(), Failure> {
        self.get(name)?;
        self.current = Some(name.to_owned());
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Failure> {
        self.get(name)?;
        self.profiles.remove(name);
        self.current.take_if(|current| current == name);
        Ok(())
    }
}

fn path() -> Result<PathBuf, Failure> {
    let folders = etcetera::choose_base_strategy()
        .map_err(|error| Failure::Usage(format!("no config folder: {error}")))?;
    Ok(folders.config_dir().join("notify").join("profiles.toml"))
}
