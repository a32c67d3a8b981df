//! The messages of a dispatch: one for each language of its notification, with gaps for the attributes of the
//! device if it is personalized.

use std::collections::BTreeMap;
use std::sync::Arc;

use notify_core::Content;

use crate::payload::gapped::mark;
use crate::providers::{GappedMessage, Reason, RenderedMessage};
use crate::store::DeviceKey;

/// A rendered message, or why the devices that would get it get none.
pub(crate) type Rendering = Result<Arc<RenderedMessage>, Reason>;

/// What messages take from their devices, by device. Empty if they take nothing. The maps are sorted, since a
/// device is looked up each time it is tried, and hashing its key costs more.
#[derive(Debug, Default)]
pub(crate) struct DeviceFields {
    /// The place of the translation among those of the notification. A device without an entry gets the
    /// notification's own texts.
    pub(crate) translations: BTreeMap<DeviceKey, usize>,
    /// The texts of attributes, in the order of the variables. A device without any of them is left out.
    pub(crate) values: BTreeMap<DeviceKey, Vec<Option<String>>>,
}

/// The messages of a dispatch.
pub(crate) struct Messages {
    /// The message of the notification's own texts.
    own: LanguageMessage,
    /// The message of each translation.
    translated: Vec<LanguageMessage>,
}

/// The message in one language.
pub(crate) struct LanguageMessage {
    /// The message for devices without the attributes that it shows; for all devices, if it shows none.
    pub(crate) shared: Rendering,
    /// How it differs from device to device; `None` if it does not.
    pub(crate) personal: Option<PersonalMessage>,
}

/// A message that differs from device to device.
pub(crate) struct PersonalMessage {
    /// The content with its variables.
    pub(crate) content: Content,
    /// The texts that are inserted, in the order in which they stand.
    inserts: Vec<Insert>,
    /// The message with gaps for them; `None` if it must be rendered for each device.
    gapped: Option<GappedMessage>,
}

/// A text to insert.
#[derive(Debug, Clone)]
struct Insert {
    /// The place of its variable among the variables of the notification.
    variable: usize,
    /// The text for devices without the attribute.
    default: String,
}

impl PersonalMessage {
    /// Prepares a content with variables. `render` renders the content in which marks stand for the texts, and
    /// gets their number. `shared` is the message of the defaults.
    pub(crate) fn new(
        content: &Content,
        variables: &[String],
        shared: &Rendering,
        render: impl FnOnce(&Content, usize) -> Option<GappedMessage>,
    ) -> Option<Self> {
        let content = content.untranslated();
        let mut inserts = Vec::new();
        let marked = content.filled(|variable| {
            let place = variables.iter().position(|name| name == variable.name);
            let default = variable.default.to_owned();
            inserts.push(Insert { variable: place.unwrap_or(usize::MAX), default });
            mark(inserts.len() - 1)
        });
        if inserts.is_empty() {
            return None;
        }
        let gapped = render(&marked, inserts.len());
        if gapped.as_ref().is_some_and(GappedMessage::is_whole) {
            // A raw payload replaces the texts.
            return None;
        }
        // A title that is shortened to fit, or a text that contains a mark, cannot be cut.
        let defaults: Vec<&str> = inserts.iter().map(|insert| insert.default.as_str()).collect();
        let is_exact = |gapped: &GappedMessage| {
            shared.as_ref().is_ok_and(|message| gapped.makes(message, &defaults))
        };
        let gapped = gapped.filter(is_exact);
        Some(Self { content, inserts, gapped })
    }

    /// The message with the values of a device; `None` if it must be rendered for the device.
    fn fill(&self, values: &[Option<String>]) -> Option<RenderedMessage> {
        let mut texts = Vec::with_capacity(self.inserts.len());
        for insert in &self.inserts {
            match values.get(insert.variable).and_then(Option::as_deref) {
                // A title that becomes empty is left out, which a gap cannot do.
                Some("") => return None,
                Some(text) => texts.push(text),
                None => texts.push(insert.default.as_str()),
            }
        }
        self.gapped.as_ref()?.fill(&texts)
    }
}

impl LanguageMessage {
    /// The message for a device with these values. `render` renders a content for one device.
    fn for_values(
        &self,
        values: Option<&Vec<Option<String>>>,
        variables: &[String],
        render: impl FnOnce(&Content) -> Rendering,
    ) -> Rendering {
        let (Some(personal), Some(values)) = (&self.personal, values) else {
            return self.shared.clone();
        };
        if let Some(message) = personal.fill(values) {
            return Ok(Arc::new(message));
        }
        let value_of = |name: &str| {
            let place = variables.iter().position(|variable| variable == name)?;
            values.get(place)?.clone()
        };
        render(&personal.content.filled(|variable| {
            value_of(variable.name).unwrap_or_else(|| variable.default.to_owned())
        }))
    }
}

impl Messages {
    pub(crate) fn new(own: LanguageMessage, translated: Vec<LanguageMessage>) -> Self {
        Self { own, translated }
    }

    /// Why no device gets a message; `None` if some may get one.
    pub(crate) fn failure(&self) -> Option<&Reason> {
        let may_fit =
            |message: &LanguageMessage| message.shared.is_ok() || message.personal.is_some();
        let has_message = may_fit(&self.own) || self.translated.iter().any(may_fit);
        self.own.shared.as_ref().err().filter(|_| !has_message)
    }

    /// The message for a device. `variables` are those of the notification; `render` renders a content for
    /// one device.
    pub(crate) fn for_device(
        &self,
        key: DeviceKey,
        fields: &DeviceFields,
        variables: &[String],
        render: impl FnOnce(&Content) -> Rendering,
    ) -> Rendering {
        let translation = fields.translations.get(&key);
        let message =
            translation.and_then(|place| self.translated.get(*place)).unwrap_or(&self.own);
        message.for_values(fields.values.get(&key), variables, render)
    }
}
