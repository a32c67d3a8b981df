//! Operators: admin keys, and the sessions of the console.

use notify_core::{ADMIN_KEYS_MAX, KeyId, Session, SessionId, Timestamp};

use crate::store::app::NewKey;
use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::row::{count_at, uuid_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Row, params};
use crate::store::{Change, Operation, Page, PageRequest, Store, StoreError};

/// An admin key that a request was authenticated with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminKey {
    /// The id.
    pub id: KeyId,
    /// The name of the key, or its hint if it has no name.
    pub label: String,
}

/// A session to store. The secret of its cookie is not stored, only a hash of it.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The id.
    pub id: SessionId,
    /// The SHA-256 of the secret.
    pub hash: [u8; 32],
    /// The admin key that signed in.
    pub key: KeyId,
    /// The network address that signed in.
    pub address: String,
    /// When the session was created.
    pub created_at: Timestamp,
}

/// A session that was found by its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionAccess {
    /// The session.
    pub id: SessionId,
    /// The admin key that signed in.
    pub key: AdminKey,
    /// When the session was created.
    pub created_at: Timestamp,
    /// When the session was last used.
    pub last_used_at: Timestamp,
}

/// How long sessions last, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTimeouts {
    /// How long a session may be unused.
    pub idle_ms: i64,
    /// How long a session lasts at most.
    pub total_ms: i64,
}

impl SessionTimeouts {
    /// The times before which sessions have expired at `now`.
    #[must_use]
    pub fn cutoffs(self, now: Timestamp) -> SessionCutoffs {
        SessionCutoffs {
            created_before: now.plus_ms(self.total_ms.saturating_neg()),
            used_before: now.plus_ms(self.idle_ms.saturating_neg()),
        }
    }
}

/// The times before which sessions have expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionCutoffs {
    /// Sessions that were created before this time have expired.
    pub created_before: Timestamp,
    /// Sessions that were last used before this time have expired.
    pub used_before: Timestamp,
}

/// The most sessions of an admin key.
pub(in crate::store) const SESSIONS_PER_KEY_MAX: i64 = 100;
const SESSIONS: CursorCodec = CursorCodec { list: "sessions", owner: 0 };

// Admin keys.

impl Store {
    /// Adds an admin key.
    ///
    /// # Errors
    /// `Refused` if the installation has [`ADMIN_KEYS_MAX`] keys.
    pub async fn add_admin_key(&self, key: NewKey) -> Result<(), StoreError> {
        self.write(Operation::AddAdminKey, move |tx| {
            let keys = tx
                .prepare_cached("select count(*) from admin_keys")?
                .query_row([], |row| count_at(row, 0))?;
            if keys >= ADMIN_KEYS_MAX {
                let what =
                    format!("an installation has at most {ADMIN_KEYS_MAX}: revoke one first");
                return Err(StoreError::refused("keys", &what));
            }
            insert_admin_key(tx, &key)
        })
        .await
    }

    /// Adds an admin key even if the installation has [`ADMIN_KEYS_MAX`] keys. An operator on the
    /// server's machine needs it when the other keys are lost: without a key, none can be revoked.
    pub async fn add_recovery_key(&self, key: NewKey) -> Result<(), StoreError> {
        self.write(Operation::AddAdminKey, move |tx| insert_admin_key(tx, &key)).await
    }

    /// Lists the admin keys, oldest first.
    pub async fn list_admin_keys(&self) -> Result<Vec<notify_core::AdminKey>, StoreError> {
        self.read(|connection| {
            let keys = connection
                .prepare_cached(
                    "select id, name, hint, created_at, last_used_at from admin_keys order by no",
                )?
                .query_map([], listed_key_of)?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(keys)
        })
        .await
    }

    /// Renames an admin key.
    pub async fn rename_admin_key(&self, key: KeyId, name: String) -> Result<(), StoreError> {
        self.write(Operation::RenameAdminKey, move |tx| {
            let renamed = tx
                .prepare_cached("update admin_keys set name = ?2 where id = ?1")?
                .execute(params![key.0.as_bytes(), name])?;
            if renamed == 0 {
                return Err(StoreError::NotFound);
            }
            // Caches have the name of the key.
            tx.changed(Change::Keys);
            Ok(())
        })
        .await
    }

    /// Revokes an admin key at once, and ends the sessions that it signed in.
    ///
    /// # Errors
    /// `Refused` for the only admin key, since nobody could administer the installation without it.
    pub async fn revoke_admin_key(&self, key: KeyId) -> Result<(), StoreError> {
        self.write(Operation::RevokeAdminKey, move |tx| {
            let no = admin_key_no(tx, key)?;
            let has_others = tx
                .prepare_cached("select 1 from admin_keys where no <> ?1 limit 1")?
                .exists([no])?;
            if !has_others {
                let what = "is the only admin key: create another one first";
                return Err(StoreError::refused("key_id", what));
            }
            tx.prepare_cached("delete from sessions where admin_key_no = ?1")?.execute([no])?;
            tx.prepare_cached("delete from admin_keys where no = ?1")?.execute([no])?;
            tx.changed(Change::Keys);
            Ok(())
        })
        .await
    }

    /// Finds an admin key by its SHA-256.
    pub async fn admin_key(&self, hash: [u8; 32]) -> Result<Option<AdminKey>, StoreError> {
        self.read(move |connection| {
            let key = connection
                .prepare_cached("select id, coalesce(name, hint) from admin_keys where hash = ?1")?
                .query_row([hash], |row| admin_key_at(row, 0))
                .optional()?;
            Ok(key)
        })
        .await
    }
}

// Sessions.

impl Store {
    /// Creates a session. If its admin key has 100 sessions, the oldest one ends.
    ///
    /// # Errors
    /// `NotFound` when the admin key was revoked.
    pub async fn create_session(&self, session: NewSession) -> Result<(), StoreError> {
        self.write(Operation::CreateSession, move |tx| {
            let key_no = admin_key_no(tx, session.key)?;
            tx.prepare_insert(
                "insert into sessions (no, id, hash, admin_key_no, address, created_at, last_used_at)
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
            )?
            .insert_unprefixed(params![
                session.id.0.as_bytes(),
                session.hash,
                key_no,
                session.address,
                session.created_at.as_ms()
            ])?;
            tx.prepare_cached(
                "delete from sessions where no in
                 (select no from sessions where admin_key_no = ?1 order by no desc
                  limit ?2 offset ?3)",
            )?
            .execute([key_no, SESSIONS_PER_KEY_MAX, SESSIONS_PER_KEY_MAX])?;
            Ok(())
        })
        .await
    }

    /// Finds a session by the SHA-256 of its secret. The caller checks whether the session has expired.
    pub async fn session(&self, hash: [u8; 32]) -> Result<Option<SessionAccess>, StoreError> {
        self.read(move |connection| {
            let session = connection
                .prepare_cached(
                    "select s.id, s.created_at, s.last_used_at, k.id, coalesce(k.name, k.hint)
                     from sessions s join admin_keys k on k.no = s.admin_key_no where s.hash = ?1",
                )?
                .query_row([hash], |row| {
                    Ok(SessionAccess {
                        id: SessionId(uuid_at(row, 0)?),
                        created_at: Timestamp(row.get(1)?),
                        last_used_at: Timestamp(row.get(2)?),
                        key: admin_key_at(row, 3)?,
                    })
                })
                .optional()?;
            Ok(session)
        })
        .await
    }

    /// Lists the sessions that have not expired, newest first.
    pub async fn list_sessions(
        &self,
        cutoffs: SessionCutoffs,
        page: PageRequest,
    ) -> Result<Page<Session>, StoreError> {
        self.read(move |connection| {
            let before = SESSIONS.decode_number(&page)?.unwrap_or(i64::MAX);
            let rows = connection
                .prepare_cached(
                    "select s.no, s.id, k.id, s.address, s.created_at, s.last_used_at
                     from sessions s join admin_keys k on k.no = s.admin_key_no
                     where s.no < ?1 and s.created_at >= ?2 and s.last_used_at >= ?3
                     order by s.no desc limit ?4",
                )?
                .query_map(
                    [
                        before,
                        cutoffs.created_before.as_ms(),
                        cutoffs.used_before.as_ms(),
                        rows_wanted(&page),
                    ],
                    |row| {
                        let session = Session {
                            id: SessionId(uuid_at(row, 1)?),
                            key_id: KeyId(uuid_at(row, 2)?),
                            address: row.get(3)?,
                            created_at: Timestamp(row.get(4)?),
                            last_used_at: Timestamp(row.get(5)?),
                        };
                        Ok((row.get(0)?, session))
                    },
                )?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(SESSIONS.page(rows, &page))
        })
        .await
    }

    /// Ends a session.
    pub async fn end_session(&self, id: SessionId) -> Result<(), StoreError> {
        self.write(Operation::EndSession, move |tx| {
            let ended = tx
                .prepare_cached("delete from sessions where id = ?1")?
                .execute([id.0.as_bytes()])?;
            if ended == 0 { Err(StoreError::NotFound) } else { Ok(()) }
        })
        .await
    }
}

/// Deletes expired sessions, at most `rows_max`. Returns their number.
pub(super) fn delete_expired_sessions(
    tx: &Connection,
    cutoffs: SessionCutoffs,
    rows_max: u64,
) -> sql::Result<u64> {
    let deleted = tx
        .prepare_cached(
            "delete from sessions where no in
             (select no from sessions where created_at < ?1 or last_used_at < ?2 limit ?3)",
        )?
        .execute(params![
            cutoffs.created_before.as_ms(),
            cutoffs.used_before.as_ms(),
            i64::try_from(rows_max).unwrap_or(i64::MAX)
        ])?;
    Ok(deleted as u64)
}

fn listed_key_of(row: &Row<'_>) -> sql::Result<notify_core::AdminKey> {
    Ok(notify_core::AdminKey {
        id: KeyId(uuid_at(row, 0)?),
        name: row.get(1)?,
        hint: row.get(2)?,
        created_at: Timestamp(row.get(3)?),
        last_used_at: row.get::<Option<i64>>(4)?.map(Timestamp),
    })
}

pub(super) fn insert_admin_key(tx: &WriteTx<'_>, key: &NewKey) -> Result<(), StoreError> {
    tx.prepare_insert(
        "insert into admin_keys (no, id, hash, hint, name, created_at)
         values (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .insert_unprefixed(params![
        key.id.0.as_bytes(),
        key.hash,
        key.hint,
        key.name,
        key.created_at.as_ms()
    ])?;
    Ok(())
}

fn admin_key_no(connection: &Connection, id: KeyId) -> Result<i64, StoreError> {
    connection
        .prepare_cached("select no from admin_keys where id = ?1")?
        .query_row([id.0.as_bytes()], |row| row.get(0))
        .optional()?
        .ok_or(StoreError::NotFound)
}

/// Reads the id and the label of an admin key from two columns.
fn admin_key_at(row: &Row<'_>, column: usize) -> sql::Result<AdminKey> {
    Ok(AdminKey { id: KeyId(uuid_at(row, column)?), label: row.get(column + 1)? })
}
