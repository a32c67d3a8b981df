//! A body that is the same for every device but for the address inside it.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

/// A JSON body, cut where the address of a device goes in as a string.
#[derive(Debug, Clone)]
pub struct Around {
    /// Up to and with the opening quote of the address.
    pub before: Bytes,
    /// From its closing quote on.
    pub after: Bytes,
}

impl Around {
    /// A body that begins with `before` and goes on with the members of `rest`, a JSON object.
    /// `close` ends what the address stands in.
    pub(super) fn members(
        before: &'static str,
        close: &'static str,
        rest: &impl Serialize,
    ) -> Self {
        let json = serde_json::to_vec(rest).expect("a message is made of texts");
        let mut after = BytesMut::with_capacity(close.len() + json.len() + 1);
        after.put_slice(close.as_bytes());
        after.put_slice(b",");
        after.put_slice(&json[1..]);
        Self { before: Bytes::from_static(before.as_bytes()), after: after.freeze() }
    }

    /// The body for one address.
    #[must_use]
    pub fn put(&self, address: &str) -> Bytes {
        let mut body =
            BytesMut::with_capacity(self.before.len() + address.len() + self.after.len());
        body.put_slice(&self.before);
        let plain =
            address.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
        if plain {
            body.put_slice(address.as_bytes());
        } else {
            let quoted = serde_json::to_vec(address).expect("a text is valid JSON");
            body.put_slice(&quoted[1..quoted.len() - 1]);
        }
        body.put_slice(&self.after);
        body.freeze()
    }
}
