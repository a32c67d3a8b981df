//! The text of a file: TOML, or JSON.

use clap::ValueEnum;
use notify_client::notify_core::CampaignStatus;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Campaign;

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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_example_of_the_document_is_a_campaign_and_comes_back() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/campaign-files.md");
        let document = std::fs::read_to_string(path).unwrap();
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
