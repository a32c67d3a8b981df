//! `docs/api.md`, the source of descriptions and examples (`build.rs` finds it). The examples of the document are
//! tested against the models (`tests/tests/docs`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

const REFERENCE: &str = include_str!(env!("SERVER_API_REFERENCE"));

static SECTIONS: LazyLock<BTreeMap<&'static str, Section>> = LazyLock::new(|| sections(REFERENCE));

/// The section of `docs/api.md` about one endpoint.
#[derive(Default)]
pub(super) struct Section {
    /// The chapter of the section.
    pub(super) chapter: &'static str,
    /// The text of the section without the examples.
    pub(super) description: String,
    /// Request bodies.
    pub(super) requests: Vec<Example>,
    /// Response bodies.
    pub(super) responses: Vec<Example>,
}

/// A body, with a title if the endpoint has several.
pub(super) struct Example {
    title: &'static str,
    body: Value,
}

/// The section of an endpoint by its method and path.
pub(super) fn section(endpoint: &str) -> Option<&'static Section> {
    SECTIONS.get(endpoint)
}

/// Adds examples to a media type.
pub(super) fn add_examples(media_type: &mut Value, examples: &[Example]) {
    match examples {
        [] => {}
        [only] => media_type["example"] = only.body.clone(),
        several => {
            let by_name = several.iter().map(|example| {
                let example_object = json!({ "summary": example.title, "value": example.body });
                (example.title.replace(' ', "_"), example_object)
            });
            media_type["examples"] = Value::Object(by_name.collect::<Map<_, _>>());
        }
    }
}

/// The sections of a document, by the method and path of their endpoint. The text of a chapter
/// before its first endpoint is skipped.
fn sections(document: &'static str) -> BTreeMap<&'static str, Section> {
    let mut sections = BTreeMap::new();
    let (mut chapter, mut endpoint) = ("", None);
    let mut section = Section::default();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("## ") || line.starts_with("### ") {
            if let Some(endpoint) = endpoint.take() {
                sections.insert(endpoint, section);
            }
            chapter = line.strip_prefix("## ").unwrap_or(chapter);
            section = Section { chapter, ..Section::default() };
            endpoint = line.strip_prefix("### `").map(|rest| rest.trim_end_matches('`'));
        } else if let Some(fence) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            section.add_example(fence, &body.join("\n"));
        } else {
            section.description.push_str(&without_links(line));
            section.description.push('\n');
        }
    }
    if let Some(endpoint) = endpoint {
        sections.insert(endpoint, section);
    }
    for section in sections.values_mut() {
        section.description = section.description.trim().to_owned();
    }
    sections
}

impl Section {
    /// Adds the body of a fenced block: `json` is a response, `json request` and `form request` are
    /// requests. A title follows after a colon.
    fn add_example(&mut self, fence: &'static str, text: &str) {
        let (kind, title) = fence.split_once(": ").unwrap_or((fence, ""));
        let body = if kind.starts_with("form") {
            url::form_urlencoded::parse(text.as_bytes())
                .map(|(name, value)| (name.into_owned(), Value::from(value)))
                .collect()
        } else {
            serde_json::from_str(text).unwrap_or_default()
        };
        let examples =
            if kind.ends_with("request") { &mut self.requests } else { &mut self.responses };
        examples.push(Example { title, body });
    }
}

/// A line without relative links, which do not work outside of the documentation.
fn without_links(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, link)) = rest.split_once('[') {
        let parts = link.split_once("](").and_then(|(label, after)| {
            let (target, after) = after.split_once(')')?;
            Some((label, target, after))
        });
        text.push_str(before);
        match parts {
            Some((label, target, after)) if target.starts_with("http") => {
                text.push_str(&format!("[{label}]({target})"));
                rest = after;
            }
            Some((label, _, after)) if !label.contains('[') => {
                text.push_str(label);
                rest = after;
            }
            Some(_) | None => {
                text.push('[');
                rest = link;
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod reference_tests {
    use super::*;

    #[test]
    fn parses_sections_with_chapter_text_and_examples() {
        let document = "# All\n\nFor everyone.\n\n## Things\n\nMany.\n\n### `POST /v1/things`\n\n\
            Makes one,\n[as elsewhere](#things) or [there](https://there.example/).\n\n\
            ```json request: a small one\n{\"size\": 1}\n```\n```json request: a large one\n\
            {\"size\": 9}\n```\n```json\n{\"id\": \"a\"}\n```\nOnly `[1]` more.\n\n## Other\n\nText.\n";
        let sections = sections(document);
        assert_eq!(sections.keys().collect::<Vec<_>>(), [&"POST /v1/things"]);
        let section = &sections["POST /v1/things"];
        assert_eq!(section.chapter, "Things");
        assert_eq!(
            section.description,
            "Makes one,\nas elsewhere or [there](https://there.example/).\n\nOnly `[1]` more."
        );
        let mut content = json!({});
        add_examples(&mut content, &section.requests);
        assert_eq!(
            content,
            json!({ "examples": {
                "a_small_one": { "summary": "a small one", "value": { "size": 1 } },
                "a_large_one": { "summary": "a large one", "value": { "size": 9 } },
            } })
        );
        let mut content = json!({});
        add_examples(&mut content, &section.responses);
        assert_eq!(content, json!({ "example": { "id": "a" } }));
    }
}
