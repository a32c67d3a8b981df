//! Statistics (spec 4.5, B26).

use notify_core::{DeviceStatistics, DeviceStatisticsQuery};
use reqwest::Method;

use crate::{call::Call, handle::handle, parameters};

handle! {
    /// Statistics of the application.
    Statistics from statistics;

    /// Counts the devices registered in a period by platform and state:
    /// `GET /v1/statistics/devices`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when `date_from` is after `date_to`.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let all = notify.statistics().devices(&Default::default()).await?;
    /// println!("{} of {} enabled", all.total_enabled, all.total);
    /// # Ok(())
    /// # }
    /// ```
    fn devices(period: &DeviceStatisticsQuery) -> DeviceStatistics =
        Call::v1(Method::GET, &["statistics", "devices"])
            .filtered::<DeviceStatisticsQuery>(parameters::device_statistics(period));
}
