//! Campaigns as files, which can be kept in version control, compared with a server and applied to it.
//! The name identifies a campaign, and the url identifies a feed, because ids differ between servers.

mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use notify_client::notify_core::{CampaignStatus, CampaignTemplate, Request, Template, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) use self::plan::{Plan, RemoteCampaign};
use crate::failure::Failure;
use crate::input;

/// A campaign in a file: its status, and the template with every default filled in and without ids.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Campaign {
    pub(crate) name: String,
    pub(crate) status: CampaignStatus,
    pub(crate) is_default: bool,
    /// The whole template in the form of the API, with feeds by url.
    pub(crate) template: Map<String, Value>,
}

impl Campaign {
    /// Parses the fields of a file. The error lists every broken rule.
    pub(crate) fn parse(mut fields: Map<String, Value>) -> Result<Self, Vec<String>> {
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

    /// The template as the body of the request that creates or replaces the campaign.
    pub(crate) fn request_body(&self) -> Result<Template, Vec<String>> {
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

// The folder of the files.

/// Longest file name without its extension, in characters.
const NAME_CHARS_MAX: usize = 60;

/// A campaign and the name of its file.
pub(crate) struct LocalCampaign {
    pub(crate) file: String,
    pub(crate) campaign: Campaign,
}

/// The campaign files of a folder.
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) campaigns: Vec<LocalCampaign>,
}

/// The effect of writing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    New,
    Changed,
    Unchanged,
}

impl Folder {
    /// Reads every TOML and JSON file. The error lists all mistakes of all files, each with its file and
    /// field.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(Failure::file(path))? {
            let entry = entry.map_err(Failure::file(path))?;
            if entry.path().is_file() {
                files.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        files.sort_unstable();
        let (mut campaigns, mut errors) = (Vec::new(), Vec::new());
        for file in files {
            let format = match Path::new(&file).extension().and_then(|extension| extension.to_str())
            {
                Some("toml") => FileFormat::Toml,
                Some("json") => FileFormat::Json,
                Some("yaml" | "yml") => {
                    errors.push(format!("{file}: YAML is not supported: use TOML or JSON"));
                    continue;
                }
                Some(_) | None => continue,
            };
            let bytes = input::read(&path.join(&file))?;
            let fields = String::from_utf8(bytes)
                .map_err(|_| "is not UTF-8".to_owned())
                .and_then(|text| parse_fields(&text, format));
            match fields.map_err(|error| vec![error]).and_then(Campaign::parse) {
                Ok(campaign) => campaigns.push(LocalCampaign { file, campaign }),
                Err(rules) => errors.extend(rules.iter().map(|rule| format!("{file}: {rule}"))),
            }
        }
        errors.extend(conflicts(&campaigns));
        if errors.is_empty() {
            Ok(Self { path: path.to_owned(), campaigns })
        } else {
            Err(Failure::Files(errors))
        }
    }

    /// Writes a campaign. It replaces the file that has a campaign with the same name; without such a
    /// file, it creates one. Returns the name of the file.
    pub(crate) fn write(
        &mut self,
        campaign: &Campaign,
        format: FileFormat,
    ) -> Result<(String, WriteOutcome), Failure> {
        let existing = self.campaigns.iter().find(|local| local.campaign.name == campaign.name);
        if let Some(existing) = existing
            && existing.campaign == *campaign
        {
            return Ok((existing.file.clone(), WriteOutcome::Unchanged));
        }
        let (file, outcome) = match existing {
            Some(existing) => (existing.file.clone(), WriteOutcome::Changed),
            None => (self.unused_file_name(&campaign.name, format), WriteOutcome::New),
        };
        let format = if file.ends_with(".json") { FileFormat::Json } else { FileFormat::Toml };
        let text = to_text(campaign, format)
            .map_err(|error| Failure::Files(vec![format!("{file}: {error}")]))?;
        let path = self.path.join(&file);
        fs::write(&path, text).map_err(Failure::file(&path))?;
        if outcome == WriteOutcome::New {
            let campaign = campaign.clone();
            self.campaigns.push(LocalCampaign { file: file.clone(), campaign });
        }
        Ok((file, outcome))
    }

    /// A file name that is not in use, in lower case. The file system decides whether a name is in use,
    /// because on some systems, names that differ only by case are the same.
    fn unused_file_name(&self, name: &str, format: FileFormat) -> String {
        let slug = slug(name);
        let names = (1..).map(|number| match number {
            1 => format!("{slug}.{}", format.extension()),
            number => format!("{slug}-{number}.{}", format.extension()),
        });
        let mut names = names.filter(|name| !self.path.join(name).exists());
        names.next().expect("the numbers are endless")
    }
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

// The text of a file: TOML, or JSON.

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// TOML; the `data` of a button is JSON text.
    Toml,
    /// JSON, in the form of the API.
    Json,
}

impl FileFormat {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Toml => "toml",
            Self::Json => "json",
        }
    }
}

/// The content of a file. The tables come last, because TOML requires it.
#[derive(Serialize)]
struct File<'c> {
    name: &'c str,
    status: CampaignStatus,
    is_default: bool,
    layout_id: &'c Value,
    settings: &'c Value,
    strings: &'c Value,
    features: Value,
}

/// Formats a campaign as the text of a file. Equal campaigns have equal texts.
pub(crate) fn to_text(campaign: &Campaign, format: FileFormat) -> Result<String, String> {
    let field = |name: &str| campaign.template.get(name).unwrap_or(&Value::Null);
    let mut file = File {
        name: &campaign.name,
        status: campaign.status,
        is_default: campaign.is_default,
        layout_id: field("layout_id"),
        settings: field("settings"),
        strings: field("strings"),
        features: field("features").clone(),
    };
    match format {
        FileFormat::Json => {
            let text = serde_json::to_string_pretty(&file).map_err(|error| error.to_string())?;
            Ok(format!("{text}\n"))
        }
        FileFormat::Toml => {
            for data in button_data(&mut file.features) {
                *data = Value::String(data.to_string());
            }
            toml::to_string_pretty(&file).map_err(|error| error.to_string())
        }
    }
}

/// Parses the text of a file to the fields of a campaign. The error has the line.
pub(crate) fn parse_fields(text: &str, format: FileFormat) -> Result<Map<String, Value>, String> {
    let value = match format {
        FileFormat::Json => serde_json::from_str(text).map_err(|error| error.to_string())?,
        FileFormat::Toml => {
            let table: toml::Table =
                toml::from_str(text).map_err(|error| with_line(&error, text))?;
            let mut value = serde_json::to_value(table).map_err(|error| error.to_string())?;
            for data in value.get_mut("features").into_iter().flat_map(button_data) {
                // A string is JSON text, since TOML has no null.
                if let Some(json) = data.as_str() {
                    *data = serde_json::from_str(json)
                        .map_err(|error| format!("the `data` of a button is not JSON: {error}"))?;
                }
            }
            value
        }
    };
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err("must be an object".to_owned()),
    }
}

/// The message of an error, with the number of its line in `text`.
fn with_line(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {}", error.message())
}

/// The `data` of all action buttons.
fn button_data(features: &mut Value) -> impl Iterator<Item = &mut Value> {
    let features = features.as_array_mut().into_iter().flatten();
    features.filter_map(|feature| feature.pointer_mut("/data/data"))
}

#[cfg(test)]
mod folder_tests {
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
    }
}

#[cfg(test)]
mod text_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_example_of_the_documentation_survives_a_round_trip() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/campaign-files.md");
        let document = fs::read_to_string(path).unwrap();
        let example = document.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let campaign = Campaign::parse(parse_fields(example, FileFormat::Toml).unwrap()).unwrap();
        assert_eq!(campaign.template["features"][1]["data"]["data"], json!({"from": "spring"}));
        for format in [FileFormat::Toml, FileFormat::Json] {
            let text = to_text(&campaign, format).unwrap();
            let again = Campaign::parse(parse_fields(&text, format).unwrap()).unwrap();
            assert_eq!(again, campaign, "{text}");
            assert_eq!(to_text(&again, format).unwrap(), text);
        }
    }

    #[test]
    fn parse_errors_contain_the_line() {
        for (text, format, expected) in [
            ("a = 1\nb =\n", FileFormat::Toml, "line 2: "),
            ("{\n\"a\": }", FileFormat::Json, "line 2 column"),
            ("[]", FileFormat::Json, "must be an object"),
        ] {
            let error = parse_fields(text, format).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
