//! Segments, and the conditions of audiences that name them.

use notify_core::{
    Audience, Condition, NoQuery, PageQuery, Recipients, Segment, SegmentList, SegmentName,
    SegmentPreview, SegmentSize, SegmentToPreview, Success, Target,
};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, page_request};

/// `PUT /v1/segments/{name}`.
pub(crate) async fn put(
    ctx: RequestCtx,
    condition: Condition,
) -> Result<JsonReply<Segment>, ApiError> {
    let name = SegmentName::new(ctx.path_param("name")?.into_owned())
        .map_err(|rule| ApiError::invalid("name", rule))?;
    check_size(&condition)?;
    let (app, at) = (ctx.app_no(), ctx.received_at);
    Ok(JsonReply::ok(ctx.api.store.put_segment(app, name, condition, at).await?))
}

/// `GET /v1/segments/{name}`.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Segment>, ApiError> {
    let name = ctx.path_param("name")?.into_owned();
    Ok(JsonReply::ok(ctx.api.store.segment(ctx.app_no(), name).await?))
}

/// `GET /v1/segments`.
pub(crate) async fn list(
    ctx: RequestCtx,
    query: PageQuery,
) -> Result<JsonReply<SegmentList>, ApiError> {
    let page = ctx.api.store.list_segments(ctx.app_no(), page_request(query)).await?;
    Ok(JsonReply::ok(SegmentList { segments: page.rows, next_cursor: page.next }))
}

/// `DELETE /v1/segments/{name}`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let name = ctx.path_param("name")?.into_owned();
    ctx.api.store.delete_segment(ctx.app_no(), name).await?;
    Ok(JsonReply::success())
}

/// `POST /v1/segments/preview`.
pub(crate) async fn preview(
    ctx: RequestCtx,
    segment: SegmentToPreview,
) -> Result<JsonReply<SegmentPreview>, ApiError> {
    let condition = condition(&ctx, Some(&segment.audience)).await?;
    let recipients =
        Recipients { target: Target::Platforms(segment.platforms), tag: None, audience: None };
    let (app, at) = (ctx.app_no(), ctx.received_at);
    let reached = ctx.api.store.reach(app, recipients, condition, at).await?;
    let sizes = reached.platforms.into_iter().map(|reach| SegmentSize {
        platform: reach.platform,
        devices: reach.devices,
        exact: reach.is_exact,
    });
    let preview = SegmentPreview { platforms: sizes.collect() };
    Ok(ctx.api.store.keep_preview(app, preview, ctx.idempotency_key()?).await?.into())
}

/// The condition of an audience, with the conditions of its segments in place of their names; `None`
/// without an audience.
pub(super) async fn condition(
    ctx: &RequestCtx,
    audience: Option<&Audience>,
) -> Result<Option<Condition>, ApiError> {
    let Some(audience) = audience else { return Ok(None) };
    let names: Vec<String> = audience.segments().into_iter().map(str::to_owned).collect();
    let segments = if names.is_empty() {
        Vec::new()
    } else {
        ctx.api.store.segments_by_name(ctx.app_no(), names).await?
    };
    let lookup = |name: &str| {
        let segment = segments.iter().find(|segment| segment.name.as_str() == name);
        segment.map(|segment| segment.audience.clone())
    };
    let condition = audience.resolve(&lookup)?;
    check_size(&condition)?;
    Ok(Some(condition))
}

/// The largest condition as JSON, in bytes. Each notification and each segment stores one.
const CONDITION_BYTES_MAX: usize = 262_144;

/// Refuses a condition that is too large to store with every notification.
fn check_size(condition: &Condition) -> Result<(), ApiError> {
    if condition.to_json().len() <= CONDITION_BYTES_MAX {
        return Ok(());
    }
    let what = format!("must have at most {CONDITION_BYTES_MAX} bytes of JSON");
    Err(ApiError::invalid("audience", &what))
}
