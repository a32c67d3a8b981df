//! The stored result of each outcome of a fetch.

use super::*;
use crate::enrichment::feeds::{ParseError, ParsedFeed};
use crate::store::{FeedNo, Validators};
use crate::tls_problem::TlsProblem;

const NOW: Timestamp = Timestamp(1_780_000_000_000);
const MINUTE_MS: i64 = 60_000;

fn claim(moved: Option<(&str, u32)>) -> FeedClaim {
    FeedClaim {
        feed: FeedNo(1),
        claim: 7,
        url: "https://a.example/".to_owned(),
        validators: Validators::default(),
        ttl_minutes: Some(40),
        failures: 2,
        moved: moved.map(|(to, times)| Moved { to: to.to_owned(), times }),
    }
}

fn head(moved_to: Option<&str>) -> Head {
    Head { max_age_seconds: Some(1_200), moved_to: moved_to.map(str::to_owned) }
}

const BLOCKED: &str = "the address is not allowed: private addresses, and other ports than 80 and 443, \
    need --allow-private-networks";
const INSIDE: &str = "the name of the host does not resolve, or only to private addresses, \
    which need --allow-private-networks";

#[test]
fn failed_fetch_records_error_and_backs_off() {
    let status = |status, retry_after_ms| FetchError::Status { status, retry_after_ms };
    let cases = [
        (FetchError::Blocked, BLOCKED, Some(60)),
        (FetchError::PrivateAddress, INSIDE, Some(60)),
        (FetchError::Unresolved, INSIDE, Some(60)),
        (FetchError::Unreachable, "the host does not answer, or not in time", Some(60)),
        (
            FetchError::Tls(TlsProblem::UnknownIssuer),
            "the TLS connection failed: the issuer of the certificate is not trusted",
            Some(60),
        ),
        (FetchError::Redirected, "redirects too often, or to an invalid address", Some(60)),
        (FetchError::TooLarge, "is larger than 5 MiB", Some(60)),
        (
            FetchError::Compression,
            "is incomplete, or compressed in a way that the request did not allow",
            Some(60),
        ),
        (
            FetchError::Unreadable(ParseError::NotAFeed),
            "is not an RSS, Atom or JSON feed",
            Some(60),
        ),
        (status(404, None), "answered with status 404", Some(60)),
        (status(429, Some(90 * MINUTE_MS)), "answered with status 429", Some(90)),
        (status(503, Some(MINUTE_MS)), "answered with status 503", Some(60)),
        (FetchError::Gone, "is gone (status 410) and not fetched any more", None),
    ];
    for (error, text, minutes) in cases {
        let claim = claim(Some(("https://b.example/", 1)));
        let written = to_feed_fetch(NOW, &claim, Err(error));
        let next_at = minutes.map(|minutes| NOW.plus_ms(minutes * MINUTE_MS));
        assert_eq!((written.error.as_deref(), written.next_at), (Some(text), next_at));
        assert_eq!((written.failures, written.items, written.url), (3, None, None), "{text}");
        assert_eq!(written.moved, claim.moved, "{text}");
    }
}

#[test]
fn feed_that_the_server_did_not_parse_has_not_failed() {
    let claim = claim(None);
    let written = to_feed_fetch(NOW, &claim, Err(FetchError::NotAttempted));
    assert_eq!(written.error.as_deref(), Some("could not be read by this server this time"));
    assert_eq!(written.failures, claim.failures);
    assert_eq!(written.next_at, Some(NOW.plus_ms(15 * MINUTE_MS)));
}

#[test]
fn successful_fetch_resets_failures_and_schedules_next() {
    let unchanged = to_feed_fetch(NOW, &claim(None), Ok(FetchedFeed::Unchanged(head(None))));
    // Without a body, the TTL of the last body applies.
    assert_eq!(unchanged.next_at, Some(NOW.plus_ms(40 * MINUTE_MS)));
    assert_eq!((unchanged.error, unchanged.failures, unchanged.items), (None, 0, None));
    let feed = ParsedFeed { ttl_minutes: None, ..ParsedFeed::default() };
    let validators = Validators { etag: Some("W/\"1\"".to_owned()), last_modified: None };
    let read = FetchedFeed::Changed { head: head(None), validators: validators.clone(), feed };
    let changed = to_feed_fetch(NOW, &claim(None), Ok(read));
    assert_eq!(changed.next_at, Some(NOW.plus_ms(20 * MINUTE_MS)));
    assert_eq!(changed.items.map(|items| items.validators), Some(validators));
}

#[test]
fn permanent_redirect_is_applied_at_the_third_response() {
    let (b, c) = ("https://b.example/", "https://c.example/");
    // (the stored move, the redirect in this response) and (the move, the url) that are stored then.
    let cases = [
        ((None, None), (None, None)),
        ((None, Some(b)), (Some((b, 1)), None)),
        ((Some((b, 1)), Some(b)), (Some((b, 2)), None)),
        ((Some((b, 2)), Some(b)), (None, Some(b))),
        ((Some((b, 2)), Some(c)), (Some((c, 1)), None)),
        ((Some((b, 2)), None), (None, None)),
    ];
    for ((stored_move, redirect), expected) in cases {
        let answer = Ok(FetchedFeed::Unchanged(head(redirect)));
        let written = to_feed_fetch(NOW, &claim(stored_move), answer);
        let written_move = written.moved.as_ref().map(|moved| (moved.to.as_str(), moved.times));
        let found = (written_move, written.url.as_deref());
        assert_eq!(found, expected, "{stored_move:?} {redirect:?}");
    }
}

#[test]
fn digest_depends_on_items() {
    let item = |title: &str, url: &str, image_url: Option<&str>, at: Option<i64>| FeedItemRow {
        title: title.to_owned(),
        url: url.to_owned(),
        image_url: image_url.map(str::to_owned),
        published_at: at.map(Timestamp),
    };
    let lists = [
        vec![],
        vec![item("a", "b", None, None)],
        vec![item("ab", "", None, None)],
        vec![item("a", "b", Some("c"), None)],
        vec![item("a", "b", None, Some(0))],
        vec![item("a", "b", None, None), item("a", "b", None, None)],
    ];
    for (place, list) in lists.iter().enumerate() {
        assert_eq!(digest(list), digest(&list.clone()));
        assert!(lists[..place].iter().all(|earlier| digest(earlier) != digest(list)), "{list:?}");
    }
}
