//! Building registrations in code.

use super::{PushSubscription, RegisterDevice, Subscribe};
use crate::{IosEnv, Platform};

impl RegisterDevice {
    /// A registration of an Android device and its FCM registration token.
    ///
    /// ```
    /// use notify_core::{RegisterDevice, Request, Timestamp};
    ///
    /// let mut device = RegisterDevice::android("device-1", "token-1");
    /// device.language = Some("en".into());
    /// assert!(device.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn android(device_id: impl Into<String>, push_token: impl Into<String>) -> Self {
        Self::on("android", "android_push", device_id.into(), push_token.into())
    }

    /// A registration of an iOS device and its APNs device token.
    #[must_use]
    pub fn ios(device_id: impl Into<String>, push_token: impl Into<String>) -> Self {
        Self::on("ios", "ios_push", device_id.into(), push_token.into())
    }

    /// The APNs host that the token of an iOS device belongs to.
    #[must_use]
    pub fn ios_env(mut self, env: IosEnv) -> Self {
        self.ios_env = Some(env.as_str().to_owned());
        self
    }

    fn on(platform: &str, sdk_type: &str, device_id: String, push_token: String) -> Self {
        Self {
            device_id,
            platform: platform.to_owned(),
            sdk_type: sdk_type.to_owned(),
            push_token: Some(push_token),
            ..Self::default()
        }
    }
}

impl Subscribe {
    /// A subscription of a browser.
    #[must_use]
    pub fn web(subscription: PushSubscription) -> Self {
        Self {
            platform: Platform::Web.as_str().to_owned(),
            subscription: Some(subscription),
            ..Self::default()
        }
    }

    /// A subscription of a person on Messenger, by page-scoped id.
    #[must_use]
    pub fn messenger(recipient_id: impl Into<String>) -> Self {
        Self::person(Platform::FbMessenger, recipient_id.into())
    }

    /// A subscription of a chat of the chat app, by chat id.
    ///
    /// ```
    /// use notify_core::{Request, Subscribe, Timestamp};
    ///
    /// assert!(Subscribe::chat("123456789").validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn chat(recipient_id: impl Into<String>) -> Self {
        Self::person(Platform::ChatApp, recipient_id.into())
    }

    fn person(platform: Platform, recipient_id: String) -> Self {
        Self {
            platform: platform.as_str().to_owned(),
            recipient_id: Some(recipient_id),
            ..Self::default()
        }
    }
}
