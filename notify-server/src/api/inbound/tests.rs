//! An invalid call causes the same work whether its webhook exists or not.

use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use notify_core::Timestamp;
use serde_json::json;

use super::*;

const APP: AppId = AppId(Uuid::from_u128(0x0190_a7c0_0000_7000_8000_0000_0000_ffff));

/// A store with at most one application that records reads.
struct RecordingStore {
    status: Option<AppStatus>,
    row: Option<ProviderRow>,
    reads: Mutex<Vec<&'static str>>,
}

#[async_trait]
impl Lookup for RecordingStore {
    async fn app(&self, id: AppId) -> Result<(AppNo, AppStatus), StoreError> {
        self.reads.lock().unwrap().push("app");
        let status = self.status.filter(|_| id == APP);
        status.map(|status| (AppNo(1), status)).ok_or(StoreError::NotFound)
    }

    async fn provider(
        &self,
        app: AppNo,
        _: ProviderKind,
    ) -> Result<Option<(AppId, ProviderRow)>, StoreError> {
        self.reads.lock().unwrap().push("provider");
        Ok(self.row.clone().filter(|_| app == AppNo(1)).map(|row| (APP, row)))
    }
}

fn key() -> MasterKey {
    MasterKey::from_base64(&STANDARD.encode([7; 32]).into()).unwrap()
}

#[tokio::test]
async fn reads_the_store_in_the_same_way_for_every_path() {
    let key = key();
    let webhooks = InboundWebhooks { decoys: Decoys::new(&key) };
    let sealed = |app: AppId| {
        let body = json!({"bot_token": "1:x", "webhook_secret": "s"}).to_string();
        let sealed = key.seal(app, ProviderKind::Telegram, body.as_bytes());
        ProviderRow { provider: ProviderKind::Telegram, sealed, updated_at: Timestamp(0) }
    };
    let (active, suspended) = (Some(AppStatus::Active), Some(AppStatus::Suspended));
    let another = sealed(NO_APP_ID);
    for (what, id, status, row, is_real) in [
        ("a webhook", Some(APP), active, Some(sealed(APP)), true),
        ("no webhook", Some(APP), active, None, false),
        ("one that does not open", Some(APP), active, Some(another), false),
        ("suspended", Some(APP), suspended, Some(sealed(APP)), false),
        ("unknown", Some(APP), None, None, false),
        ("no id", None, active, Some(sealed(APP)), false),
    ] {
        let store = RecordingStore { status, row, reads: Mutex::default() };
        let candidate = webhooks.find(&store, &key, ProviderKind::Telegram, id).await.unwrap();
        assert_eq!(candidate.is_real, is_real, "{what}");
        assert_eq!(*store.reads.lock().unwrap(), ["app", "provider"], "{what}");
        let ProviderConfig::Telegram(config) = &candidate.webhook.config else { panic!("{what}") };
        assert!(config.webhook_secret.is_some(), "there is a secret to compare with: {what}");
    }
}

#[test]
fn reads_provider_and_application_from_the_path() {
    let id = "0190a7c0-0000-7000-8000-00000000ffff";
    for (path, expected) in [
        (format!("/hooks/telegram/{id}"), Some((ProviderKind::Telegram, Some(APP)))),
        (format!("/hooks/messenger/%30{}", &id[1..]), Some((ProviderKind::Messenger, Some(APP)))),
        ("/hooks/telegram/x".to_owned(), Some((ProviderKind::Telegram, None))),
        ("/hooks/telegram/%00".to_owned(), Some((ProviderKind::Telegram, None))),
        (format!("/hooks/telegram/{id}/x"), None),
        ("/hooks/telegram/".to_owned(), None),
        (format!("/hooks/toaster/{id}"), None),
        (format!("/hooksx/telegram/{id}"), None),
    ] {
        assert_eq!(webhook_in_path(&path), expected, "{path}");
    }
}

#[test]
fn ignores_ids_that_can_be_guessed() {
    for (text, expected) in [
        ("0190a7c0-0000-7000-8000-00000000ffff", true),
        ("n1fQFbYcbTUuBk7u3xC4_A", true),
        (&"a".repeat(64), true),
        (&"a".repeat(65), false),
        (&"a".repeat(21), false),
        ("user-1042", false),
        ("", false),
        ("0190a7c0.0000.7000.8000.00000000ffff", false),
        ("ünbekannt-ünbekannt-ünbekannt", false),
    ] {
        assert_eq!(linked_device_id(text).is_some(), expected, "{text}");
    }
}
