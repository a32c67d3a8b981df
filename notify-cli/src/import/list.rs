//! Devices as one JSON text: an array of them, or what `notify devices list -o json` shows. It is
//! read element by element, however long it is.

use std::{
    cell::Cell,
    fmt,
    io::{self, BufRead, Read},
};

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::lines::ROW_BYTES_MAX;
use crate::failure::Failure;

/// The member of an answer that holds the devices.
const DEVICES: &str = "devices";

/// Whether a file that begins so is one JSON text, and not one object a line.
pub(super) fn is_list(first_line: &[u8]) -> bool {
    match first_line.trim_ascii() {
        b"{" => true,
        line if line.starts_with(b"[") => true,
        line => line.strip_prefix(b"{").is_some_and(|members| {
            let members = members.trim_ascii_start();
            members.strip_prefix(b"\"devices\"").is_some()
        }),
    }
}

/// A device of the list.
pub(super) struct Element<'a> {
    pub(super) text: &'a [u8],
    /// The line that it begins on.
    pub(super) line: u64,
    /// How much of the file is read behind it.
    pub(super) bytes: u64,
}

/// Reads the devices one by one. `each` says whether to go on.
pub(super) fn read(
    input: impl BufRead,
    mut each: impl FnMut(&Element<'_>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let count =
        Count { lines: Cell::new(1), bytes: Cell::new(0), row_end: Cell::new(ROW_BYTES_MAX) };
    let mut json = serde_json::Deserializer::from_reader(Counted { input, count: &count });
    let mut ended = None;
    let mut list = List {
        each: &mut |text| {
            let inside = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
            let (line, bytes) = (count.lines.get() - inside, count.bytes.get());
            count.row_end.set(bytes + ROW_BYTES_MAX);
            let outcome = each(&Element { text: text.as_bytes(), line, bytes });
            let goes_on = matches!(outcome, Ok(true));
            ended = outcome.err().or(ended.take());
            goes_on
        },
        is_stopped: false,
    };
    let read = list.deserialize(&mut json).and_then(|()| json.end());
    let is_stopped = list.is_stopped;
    match (ended, read) {
        (Some(failure), _) => Err(failure),
        (None, Err(_)) if is_stopped => Ok(()),
        (None, Err(error)) if error.is_io() => Err(Failure::Output(error.into())),
        (None, Err(error)) if error.is_eof() => Err(Failure::Usage(format!(
            "line {}: the JSON ends within the list: the file was cut",
            error.line()
        ))),
        (None, Err(error)) => Err(Failure::Usage(format!("is no list of devices: {error}"))),
        (None, Ok(())) => Ok(()),
    }
}

/// The text as a whole, and its elements.
struct List<'a> {
    each: &'a mut dyn FnMut(&str) -> bool,
    is_stopped: bool,
}

impl<'de> DeserializeSeed<'de> for &mut List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of devices, or an object that has one as `devices`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<Box<RawValue>>()? {
            if !(self.each)(element.get()) {
                self.is_stopped = true;
                return Err(de::Error::custom("stopped"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut has_devices = false;
        while let Some(name) = members.next_key::<String>()? {
            if name == DEVICES {
                has_devices = true;
                members.next_value_seed(&mut *self)?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        if has_devices { Ok(()) } else { Err(de::Error::missing_field(DEVICES)) }
    }
}

/// How far the text is read.
struct Count {
    lines: Cell<u64>,
    bytes: Cell<u64>,
    /// Where an element must have ended.
    row_end: Cell<u64>,
}

struct Counted<'a, R> {
    input: R,
    count: &'a Count,
}

impl<R: BufRead> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.count.bytes.get() > self.count.row_end.get() {
            let what = format!("line {}: a row is longer than 1 MiB", self.count.lines.get());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let read = self.input.read(buffer)?;
        let lines = buffer[..read].iter().filter(|byte| **byte == b'\n').count();
        self.count.lines.set(self.count.lines.get() + lines as u64);
        self.count.bytes.set(self.count.bytes.get() + read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(text: &str) -> Result<Vec<(u64, String)>, String> {
        let mut all = Vec::new();
        let read = read(text.as_bytes(), |element| {
            all.push((element.line, String::from_utf8_lossy(element.text).into_owned()));
            Ok(true)
        });
        read.map(|()| all).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_list_is_an_array_or_an_answer() {
        let both = vec![(2, r#"{"a":1}"#.to_owned()), (3, "{\n\"a\":[2]}".to_owned())];
        for text in [
            "[\n{\"a\":1},\n{\n\"a\":[2]}\n]\n",
            "{\"next_cursor\":null,\"devices\": [\n{\"a\":1},\n{\n\"a\":[2]}], \"x\": [7]}",
        ] {
            assert_eq!(elements(text), Ok(both.clone()), "{text}");
        }
        assert_eq!(elements("[]"), Ok(vec![]));
        for (text, error) in [
            ("[{}, {", "line 1: the JSON ends within the list: the file was cut"),
            ("{}", "is no list of devices: missing field `devices` at line 1 column 2"),
            ("[{}]]", "is no list of devices: trailing characters at line 1 column 5"),
        ] {
            assert_eq!(elements(text), Err(error.to_owned()), "{text}");
        }
        let mut count = 0;
        let stopped = read(&b"[1,2,3]"[..], |_| {
            count += 1;
            Ok(count < 2)
        });
        assert!(stopped.is_ok() && count == 2);
    }

    #[test]
    fn the_first_line_tells_a_list_from_lines() {
        for (line, list) in [
            ("[", true),
            (" [{\"device_id\":1}]", true),
            ("{", true),
            ("{\"devices\":[", true),
            ("{ \"devices\": []}", true),
            ("{\"device_id\":\"a\"}", false),
            ("", false),
        ] {
            assert_eq!(is_list(line.as_bytes()), list, "{line}");
        }
    }
}
