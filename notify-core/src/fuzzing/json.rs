//! The reader of JSON.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::check_violations;
use crate::json::{BodyPresence, JsonObject, MEMBERS_MAX, NESTING_MAX, Value, check, read_body};

/// Checks the strict reader against a second reader with its own implementation of the rules.
///
/// # Panics
/// If they disagree on whether a body is acceptable or what it contains, or if a value that is written
/// again reads differently.
pub fn json(body: &[u8]) {
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let second: Option<Node> = serde_json::from_slice(text).ok();
    match check(body) {
        Err(violations) => {
            check_violations(&violations);
            let rules_broken = second.is_none_or(|node| !node.is_acceptable(1, 0));
            assert!(rules_broken, "refused without a reason: {violations}");
        }
        Ok(text) => {
            let node = second.expect("a second reader accepts what the strict one accepts");
            assert!(node.is_acceptable(1, 0), "accepted against the rules");
            check_passes(text, &node);
        }
    }
}

/// Checks what the second pass of the reader takes out of an acceptable text.
fn check_passes(text: &str, node: &Node) {
    let Node::Object(_) = node else {
        assert!(JsonObject::new(text).is_err(), "not an object");
        return;
    };
    let (model, rules) = read_body(text.as_bytes(), BodyPresence::Required, |object| {
        Node::Object(object.map(read).into_iter().map(or_null).collect())
    })
    .expect("an acceptable body");
    assert_eq!(rules.into_result(model).as_ref(), Ok(node), "the second pass reads something else");

    let object = JsonObject::new(text).expect("an acceptable object");
    assert_eq!(object.as_str(), text.trim_matches([' ', '\t', '\n', '\r']));
    let printed = serde_json::to_string(&object).expect("an object can be written");
    assert_eq!(JsonObject::new(&printed).expect("a written object"), object);

    let printed = node.print();
    let again: Node = serde_json::from_str(check(printed.as_bytes()).expect("a printed body"))
        .expect("a printed body");
    assert_eq!(again, *node, "printed as {printed}");
}

/// Reads a value with the reader of request models.
fn read(value: Value<'_, '_>) -> Option<Node> {
    match value.first_byte() {
        b'{' => {
            value.object(|object| Node::Object(object.map(read).into_iter().map(or_null).collect()))
        }
        b'[' => value.list(usize::MAX - 1, read).map(Node::List),
        b'"' => value.string().map(Node::Text),
        b't' | b'f' => value.bool().map(Node::Bool),
        b'n' => Some(Node::Null),
        _ => value.float().map(Node::Number),
    }
}

fn or_null((name, node): (String, Option<Node>)) -> (String, Node) {
    (name, node.unwrap_or(Node::Null))
}

/// A value of JSON, with every member of its objects.
#[derive(Debug)]
enum Node {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Whether the reader accepts the value, at this level and with this number of members in the objects
    /// around it.
    fn is_acceptable(&self, level: usize, members_around: usize) -> bool {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) => true,
            Self::Text(text) => !text.contains('\0'),
            Self::List(elements) => {
                level <= NESTING_MAX
                    && elements.iter().all(|node| node.is_acceptable(level + 1, members_around))
            }
            Self::Object(members) => {
                let mut names = HashSet::new();
                let mut count = members_around;
                level <= NESTING_MAX
                    && members.iter().all(|(name, node)| {
                        count += 1;
                        count <= MEMBERS_MAX
                            && names.insert(name)
                            && !name.contains('\0')
                            && node.is_acceptable(level + 1, count)
                    })
            }
        }
    }

    fn print(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(number) => serde_json::to_string(number).expect("a number is finite"),
            Self::Text(text) => quoted(text),
            Self::List(elements) => {
                let elements: Vec<_> = elements.iter().map(Self::print).collect();
                format!("[{}]", elements.join(","))
            }
            Self::Object(members) => {
                let members = members.iter();
                let members: Vec<_> = members
                    .map(|(name, node)| format!("{}:{}", quoted(name), node.print()))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text can be written")
}

/// The order of members does not matter.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Number(one), Self::Number(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Object(one), Self::Object(other)) => {
                let sorted = |members: &[(String, Self)]| {
                    let mut order: Vec<usize> = (0..members.len()).collect();
                    order.sort_by(|one, other| members[*one].0.cmp(&members[*other].0));
                    order
                };
                one.len() == other.len()
                    && sorted(one)
                        .into_iter()
                        .zip(sorted(other))
                        .all(|(at_one, at_other)| one[at_one] == other[at_other])
            }
            _ => false,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }
    #[expect(clippy::cast_precision_loss, reason = "the reader rounds as well")]
    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Number(number as f64))
    }
    #[expect(clippy::cast_precision_loss, reason = "the reader rounds as well")]
    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Number(number as f64))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Number(number))
    }
    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Node::List(elements))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = object.next_entry()? {
            members.push(member);
        }
        Ok(Node::Object(members))
    }
}
