//! Reads the links and forms of a page, as a browser without scripts would use them.

use url::Url;

/// A form of a page.
#[derive(Debug, Clone)]
pub(crate) struct HtmlForm {
    /// `get` or `post`.
    pub(crate) method: String,
    /// Where it is sent to.
    pub(crate) action: Url,
    /// Its fields, with the values that the page shows.
    pub(crate) fields: Vec<(String, String)>,
}

impl HtmlForm {
    /// The value of a field; empty if the form does not have it.
    pub(crate) fn value(&self, name: &str) -> &str {
        let field = self.fields.iter().find(|(field, _)| field == name);
        field.map_or("", |(_, value)| value)
    }

    /// The same form with another value of a field.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(field, _)| field != name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The fields in the form of a body.
    pub(crate) fn body(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.fields).finish()
    }
}

/// The forms of the page at this address.
pub(crate) fn forms(page: &str, at: &Url) -> Vec<HtmlForm> {
    let forms = page.split("<form").skip(1).filter_map(|rest| rest.split("</form>").next());
    forms
        .map(|form| {
            let (tag, content) = form.split_once('>').unwrap();
            let action = attribute(tag, "action").unwrap_or_default();
            HtmlForm {
                method: attribute(tag, "method").unwrap_or_else(|| "get".to_owned()),
                action: at.join(&action).unwrap(),
                fields: fields(content),
            }
        })
        .collect()
}

/// The addresses on the same site to which the page at this address links, without fragments.
pub(crate) fn links(page: &str, at: &Url) -> Vec<Url> {
    let tags = page.split('<').filter(|tag| tag.starts_with("a "));
    tags.filter_map(|tag| attribute(tag.split('>').next()?, "href"))
        .map(|href| {
            let mut url = at.join(&href).unwrap();
            url.set_fragment(None);
            url
        })
        .filter(|url| url.origin() == at.origin())
        .collect()
}

fn fields(content: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    for part in content.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        let is_tick = matches!(attribute(tag, "type").as_deref(), Some("checkbox" | "radio"));
        let value = match tag.split_whitespace().next() {
            Some("input") if is_tick && !tag.contains(" checked") => continue,
            Some("input") => attribute(tag, "value").unwrap_or_default(),
            Some("textarea") => unescaped(text.strip_prefix('\n').unwrap_or(text)),
            _ => continue,
        };
        if let Some(name) = attribute(tag, "name") {
            fields.push((name, value));
        }
    }
    fields
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next().map(unescaped)
}

pub(crate) fn unescaped(text: &str) -> String {
    let entities = [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'")];
    let text = entities.iter().fold(text.to_owned(), |text, (entity, of)| text.replace(entity, of));
    text.replace("&#38;", "&").replace("&amp;", "&")
}
