//! Statistics (spec 4.5, B26, B33): the store counts, core makes percentages and empty days.

use notify_core::{DayPeriod, DeviceStatistics, DeviceStatisticsQuery, NotificationStatistics};

use crate::api::error::ApiError;
use crate::api::json_reply::Reply;
use crate::api::request_ctx::Ctx;

/// `GET /v1/statistics/devices`.
pub(crate) async fn devices(
    ctx: Ctx,
    period: DeviceStatisticsQuery,
) -> Result<Reply<DeviceStatistics>, ApiError> {
    let (app, now) = (ctx.app_no(), ctx.at());
    let to = period.date_to.unwrap_or(now);
    let counts = ctx.api().store.count_devices(app, period.date_from, to, now).await?;
    Ok(Reply::now(DeviceStatistics::from_counts(&counts)))
}

/// `GET /v1/statistics/notifications`.
pub(crate) async fn notifications(
    ctx: Ctx,
    period: DayPeriod,
) -> Result<Reply<NotificationStatistics>, ApiError> {
    let counts = ctx.api().store.count_days(ctx.app_no(), period).await?;
    Ok(Reply::now(NotificationStatistics::from_counts(period, &counts)))
}
