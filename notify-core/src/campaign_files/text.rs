//! The text of a campaign file: TOML, or JSON.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::CampaignDefinition;
use crate::CampaignStatus;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// TOML; the `data` of a button is JSON text.
    Toml,
    /// JSON, in the form of the API.
    Json,
}

impl FileFormat {
    /// The format of a file with this name; `None` if it is not a campaign file.
    #[must_use]
    pub fn of(file_name: &str) -> Option<Self> {
        match extension(file_name)? {
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// The extension of files in this format.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Toml => "toml",
            Self::Json => "json",
        }
    }
}

/// The extension of a file name.
pub(super) fn extension(file_name: &str) -> Option<&str> {
    Path::new(file_name).extension()?.to_str()
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
pub(super) fn to_text(campaign: &CampaignDefinition, format: FileFormat) -> Result<String, String> {
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
pub(super) fn parse_fields(text: &str, format: FileFormat) -> Result<Map<String, Value>, String> {
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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_example_of_the_documentation_survives_a_round_trip() {
        let document = include_str!("../../../docs/campaign-files.md");
        let example = document.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let campaign =
            CampaignDefinition::parse(parse_fields(example, FileFormat::Toml).unwrap()).unwrap();
        assert_eq!(campaign.template["features"][1]["data"]["data"], json!({"from": "spring"}));
        for format in [FileFormat::Toml, FileFormat::Json] {
            let text = to_text(&campaign, format).unwrap();
            let again = CampaignDefinition::parse(parse_fields(&text, format).unwrap()).unwrap();
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
