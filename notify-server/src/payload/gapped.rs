//! Bodies that are rendered once and have gaps for texts that differ from device to device.

use bytes::{BufMut, Bytes, BytesMut};

/// The mark that stands for the text with this number while a body is rendered. JSON does not escape it.
#[must_use]
pub(crate) fn mark(number: usize) -> String {
    format!("\u{e000}notify.{number}\u{e001}")
}

/// How the size of an inserted text counts towards the limit of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The bytes in JSON, with escapes.
    Json,
    /// The bytes of the text.
    Text,
}

/// A body in JSON, cut at the marks of its texts.
#[derive(Debug, Clone)]
pub(crate) struct GappedBody {
    /// The parts between the gaps; one more than there are gaps.
    parts: Vec<Bytes>,
    /// The number of the text in each gap.
    gaps: Vec<usize>,
    /// The size that counts without the texts.
    fixed_size: usize,
    /// The limit of the provider.
    limit: usize,
    counting: Counting,
}

impl GappedBody {
    /// Cuts a body at the marks of `texts` texts. `size` is the size that counts, with the marks.
    pub(crate) fn cut(
        json: &Bytes,
        texts: usize,
        size: usize,
        limit: usize,
        counting: Counting,
    ) -> Self {
        let marks: Vec<String> = (0..texts).map(mark).collect();
        let (mut parts, mut gaps, mut fixed_size) = (Vec::new(), Vec::new(), size);
        let mut begin = 0;
        let mut place = 0;
        while place < json.len() {
            let rest = &json[place..];
            let found = marks.iter().position(|mark| rest.starts_with(mark.as_bytes()));
            let Some(number) = found else {
                place += 1;
                continue;
            };
            parts.push(json.slice(begin..place));
            gaps.push(number);
            place += marks[number].len();
            begin = place;
            fixed_size -= marks[number].len();
        }
        parts.push(json.slice(begin..));
        Self { parts, gaps, fixed_size, limit, counting }
    }

    /// Whether every device gets the same bytes.
    pub(crate) fn is_whole(&self) -> bool {
        self.gaps.is_empty()
    }

    /// The body with these texts; `None` if it is larger than the provider accepts.
    pub(crate) fn fill(&self, texts: &[&str]) -> Option<Bytes> {
        let text_of = |gap: &usize| texts.get(*gap).copied().unwrap_or_default();
        let fixed: usize = self.parts.iter().map(Bytes::len).sum();
        let inserted: usize = self.gaps.iter().map(|gap| text_of(gap).len()).sum();
        let mut body = BytesMut::with_capacity(fixed + inserted);
        let mut size = self.fixed_size;
        for (index, part) in self.parts.iter().enumerate() {
            body.put_slice(part);
            let Some(gap) = self.gaps.get(index) else { continue };
            let (text, before) = (text_of(gap), body.len());
            put_json(&mut body, text);
            size += match self.counting {
                Counting::Json => body.len() - before,
                Counting::Text => text.len(),
            };
        }
        (size <= self.limit).then(|| body.freeze())
    }
}

/// Writes a text as the inside of a JSON string.
fn put_json(body: &mut BytesMut, text: &str) {
    let needs_escape = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'\\');
    if text.bytes().any(needs_escape) {
        let quoted = serde_json::to_vec(text).expect("a text is valid JSON");
        body.put_slice(&quoted[1..quoted.len() - 1]);
    } else {
        body.put_slice(text.as_bytes());
    }
}
