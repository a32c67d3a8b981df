//! Reads the blocks of an event stream (server-sent events; HTML standard, section 9.2.6) as their bytes
//! arrive.

use notify_core::{Timestamp, WebhookData, WebhookEvent};
use serde::Deserialize;
use serde_json::Value;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A block of the stream.
#[derive(Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "almost every block is an event")]
pub(super) enum Block {
    Event {
        cursor: String,
        event: WebhookEvent,
        /// The JSON of the event, as the server sent it.
        body: String,
    },
    Reset,
    /// A position without an event: after events that the query filters out, and to keep the connection
    /// open.
    Cursor(String),
    /// An event that this version cannot decode, at this cursor.
    Undecodable(String),
}

/// A block is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Reads a stream. How the bytes are divided into pieces makes no difference, and each byte is read once.
#[derive(Debug)]
pub(super) struct BlockReader {
    /// Largest block, in bytes.
    bytes_max: usize,
    /// The bytes of the block that has not ended, without those of its line ends.
    bytes: usize,
    /// The line that has not ended.
    line: Vec<u8>,
    /// Whether the last byte was a CR. An LF after it belongs to the same line end.
    is_after_cr: bool,
    is_first_line: bool,
    fields: Fields,
}

/// The fields of a block.
#[derive(Debug, Default)]
struct Fields {
    event: Option<String>,
    id: Option<String>,
    /// The values of all `data` fields, with a line break between them.
    data: Option<String>,
}

impl BlockReader {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            line: Vec::new(),
            is_after_cr: false,
            is_first_line: true,
            fields: Fields::default(),
        }
    }

    /// Reads the next bytes, and adds the blocks that they complete.
    ///
    /// # Errors
    /// When a block is larger than the limit. The blocks before it have been added.
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        blocks: &mut impl Extend<Block>,
    ) -> Result<(), TooLarge> {
        if !bytes.is_empty() && std::mem::take(&mut self.is_after_cr) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.add_to_line(&bytes[..end])?;
            blocks.extend(self.end_line());
            let is_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.is_after_cr = is_cr && bytes.is_empty();
            if is_cr {
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
        }
        self.add_to_line(bytes)
    }

    fn add_to_line(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        self.bytes += bytes.len();
        if self.bytes > self.bytes_max {
            return Err(TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes the line, which has ended. Returns the block that ends with it, if there is one.
    fn end_line(&mut self) -> Option<Block> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            self.bytes = 0;
            return std::mem::take(&mut self.fields).into_block();
        }
        self.fields.add(&String::from_utf8_lossy(line));
        None
    }
}

impl Fields {
    /// Adds a line. A line that begins with a colon is a comment: a field without a name.
    fn add(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => self.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            _ => {}
        }
    }

    /// The block of the fields; `None` without an event and without a position.
    fn into_block(self) -> Option<Block> {
        match (self.event.as_deref(), self.id) {
            (Some("reset"), _) => Some(Block::Reset),
            (Some(_), Some(cursor)) => {
                let body = self.data.unwrap_or_default();
                Some(match parse_event(&body) {
                    Some(event) => Block::Event { cursor, event, body },
                    None => Block::Undecodable(cursor),
                })
            }
            (None, Some(cursor)) => Some(Block::Cursor(cursor)),
            (_, None) => None,
        }
    }
}

/// Parses an event. Data that this version cannot decode becomes [`WebhookData::Other`], like the data
/// of an unknown type.
pub(super) fn parse_event(text: &str) -> Option<WebhookEvent> {
    #[derive(Deserialize)]
    struct AnyEvent {
        #[serde(rename = "type")]
        kind: String,
        timestamp: String,
        #[serde(default)]
        data: Value,
    }
    if let Ok(event) = serde_json::from_str(text) {
        return Some(event);
    }
    let AnyEvent { kind, timestamp, data } = serde_json::from_str(text).ok()?;
    let timestamp: jiff::Timestamp = timestamp.parse().ok()?;
    let timestamp = Timestamp::from_ms(timestamp.as_millisecond());
    Some(WebhookEvent { timestamp, data: WebhookData::Other { kind, data } })
}
