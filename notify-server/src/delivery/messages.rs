//! The messages of a dispatch: one for each language of its notification.

use std::collections::HashMap;
use std::sync::Arc;

use notify_core::find_language;

use crate::providers::{Reason, RenderedMessage};
use crate::store::DeviceKey;

/// A rendered message, or why the devices that would get it get none.
pub(crate) type Rendering = Result<Arc<RenderedMessage>, Reason>;

/// What messages take from their devices, by device. Empty if they take nothing.
#[derive(Debug, Default)]
pub(crate) struct DeviceFields {
    pub(crate) languages: HashMap<DeviceKey, Box<str>>,
}

/// The messages of a dispatch.
pub(crate) struct Messages {
    /// The message of the notification's own texts.
    own: Rendering,
    /// The languages of the translations.
    languages: Arc<[String]>,
    /// The message of each translation.
    translated: Vec<Rendering>,
}

impl Messages {
    /// Messages of which `translated` has one for each of `languages`.
    pub(crate) fn new(
        own: Rendering,
        languages: Arc<[String]>,
        translated: Vec<Rendering>,
    ) -> Self {
        Self { own, languages, translated }
    }

    /// Why no device gets a message; `None` if some get one.
    pub(crate) fn failure(&self) -> Option<&Reason> {
        let has_message = self.translated.iter().any(Result::is_ok);
        self.own.as_ref().err().filter(|_| !has_message)
    }

    /// The message for a device.
    pub(crate) fn for_device(&self, key: DeviceKey, fields: &DeviceFields) -> Rendering {
        let language = fields.languages.get(&key);
        let found = language.and_then(|language| find_language(&self.languages, language));
        found.and_then(|place| self.translated.get(place)).unwrap_or(&self.own).clone()
    }
}
