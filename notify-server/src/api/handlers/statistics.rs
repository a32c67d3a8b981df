//! Statistics: the store counts, core adds percentages and empty days.

use notify_core::{DayPeriod, DeviceStatistics, DeviceStatisticsQuery, NotificationStatistics};

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;

/// `GET /v1/statistics/devices`.
pub(crate) async fn devices(
    ctx: RequestCtx,
    period: DeviceStatisticsQuery,
) -> Result<JsonReply<DeviceStatistics>, ApiError> {
    let (app, now) = (ctx.app_no(), ctx.received_at);
    let to = period.date_to.unwrap_or(now);
    let counts = ctx.api.store.count_devices(app, period.date_from, to, now).await?;
    Ok(JsonReply::ok(DeviceStatistics::from_counts(&counts)))
}

/// `GET /v1/statistics/notifications`.
pub(crate) async fn notifications(
    ctx: RequestCtx,
    period: DayPeriod,
) -> Result<JsonReply<NotificationStatistics>, ApiError> {
    let counts = ctx.api.store.count_days(ctx.app_no(), period).await?;
    Ok(JsonReply::ok(NotificationStatistics::from_counts(period, &counts)))
}
