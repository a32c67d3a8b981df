//! Properties of the reader of event streams.

use super::blocks::{Block, BlockReader, TooLarge, parse_event};
use notify_core::WebhookEvent;

/// The limit of a block here, in bytes: small, so that generated streams reach it.
const BLOCK_BYTES_MAX: usize = 512;

/// Reads a stream in different pieces, and with a second reader. The first byte is the size of the pieces.
///
/// # Panics
/// If the blocks differ, or if an event that is written again reads differently.
pub fn sse(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let whole = read(stream, stream.len());
    for size in [1, 2, 3, usize::from(*size).max(1)] {
        assert_eq!(read(stream, size), whole, "in pieces of {size} bytes");
    }
    let (blocks, result) = whole;
    let second = second_reader(stream);
    match result {
        Ok(()) => assert_eq!(blocks, second, "a second reader"),
        Err(TooLarge) => assert!(second.starts_with(&blocks), "{second:?}, but {blocks:?}"),
    }
    for block in &blocks {
        if let Block::Event { cursor, event, .. } = block {
            check_event(cursor, event);
        }
    }
}

fn read(stream: &[u8], size: usize) -> (Vec<Block>, Result<(), TooLarge>) {
    let mut reader = BlockReader::new(BLOCK_BYTES_MAX);
    let mut blocks = Vec::new();
    let result = stream.chunks(size.max(1)).try_for_each(|piece| reader.read(piece, &mut blocks));
    (blocks, result)
}

/// Reads the whole stream as the HTML standard describes it, without a limit.
fn second_reader(stream: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(stream).replace("\r\n", "\n").replace('\r', "\n");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let Some((lines, _unfinished)) = text.rsplit_once('\n') else { return Vec::new() };
    let mut blocks = Vec::new();
    let mut fields: Vec<(&str, &str)> = Vec::new();
    for line in lines.split('\n') {
        if !line.is_empty() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            fields.push((name, value.strip_prefix(' ').unwrap_or(value)));
            continue;
        }
        let values = |wanted: &'static str| {
            fields.iter().filter(move |(name, _)| *name == wanted).map(|(_, value)| *value)
        };
        let id = values("id").rfind(|id| !id.contains('\0')).map(str::to_owned);
        let data = values("data").collect::<Vec<_>>().join("\n");
        blocks.extend(match (values("event").next_back(), id) {
            (Some("reset"), _) => Some(Block::Reset),
            (None, id) => id.map(Block::Cursor),
            (Some(_), None) => None,
            (Some(_), Some(cursor)) => Some(match parse_event(&data) {
                Some(event) => Block::Event { cursor, event, body: data },
                None => Block::Undecodable(cursor),
            }),
        });
        fields.clear();
    }
    blocks
}

/// Checks that an event that is written as the server writes it is the same event.
fn check_event(cursor: &str, event: &WebhookEvent) {
    let data = serde_json::to_string(event).expect("an event can be written");
    let text = format!("id: {cursor}\nevent: any\ndata: {data}\n\n");
    if text.len() <= BLOCK_BYTES_MAX {
        let (cursor, event) = (cursor.to_owned(), event.clone());
        let expected = (vec![Block::Event { cursor, event, body: data }], Ok(()));
        assert_eq!(read(text.as_bytes(), text.len()), expected, "{text}");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn seeds_of_event_streams() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/sse");
        let mut count = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            // Shown only if the check panics.
            println!("{}", path.display());
            super::sse(&fs::read(&path).unwrap());
            count += 1;
        }
        assert!(count > 0, "{} has no seeds", folder.display());
    }
}
