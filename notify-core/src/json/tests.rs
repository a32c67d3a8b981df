//! Bodies that every endpoint refuses, and the test that reading is linear.

use super::{BodyPresence, MEMBERS_MAX, NESTING_MAX, PASSES_MAX, bytes_read_by, check, read_body};
use crate::{
    CreateNotification, PatchAttributes, Request, SetTags, Template, Timestamp,
    VIOLATIONS_LISTED_MAX,
};

fn violations(body: &[u8]) -> Vec<String> {
    check(body).err().map(crate::Violations::into_vec).unwrap_or_default()
}

#[test]
fn a_body_is_one_json_value_in_utf8() {
    let rows: [(&[u8], &str); 14] = [
        (b"", "body: is empty"),
        (b" \n\t", "body: is empty"),
        (b"\xef\xbb\xbf", "body: is empty"),
        (b"{\"a\":\"\xff\"}", "body: is not UTF-8 after byte 6"),
        (b"{", "body: is not valid JSON: EOF while parsing an object at line 1 column 1"),
        (
            b"{\"a\":[1,{\"b\":",
            "a[1].b: is not valid JSON: EOF while parsing a value at line 1 column 13",
        ),
        (b"{} x", "body: is not valid JSON: trailing characters at line 1 column 4"),
        (b"{\"a\":1e400}", "a: number that no double can hold"),
        (b"{\"a\":{\"a\":-1e400}}", "a.a: number that no double can hold"),
        (b"{\"a\":[0,{\"b\":1,\"b\":2}]}", "a[1].b: duplicate key"),
        (b"{\"a\":\"\\u0000\"}", "a: must not contain U+0000"),
        (b"{\"a\\u0000\":1}", "a\u{fffd}: must not contain U+0000"),
        (
            b"{\"a\":\"\\ud800\"}",
            "a: is not valid JSON: unexpected end of hex escape at line 1 column 13",
        ),
        (b"{\"a\":NaN}", "a: is not valid JSON: expected value at line 1 column 6"),
    ];
    for (body, expected) in rows {
        assert_eq!(violations(body), [expected], "{}", String::from_utf8_lossy(body));
    }
    let long = format!("{{\"a\":1{}}}", "0".repeat(400));
    assert_eq!(violations(long.as_bytes()), ["a: number that no double can hold"]);
}

#[test]
fn unambiguous_json_is_accepted() {
    let rows = [
        "{}",
        "\u{feff}{}",
        " [1, -0.5, 1e300, \"\\ud83d\\ude00\", null, true, {\"a\": {\"a\": 1}}] ",
        "{\"$serde_json::private::RawValue\": \"x\"}",
    ];
    for body in rows {
        assert_eq!(violations(body.as_bytes()), [""; 0], "{body}");
    }
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(violations(nested(NESTING_MAX).as_bytes()), [""; 0]);
    let deeper = violations(nested(NESTING_MAX + 1).as_bytes());
    assert_eq!(deeper, [format!("{}: nesting deeper than 64", "[0]".repeat(NESTING_MAX))]);
    assert_eq!(violations(nested(100_000).as_bytes()).len(), 1);
    assert_eq!(violations("{\"a\":".repeat(100_000).as_bytes()).len(), 1);
}

#[test]
fn members_are_limited_per_object_and_its_ancestors() {
    let members = |first: usize, count: usize| -> String {
        (first..first + count).map(|number| format!("\"k{number}\":0,")).collect()
    };
    let object = |count| format!("{{{}\"z\":0}}", members(0, count - 1));
    check(object(MEMBERS_MAX).as_bytes()).unwrap();
    let over = format!("more than {MEMBERS_MAX} members");
    assert_eq!(violations(object(MEMBERS_MAX + 1).as_bytes()), [format!("body: {over}")]);
    // Sibling objects are counted separately. A nested object is counted with those that enclose it.
    let siblings = format!("[{}{{}}]", format!("{},", object(1_000)).repeat(20));
    check(siblings.as_bytes()).unwrap();
    let nested = format!("{{{}\"in\":{}}}", members(0, 5_000), object(5_000));
    assert_eq!(violations(nested.as_bytes()), [format!("in: {over}")]);
    // The rest of the text is not read.
    let broken_rest = format!("{{{}\"z\":", members(0, MEMBERS_MAX));
    assert_eq!(violations(broken_rest.as_bytes()), [format!("body: {over}")]);
}

#[test]
fn every_violation_is_listed_and_long_names_are_shortened() {
    let name = "n".repeat(70);
    let body = format!("{{\"{name}\":\"\\u0000\",\"b\":1,\"b\":2,\"b\\n\":1,\"b\\n\":2}}");
    let shortened = format!("{}…: must not contain U+0000", "n".repeat(64));
    let expected = [shortened.as_str(), "b: duplicate key", "b\u{fffd}: duplicate key"];
    assert_eq!(violations(body.as_bytes()), expected);
}

#[test]
fn violations_beyond_the_limit_are_counted() {
    let body = format!("{{\"a\":0{}}}", ",\"a\":0".repeat(5_000));
    let listed = violations(body.as_bytes());
    assert_eq!(listed.len(), VIOLATIONS_LISTED_MAX + 1);
    assert_eq!(listed.last().unwrap(), "body: 4900 more rules are broken");
}

#[test]
fn an_empty_body_is_accepted_only_where_it_is_optional() {
    let read = |body: &[u8], presence| read_body(body, presence, |_| ()).is_ok();
    assert!(read(b" ", BodyPresence::Optional));
    assert!(!read(b" ", BodyPresence::Required));
}

/// Bodies of about `size` bytes for which a careless reader needs quadratic time.
fn hostile(size: usize) -> Vec<String> {
    let repeat = |unit: &str| unit.repeat(size / unit.len());
    let distinct: String = (0..size / 12).map(|number| format!("\"k{number}\":0,")).collect();
    vec![
        format!("{{{}\"a\":0}}", repeat("\"a\":0,")),
        format!("{{{distinct}\"a\":0}}"),
        format!("{{\"platforms\":[{}0]}}", repeat("0,")),
        format!("{{\"platforms\":[{}\"ios\"],\"text\":\"t\"}}", repeat("\"x\",")),
        format!("{{\"android_device_ids\":[{}\"\"]}}", repeat("\"i\",")),
        format!("{{\"features\":[{}{{}}]}}", repeat("{},")),
        format!(
            "{{\"features\":[{}{{}}]}}",
            repeat("{\"type\":\"custom_feed\",\"data\":{\"articles\":[{}]}},")
        ),
        format!("{{\"tags\":[{}{{}}]}}", repeat("{\"name\":\"a\"},")),
        format!("{{\"android_json\":{{{distinct}\"from\":0}}}}"),
        format!("{{\"{}\":0}}", repeat("\\n")),
        format!("{{\"text\":\"{}\"}}", repeat("\\u0041")),
        format!("{{\"ttl_seconds\":{}}}", repeat("1")),
        format!("{{\"audience\":{{\"any\":[{}{{}}]}}}}", repeat("{\"tag\":\"a\"},")),
        format!("{{\"audience\":{{\"any\":[{}{{}}]}}}}", repeat("{},")),
        format!(
            "{{\"audience\":{}{{\"attribute\":\"a\",\"in\":[{}0]}}{}}}",
            "{\"not\":".repeat(7),
            repeat("0,"),
            "}".repeat(7)
        ),
        format!("{{\"audience\":{}[{}0]{}}}", "{\"all\":[".repeat(7), repeat("0,"), "]}".repeat(7)),
        format!("{{\"audience\":{{{distinct}\"tag\":\"a\"}}}}"),
        format!("{{{distinct}\"a\":0}}"),
        "[".repeat(size),
        "{\"a\":".repeat(size / 5),
    ]
}

#[test]
fn reading_is_linear() {
    let now = Timestamp(0);
    for size in [1_000, 10_000, 1_000_000] {
        for (case, body) in hostile(size).iter().enumerate() {
            let body = body.as_bytes();
            for scanned in [
                bytes_read_by(|| drop(CreateNotification::parse(body, now))),
                bytes_read_by(|| drop(Template::parse(body, now))),
                bytes_read_by(|| drop(SetTags::parse(body, now))),
                bytes_read_by(|| drop(PatchAttributes::parse(body, now))),
            ] {
                assert!(scanned >= body.len(), "case {case} is not counted");
                let bound = PASSES_MAX * body.len();
                assert!(scanned <= bound, "case {case}: {scanned} of {} bytes", body.len());
            }
        }
    }
}
