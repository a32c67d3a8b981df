//! Devices: registration, subscriptions, users, tags, attributes and engagement events.

use notify_core::{
    AppDevice, Device, DeviceId, DeviceList, DeviceRegistered, EventsAccepted, ListDevices, LogIn,
    PageQuery, PatchAttributes, RegisterDevice, ReportEvents, SetTags, Subscribe,
    SubscriptionCreated, TagList, UserId,
};
use reqwest::Method;

use super::check_name;
use crate::{call::Call, handle::handle};

handle! {
    /// Devices, with their tags, attributes and users.
    Devices from devices;

    /// Registers a device, or replaces every field of the device with that id: `POST /v1/devices`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::RegisterDevice;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let pixel = RegisterDevice {
    ///     device_id: "pixel-7".into(),
    ///     platform: "android".into(),
    ///     sdk_type: "android_push".into(),
    ///     push_token: Some("token".into()),
    ///     ..Default::default()
    /// };
    /// notify.devices().register(&pixel).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn register(device: &RegisterDevice) -> DeviceRegistered =
        Call::v1(Method::POST, &["devices"]).body(device);

    /// Reads a device: `GET /v1/devices/:device_id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::DeviceId;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let device = notify.devices().get(&DeviceId::new("pixel-7")?).await?;
    /// println!("{}", device.enabled);
    /// # Ok(())
    /// # }
    /// ```
    fn get(id: &DeviceId) -> Device = Ok(Call::v1(Method::GET, &["devices", id.as_str()]));

    /// Erases a device and all data about it: `DELETE /v1/devices/:device_id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::DeviceId;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// notify.devices().delete(&DeviceId::new("pixel-7")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn delete(id: &DeviceId) -> () =
        Ok(Call::v1(Method::DELETE, &["devices", id.as_str()]).discard_response());

    /// Sets tags of a device: `POST /v1/devices/:device_id/tags`. The other tags of the device stay.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if a name occurs twice; [`crate::Error::NotFound`] if the id
    /// is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{DeviceId, SetTags, Tag, TagType};
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let sports = Tag { name: "sports".into(), kind: TagType::Bool, value: true };
    /// let tags = SetTags { tags: vec![sports] };
    /// notify.devices().set_tags(&DeviceId::new("pixel-7")?, &tags).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn set_tags(id: &DeviceId, tags: &SetTags) -> () =
        Call::v1(Method::POST, &["devices", id.as_str(), "tags"]).discard_response().body(tags);

    /// Removes a tag of a device: `DELETE /v1/devices/:device_id/tags/:name`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the device or the tag is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::DeviceId;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// notify.devices().remove_tag(&DeviceId::new("pixel-7")?, "sports").await?;
    /// # Ok(())
    /// # }
    /// ```
    fn remove_tag(id: &DeviceId, name: &str) -> () =
        check_name(name).map(|name| {
            Call::v1(Method::DELETE, &["devices", id.as_str(), "tags", name]).discard_response()
        });

    /// Sets and removes attributes of a device: `PATCH /v1/devices/:device_id/attributes`. The other
    /// attributes of the device stay. An attribute of a device hides the one of its user with the same name.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the change breaks a rule; [`crate::Error::NotFound`] if the id is
    /// unknown; [`crate::Error::Rejected`] if the device would have more than 100 attributes.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{DeviceId, PatchAttributes};
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let change = PatchAttributes::default().set("plan", "pro").set("seats", 3).remove("trial");
    /// notify.devices().update_attributes(&DeviceId::new("pixel-7")?, &change).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn update_attributes(id: &DeviceId, change: &PatchAttributes) -> () =
        Call::v1(Method::PATCH, &["devices", id.as_str(), "attributes"])
            .discard_response()
            .body(change);

    /// Logs a device in as a user, and out of any other user: `PUT /v1/devices/:device_id/user`. The
    /// user is created if necessary. A user has at most 100 devices: if this is one more, another device is
    /// logged out.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the device is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{DeviceId, UserId};
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// notify.devices().log_in(&DeviceId::new("pixel-7")?, &UserId::new("user-7")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn log_in(id: &DeviceId, user: &UserId) -> () =
        Call::v1(Method::PUT, &["devices", id.as_str(), "user"])
            .discard_response()
            .body(&LogIn::new(user.as_str()));

    /// Logs a device out: `DELETE /v1/devices/:device_id/user`. Succeeds even if no user is logged in.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the device is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::DeviceId;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// notify.devices().log_out(&DeviceId::new("pixel-7")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn log_out(id: &DeviceId) -> () =
        Ok(Call::v1(Method::DELETE, &["devices", id.as_str(), "user"]).discard_body());

    /// Creates a secret for an Android or iOS device that was registered with an API key, and replaces its
    /// current one: `POST /v1/devices/:device_id/secret`. With the secret and a publishable key, the app
    /// manages the device itself. Only this response contains the secret.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the device is unknown; [`crate::Error::Rejected`] if it is of another
    /// platform.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::DeviceId;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let secret = notify.devices().create_secret(&DeviceId::new("pixel-7")?).await?.device_secret;
    /// # Ok(())
    /// # }
    /// ```
    fn create_secret(id: &DeviceId) -> AppDevice =
        Ok(Call::v1(Method::POST, &["devices", id.as_str(), "secret"]));

    paged {
        /// One page of the devices that match every filter: `GET /v1/devices`. With a `state` or a
        /// `segment`, a page may have fewer entries than `limit`; the last page has no `next_cursor`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000; [`crate::Error::Rejected`] if the
        /// segment is unknown.
        ///
        /// ```no_run
        /// # use notify_client::notify_core::{DeviceState, ListDevices, Platform};
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let unregistered_ios = ListDevices {
        ///     platform: Some(Platform::Ios),
        ///     state: Some(DeviceState::Unregistered),
        ///     ..Default::default()
        /// };
        /// let page = notify.devices().list(&unregistered_ios).await?;
        /// # Ok(())
        /// # }
        /// ```
        fn list;

        /// All devices, starting with the page that the query selects.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.devices().all(&Default::default());
        /// while let Some(device) = all.next().await {
        ///     println!("{}", device?.device_id);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all;

        (query: &ListDevices) -> DeviceList =
            Call::v1(Method::GET, &["devices"]).query(query);
    }
}

handle! {
    /// Subscriptions of browsers, Messenger users and chats, which become devices.
    Subscriptions from subscriptions;

    /// Subscribes a browser, a Messenger user or a chat: `POST /v1/subscriptions`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule; [`crate::Error::Rejected`] if its
    /// `device_id` belongs to a device of another platform.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::Subscribe;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let chat = Subscribe {
    ///     platform: "chatapp".into(),
    ///     recipient_id: Some("4711".into()),
    ///     ..Default::default()
    /// };
    /// let device_id = notify.subscriptions().create(&chat).await?.id;
    /// # Ok(())
    /// # }
    /// ```
    fn create(subscription: &Subscribe) -> SubscriptionCreated =
        Call::v1(Method::POST, &["subscriptions"]).body(subscription);
}

handle! {
    /// The tags of the application's devices.
    Tags from tags;

    paged {
        /// One page of the tags, by name: `GET /v1/tags`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// for tag in notify.tags().list(&Default::default()).await?.tags {
        ///     println!("{}: {}", tag.name, tag.devices);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn list;

        /// All tags, starting with the page that the query selects.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.tags().all(&Default::default());
        /// while let Some(tag) = all.next().await {
        ///     println!("{}", tag?.name);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all;

        (query: &PageQuery) -> TagList =
            Call::v1(Method::GET, &["tags"]).query(query);
    }
}

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
