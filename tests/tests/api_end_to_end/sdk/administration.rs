//! Applications, keys and providers.

use anyhow::Result;
use notify_client::{Client, Error};
use notify_core::{
    AuditSource, CreateAdminKey, CreateApp, CreateKey, ListAudit, ListDevices, PageQuery,
    PlaygroundAnswer, RenameKey, SetWebAccess, UpdateApp,
};
use notify_tests::{Operator, TestServer};

use super::page;

pub(super) async fn administration(server: &TestServer) -> Result<()> {
    let client = server.client();
    let admin = client.admin();
    let shop = CreateApp { name: "Shop".into(), language: Some("de".into()) };
    let app = admin.create_app(&shop).await?.id;
    assert_eq!(admin.get_app(app).await?.language, "de");
    let key = admin
        .create_key(app, &CreateKey { name: Some("backend".into()), ..CreateKey::default() })
        .await?;
    let shop = Client::builder(server.origin()).api_key(key.api_key.as_str()).retries(0).build()?;
    assert_eq!(shop.devices().list(&ListDevices::default()).await?.devices, []);

    let change = |status: &str| UpdateApp { status: Some(status.into()), ..UpdateApp::default() };
    admin.update_app(app, &change("suspended")).await?;
    let locked_out = shop.devices().list(&ListDevices::default()).await;
    assert!(matches!(locked_out, Err(Error::Unauthorized { .. })), "{locked_out:?}");
    admin.update_app(app, &change("active")).await?;
    shop.devices().list(&ListDevices::default()).await?;
    let keys = admin.list_keys(app).await?.keys;
    assert_eq!((keys.len(), keys[0].name.as_deref()), (1, Some("backend")));
    let last_four = &key.api_key[key.api_key.len() - 4..];
    assert_eq!(keys[0].hint, format!("nk_…{last_four}"), "only a hint");
    let successor = admin.rotate_key(app, key.id, &notify_core::RotateKey::default()).await?;
    assert_ne!(successor.id, key.id);
    admin.revoke_key(app, key.id).await?;
    let revoked = shop.devices().list(&ListDevices::default()).await;
    assert!(matches!(revoked, Err(Error::Unauthorized { .. })), "{revoked:?}");

    let fcm = notify_core::ProviderKind::Fcm;
    admin.put_provider(app, fcm, &server.sandbox().fcm_config()).await?;
    let read = admin.get_provider(app, fcm).await?;
    assert_eq!(admin.list_providers(app).await?.providers, std::slice::from_ref(&read));
    assert!(!read.config.to_string().contains("PRIVATE KEY"), "secrets are left out");
    let checked = admin.test_provider(app, fcm).await?;
    assert!(checked.ok, "{checked:?}");
    admin.resume_provider(app, fcm).await?;
    admin.delete_provider(app, fcm).await?;
    let pages = SetWebAccess {
        allowed_origins: vec!["https://shop.example".into()],
        ..SetWebAccess::default()
    };
    admin.set_web_access(app, &pages).await?;
    assert_eq!(admin.get_web_access(app).await?.allowed_origins, pages.allowed_origins);
    admin.clear_web_access(app).await?;
    let deleted = admin.get_web_access(app).await;
    assert!(matches!(deleted, Err(Error::NotFound { .. })), "{deleted:?}");
    assert_eq!(admin.app_diagnostics(app).await?.ios.sampled, 0);
    assert_eq!(admin.diagnostics().await?.obstacles, Vec::<String>::new());
    assert!(client.server().ready().await?.date.is_some());
    let mut names = Vec::new();
    let mut apps = admin.all_apps(&page(1));
    while let Some(app) = apps.next().await {
        names.push(app?.name);
    }
    assert_eq!(
        (names.as_slice(), admin.list_apps(&page(9)).await?.apps.len()),
        (&["default".to_owned(), "Shop".to_owned()][..], 2)
    );
    admin.delete_app(app).await?;
    let deleted = admin.get_app(app).await;
    assert!(matches!(deleted, Err(Error::NotFound { .. })), "{deleted:?}");
    Ok(())
}

/// Admin keys, sessions of the console, and the audit trail.
pub(super) async fn operators(server: &TestServer) -> Result<()> {
    let client = server.client();
    let admin = client.admin();
    let ada = admin.create_admin_key(&CreateAdminKey { name: Some("Ada".into()) }).await?;
    admin.rename_admin_key(ada.id, &RenameKey { name: "Grace".into() }).await?;
    let keys = admin.list_admin_keys().await?.keys;
    assert_eq!((keys.len(), keys[1].name.as_deref()), (2, Some("Grace")));
    for _ in 0..2 {
        Operator::sign_in(server.origin(), &ada.admin_key).await?;
    }
    let mut sessions = admin.all_sessions(&page(1));
    let mut ids = Vec::new();
    while let Some(session) = sessions.next().await {
        let session = session?;
        assert_eq!(session.key_id, ada.id);
        ids.push(session.id);
    }
    assert_eq!(ids.len(), 2);
    admin.end_session(ids[0]).await?;
    assert_eq!(admin.list_sessions(&PageQuery::default()).await?.sessions[0].id, ids[1]);
    admin.revoke_admin_key(ada.id).await?;
    assert_eq!(admin.list_sessions(&PageQuery::default()).await?.sessions, []);
    let refused = admin.revoke_admin_key(keys[0].id).await;
    assert!(matches!(refused, Err(Error::Rejected { .. })), "{refused:?}");
    let latest = admin.list_audit(&ListAudit { limit: Some(1), ..ListAudit::default() }).await?;
    let entry = &latest.entries[0];
    assert_eq!((entry.action.as_str(), entry.source), ("revoke_admin_key", AuditSource::Api));
    let mut actions = Vec::new();
    let mut trail = admin.all_audit(&ListAudit { limit: Some(2), ..ListAudit::default() });
    while let Some(entry) = trail.next().await {
        actions.push(entry?.action);
    }
    for action in ["create_admin_key", "rename_admin_key", "end_session"] {
        assert!(actions.iter().any(|recorded| recorded == action), "{action}: {actions:?}");
    }
    Ok(())
}

/// The playground.
pub(super) async fn playground(server: &TestServer) -> Result<()> {
    let client = server.client();
    let admin = client.admin();
    let started = admin.start_playground().await?;
    assert_eq!(admin.get_playground().await?.app_id, started.app_id);
    let device = &started.devices[0].device_id;
    admin.set_playground_answer(device, PlaygroundAnswer::Slow).await?;
    admin.list_playground_messages().await?;
    admin.stop_playground().await?;
    assert!(matches!(admin.get_playground().await, Err(Error::NotFound { .. })));
    Ok(())
}
