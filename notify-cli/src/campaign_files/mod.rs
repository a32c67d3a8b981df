//! Campaigns as files, one each, so that they can be kept beside code, compared and brought to a
//! server. The key of a campaign is its name: ids differ from server to server, and so do those of
//! feeds, which files name by url.

mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use notify_client::notify_core::{CampaignStatus, CampaignTemplate, Request, Template, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) use self::plan::{Plan, Remote};
use crate::failure::Failure;
use crate::input;

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
            Some(name) => name
                .as_str()
                .and_then(|name| name.parse().ok())
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

// The folder of the files.

/// Longest file name without its ending, in characters.
const NAME_CHARS_MAX: usize = 60;

/// A campaign and the file that holds it.
pub(crate) struct Local {
    pub(crate) file: String,
    pub(crate) campaign: Campaign,
}

/// The files of a folder, read.
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) campaigns: Vec<Local>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    New,
    Changed,
    Unchanged,
}

impl Folder {
    /// Reads every file; everything that is wrong, with file and field.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(Failure::file(path))? {
            let entry = entry.map_err(Failure::file(path))?;
            if entry.path().is_file() {
                files.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        files.sort_unstable();
        let (mut campaigns, mut wrong) = (Vec::new(), Vec::new());
        for file in files {
            let format = match Path::new(&file).extension().and_then(|ending| ending.to_str()) {
                Some("toml") => FileFormat::Toml,
                Some("json") => FileFormat::Json,
                Some("yaml" | "yml") => {
                    wrong.push(format!("{file}: YAML is not read: write TOML or JSON"));
                    continue;
                }
                Some(_) | None => continue,
            };
            let bytes = input::read(&path.join(&file))?;
            let fields = String::from_utf8(bytes)
                .map_err(|_| "is not UTF-8".to_owned())
                .and_then(|text| read(&text, format));
            match fields.map_err(|error| vec![error]).and_then(Campaign::parse) {
                Ok(campaign) => campaigns.push(Local { file, campaign }),
                Err(rules) => wrong.extend(rules.iter().map(|rule| format!("{file}: {rule}"))),
            }
        }
        wrong.extend(clashes(&campaigns));
        if wrong.is_empty() {
            Ok(Self { path: path.to_owned(), campaigns })
        } else {
            Err(Failure::Files(wrong))
        }
    }

    /// Writes a campaign: to the file that holds one of its name, else to a new one.
    pub(crate) fn write(
        &mut self,
        campaign: &Campaign,
        format: FileFormat,
    ) -> Result<(String, Written), Failure> {
        let known = self.campaigns.iter().find(|local| local.campaign.name == campaign.name);
        if let Some(known) = known
            && known.campaign == *campaign
        {
            return Ok((known.file.clone(), Written::Unchanged));
        }
        let (file, written) = match known {
            Some(known) => (known.file.clone(), Written::Changed),
            None => (self.free_name(&campaign.name, format), Written::New),
        };
        let format = if file.ends_with(".json") { FileFormat::Json } else { FileFormat::Toml };
        let text = write(campaign, format)
            .map_err(|error| Failure::Files(vec![format!("{file}: {error}")]))?;
        let path = self.path.join(&file);
        fs::write(&path, text).map_err(Failure::file(&path))?;
        if written == Written::New {
            let campaign = campaign.clone();
            self.campaigns.push(Local { file: file.clone(), campaign });
        }
        Ok((file, written))
    }

    /// A name that no file of the folder has. It is in small letters, and that of a file that differs in
    /// its letter case alone is the same where the file system says so.
    fn free_name(&self, name: &str, format: FileFormat) -> String {
        let slug = slug(name);
        let names = (1..).map(|number| match number {
            1 => format!("{slug}.{}", format.extension()),
            number => format!("{slug}-{number}.{}", format.extension()),
        });
        let mut names = names.filter(|name| !self.path.join(name).exists());
        names.next().expect("numbers do not end")
    }
}

/// Letters and digits of a name, with dashes for the rest.
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

/// What files say against each other.
fn clashes(campaigns: &[Local]) -> Vec<String> {
    let mut by_name = BTreeMap::<&str, &str>::new();
    let mut wrong = Vec::new();
    for local in campaigns {
        let name = local.campaign.name.as_str();
        if let Some(other) = by_name.insert(name, &local.file) {
            wrong.push(format!("{}: name: `{name}` is that of {other} too", local.file));
        }
    }
    let defaults = campaigns.iter().filter(|local| local.campaign.is_default);
    let defaults: BTreeSet<&str> = defaults.map(|local| local.file.as_str()).collect();
    if defaults.len() > 1 {
        let files = defaults.into_iter().collect::<Vec<_>>().join(", ");
        wrong
            .push(format!("is_default: at most one campaign is the default, not those of {files}"));
    }
    wrong
}

// The text of a file: TOML, or JSON.

/// In which form files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// For people; a button's own `data` stands in it as JSON text.
    Toml,
    /// As the API has it.
    Json,
}

impl FileFormat {
    /// How names of such files end.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Toml => "toml",
            Self::Json => "json",
        }
    }
}

/// A file, in the order in which people read it: tables come last in TOML.
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

/// Writes a campaign; the same campaign is the same text.
pub(crate) fn write(campaign: &Campaign, format: FileFormat) -> Result<String, String> {
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
            for data in own_data(&mut file.features) {
                *data = Value::String(data.to_string());
            }
            toml::to_string_pretty(&file).map_err(|error| error.to_string())
        }
    }
}

/// Reads the fields of a file.
pub(crate) fn read(text: &str, format: FileFormat) -> Result<Map<String, Value>, String> {
    let value = match format {
        FileFormat::Json => serde_json::from_str(text).map_err(|error| error.to_string())?,
        FileFormat::Toml => {
            let table: toml::Table = toml::from_str(text).map_err(|error| at_line(&error, text))?;
            let mut value = serde_json::to_value(table).map_err(|error| error.to_string())?;
            for data in value.get_mut("features").into_iter().flat_map(own_data) {
                // TOML has no null, and JSON may: what is a text is JSON.
                if let Some(json) = data.as_str() {
                    *data = serde_json::from_str(json)
                        .map_err(|error| format!("a button's `data` is no JSON: {error}"))?;
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

fn at_line(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {}", error.message())
}

/// The callers' own objects of buttons.
fn own_data(features: &mut Value) -> impl Iterator<Item = &mut Value> {
    let features = features.as_array_mut().into_iter().flatten();
    features.filter_map(|feature| feature.pointer_mut("/data/data"))
}

#[cfg(test)]
mod folder_tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_that_every_system_takes() {
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
    fn the_example_of_the_document_is_a_campaign_and_comes_back() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/campaign-files.md");
        let document = fs::read_to_string(path).unwrap();
        let example = document.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let campaign = Campaign::parse(read(example, FileFormat::Toml).unwrap()).unwrap();
        assert_eq!(campaign.template["features"][1]["data"]["data"], json!({"from": "spring"}));
        for format in [FileFormat::Toml, FileFormat::Json] {
            let text = write(&campaign, format).unwrap();
            let again = Campaign::parse(read(&text, format).unwrap()).unwrap();
            assert_eq!(again, campaign, "{text}");
            assert_eq!(write(&again, format).unwrap(), text);
        }
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        for (text, format, expected) in [
            ("a = 1\nb =\n", FileFormat::Toml, "line 2: "),
            ("{\n\"a\": }", FileFormat::Json, "line 2 column"),
            ("[]", FileFormat::Json, "must be an object"),
        ] {
            let error = read(text, format).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
