//! Campaigns as files, one each, so that they can be kept beside code, compared and brought to a
//! server. The key of a campaign is its name: ids differ from server to server, and so do those of
//! feeds, which files name by url.

mod difference;
mod folder;
mod plan;
mod remote;
mod text;

pub(crate) use folder::{Folder, Written};
pub(crate) use plan::Plan;
pub(crate) use remote::Remote;
pub(crate) use text::FileFormat;

use notify_client::notify_core::{CampaignStatus, CampaignTemplate, Request, Template, Timestamp};
use serde_json::{Map, Value};

/// A campaign as a file holds it: its state, and the template with every default filled in and
/// without ids.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Campaign {
    pub(crate) name: String,
    pub(crate) status: CampaignStatus,
    pub(crate) is_default: bool,
    /// The whole template as the API reads it back, feeds by url.
    pub(crate) template: Map<String, Value>,
}

impl Campaign {
    /// Reads what a file holds; every rule that it breaks.
    pub(crate) fn parse(mut fields: Map<String, Value>) -> Result<Self, Vec<String>> {
        let status = match fields.remove("status") {
            None => CampaignStatus::Active,
            Some(word) => word
                .as_str()
                .and_then(CampaignStatus::from_word)
                .ok_or_else(|| vec!["status: must be one of active, disabled".to_owned()])?,
        };
        let mut wrong = feeds_by_id(&fields);
        let body = serde_json::to_vec(&fields).expect("JSON is written as JSON");
        let template = match Template::parse(&body, Timestamp(0)) {
            Ok(template) => template,
            Err(violations) => {
                wrong.extend(violations.into_vec());
                return Err(wrong);
            }
        };
        if template.is_default && status == CampaignStatus::Disabled {
            wrong.push("status: the default campaign cannot be disabled".to_owned());
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let (name, is_default) = (template.name.clone(), template.is_default);
        let template = object(&template);
        Ok(Self { name, status, is_default, template })
    }

    /// The body that makes it.
    pub(crate) fn request(&self) -> Result<Template, Vec<String>> {
        let body = serde_json::to_vec(&self.template).expect("JSON is written as JSON");
        Template::from_json(&body).map_err(|violations| violations.into_vec())
    }
}

/// A template as the object that the API has. By its text: a button's own object is kept as text.
fn object(template: &CampaignTemplate) -> Map<String, Value> {
    let text = serde_json::to_string(template).expect("a template is JSON");
    serde_json::from_str(&text).expect("a template is an object")
}

/// The feeds of a template, each with its path.
fn feeds(template: &Map<String, Value>) -> impl Iterator<Item = (String, &Value)> {
    let features = template.get("features").and_then(Value::as_array).into_iter().flatten();
    features.enumerate().flat_map(|(place, feature)| {
        let feeds = feature.pointer("/data/feeds").and_then(Value::as_array).into_iter().flatten();
        feeds
            .enumerate()
            .map(move |(feed, value)| (format!("features[{place}].data.feeds[{feed}]"), value))
    })
}

/// The same to be changed.
fn feeds_mut(template: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let features = template.get_mut("features").and_then(Value::as_array_mut).into_iter().flatten();
    features.flat_map(|feature| {
        let feeds = feature.pointer_mut("/data/feeds").and_then(Value::as_array_mut);
        feeds.into_iter().flatten()
    })
}

/// An id means something on one server alone.
fn feeds_by_id(fields: &Map<String, Value>) -> Vec<String> {
    feeds(fields)
        .filter(|(_, feed)| feed.get("id").is_some())
        .map(|(path, _)| format!("{path}.id: files name feeds by url and name"))
        .collect()
}
