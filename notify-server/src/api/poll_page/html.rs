//! HTML that cannot be broken out of: what is written as it is are texts of this program, whatever
//! comes from elsewhere is escaped.

/// A page being written.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Markup of this program.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// A text, safe between tags and in quoted attributes alike.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // What no document may hold (HTML, 13.5), and what would turn the page around it.
                '\0'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}' => {}
                '\u{202a}'..='\u{202e}' => {}
                other => self.0.push(other),
            }
        }
        self
    }

    /// The page.
    pub(super) fn into_bytes(self) -> bytes::Bytes {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_place() {
        for (text, expected) in [
            ("Tea & cake?", "Tea &amp; cake?"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("\" onload=\"x", "&quot; onload=&quot;x"),
            ("' x='", "&#39; x=&#39;"),
            ("a\0b\u{202e}c\u{1b}d", "abcd"),
            ("שלום 👋\n", "שלום 👋\n"),
        ] {
            let mut html = Html::default();
            html.raw("<p>").text(text).raw("</p>");
            assert_eq!(html.into_bytes(), format!("<p>{expected}</p>"));
        }
    }
}
