//! Campaigns as files. They are exported, compared and applied, from one server to another.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use notify_tests::{Notify, TestServer, template};
use serde_json::{Value, json};

async fn server_and_command() -> Result<(TestServer, Notify)> {
    let server = TestServer::start().await;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    Ok((server, notify))
}

/// The name, the action and the changes of each campaign.
async fn apply(notify: &Notify, dir: &Path, more: &[&str]) -> Result<Vec<String>> {
    let dir = dir.to_str().context("a path")?;
    let plan = notify.json(&[&["campaigns", "apply", dir], more].concat()).await?;
    let steps = plan["campaigns"].as_array().context("campaigns")?.iter().map(|step| {
        let changes: Vec<_> =
            step["changes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (name, action) = (step["name"].as_str(), step["action"].as_str());
        let line =
            [name.unwrap_or_default(), action.unwrap_or_default(), &changes.join(" ")].join(" ");
        line.trim_end().to_owned()
    });
    Ok(steps.collect())
}

async fn export(notify: &Notify, dir: &Path, more: &[&str]) -> Result<Value> {
    let dir = dir.to_str().context("a path")?;
    notify.json(&[&["campaigns", "export", dir], more].concat()).await
}

/// A campaign with all possible contents, including `null`, which TOML cannot express.
fn full() -> Value {
    let mut full = template("Spring Sale");
    full["is_default"] = json!(true);
    full["features"] = json!([
        {"type": "content_feed", "position": 1, "data": {"feeds": [
            {"url": "https://a.example/feed", "name": "A"}, {"url": "https://b.example/feed", "name": "B"}]}},
        {"type": "action_button", "position": 1, "data": {"type": "nav", "lat": 48.0, "lng": 16.37,
            "data": {"a": [1, null], "b": "x = \"y\"\n'''"}}},
        {"type": "action_button", "position": 2, "data": {"type": "cal", "start_date": 1_800_000_000_000_i64,
            "end_date": 1_800_000_100_000_i64, "description": "Zürich, 12 o'clock\nline"}},
    ]);
    full
}

async fn listed(server: &TestServer) -> Result<Vec<(String, String, bool)>> {
    let page = server.caller().get("/v1/campaigns?status=all").await.ok();
    let campaigns = page["campaigns"].as_array().context("campaigns")?.iter().map(|campaign| {
        let text = |field: &str| campaign[field].as_str().unwrap_or_default().to_owned();
        (text("name"), text("status"), campaign["is_default"] == true)
    });
    let mut campaigns: Vec<_> = campaigns.collect();
    campaigns.sort();
    Ok(campaigns)
}

#[tokio::test]
async fn an_export_changes_nothing_here_and_recreates_everything_elsewhere() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let caller = server.caller();
    caller.post("/v1/campaigns", &full()).await.ok();
    let old = caller.post("/v1/campaigns", &template("Old/../one")).await.ok();
    let old = old["id"].as_str().context("an id")?.to_owned();
    notify.json(&["campaigns", "disable", &old]).await?;
    for format in ["toml", "json"] {
        let folder = tempfile::tempdir()?;
        let dir = folder.path().join("campaigns");
        let written = export(&notify, &dir, &["--format", format]).await?;
        let files: Vec<_> = written["campaigns"]
            .as_array()
            .context("campaigns")?
            .iter()
            .map(|campaign| (campaign["file"].as_str(), campaign["written"].as_str()))
            .collect();
        let names = [format!("old-one.{format}"), format!("spring-sale.{format}")];
        ensure!(
            files == [(Some(&*names[0]), Some("new")), (Some(&*names[1]), Some("new"))],
            "{files:?}"
        );
        let text = fs::read_to_string(dir.join(&names[1]))?;
        ensure!(text.contains("https://a.example/feed") && !text.contains("\"id\""), "{text}");
        let unchanged = ["Old/../one unchanged", "Spring Sale unchanged"];
        ensure!(apply(&notify, &dir, &[]).await? == unchanged);
        let again = export(&notify, &dir, &[]).await?;
        ensure!(again["campaigns"][1]["written"] == "unchanged", "{again}");

        let (elsewhere, there) = server_and_command().await?;
        let created = ["Old/../one create", "Spring Sale create"];
        ensure!(apply(&there, &dir, &["--dry-run"]).await? == created);
        ensure!(listed(&elsewhere).await?.is_empty(), "a dry run does nothing");
        ensure!(apply(&there, &dir, &[]).await? == created);
        ensure!(apply(&there, &dir, &[]).await? == unchanged);
        ensure!(listed(&elsewhere).await? == listed(&server).await?);
        let back = tempfile::tempdir()?;
        export(&there, back.path(), &["--format", format]).await?;
        for name in &names {
            ensure!(fs::read(dir.join(name))? == fs::read(back.path().join(name))?, "{name}");
        }
        elsewhere.stop().await;
    }
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_changed_file_is_previewed_and_applied_once() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let folder = tempfile::tempdir()?;
    let dir = folder.path();
    let write = |name: &str, campaign: &Value| fs::write(dir.join(name), campaign.to_string());
    let mut own = template("own");
    write("own.json", &own)?;
    write("spring.json", &full())?;
    ensure!(apply(&notify, dir, &[]).await? == ["own create", "Spring Sale create"]);

    // The default campaign changes, a field changes, and the feeds get the names on this server.
    let mut spring = full();
    spring["is_default"] = json!(false);
    spring["features"][0]["data"]["feeds"][0]["name"] = json!("another");
    own["is_default"] = json!(true);
    own["settings"]["small_view"] = json!(true);
    own["strings"][0]["translations"]["def"] = json!("See:");
    write("own.json", &own)?;
    write("spring.json", &spring)?;
    let changed = [
        "own update is_default settings.small_view strings[0].translations.def",
        "Spring Sale update is_default",
    ];
    ensure!(apply(&notify, dir, &["--dry-run"]).await? == changed);
    let path = dir.to_str().context("a path")?;
    let compare = ["campaigns", "apply", path, "--dry-run", "--exit-code"];
    let different = notify.run(&compare).await?;
    ensure!(different.status == Some(1), "{different:?}");
    ensure!(different.stderr == "error: campaigns that differ: 2\n", "{different:?}");
    ensure!(apply(&notify, dir, &[]).await? == changed);
    let same = notify.run(&compare).await?;
    ensure!(same.status == Some(0) && same.stderr.is_empty(), "{same:?}");
    ensure!(apply(&notify, dir, &[]).await? == ["own unchanged", "Spring Sale unchanged"]);
    let named = |own: bool| {
        vec![
            ("Spring Sale".to_owned(), "active".to_owned(), !own),
            ("own".to_owned(), "active".to_owned(), own),
        ]
    };
    ensure!(listed(&server).await? == named(true));

    // The campaign of a deleted file stays unless `--disable-missing` is given. The default campaign always
    // stays.
    fs::remove_file(dir.join("spring.json"))?;
    ensure!(apply(&notify, dir, &[]).await? == ["own unchanged", "Spring Sale left"]);
    let disable_missing = ["--disable-missing"];
    ensure!(
        apply(&notify, dir, &disable_missing).await?
            == ["own unchanged", "Spring Sale disable status"]
    );
    ensure!(apply(&notify, dir, &disable_missing).await? == ["own unchanged", "Spring Sale left"]);
    fs::remove_file(dir.join("own.json"))?;
    write("spring.json", &spring)?;
    ensure!(
        apply(&notify, dir, &disable_missing).await? == ["Spring Sale update status", "own left"]
    );
    ensure!(listed(&server).await? == named(true));

    // Campaigns are matched by name, so another name is another campaign.
    spring["name"] = json!("Summer Sale");
    spring["status"] = json!("disabled");
    write("spring.json", &spring)?;
    let steps = apply(&notify, dir, &[]).await?;
    ensure!(steps == ["Summer Sale create", "Spring Sale left", "own left"], "{steps:?}");
    ensure!(apply(&notify, dir, &[]).await?[0] == "Summer Sale unchanged");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn errors_name_their_file_and_nothing_is_applied() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let folder = tempfile::tempdir()?;
    let dir = folder.path();
    fs::write(dir.join("a.json"), full().to_string())?;
    fs::write(dir.join("b.json"), full().to_string())?;
    fs::write(
        dir.join("c.toml"),
        "name = \"c\"\nlayout_id = \"content_with_two\"\nsetings = {}\n",
    )?;
    fs::write(dir.join("d.toml"), "name = \"d\"\nlayout_id\n")?;
    let mut by_id = full();
    by_id["name"] = json!("e");
    by_id["is_default"] = json!(false);
    by_id["features"][0]["data"]["feeds"] = json!([{"id": "0190a7c0-0000-7000-8000-00000000ffff"}]);
    fs::write(dir.join("e.json"), by_id.to_string())?;
    fs::write(dir.join("f.yaml"), "name: f")?;
    let mut disabled = full();
    disabled["status"] = json!("disabled");
    fs::write(dir.join("g.json"), disabled.to_string())?;
    fs::write(dir.join("README.md"), "not a campaign")?;
    let run = notify.run(&["campaigns", "apply", dir.to_str().context("a path")?]).await?;
    ensure!(run.status == Some(3) && run.stdout.is_empty(), "{run:?}");
    for expected in [
        "b.json: name: a.json has the name `Spring Sale` too",
        "is_default: only one campaign can be the default one: a.json, b.json",
        "c.toml: setings: unknown field, did you mean `settings`?",
        "c.toml: features: is required",
        "d.toml: line 2: ",
        "e.json: features[0].data.feeds[0].id: a feed in a file has a url and a name, not an id",
        "f.yaml: YAML is not supported: use TOML or JSON",
        "g.json: status: the default campaign cannot be disabled",
    ] {
        ensure!(
            run.stderr.lines().any(|line| line.contains(expected)),
            "{expected}: {}",
            run.stderr
        );
    }
    ensure!(listed(&server).await?.is_empty());

    // Two campaigns have the same name and cannot be distinguished.
    let caller = server.caller();
    for _ in 0..2 {
        caller.post("/v1/campaigns", &template("twin")).await.ok();
    }
    let empty = tempfile::tempdir()?;
    let run = notify.run(&["campaigns", "apply", empty.path().to_str().context("a path")?]).await?;
    ensure!(run.status == Some(3), "{run:?}");
    ensure!(run.stderr.contains("two active campaigns are named `twin`"), "{run:?}");
    server.stop().await;
    Ok(())
}
