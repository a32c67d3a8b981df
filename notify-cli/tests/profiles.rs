//! Profiles: private to their owner, used only for their server, and never printed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Fixture, finish};
use serde_json::json;

const FILE: &str = ".config/notify/profiles.toml";

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_stores_a_server_and_its_keys() {
    let fixture = Fixture::with_body(json!({ "tags": [], "next_cursor": null })).await;
    let uri = fixture.server.uri();
    let mut set = fixture.offline(&["profile", "set", "home", &uri, "--api-key-file", "-"]);
    set.env("NOTIFY_ADMIN_KEY", "na_kept").write_stdin("nk_kept\n");
    finish(set).assert_success();
    finish(fixture.offline(&["tags", "list"])).assert_success();
    assert_eq!(fixture.requests().await[0].headers["x-api-key"], "nk_kept");

    let run = finish(fixture.offline(&["profile", "list"])).assert_success();
    assert_eq!(
        run.json(),
        json!({ "profiles": [
        {"name": "home", "url": uri, "api_key": true, "admin_key": true, "current": true},
    ] })
    );
    assert!(!run.stdout.contains("_kept"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(fixture.home.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_selected_and_removed() {
    let fixture = Fixture::with_body(json!({ "tags": [], "next_cursor": null })).await;
    for (name, key) in [("one", "nk_one"), ("two", "nk_two")] {
        let mut set = fixture.offline(&["profile", "set", name, &fixture.server.uri()]);
        finish({
            set.env("NOTIFY_API_KEY", key);
            set
        })
        .assert_success();
    }
    finish(fixture.offline(&["profile", "use", "two"])).assert_success();
    finish(fixture.offline(&["tags", "list"])).assert_success();
    finish(fixture.offline(&["tags", "list", "--profile", "one"])).assert_success();
    finish(fixture.offline(&["profile", "remove", "two", "--yes"])).assert_success();
    let run = finish(fixture.offline(&["profile", "use", "two"]));
    assert_eq!(
        (run.status, run.stderr.as_str()),
        (2, "error: no profile is named `two`: see `notify profile list`\n")
    );
    let requests = fixture.requests().await;
    let keys: Vec<_> =
        requests.iter().map(|it| it.headers["x-api-key"].to_str().unwrap()).collect();
    assert_eq!(keys, ["nk_two", "nk_one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_is_printed_without_its_keys() {
    let fixture = Fixture::with_body(json!({})).await;
    std::fs::create_dir_all(fixture.home.path().join(".config/notify")).unwrap();
    fixture.file(FILE, "[profiles.home]\nurl = 'http://a'\napi_key = 'nk_secret' x\n");
    let run = finish(fixture.offline(&["tags", "list"]));
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("profiles.toml"), "{run:?}");
    assert!(!run.stderr.contains("nk_secret"), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
}
