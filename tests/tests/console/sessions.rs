//! Sessions that operators see and end, on one server and on several.

use std::path::Path;

use anyhow::{Result, ensure};
use notify_tests::{Backend, Installation, Launch, Operator, ServerProcess, TestServer};
use serde_json::json;

use crate::operator;

#[tokio::test]
async fn an_operator_sees_the_sessions_and_ends_one() -> Result<()> {
    let server = TestServer::without_providers().await;
    let created = server.admin().post("/admin/v1/keys", &json!({"name": "Grace"})).await.ok();
    let key = created["admin_key"].as_str().unwrap();
    let (ada, grace) = (operator(&server).await?, Operator::sign_in(server.origin(), key).await?);
    let page = ada.get("keys").await.text;
    let sessions = page.split_once("id=\"sessions\"").unwrap().1;
    assert_eq!(sessions.matches("127.0.0.1").count(), 2, "{sessions}");
    assert_eq!(sessions.matches("this session").count(), 1, "{sessions}");
    let row = sessions.split("<tr>").find(|row| row.contains("Grace")).unwrap();
    let id = row.split("sessions/").nth(1).unwrap().split('/').next().unwrap();
    let ended = ada.submit(&format!("sessions/{id}/end"), &[]).await?;
    assert_eq!((ended.status, ended.header("location")), (303, "../../keys?done=ended"));
    assert_eq!(grace.get("").await.status, 303);
    assert_eq!(ada.get("").await.status, 200);
    assert_eq!(ada.submit(&format!("sessions/{id}/end"), &[]).await?.status, 404);
    let trail = server.admin().get("/admin/v1/audit").await;
    assert!(trail.text.contains("\"end_session\"") && trail.text.contains(id), "{}", trail.text);
    Ok(())
}

#[tokio::test]
async fn an_operator_ends_all_other_sessions() -> Result<()> {
    let server = TestServer::without_providers().await;
    let (one, two, three) =
        (operator(&server).await?, operator(&server).await?, operator(&server).await?);
    let page = one.get("keys").await.text;
    assert!(page.contains("after 2h without use, after 12h in any case"), "{page}");
    let ended = one.submit("sessions/end-others", &[]).await?;
    assert_eq!((ended.status, ended.header("location")), (303, "../keys?done=ended-others"));
    assert_eq!(one.get("").await.status, 200);
    for other in [two, three] {
        assert_eq!(other.get("").await.status, 303);
    }
    assert!(!one.get("keys").await.text.contains("End all other sessions"));
    Ok(())
}

#[tokio::test]
async fn a_revoked_admin_key_ends_its_sessions_on_every_server() -> Result<()> {
    let one = TestServer::start_on(Backend::Postgres, |_| {}).await;
    let two = one.start_another().await;
    let created = one.admin().post("/admin/v1/keys", &json!({"name": "Grace"})).await.ok();
    let (id, key) = (created["id"].as_str().unwrap(), created["admin_key"].as_str().unwrap());
    let grace = Operator::sign_in(one.origin(), key).await?;
    let elsewhere = grace.moved_to(two.origin());
    assert_eq!(elsewhere.get("").await.status, 200, "a session works on every server");
    let api = notify_tests::Caller::admin(two.origin(), key);
    api.get("/admin/v1/apps").await.ok();
    one.admin().delete(&format!("/admin/v1/keys/{id}")).await.ok();
    let is_over = async || {
        let is_signed_out = elsewhere.get("").await.status == 303;
        let is_refused = api.get("/admin/v1/apps").await.status == 401;
        Ok((is_signed_out && is_refused).then_some(()))
    };
    notify_tests::until("the other server refuses the key", is_over).await?;
    assert_eq!(grace.get("").await.status, 303);
    Ok(())
}

/// Checks that a server has the admin key, the session and the audit trail.
async fn ensure_same(server: &ServerProcess, operator: &Operator, origin: &str) -> Result<()> {
    let operator = operator.moved_to(&server.origin);
    let page = operator.get("keys").await;
    ensure!(page.status == 200, "{origin}: the session has ended");
    ensure!(page.text.contains("Grace"), "{origin}: {}", page.text);
    let trail = operator.get("audit").await.text;
    ensure!(trail.contains("create_admin_key"), "{origin}: {trail}");
    Ok(())
}

#[tokio::test]
async fn backups_and_moves_keep_admin_keys_sessions_and_the_audit_trail() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let installation = Installation::make();
    let settings = installation.settings();
    let launch = |folder: &Path| {
        Launch::on(folder).on_file().variable("NOTIFY_MASTER_KEY", &settings.master_key)
    };
    let file = launch(&folder.path().join("data"));
    let server = file.start().await?;
    server.admin().post("/admin/v1/keys", &json!({"name": "Grace"})).await.ok();
    let operator = Operator::sign_in(&server.origin, server.admin_key.as_deref().unwrap()).await?;
    let restored = folder.path().join("restored");
    std::fs::create_dir(&restored)?;
    notify_tests::back_up(file.data_dir(), &restored.join("notify.db")).await?;
    server.terminate().await?;

    let server = launch(&restored).start().await?;
    ensure_same(&server, &operator, "the backup").await?;
    server.terminate().await?;

    let to = &settings.database_url;
    let (status, output) =
        file.clone().argument("move").variable("NOTIFY_MOVE_TO", to).answered().await?;
    ensure!(status.success(), "{output}");
    let server = Launch::on(&folder.path().join("unused")).installation(&settings).start().await?;
    ensure_same(&server, &operator, "PostgreSQL").await?;
    server.terminate().await?;
    Ok(())
}
