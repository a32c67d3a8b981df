//! Reading the documents.

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// The heading above it, without `#` and backticks.
    pub heading: String,
    /// The text after the fence.
    pub language: String,
    /// Its lines.
    pub text: String,
}

/// The fenced blocks of a document, in order.
///
/// # Panics
/// When a fence is not closed.
#[must_use]
pub fn blocks(document: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut heading, mut is_open) = (String::new(), false);
    for line in document.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_open = !is_open;
            if is_open {
                let (heading, language) = (heading.clone(), language.to_owned());
                blocks.push(Block { heading, language, text: String::new() });
            }
        } else if is_open {
            let block = blocks.last_mut().expect("a fence opened it");
            block.text.push_str(line);
            block.text.push('\n');
        } else if line.starts_with('#') {
            heading = line.trim_start_matches('#').replace('`', "").trim().to_owned();
        }
    }
    assert!(!is_open, "a fence is not closed");
    blocks
}
