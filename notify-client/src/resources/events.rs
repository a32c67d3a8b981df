//! Engagement events.

use notify_core::{EventsAccepted, ReportEvents};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Engagement events: notifications that devices received, opened, clicked or dismissed.
    Events from events;

    /// Reports 1 to 1,000 events: `POST /v1/events`. An event counts once per type, device and
    /// notification. The response lists the events that are ignored because an id is unknown.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if an event breaks a rule.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{ReportEvent, ReportEvents};
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let opened = ReportEvent {
    ///     kind: "opened".into(),
    ///     notification_id: "newsletter-2026-05".into(),
    ///     device_id: "pixel-7".into(),
    ///     at: None,
    /// };
    /// let accepted = notify.events().report(&ReportEvents { events: vec![opened] }).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn report(events: &ReportEvents) -> EventsAccepted =
        Call::v1(Method::POST, &["events"]).body(events);
}
