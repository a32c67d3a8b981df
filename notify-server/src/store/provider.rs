//! Configured providers, and the provider tokens that servers share. Callers seal all secrets
//! (`secrets.rs`).

use notify_core::{AppId, ProviderKind, Timestamp};

pub use crate::keys::TokenName;
use crate::store::app::app_no;
use crate::store::delivery::checkpoint;
use crate::store::sql::row::{unexpected_value, uuid_at};
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, params};
use crate::store::{AppNo, DeliveryChange, Operation, Store, StoreError};

/// A stored provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRow {
    /// Which provider.
    pub provider: ProviderKind,
    /// The whole configuration, sealed. Empty if the configuration was dropped together with its
    /// master key.
    pub sealed: Vec<u8>,
    /// When the configuration last changed. The time grows with each change, so it identifies the
    /// version.
    pub updated_at: Timestamp,
}

/// A stored provider token, which one server signed for all servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// The token, sealed.
    pub sealed: Vec<u8>,
    /// When it was signed, by the servers' clock.
    pub issued_at: Timestamp,
    /// How far the signer's wall clock was ahead of the servers' clock, in milliseconds.
    pub wall_ahead_ms: i64,
    /// Until when the token is kept, because the provider rejects newer tokens before that time.
    pub frozen_until: Option<Timestamp>,
}

/// How long an unused provider token is kept, in milliseconds: an hour longer than the token is
/// valid.
pub(crate) const TOKEN_KEPT_MS: i64 = 2 * 3_600_000;

impl Store {
    /// Sets the configuration of a provider.
    pub async fn put_provider(&self, app: AppId, row: ProviderRow) -> Result<(), StoreError> {
        self.write(Operation::PutProvider, move |tx| {
            let no = app_no(tx, app)?;
            tx.prepare_cached(
                "insert into providers (app_no, provider, sealed, updated_at)
                 values (?1, ?2, ?3, ?4)
                 on conflict (app_no, provider) do update set sealed = excluded.sealed,
                 updated_at = max(excluded.updated_at, providers.updated_at + 1)",
            )?
            .execute(params![
                no.0,
                row.provider.as_str(),
                row.sealed,
                row.updated_at.as_ms()
            ])?;
            checkpoint::release(tx, no, row.provider)?;
            tx.changed(DeliveryChange::Provider(no, row.provider));
            Ok(())
        })
        .await
    }

    /// Removes a provider. Fails with [`StoreError::NotFound`] if it is not configured.
    pub async fn delete_provider(
        &self,
        app: AppId,
        provider: ProviderKind,
    ) -> Result<(), StoreError> {
        self.write(Operation::DeleteProvider, move |tx| {
            let no = app_no(tx, app)?;
            let deleted = tx
                .prepare_cached("delete from providers where app_no = ?1 and provider = ?2")?
                .execute(params![no.0, provider.as_str()])?;
            if deleted == 0 {
                return Err(StoreError::NotFound);
            }
            checkpoint::release(tx, no, provider)?;
            tx.changed(DeliveryChange::Provider(no, provider));
            Ok(())
        })
        .await
    }

    /// Resets the circuit breakers of a provider and its mass-unregister guard. Fails with
    /// [`StoreError::NotFound`] if the provider is not configured.
    pub async fn release_provider(
        &self,
        app: AppId,
        provider: ProviderKind,
    ) -> Result<(), StoreError> {
        self.write(Operation::ReleaseProvider, move |tx| {
            let no = app_no(tx, app)?;
            let is_configured = tx
                .prepare_cached("select 1 from providers where app_no = ?1 and provider = ?2")?
                .exists(params![no.0, provider.as_str()])?;
            if !is_configured {
                return Err(StoreError::NotFound);
            }
            checkpoint::release(tx, no, provider)?;
            tx.changed(DeliveryChange::Provider(no, provider));
            Ok(())
        })
        .await
    }

    /// Reads the providers of an application, in the order of their names.
    pub async fn providers(&self, app: AppId) -> Result<Vec<ProviderRow>, StoreError> {
        self.read(move |connection| {
            let no = app_no(connection, app)?;
            let rows = connection
                .prepare_cached(
                    "select provider, sealed, updated_at from providers
                     where app_no = ?1 order by provider",
                )?
                .query_map([no.0], provider_of)?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(rows)
        })
        .await
    }

    /// Reads a provider, and the application id that its secrets are sealed for.
    pub async fn provider(
        &self,
        app: AppNo,
        provider: ProviderKind,
    ) -> Result<Option<(AppId, ProviderRow)>, StoreError> {
        self.read(move |connection| {
            let row = connection
                .prepare_cached(
                    "select p.provider, p.sealed, p.updated_at, a.id
                     from providers p join apps a on a.no = p.app_no
                     where p.app_no = ?1 and p.provider = ?2 and a.status <> 'erasing'",
                )?
                .query_row(params![app.0, provider.as_str()], provider_with_app)
                .optional()?;
            Ok(row)
        })
        .await
    }

    /// Reads any stored configuration, and the application id that its secrets are sealed for. A
    /// server that starts checks its master key with it.
    pub async fn any_sealed(&self) -> Result<Option<(AppId, ProviderRow)>, StoreError> {
        self.read(|connection| {
            let row = connection
                .prepare_cached(
                    "select p.provider, p.sealed, p.updated_at, a.id
                     from providers p join apps a on a.no = p.app_no
                     where length(p.sealed) > 0 and a.status <> 'erasing' limit 1",
                )?
                .query_row([], provider_with_app)
                .optional()?;
            Ok(row)
        })
        .await
    }

    /// Reads the stored token with this name, if there is one.
    pub async fn provider_token(&self, name: TokenName) -> Result<Option<TokenRow>, StoreError> {
        self.read(move |connection| read_token(connection, &name)).await
    }

    /// Stores a new token in place of the token that was signed at `replaces`. If another server
    /// has already replaced that token, its token stays. Returns the token that is stored now. Also
    /// deletes tokens of unused keys.
    pub async fn keep_provider_token(
        &self,
        name: TokenName,
        new: TokenRow,
        replaces: Option<Timestamp>,
    ) -> Result<TokenRow, StoreError> {
        self.write(Operation::KeepProviderToken, move |tx| keep_token(tx, &name, &new, replaces))
            .await
    }

    /// Keeps a token until `until`, because the provider rejects newer tokens. If the token is
    /// already kept until a later time, that time stays. An unknown token is ignored.
    pub async fn freeze_provider_token(
        &self,
        name: TokenName,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(Operation::FreezeProviderToken, move |tx| freeze_token(tx, &name, until)).await
    }
}

fn provider_with_app(row: &Row<'_>) -> sql::Result<(AppId, ProviderRow)> {
    Ok((AppId(uuid_at(row, 3)?), provider_of(row)?))
}

fn provider_of(row: &Row<'_>) -> sql::Result<ProviderRow> {
    let word: String = row.get(0)?;
    Ok(ProviderRow {
        provider: word.parse().map_err(|_| unexpected_value(0, Type::Text))?,
        sealed: row.get(1)?,
        updated_at: Timestamp(row.get(2)?),
    })
}

// The provider tokens that servers share.

/// Reads a stored token.
fn read_token(connection: &Connection, name: &TokenName) -> Result<Option<TokenRow>, StoreError> {
    let row = connection
        .prepare_cached(
            "select sealed, issued_at, wall_ahead_ms, frozen_until from provider_tokens
             where name = ?1",
        )?
        .query_row([name.as_slice()], token_of)
        .optional()?;
    Ok(row)
}

/// Writes a token if the stored token is still the one that the caller has read. `frozen_until`
/// stays, since it applies to the key and not to the token.
fn keep_token(
    tx: &Connection,
    name: &TokenName,
    new: &TokenRow,
    replaces: Option<Timestamp>,
) -> Result<TokenRow, StoreError> {
    tx.prepare_cached(
        "insert into provider_tokens (name, sealed, issued_at, wall_ahead_ms) values (?1, ?2, ?3, ?4)
         on conflict (name) do update set sealed = excluded.sealed, issued_at = excluded.issued_at,
         wall_ahead_ms = excluded.wall_ahead_ms where provider_tokens.issued_at = ?5",
    )?
    .execute(params![
        name.as_slice(),
        new.sealed,
        new.issued_at.as_ms(),
        new.wall_ahead_ms,
        replaces.map(Timestamp::as_ms)
    ])?;
    tx.prepare_cached("delete from provider_tokens where issued_at < ?1")?
        .execute([new.issued_at.as_ms() - TOKEN_KEPT_MS])?;
    Ok(read_token(tx, name)?.unwrap_or_else(|| new.clone()))
}

fn freeze_token(tx: &Connection, name: &TokenName, until: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update provider_tokens set frozen_until = ?2
         where name = ?1 and (frozen_until is null or frozen_until < ?2)",
    )?
    .execute(params![name.as_slice(), until.as_ms()])?;
    Ok(())
}

fn token_of(row: &Row<'_>) -> sql::Result<TokenRow> {
    Ok(TokenRow {
        sealed: row.get(0)?,
        issued_at: Timestamp(row.get(1)?),
        wall_ahead_ms: row.get(2)?,
        frozen_until: row.get::<Option<i64>>(3)?.map(Timestamp),
    })
}
