//! Reads the body of a template.

use super::{Feature, FeatureData, FeatureKind, LIST_KEPT_MAX, Template};
use crate::json::{JsonObject, Object, Value};
use crate::rules::REQUIRED;

/// A template, and the index of each of its features in the body. The two lists differ when a feature
/// has an unknown type: the model cannot express it, but violations must name the others by the index
/// in the body.
pub(super) struct TemplateDraft {
    pub(super) template: Template,
    pub(super) feature_indexes: Vec<usize>,
}

impl From<Template> for TemplateDraft {
    fn from(template: Template) -> Self {
        let feature_indexes = (0..template.features.len()).collect();
        Self { template, feature_indexes }
    }
}

impl TemplateDraft {
    pub(super) fn read(object: &mut Object<'_, '_>) -> Self {
        let mut template = Template::read(object);
        object.require("features");
        let features =
            object.take("features", |value| value.list(LIST_KEPT_MAX, Feature::with_index));
        let feature_indexes;
        (feature_indexes, template.features) = features.unwrap_or_default().into_iter().unzip();
        Self { template, feature_indexes }
    }
}

impl Feature {
    fn with_index(value: Value<'_, '_>) -> Option<(usize, Self)> {
        let index = value.index();
        let feature = value.object(Self::read).flatten()?;
        Some((index, feature))
    }

    fn read(object: &mut Object<'_, '_>) -> Option<Self> {
        object.require("type");
        object.require("position");
        object.require("data");
        let position = object.u32("position", u32::MAX).unwrap_or_default();
        let name = object.optional::<String>("type");
        let kind = name.as_deref().and_then(|name| match name.parse() {
            Ok(kind) => Some(kind),
            Err(unknown) => {
                if name.is_empty() {
                    object.violation("type", REQUIRED);
                } else {
                    object.violation("type", unknown);
                }
                None
            }
        });
        let Some(kind) = kind else {
            // Of an unknown type, `data` can only be checked to be an object.
            object.optional::<JsonObject>("data");
            return None;
        };
        let data = match kind {
            FeatureKind::ContentFeed => FeatureData::ContentFeed(object.optional("data")?),
            FeatureKind::ExternalContent => FeatureData::ExternalContent(object.optional("data")?),
            FeatureKind::ActionButton => FeatureData::ActionButton(object.optional("data")?),
            FeatureKind::CustomFeed => FeatureData::CustomFeed(object.optional("data")?),
        };
        Some(Self { position, data })
    }
}
