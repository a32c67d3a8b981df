//! What people do on Messenger and in chats.

use async_trait::async_trait;
use notify_core::Timestamp;

use super::SqlStore;
use super::device::inbound;
use super::row::live_app;
use crate::store::{AppNo, Inbound, InboundStore, StoreError};

#[async_trait]
impl InboundStore for SqlStore {
    async fn take_inbound(
        &self,
        app: AppNo,
        acts: Vec<Inbound>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // Most of what a chatty person writes is no news, and finding that out costs no commit.
        // What is no news by itself is none after other things that are none.
        let (acts, news) = self
            .read(move |connection| {
                live_app(connection, app)?;
                for act in &acts {
                    if inbound::is_news(connection, app, act)? {
                        return Ok((acts, true));
                    }
                }
                Ok((acts, false))
            })
            .await?;
        if !news {
            return Ok(());
        }
        self.write(move |tx| {
            live_app(tx, app)?;
            acts.iter().try_for_each(|act| inbound::take(tx, app, act, now))
        })
        .await
    }
}
