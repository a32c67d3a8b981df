//! Profiles: kept for their owner alone, used for their own server alone, and never shown.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Bench, finish};
use serde_json::json;

const FILE: &str = ".config/notify/profiles.toml";

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_keeps_a_server_and_its_keys() {
    let bench = Bench::answering(json!({ "tags": [], "next_cursor": null })).await;
    let uri = bench.server.uri();
    let mut set = bench.offline(&["profile", "set", "home", &uri, "--api-key-file", "-"]);
    set.env("NOTIFY_ADMIN_KEY", "na_kept").write_stdin("nk_kept\n");
    finish(set).quiet();
    finish(bench.offline(&["tags", "list"])).quiet();
    assert_eq!(bench.requests().await[0].headers["x-api-key"], "nk_kept");

    let run = finish(bench.offline(&["profile", "list"])).quiet();
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
        let mode = std::fs::metadata(bench.home.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_chosen_and_removed() {
    let bench = Bench::answering(json!({ "tags": [], "next_cursor": null })).await;
    for (name, key) in [("one", "nk_one"), ("two", "nk_two")] {
        let mut set = bench.offline(&["profile", "set", name, &bench.server.uri()]);
        finish({
            set.env("NOTIFY_API_KEY", key);
            set
        })
        .quiet();
    }
    finish(bench.offline(&["profile", "use", "two"])).quiet();
    finish(bench.offline(&["tags", "list"])).quiet();
    finish(bench.offline(&["tags", "list", "--profile", "one"])).quiet();
    finish(bench.offline(&["profile", "remove", "two"])).quiet();
    let run = finish(bench.offline(&["profile", "use", "two"]));
    assert_eq!(
        (run.status, run.stderr.as_str()),
        (2, "error: no profile is named `two`: see `notify profile list`\n")
    );
    let requests = bench.requests().await;
    let keys: Vec<_> =
        requests.iter().map(|it| it.headers["x-api-key"].to_str().unwrap()).collect();
    assert_eq!(keys, ["nk_two", "nk_one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_is_named_without_its_keys() {
    let bench = Bench::answering(json!({})).await;
    std::fs::create_dir_all(bench.home.path().join(".config/notify")).unwrap();
    bench.file(FILE, "[profiles.home]\nurl = 'http://a'\napi_key = 'nk_secret' x\n");
    let run = finish(bench.offline(&["tags", "list"]));
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("profiles.toml"), "{run:?}");
    assert!(!run.stderr.contains("nk_secret"), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
}
