//! Base urls, paths and headers.

use notify_core::Success;

use crate::ClientBuilder;
use crate::call::*;

fn shared(base_url: &str) -> Shared {
    ClientBuilder::<()>::new(base_url).api_key("nk_secret").shared().unwrap()
}

#[test]
fn a_base_url_is_an_http_origin_with_an_optional_path() {
    for good in ["http://127.0.0.1:8080", "https://a.example/", "https://a.example/notify/"] {
        assert!(base_url(good).is_ok(), "{good}");
    }
    for (bad, message) in [
        ("127.0.0.1:8080", "base url `127.0.0.1:8080`: must begin with http:// or https://"),
        ("localhost:8080", "base url `localhost:8080`: must begin with http:// or https://"),
        ("ftp://a.example", "base url `ftp://a.example`: must begin with http:// or https://"),
        ("https://u:p@a.example", "base url: must not hold a user or password"),
        (
            "https://a.example/?b",
            "base url `https://a.example/?b`: must not have a query or fragment",
        ),
    ] {
        assert_eq!(base_url(bad).unwrap_err().to_string(), message);
    }
}

#[test]
fn an_id_stays_one_segment_of_the_path() {
    for (base_url, id, url) in [
        ("http://a", "b", "http://a/v1/devices/b"),
        ("http://a/", "b", "http://a/v1/devices/b"),
        ("http://a/prefix", "b", "http://a/prefix/v1/devices/b"),
        ("http://a/prefix/", "b/c", "http://a/prefix/v1/devices/b%2Fc"),
        ("http://a", "50%", "http://a/v1/devices/50%25"),
        ("http://a", "%2e%2e", "http://a/v1/devices/%252e%252e"),
        ("http://a", "a b?c#d\\e", "http://a/v1/devices/a%20b%3Fc%23d%5Ce"),
        ("http://a", "größe", "http://a/v1/devices/gr%C3%B6%C3%9Fe"),
    ] {
        let call: Call<Success> = Call::v1(Method::GET, &["devices", id]);
        assert_eq!(shared(base_url).url(&call).as_str(), url);
    }
}

#[test]
fn nothing_shows_the_keys() {
    let builder = ClientBuilder::<()>::new("http://a").api_key("nk_secret").admin_key("na_secret");
    let shared = builder.shared().unwrap();
    let call: Call<Success> = Call::v1(Method::GET, &["devices"]);
    let prepared = shared.prepare(&call, None).unwrap();
    assert_eq!(prepared.headers["x-api-key"], "nk_secret");
    let shown = format!("{builder:?} {shared:?} {prepared:?}");
    assert!(!shown.contains("_secret"), "{shown}");

    let error = ClientBuilder::<()>::new("http://a").api_key("nk_\n").shared().map(drop);
    assert!(error.is_ok(), "white space around a key is not part of it");
    let error = ClientBuilder::<()>::new("http://a").api_key("nk_\nsecret").shared().unwrap_err();
    assert_eq!(error.to_string(), "a key must be visible ASCII characters");
}

#[test]
fn an_idempotency_key_is_made_unless_one_is_given() {
    let made = idempotency_key(None).unwrap();
    let made: uuid::Uuid = made.to_str().unwrap().parse().unwrap();
    assert_eq!(made.get_version_num(), 7);
    assert_eq!(idempotency_key(Some("order-17")).unwrap(), "order-17");
    for bad in ["", "a b", "ü", "a\n", &"x".repeat(256)] {
        assert!(matches!(idempotency_key(Some(bad)), Err(Error::Invalid(_))), "{bad}");
    }
    assert!(idempotency_key(Some(&"x".repeat(255))).is_ok());
}
