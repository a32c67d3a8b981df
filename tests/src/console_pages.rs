//! The pages of the console, as an operator finds them: by links from the overview.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::{Context, Result, ensure};

use crate::{Browser, Key};

/// The links of a page to other pages. A download is no page.
const LINKS: &str =
    "[...document.querySelectorAll('a[href]:not([download])')].map((link) => link.href)";
/// The folders whose entries have ids that operators' backends choose.
const FOLDERS_OF_IDS: [&str; 2] = ["devices", "users"];
/// The shortest id that the server chooses.
const ID_LENGTH_MIN: usize = 20;

/// A page of the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolePage {
    /// The path and query, relative to `/console/`.
    pub path: String,
}

impl ConsolePage {
    /// The path with `ID` in place of each id, and the names in the query. Pages with the same shape show the
    /// same kind of thing. A cursor makes no other shape.
    #[must_use]
    pub fn shape(&self) -> String {
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let mut before = "";
        let segments = path.split('/').map(|segment| {
            let is_id = is_id(segment) || FOLDERS_OF_IDS.contains(&before);
            before = segment;
            if is_id { "ID" } else { segment }
        });
        let path = segments.collect::<Vec<_>>().join("/");
        let names: BTreeSet<&str> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .filter(|(name, value)| *name != "cursor" && !value.is_empty())
            .map(|(name, _)| name)
            .collect();
        let query = names.into_iter().collect::<Vec<_>>().join("&");
        if query.is_empty() { path } else { format!("{path}?{query}") }
    }

    /// A name for files: `notifications` for the list, `notification` for one of them.
    #[must_use]
    pub fn name(&self) -> String {
        let shape = self.shape();
        let path = shape.split('?').next().unwrap_or_default();
        let mut words: Vec<String> = Vec::new();
        for segment in path.trim_end_matches('/').split('/').filter(|segment| !segment.is_empty()) {
            match words.last_mut() {
                Some(folder) if segment == "ID" => {
                    folder.truncate(folder.trim_end_matches('s').len());
                }
                _ => words.push(segment.to_owned()),
            }
        }
        match &words[..] {
            [] => "overview".to_owned(),
            [app] if app == "app" => "dashboard".to_owned(),
            [app, below @ ..] if app == "app" => below.join("-"),
            all => all.join("-"),
        }
    }
}

fn is_id(segment: &str) -> bool {
    segment.len() >= ID_LENGTH_MIN && segment.bytes().any(|byte| byte.is_ascii_digit())
}

/// Signs in with an admin key, as an operator does with the keyboard, and waits for the overview.
///
/// # Errors
/// When the server refuses the key.
pub async fn sign_in(browser: &mut Browser, origin: &str, admin_key: &str) -> Result<()> {
    browser.open(&format!("{origin}/console/")).await?;
    browser.shows("document.activeElement.id === 'key'").await?;
    browser.type_text(admin_key).await?;
    browser.press_through(Key::Enter).await?;
    browser.shows("document.querySelector('h1').textContent === 'Overview'").await
}

/// Visits the pages to which links lead from the overview, in the order in which a reader finds them, and
/// returns them. Of pages of the same shape it visits the first `each`.
///
/// # Errors
/// When a page does not load or has no heading, or `visit` fails. The error names the page.
pub async fn walk(
    browser: &mut Browser,
    origin: &str,
    each: usize,
    mut visit: impl AsyncFnMut(&mut Browser, &ConsolePage) -> Result<()>,
) -> Result<Vec<ConsolePage>> {
    let root = format!("{origin}/console/");
    let mut visited = Vec::new();
    let mut seen = BTreeSet::from([String::new()]);
    let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
    let mut open = VecDeque::from([ConsolePage { path: String::new() }]);
    while let Some(page) = open.pop_front() {
        let count = shapes.entry(page.shape()).or_default();
        *count += 1;
        if *count > each {
            continue;
        }
        let visiting = async {
            browser.open(&format!("{root}{}", page.path)).await?;
            let heading = browser.run("document.querySelectorAll('h1').length").await?;
            ensure!(heading == 1, "{heading} main headings");
            // The visit may lead elsewhere.
            let links = browser.run(LINKS).await?;
            visit(browser, &page).await?;
            anyhow::Ok(links)
        };
        let links = visiting.await.with_context(|| format!("on the page {}", page.path))?;
        let links: Vec<String> = serde_json::from_value(links)?;
        for link in links {
            let address = link.split('#').next().unwrap_or_default();
            if let Some(path) = address.strip_prefix(&root)
                && seen.insert(path.to_owned())
            {
                open.push_back(ConsolePage { path: path.to_owned() });
            }
        }
        visited.push(page);
    }
    Ok(visited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_kind_have_one_shape_and_a_name() {
        let id = "01a1fcca-b221-7539-8ee9-a30408d41d24";
        for (path, shape, name) in [
            (String::new(), "", "overview"),
            (format!("apps/{id}"), "apps/ID", "dashboard"),
            (format!("apps/{id}/devices?cursor=x&tag="), "apps/ID/devices", "devices"),
            (format!("apps/{id}/devices?tag=a"), "apps/ID/devices?tag", "devices"),
            (format!("apps/{id}/devices/pixel"), "apps/ID/devices/ID", "device"),
            (
                format!("apps/{id}/notifications/{id}/explain?device=a"),
                "apps/ID/notifications/ID/explain?device",
                "notification-explain",
            ),
            ("audit".to_owned(), "audit", "audit"),
        ] {
            let page = ConsolePage { path };
            assert_eq!((page.shape().as_str(), page.name().as_str()), (shape, name));
        }
    }
}
