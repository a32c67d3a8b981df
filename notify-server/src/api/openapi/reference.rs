//! `docs/api.md` as the source of descriptions and examples: the reference and the document for people
//! cannot disagree, and its examples are tested against the models (`tests/tests/docs`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

const REFERENCE: &str = include_str!("../../../../docs/api.md");

static SECTIONS: LazyLock<BTreeMap<&'static str, Section>> = LazyLock::new(|| sections(REFERENCE));

/// What the document says of one endpoint.
#[derive(Default)]
pub(super) struct Section {
    /// The chapter that it is in.
    pub(super) chapter: &'static str,
    /// Its text without the examples.
    pub(super) description: String,
    /// Bodies that it takes.
    pub(super) requests: Vec<Example>,
    /// Bodies of its answers.
    pub(super) answers: Vec<Example>,
}

/// A body, and what it shows where an endpoint has several.
pub(super) struct Example {
    title: &'static str,
    body: Value,
}

/// The section of an endpoint, by its method and path.
pub(super) fn section(endpoint: &str) -> Option<&'static Section> {
    SECTIONS.get(endpoint)
}

/// Adds examples to a media type.
pub(super) fn add_examples(media_type: &mut Value, examples: &[Example]) {
    match examples {
        [] => {}
        [only] => media_type["example"] = only.body.clone(),
        several => {
            let named = several.iter().map(|example| {
                let named = json!({ "summary": example.title, "value": example.body });
                (example.title.replace(' ', "_"), named)
            });
            media_type["examples"] = Value::Object(named.collect::<Map<_, _>>());
        }
    }
}

/// The sections of endpoints; what stands before the first one of a chapter is about no endpoint.
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
            section.take_example(fence, &body.join("\n"));
        } else {
            section.description.push_str(&without_links(line));
            section.description.push('\n');
        }
    }
    if let Some(endpoint) = endpoint {
        sections.insert(endpoint, section);
    }
    for section in sections.values_mut() {
        section.description.truncate(section.description.trim_end().len());
        section
            .description
            .drain(..section.description.len() - section.description.trim_start().len());
    }
    sections
}

impl Section {
    /// Keeps the body of a fenced block: `json` is an answer, `json request` and `form request` a body.
    /// After a colon comes its title.
    fn take_example(&mut self, fence: &'static str, text: &str) {
        let (kind, title) = fence.split_once(": ").unwrap_or((fence, ""));
        let body = if kind.starts_with("form") {
            url::form_urlencoded::parse(text.as_bytes())
                .map(|(name, value)| (name.into_owned(), Value::from(value)))
                .collect()
        } else {
            serde_json::from_str(text).unwrap_or_default()
        };
        let examples =
            if kind.ends_with("request") { &mut self.requests } else { &mut self.answers };
        examples.push(Example { title, body });
    }
}

/// A line without the links to other parts of the documents, which lead nowhere from here.
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
mod tests {
    use super::*;

    #[test]
    fn a_section_has_its_chapter_text_and_examples() {
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
        add_examples(&mut content, &section.answers);
        assert_eq!(content, json!({ "example": { "id": "a" } }));
    }
}
