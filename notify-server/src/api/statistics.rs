//! Device statistics (spec 4.5, B26): the store counts, core makes the percentages.

use notify_core::DeviceStatistics;

use super::ctx::Ctx;
use super::error::ApiError;
use super::reply::Reply;

/// `GET /v1/statistics/devices`.
pub(crate) async fn devices(
    ctx: Ctx,
    period: notify_core::StatisticsPeriod,
) -> Result<Reply<DeviceStatistics>, ApiError> {
    let (app, now) = (ctx.app_no(), ctx.at());
    let counts = ctx.api().store.count_devices(app, period.from, period.to, now).await?;
    Ok(Reply::now(DeviceStatistics::from_counts(&counts)))
}
