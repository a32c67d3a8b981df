//! The links between the documents, and the contents of the site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{read, root};

/// The contents of the site, which `scripts/site.sh` builds.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Folders that hold nothing of the source tree.
const OTHER_FOLDERS: [&str; 3] = ["target", "node_modules", "notify-data"];

/// What a document links to, and the anchors of its headings.
#[derive(Default)]
struct Document {
    targets: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Document {
    fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut heading = None;
        for event in Parser::new_ext(text, Options::ENABLE_GFM | Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.targets.push(dest_url.into_string());
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    let attributes = [" src=\"", " srcset=\"", " href=\""];
                    let values = attributes.map(|name| html.split(name).skip(1));
                    let values = values.into_iter().flatten();
                    let values = values.filter_map(|rest| rest.split('"').next());
                    document.targets.extend(values.map(str::to_owned));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    document.add_heading(&heading.take().unwrap_or_default());
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        document
    }

    /// Adds the anchor that GitHub and mdBook give to a heading.
    fn add_heading(&mut self, heading: &str) {
        let letters = heading.trim().chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter.to_ascii_lowercase()),
        });
        let anchor: String = letters.collect();
        let mut repeated = (1..).map(|nth| format!("{anchor}-{nth}"));
        let mut unique = anchor.clone();
        while self.anchors.contains(&unique) {
            unique = repeated.next().expect("there is always another number");
        }
        self.anchors.insert(unique);
    }
}

/// The path of a link's target from the root of the tree, unless the target is outside the tree.
fn resolve(document: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(document.to_owned());
    }
    let mut parts: Vec<_> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    (!target.starts_with('/')).then(|| parts.join("/"))
}

/// The names of all documents, below the root.
pub(super) fn document_paths() -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is readable") {
            let path = entry.expect("the entry is readable").path();
            let name = path.file_name().expect("an entry has a name").to_string_lossy();
            if path.is_dir() {
                if !name.starts_with('.') && !OTHER_FOLDERS.contains(&&*name) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(root()).expect("below the root");
                names.push(name.to_str().expect("names are UTF-8").to_owned());
            }
        }
    }
    names
}

fn documents() -> BTreeMap<String, Document> {
    let names = document_paths().into_iter();
    names.map(|name| (name.clone(), Document::parse(&read(&name)))).collect()
}

/// Says what is wrong with a link of a document.
fn broken(documents: &BTreeMap<String, Document>, name: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = resolve(name, path);
    let Some(path) = path.filter(|path| root().join(path).exists()) else {
        return Some(format!("{name}: {target} is not there"));
    };
    let has_anchor = documents.get(&path).is_some_and(|one| one.anchors.contains(anchor));
    (!anchor.is_empty() && !has_anchor).then(|| format!("{name}: {target} has no such heading"))
}

#[test]
fn every_link_of_every_document_resolves() {
    let documents = documents();
    assert!(documents.contains_key("README.md") && documents.contains_key("docs/api.md"));
    let mut found = Vec::new();
    for (name, document) in &documents {
        let targets = document.targets.iter();
        found.extend(targets.filter_map(|target| broken(&documents, name, target)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_contents_of_the_site_name_every_page_once() {
    let documents = documents();
    let contents = &documents[CONTENTS].targets;
    let listed: Vec<_> = contents.iter().filter_map(|page| resolve(CONTENTS, page)).collect();
    let pages: BTreeSet<_> = listed.iter().collect();
    assert_eq!(pages.len(), listed.len(), "a page is listed twice: {listed:?}");
    for page in &pages {
        assert!(documents.contains_key(*page), "{page} is not there");
    }
    for name in documents.keys().filter(|name| name.starts_with("docs/") && *name != CONTENTS) {
        assert!(pages.contains(name), "{CONTENTS} does not list {name}");
    }
    // The site has no other pages, so a link to another document would be dead there.
    for page in &pages {
        for target in &documents[*page].targets {
            let path = target.split('#').next().unwrap_or_default();
            if let Some(path) = resolve(page, path).filter(|path| documents.contains_key(path)) {
                assert!(pages.contains(&path), "{page} links to {path}, which is not listed");
            }
        }
    }
}

#[test]
fn links_and_anchors_are_found_as_github_shows_them() {
    let document = Document::parse(
        "# `GET /v1/a_b/{id}`\n## What's new?\n## What's new\n### A  link: [one](a.md#b)\n\
         | a |\n|---|\n| [two](<c.md>) |\n\n`[three](no.md)`\n\n    [four](no.md)\n\n\
         <img src=\"a.png\" alt=\"\">\n\n![five](b.png \"title\") [six]\n\n[six]: d.md\n",
    );
    assert_eq!(document.targets, ["a.md#b", "c.md", "a.png", "b.png", "d.md"]);
    let anchors = ["a--link-one", "get-v1a_bid", "whats-new", "whats-new-1"];
    assert_eq!(document.anchors.iter().collect::<Vec<_>>(), anchors);

    // (document, target, path)
    let cases = [
        ("docs/a.md", "b.md", Some("docs/b.md")),
        ("docs/a.md", "../b.md", Some("b.md")),
        ("docs/a.md", "./b/", Some("docs/b")),
        ("a.md", "", Some("a.md")),
        ("a.md", "../b.md", None),
        ("a.md", "/b.md", None),
    ];
    for (document, target, path) in cases {
        assert_eq!(resolve(document, target).as_deref(), path, "{document}: {target}");
    }
    let documents = BTreeMap::from([("README.md".to_owned(), document)]);
    // (target, whether the link is broken)
    let cases = [
        ("#whats-new-1", false),
        ("#whats-new-2", true),
        ("README.md#whats-new", false),
        ("Cargo.toml", false),
        ("Cargo.toml#whats-new", true),
        ("no.md", true),
        ("https://example.com/#no", false),
    ];
    for (target, is_broken) in cases {
        let found = broken(&documents, "README.md", target);
        assert_eq!(found.is_some(), is_broken, "{target}: {found:?}");
    }
}
