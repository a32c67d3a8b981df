//! Campaigns as files, which can be kept in version control, compared with a server and applied to it.
//! The name identifies a campaign, and the url identifies a feed, because ids differ between servers.
//!
//! This module compares and plans. The caller reads the files and the campaigns of the server, and makes
//! the calls of a [`Plan`].
//!
//! ```
//! use notify_core::campaign_files::{CampaignFile, Plan, parse_files};
//!
//! let text = r#"{"name": "spring", "layout_id": "content_with_two", "settings": {}, "features": []}"#;
//! let file = CampaignFile { name: "spring.json".to_owned(), content: text.into() };
//! let plan = Plan::new(parse_files([file])?, Vec::new(), false);
//! assert_eq!(plan.campaigns[0].action.as_str(), "create");
//! # Ok::<(), Vec<String>>(())
//! ```

mod plan;
mod remote;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

pub use self::plan::{Action, Call, Plan, Step};
pub use self::remote::{CAMPAIGNS_MAX, RemoteCampaign, one_per_name};
pub use self::text::FileFormat;
use crate::{CampaignStatus, CampaignTemplate, Request, Template, Timestamp};

/// A campaign without ids: its status, and its template with every default filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignDefinition {
    /// Name, which identifies the campaign.
    pub name: String,
    /// Status; `active` if the file has none.
    pub status: CampaignStatus,
    /// Whether it is the default campaign.
    pub is_default: bool,
    /// The whole template in the form of the API, with feeds by url.
    pub template: Map<String, Value>,
}

impl CampaignDefinition {
    /// Parses the text of a file.
    ///
    /// # Errors
    ///
    /// The error of the text with its line, or every broken rule with its field.
    pub fn from_text(text: &str, format: FileFormat) -> Result<Self, Vec<String>> {
        Self::parse(text::parse_fields(text, format).map_err(|error| vec![error])?)
    }

    fn parse(mut fields: Map<String, Value>) -> Result<Self, Vec<String>> {
        let status = match fields.remove("status") {
            None => CampaignStatus::Active,
            Some(name) => name
                .as_str()
                .and_then(|name| name.parse().ok())
                .ok_or_else(|| vec!["status: must be one of active, disabled".to_owned()])?,
        };
        let mut errors = feed_id_errors(&fields);
        let body = serde_json::to_vec(&fields).expect("JSON is written as JSON");
        let template = match Template::parse(&body, Timestamp(0)) {
            Ok(template) => template,
            Err(violations) => {
                errors.extend(violations.into_vec());
                return Err(errors);
            }
        };
        if template.is_default && status == CampaignStatus::Disabled {
            errors.push("status: the default campaign cannot be disabled".to_owned());
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let (name, is_default) = (template.name.clone(), template.is_default);
        let template = to_object(&template);
        Ok(Self { name, status, is_default, template })
    }

    /// The text of a file with this campaign. Equal campaigns have equal texts.
    ///
    /// # Errors
    ///
    /// A value that the format cannot express.
    pub fn to_text(&self, format: FileFormat) -> Result<String, String> {
        text::to_text(self, format)
    }

    /// The template as the body of the request that creates or replaces the campaign.
    ///
    /// # Errors
    ///
    /// Every broken rule.
    pub fn request_body(&self) -> Result<Template, Vec<String>> {
        let body = serde_json::to_vec(&self.template).expect("JSON is written as JSON");
        Template::from_json(&body).map_err(|violations| violations.into_vec())
    }
}

/// Converts a template to a JSON object. The conversion serializes it to text first, because the data of
/// a button is raw JSON, which cannot be converted to a [`Value`] directly.
fn to_object(template: &CampaignTemplate) -> Map<String, Value> {
    let text = serde_json::to_string(template).expect("a template is JSON");
    serde_json::from_str(&text).expect("a template is an object")
}

/// The feeds of a template, each with its path in error messages.
fn feeds(template: &Map<String, Value>) -> impl Iterator<Item = (String, &Value)> {
    let features = template.get("features").and_then(Value::as_array).into_iter().flatten();
    features.enumerate().flat_map(|(index, feature)| {
        let feeds = feature.pointer("/data/feeds").and_then(Value::as_array).into_iter().flatten();
        feeds.enumerate().map(move |(feed_index, feed)| {
            (format!("features[{index}].data.feeds[{feed_index}]"), feed)
        })
    })
}

/// Mutable references to the feeds of a template.
fn feeds_mut(template: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let features = template.get_mut("features").and_then(Value::as_array_mut).into_iter().flatten();
    features.flat_map(|feature| {
        let feeds = feature.pointer_mut("/data/feeds").and_then(Value::as_array_mut);
        feeds.into_iter().flatten()
    })
}

/// The errors for feeds with an id. A file must not contain ids, because they differ between servers.
fn feed_id_errors(fields: &Map<String, Value>) -> Vec<String> {
    feeds(fields)
        .filter(|(_, feed)| feed.get("id").is_some())
        .map(|(path, _)| format!("{path}.id: a feed in a file has a url and a name, not an id"))
        .collect()
}

/// Longest file name without its extension, in characters.
const NAME_CHARS_MAX: usize = 60;

/// A file of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignFile {
    /// Name of the file. Its extension is that of the format.
    pub name: String,
    /// Content. It may be empty if [`FileFormat::of`] the name is `None`: such a file is not parsed.
    pub content: Vec<u8>,
}

/// A campaign and the name of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalCampaign {
    /// Name of the file.
    pub file: String,
    /// The campaign.
    pub campaign: CampaignDefinition,
}

/// Parses the TOML and JSON files of a folder, and ignores other files.
///
/// # Errors
///
/// All mistakes of all files, each with its file and field.
pub fn parse_files(
    files: impl IntoIterator<Item = CampaignFile>,
) -> Result<Vec<LocalCampaign>, Vec<String>> {
    let (mut campaigns, mut errors) = (Vec::new(), Vec::new());
    for CampaignFile { name: file, content } in files {
        let Some(format) = FileFormat::of(&file) else {
            if matches!(text::extension(&file), Some("yaml" | "yml")) {
                errors.push(format!("{file}: YAML is not supported: use TOML or JSON"));
            }
            continue;
        };
        let text = String::from_utf8(content).map_err(|_| vec!["is not UTF-8".to_owned()]);
        match text.and_then(|text| CampaignDefinition::from_text(&text, format)) {
            Ok(campaign) => campaigns.push(LocalCampaign { file, campaign }),
            Err(rules) => errors.extend(rules.iter().map(|rule| format!("{file}: {rule}"))),
        }
    }
    errors.extend(conflicts(&campaigns));
    if errors.is_empty() { Ok(campaigns) } else { Err(errors) }
}

/// A name for the file of a campaign, in lower case, that is not used by another file.
pub fn file_name(campaign: &str, format: FileFormat, is_used: impl Fn(&str) -> bool) -> String {
    let (slug, extension) = (slug(campaign), format.extension());
    let first = format!("{slug}.{extension}");
    let others = (2..).map(|number| format!("{slug}-{number}.{extension}"));
    let mut names = std::iter::once(first).chain(others);
    names.find(|name| !is_used(name)).expect("the numbers are endless")
}

/// The letters and digits of a name, with dashes between them.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for character in name.chars().take(NAME_CHARS_MAX) {
        if character.is_ascii_alphanumeric() {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "campaign".to_owned() } else { slug.to_owned() }
}

/// The errors of files that contradict each other: equal names, or several default campaigns.
fn conflicts(campaigns: &[LocalCampaign]) -> Vec<String> {
    let mut by_name = BTreeMap::<&str, &str>::new();
    let mut errors = Vec::new();
    for local in campaigns {
        let name = local.campaign.name.as_str();
        if let Some(other_file) = by_name.insert(name, &local.file) {
            errors.push(format!("{}: name: {other_file} has the name `{name}` too", local.file));
        }
    }
    let defaults = campaigns.iter().filter(|local| local.campaign.is_default);
    let defaults: BTreeSet<&str> = defaults.map(|local| local.file.as_str()).collect();
    if defaults.len() > 1 {
        let files = defaults.into_iter().collect::<Vec<_>>().join(", ");
        errors.push(format!("is_default: only one campaign can be the default one: {files}"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_valid_on_every_system() {
        for (name, expected) in [
            ("Spring Sale 2026", "spring-sale-2026"),
            ("../../etc/passwd", "etc-passwd"),
            ("Größe & Preis!", "gr-e-preis"),
            ("שלום", "campaign"),
            ("", "campaign"),
        ] {
            assert_eq!(slug(name), expected, "{name}");
        }
        assert_eq!(slug(&"x".repeat(300)).len(), NAME_CHARS_MAX);
        let is_used = |name: &str| ["spring.toml", "spring-2.toml"].contains(&name);
        assert_eq!(file_name("Spring", FileFormat::Toml, is_used), "spring-3.toml");
        assert_eq!(file_name("Spring", FileFormat::Json, is_used), "spring.json");
    }
}
