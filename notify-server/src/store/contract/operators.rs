//! Admin keys, sessions of the console, and the audit trail.

use macro_rules_attribute::apply;
use notify_core::{AppId, AuditEntry, AuditSource, KeyId, KeyTerms, SessionId};
use uuid::Uuid;

use super::fixtures::{self, NOW};
use super::{is_unknown, refusal};
use crate::store::audit::{record_next_write, set_object, with_audit};
use crate::store::{
    NewSession, RetentionCutoffs, SessionCutoffs, SessionTimeouts, Store, StoreError,
};

const HOUR_MS: i64 = 3_600_000;
const TIMEOUTS: SessionTimeouts = SessionTimeouts { idle_ms: 2 * HOUR_MS, total_ms: 12 * HOUR_MS };

fn session(byte: u8, key: KeyId) -> NewSession {
    NewSession {
        id: SessionId(Uuid::now_v7()),
        hash: [byte; 32],
        key,
        address: "192.0.2.7".to_owned(),
        created_at: NOW,
    }
}

fn entry(action: &str, app_id: Option<AppId>) -> AuditEntry {
    AuditEntry {
        at: NOW,
        action: action.to_owned(),
        app_id,
        object: None,
        key_id: KeyId(Uuid::from_u128(9)),
        key_name: "Ada".to_owned(),
        address: "192.0.2.7".to_owned(),
        source: AuditSource::Api,
        request_id: "r-1".to_owned(),
    }
}

async fn audit_of(store: &Store, app: Option<AppId>) -> Vec<AuditEntry> {
    store.list_audit(app, fixtures::page(100)).await.unwrap().rows
}

#[apply(contract)]
async fn an_admin_key_is_listed_renamed_and_revoked(store: &Store) {
    let (first, second) = (fixtures::key(1), fixtures::key(2));
    store.add_admin_key(first.clone()).await.unwrap();
    store.add_admin_key(second.clone()).await.unwrap();
    store.rename_admin_key(second.id, "Grace".to_owned()).await.unwrap();
    store.touch_keys(vec![(second.id, NOW.plus_ms(5))], vec![]).await.unwrap();
    let keys = store.list_admin_keys().await.unwrap();
    let shown: Vec<_> = keys.iter().map(|key| (key.id, key.name.as_deref())).collect();
    assert_eq!(shown, [(first.id, Some("backend")), (second.id, Some("Grace"))]);
    assert_eq!(keys[1].last_used_at, Some(NOW.plus_ms(5)));
    assert_eq!(store.admin_key(second.hash).await.unwrap().unwrap().label, "Grace");
    store.revoke_admin_key(second.id).await.unwrap();
    assert_eq!(store.admin_key(second.hash).await.unwrap(), None);
    assert!(is_unknown(&store.revoke_admin_key(second.id).await));
    assert!(is_unknown(&store.rename_admin_key(second.id, "x".to_owned()).await));
}

#[apply(contract)]
async fn the_only_admin_key_cannot_be_revoked(store: &Store) {
    let key = fixtures::key(1);
    store.add_admin_key(key.clone()).await.unwrap();
    let refused = store.revoke_admin_key(key.id).await;
    assert_eq!(refusal(refused), "key_id: is the only admin key: create another one first");
    assert!(store.admin_key(key.hash).await.unwrap().is_some());
}

#[apply(contract)]
async fn an_installation_has_a_limited_number_of_admin_keys(store: &Store) {
    for byte in 0..100 {
        store.add_admin_key(fixtures::key(byte)).await.unwrap();
    }
    let refused = store.add_admin_key(fixtures::key(200)).await;
    assert_eq!(refusal(refused), "keys: an installation has at most 100: revoke one first");
    // An operator whose keys are lost needs another one to revoke them.
    let recovery = fixtures::key(201);
    store.add_recovery_key(recovery.clone()).await.unwrap();
    assert!(store.admin_key(recovery.hash).await.unwrap().is_some());
}

#[apply(contract)]
async fn a_session_is_found_by_its_secret_until_it_ends(store: &Store) {
    let key = fixtures::key(1);
    store.add_admin_key(key.clone()).await.unwrap();
    let new = session(7, key.id);
    store.create_session(new.clone()).await.unwrap();
    let found = store.session(new.hash).await.unwrap().unwrap();
    assert_eq!((found.id, found.key.id, found.key.label.as_str()), (new.id, key.id, "backend"));
    assert_eq!((found.created_at, found.last_used_at), (NOW, NOW));
    store.touch_keys(vec![], vec![(new.id, NOW.plus_ms(60_000))]).await.unwrap();
    store.touch_keys(vec![], vec![(new.id, NOW)]).await.unwrap();
    let found = store.session(new.hash).await.unwrap().unwrap();
    assert_eq!(found.last_used_at, NOW.plus_ms(60_000), "the time never decreases");
    assert_eq!(store.session([8; 32]).await.unwrap(), None);
    store.end_session(new.id).await.unwrap();
    assert_eq!(store.session(new.hash).await.unwrap(), None);
    assert!(is_unknown(&store.end_session(new.id).await));
}

#[apply(contract)]
async fn revoking_an_admin_key_ends_its_sessions(store: &Store) {
    let (ada, grace) = (fixtures::key(1), fixtures::key(2));
    for (key, byte) in [(&ada, 11), (&grace, 12)] {
        store.add_admin_key(key.clone()).await.unwrap();
        store.create_session(session(byte, key.id)).await.unwrap();
    }
    store.revoke_admin_key(ada.id).await.unwrap();
    assert_eq!(store.session([11; 32]).await.unwrap(), None);
    assert!(store.session([12; 32]).await.unwrap().is_some());
    assert!(is_unknown(&store.create_session(session(13, ada.id)).await));
}

#[apply(contract)]
async fn the_oldest_session_of_an_admin_key_ends_at_the_limit(store: &Store) {
    let (ada, grace) = (fixtures::key(1), fixtures::key(2));
    store.add_admin_key(ada.clone()).await.unwrap();
    store.add_admin_key(grace.clone()).await.unwrap();
    store.create_session(session(201, grace.id)).await.unwrap();
    for byte in 1..=101 {
        store.create_session(session(byte, ada.id)).await.unwrap();
    }
    for (byte, exists) in [(1, false), (2, true), (101, true), (201, true)] {
        assert_eq!(store.session([byte; 32]).await.unwrap().is_some(), exists, "{byte}");
    }
}

#[apply(contract)]
async fn sessions_that_have_not_expired_are_listed_newest_first(store: &Store) {
    let key = fixtures::key(1);
    store.add_admin_key(key.clone()).await.unwrap();
    let ages = [(1, 11), (2, 3), (3, 1), (4, 0)];
    let mut ids = Vec::new();
    for (byte, hours) in ages {
        let created_at = NOW.plus_ms(-hours * HOUR_MS);
        let new = NewSession { created_at, ..session(byte, key.id) };
        ids.push(new.id);
        store.create_session(new).await.unwrap();
    }
    // The oldest session is still in use, the second has been idle for three hours.
    store.touch_keys(vec![], vec![(ids[0], NOW)]).await.unwrap();
    let cutoffs = TIMEOUTS.cutoffs(NOW);
    let first = store.list_sessions(cutoffs, fixtures::page(2)).await.unwrap();
    let second = fixtures::next_page(2, first.next.clone());
    let second = store.list_sessions(cutoffs, second).await.unwrap();
    let shown = |rows: &[notify_core::Session]| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(shown(&first.rows), [ids[3], ids[2]]);
    assert_eq!((shown(&second.rows), second.next), (vec![ids[0]], None));
}

#[apply(contract)]
async fn expired_sessions_and_audit_entries_are_deleted(store: &Store) {
    let key = fixtures::key(1);
    store.add_admin_key(key.clone()).await.unwrap();
    for (byte, hours) in [(1, 13), (2, 3), (3, 1)] {
        let created_at = NOW.plus_ms(-hours * HOUR_MS);
        store.create_session(NewSession { created_at, ..session(byte, key.id) }).await.unwrap();
    }
    for (days, action) in [(400, "create_app"), (10, "delete_app")] {
        let at = NOW.plus_ms(-days * 24 * HOUR_MS);
        let write = async {
            record_next_write(AuditEntry { at, ..entry(action, None) });
            store.check().await.unwrap();
        };
        with_audit(write).await;
    }
    let cutoffs = RetentionCutoffs {
        audit_before: Some(NOW.plus_ms(-365 * 24 * HOUR_MS)),
        sessions: TIMEOUTS.cutoffs(NOW),
        ..fixtures::NOTHING_EXPIRED
    };
    let deleted = store.delete_expired(cutoffs).await.unwrap();
    assert_eq!((deleted.sessions, deleted.audit_entries, deleted.more), (2, 1, false));
    let nothing = SessionCutoffs { ..fixtures::NO_SESSIONS };
    let left = store.list_sessions(nothing, fixtures::page(10)).await.unwrap().rows;
    assert_eq!(left.len(), 1);
    let left = audit_of(store, None).await;
    assert_eq!(left.iter().map(|entry| entry.action.as_str()).collect::<Vec<_>>(), ["delete_app"]);
}

#[apply(contract)]
async fn a_change_and_its_audit_entry_are_stored_together(store: &Store) {
    let (id, _) = fixtures::named_app(store, "Shop").await;
    let request = async {
        record_next_write(entry("create_api_key", Some(id)));
        let key = fixtures::key(7);
        set_object(&key.id);
        store.add_key(id, key.clone(), KeyTerms::default()).await.unwrap();
        // Only the first write of a request is the change that the operator asked for.
        store.check().await.unwrap();
        key.id
    };
    let key = with_audit(request).await;
    let expected =
        AuditEntry { object: Some(key.to_string()), ..entry("create_api_key", Some(id)) };
    for filter in [None, Some(id)] {
        assert_eq!(audit_of(store, filter).await, std::slice::from_ref(&expected));
    }
    assert_eq!(audit_of(store, Some(AppId(Uuid::now_v7()))).await, []);
}

#[apply(contract)]
async fn a_refused_change_leaves_no_audit_entry(store: &Store) {
    let request = async {
        record_next_write(entry("delete_app", Some(AppId(Uuid::now_v7()))));
        store.delete_app(AppId(Uuid::now_v7())).await
    };
    assert!(matches!(with_audit(request).await, Err(StoreError::NotFound)));
    assert_eq!(audit_of(store, None).await, []);
}

#[apply(contract)]
async fn the_audit_trail_is_listed_newest_first_in_pages(store: &Store) {
    for action in ["create_app", "update_app", "delete_app"] {
        let write = async {
            record_next_write(entry(action, None));
            store.check().await.unwrap();
        };
        with_audit(write).await;
    }
    let first = store.list_audit(None, fixtures::page(2)).await.unwrap();
    let rest = store.list_audit(None, fixtures::next_page(2, first.next.clone())).await.unwrap();
    let shown = |rows: &[AuditEntry]| {
        rows.iter().map(|entry| entry.action.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown(&first.rows), "delete_app update_app");
    assert_eq!((shown(&rest.rows).as_str(), rest.next), ("create_app", None));
}
