//! Polls: read (spec 4.6) and answer through the API (B32).

use notify_core::{NoQuery, NotificationId, Poll, PollAnswer, PollVote, Success};

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::Ctx;
use crate::store::{PollRow, StoreError};

/// `GET /v1/polls/{id}`: an id that names nothing is 400 here, as specified.
pub(crate) async fn get(ctx: Ctx, _: NoQuery) -> Result<Reply<Poll>, ApiError> {
    let id = ctx.notification_id().map_err(|_| no_poll())?;
    match ctx.api().store.poll(ctx.app_no(), id).await {
        Ok(poll) => Ok(Reply::now(read_back(&ctx, poll))),
        Err(StoreError::NotFound) => Err(no_poll()),
        Err(error) => Err(error.into()),
    }
}

/// `POST /v1/polls/{id}/answers/{answer_id}`: added by B32, so unknown ids are 404.
pub(crate) async fn answer(ctx: Ctx, vote: PollVote) -> Result<Reply<Success>, ApiError> {
    let poll: NotificationId = ctx.notification_id()?;
    let answer = ctx.id("answer_id")?;
    let at = (ctx.at(), ctx.once()?);
    Ok(ctx.api().store.answer_poll(ctx.app_no(), poll, answer, vote, at).await?.into())
}

fn no_poll() -> ApiError {
    ApiError::invalid("id", "names no poll")
}

/// The poll as it is answered, with shares.
pub(super) fn read_back(ctx: &Ctx, row: PollRow) -> Poll {
    let url = ctx.api().poll_url(row.public_id);
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
