//! Device statistics (spec 4.5, B26): the store counts, core makes the percentages.

use notify_core::{DeviceStatistics, DeviceStatisticsQuery};

use super::ctx::Ctx;
use super::error::ApiError;
use super::reply::Reply;

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
