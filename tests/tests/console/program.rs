//! The console of the program, as an operator starts it.

use anyhow::{Context, Result, ensure};
use notify_tests::{Caller, Launch, Operator, ServerProcess};
use tokio::process::Command;

use crate::html::unescaped;

/// Starts the server with an empty database, without any other program.
async fn first_start(folder: &tempfile::TempDir) -> Result<ServerProcess> {
    Launch::on(folder.path()).on_file().variable("PATH", "").start().await
}

#[tokio::test]
async fn the_program_alone_serves_the_console_without_node() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = first_start(&folder).await?;
    let visitor = Caller::with_header(&server.origin, "accept", "text/html");
    let overview = visitor.get("/console/").await;
    assert_eq!((overview.status, overview.header("location")), (303, "./sign-in?next="));
    let page = visitor.get("/console/sign-in").await;
    assert_eq!(page.status, 200);
    for file in ["console.css?v=", "console.js?v=", "icons.svg?v="] {
        let at = page.text.find(file).with_context(|| page.text.clone())?;
        let path = page.text[at..].split('"').next().unwrap_or_default();
        assert_eq!(visitor.get(&format!("/console/{path}")).await.status, 200, "{path}");
    }
    server.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn the_dashboard_makes_an_api_key_that_works_in_curl_as_shown() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = first_start(&folder).await?;
    let admin_key = server.admin_key.clone().context("an admin key")?;
    let operator = Operator::sign_in(&server.origin, &admin_key).await?;
    let app = server.admin().get("/admin/v1/apps").await.ok()["apps"][0]["id"].clone();
    let app = app.as_str().context("an id")?;
    let page = operator
        .submit(
            &format!("apps/{app}"),
            &[("name", "backend"), ("scopes", "read"), ("scopes", "devices")],
        )
        .await?;
    let between = |start: &str, end: &str| {
        let (_, rest) = page.text.split_once(start).with_context(|| page.text.clone())?;
        anyhow::Ok(unescaped(rest.split(end).next().unwrap_or_default()))
    };
    let key = between("<code id=\"secret\">", "<")?;
    let command = between("<pre id=\"register\"><code>", "</code>")?;
    ensure!(command.starts_with("curl ") && command.contains(&key), "{command}");
    let called = Command::new("sh").args(["-c", &command]).output().await?;
    ensure!(called.status.success(), "{command}: {called:?}");
    let devices = Caller::app(&server.origin, &key).get("/v1/devices").await.ok();
    assert_eq!(devices["devices"][0]["device_id"], "my-phone", "{called:?}");
    server.terminate().await?;
    Ok(())
}
