//! Polls: reading them and answering them through the API.

use notify_core::{NoQuery, NotificationId, Poll, PollAnswer, PollVote, Success};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::store::{PollRow, StoreError};

/// `GET /v1/polls/{id}`. By contract, an unknown id is 400 here.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Poll>, ApiError> {
    let id = ctx.notification_id().map_err(|_| unknown_poll())?;
    match ctx.api.store.poll(ctx.app_no(), id).await {
        Ok(poll) => Ok(JsonReply::ok(poll_response(&ctx, poll))),
        Err(StoreError::NotFound) => Err(unknown_poll()),
        Err(error) => Err(error.into()),
    }
}

/// `POST /v1/polls/{id}/answers/{answer_id}`.
pub(crate) async fn answer(
    ctx: RequestCtx,
    vote: PollVote,
) -> Result<JsonReply<Success>, ApiError> {
    let poll: NotificationId = ctx.notification_id()?;
    let answer = ctx.id("answer_id")?;
    let (at, idempotency_key) = (ctx.received_at, ctx.idempotency_key()?);
    Ok(ctx
        .api
        .store
        .answer_poll(ctx.app_no(), poll, answer, vote, at, idempotency_key)
        .await?
        .into())
}

fn unknown_poll() -> ApiError {
    ApiError::invalid("id", "no poll has this id")
}

/// The response with a poll and its percentages.
pub(super) fn poll_response(ctx: &RequestCtx, row: PollRow) -> Poll {
    let url = ctx.api.poll_url(row.public_id);
    let answers = row.answers.into_iter().map(|answer| PollAnswer {
        id: answer.id,
        text: answer.text,
        image_url: answer.image_url.unwrap_or_default(),
        percentage: 0.0,
        clicks: answer.clicks,
    });
    Poll {
        id: row.id,
        text: row.text,
        url,
        image_url: row.image_url,
        layout_id: row.layout_id,
        lang: row.lang,
        created_at: row.created_at,
        answers: answers.collect(),
    }
    .with_percentages()
}
