//! Devices and their tags.

use notify_core::{Device, DeviceId, DeviceList, ListDevices, RegisterDevice, SetTags};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Devices and their tags.
    Devices from devices;

    /// Registers a device, or replaces every field of the one with that id: `POST /v1/devices`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if it breaks a rule.
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
    fn register(device: &RegisterDevice) -> () =
        Call::v1(Method::POST, &["devices"]).discard_response().body(device);

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

    /// Sets tags of a device, whose other tags stay: `POST /v1/devices/:device_id/tags`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if a name occurs twice; [`crate::Error::NotFound`] if the id
    /// names no device.
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
        tag_name(name).map(|name| {
            Call::v1(Method::DELETE, &["devices", id.as_str(), "tags", name]).discard_response()
        });

    paged {
        /// One page of the devices: `GET /v1/devices`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # use notify_client::notify_core::{ListDevices, Platform};
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let ios = ListDevices { platform: Some(Platform::Ios), ..Default::default() };
        /// let page = notify.devices().list(&ios).await?;
        /// # Ok(())
        /// # }
        /// ```
        fn list;

        /// All devices, starting with that page.
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

/// Rejects a name that would change the path of the request.
fn tag_name(name: &str) -> Result<&str, crate::Error> {
    let invalid = |rule: &str| crate::Error::Invalid(notify_core::Violations::one("name", rule));
    match name {
        "" => Err(invalid("must not be empty")),
        "." | ".." => Err(invalid("must not be `.` or `..`")),
        _ => Ok(name),
    }
}
