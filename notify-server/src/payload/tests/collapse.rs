//! The headers made from a collapse identity.

use crate::payload::{collapse_header, push_topic};

#[test]
fn collapse_identity_is_kept_if_it_fits_else_hashed() {
    assert_eq!(collapse_header("order-17", 64), "order-17");
    let long = "x".repeat(65);
    let unicode = "bestellung-ä";
    for identity in [long.as_str(), unicode, "with space"] {
        let hashed = collapse_header(identity, 64);
        assert_eq!(hashed.len(), 43, "{identity}");
        assert!(hashed.bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(collapse_header(identity, 64), hashed, "the same identity, the same hash");
    }
    assert_ne!(collapse_header(&long, 64), collapse_header(unicode, 64));
    assert_eq!(collapse_header(&long, 32).len(), 32);
}

#[test]
fn topic_is_at_most_32_base64url_characters() {
    let long = "k".repeat(33);
    let uuid = "01890a5d-ac96-774b-bcce-b302099a8057";
    assert_eq!(push_topic("order-17"), "order-17");
    assert_eq!(push_topic(&long[1..]), long[1..]);
    for identity in [long.as_str(), uuid, "a.b1", "a b1", "ä12", "new_event", "abk=", ""] {
        let hashed = push_topic(identity);
        assert_eq!(hashed.len(), 32, "{identity}");
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        assert!(hashed.bytes().all(allowed), "{hashed}");
        assert_eq!(push_topic(identity), hashed, "the same identity, the same topic");
    }
    assert_ne!(push_topic(uuid), push_topic(&long));
}
