//! Statistics.

use notify_core::{
    DeviceStatistics, DeviceStatisticsQuery, NotificationStatistics, NotificationStatisticsQuery,
};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Statistics of the application.
    Statistics from statistics;

    /// Counts the devices registered in a period by platform and state:
    /// `GET /v1/statistics/devices`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if `date_from` is after `date_to`.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let all = notify.statistics().devices(&Default::default()).await?;
    /// println!("{} of {} enabled", all.total_enabled, all.total);
    /// # Ok(())
    /// # }
    /// ```
    fn devices(period: &DeviceStatisticsQuery) -> DeviceStatistics =
        Call::v1(Method::GET, &["statistics", "devices"]).query(period);

    /// Counts deliveries by outcome and engagement events by day (UTC), for at most 366 days:
    /// `GET /v1/statistics/notifications`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if `date_from` is after `date_to`, or too long before it.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let all = notify.statistics().notifications(&Default::default()).await?;
    /// println!("{} sent, {} failed, {} opened", all.total_sent, all.total_failed, all.total_opened);
    /// # Ok(())
    /// # }
    /// ```
    fn notifications(period: &NotificationStatisticsQuery) -> NotificationStatistics =
        Call::v1(Method::GET, &["statistics", "notifications"]).query(period);
}
