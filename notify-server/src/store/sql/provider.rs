//! Configured providers; what is secret in them is sealed before it comes here.

mod token;

use async_trait::async_trait;
use notify_core::{AppId, ProviderKind, Timestamp};

use super::SqlStore;
use super::app::app_no;
use super::delivery::guard;
use super::row::{unknown_value, uuid_at};
use crate::store::sql::{self, OptionalExtension, Row, Type, params};
use crate::store::{AppNo, Change, ProviderRow, ProviderStore, StoreError, TokenName, TokenRow};

#[async_trait]
impl ProviderStore for SqlStore {
    async fn put_provider(&self, app: AppId, row: ProviderRow) -> Result<(), StoreError> {
        self.write(move |tx| {
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
            guard::release(tx, no, row.provider)?;
            tx.changed(Change::ProviderChanged(no, row.provider));
            Ok(())
        })
        .await
    }

    async fn delete_provider(&self, app: AppId, provider: ProviderKind) -> Result<(), StoreError> {
        self.write(move |tx| {
            let no = app_no(tx, app)?;
            let deleted = tx
                .prepare_cached("delete from providers where app_no = ?1 and provider = ?2")?
                .execute(params![no.0, provider.as_str()])?;
            if deleted == 0 {
                return Err(StoreError::NotFound);
            }
            guard::release(tx, no, provider)?;
            tx.changed(Change::ProviderChanged(no, provider));
            Ok(())
        })
        .await
    }

    async fn release_provider(&self, app: AppId, provider: ProviderKind) -> Result<(), StoreError> {
        self.write(move |tx| {
            let no = app_no(tx, app)?;
            let configured = tx
                .prepare_cached("select 1 from providers where app_no = ?1 and provider = ?2")?
                .exists(params![no.0, provider.as_str()])?;
            if !configured {
                return Err(StoreError::NotFound);
            }
            guard::release(tx, no, provider)?;
            tx.changed(Change::ProviderChanged(no, provider));
            Ok(())
        })
        .await
    }

    async fn providers(&self, app: AppId) -> Result<Vec<ProviderRow>, StoreError> {
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

    async fn provider(
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

    async fn any_sealed(&self) -> Result<Option<(AppId, ProviderRow)>, StoreError> {
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

    async fn provider_token(&self, name: TokenName) -> Result<Option<TokenRow>, StoreError> {
        self.read(move |connection| token::read(connection, &name)).await
    }

    async fn keep_provider_token(
        &self,
        name: TokenName,
        new: TokenRow,
        replaces: Option<Timestamp>,
    ) -> Result<TokenRow, StoreError> {
        self.write(move |tx| token::keep(tx, &name, &new, replaces)).await
    }

    async fn freeze_provider_token(
        &self,
        name: TokenName,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| token::freeze(tx, &name, until)).await
    }
}

fn provider_with_app(row: &Row<'_>) -> sql::Result<(AppId, ProviderRow)> {
    Ok((AppId(uuid_at(row, 3)?), provider_of(row)?))
}

fn provider_of(row: &Row<'_>) -> sql::Result<ProviderRow> {
    let word: String = row.get(0)?;
    Ok(ProviderRow {
        provider: ProviderKind::from_word(&word).ok_or_else(|| unknown_value(0, Type::Text))?,
        sealed: row.get(1)?,
        updated_at: Timestamp(row.get(2)?),
    })
}
