//! The server of a test.

use std::time::Duration;

use notify_client::Client;
use notify_core::{
    AppId, DeviceId, ListNotifications, Platform, PushKeys, PushSubscription, RegisterDevice,
    Subscribe, Timestamp, WebSubscription,
};
use notify_sandbox::{
    ReceivedRequest, Sandbox, ScriptedResponse, apns_token, fcm_token, messenger_recipient,
    telegram_chat,
};
use notify_server::test_server::{Failure, Message, TestServer as Server};

use crate::expectation::{DeliveryMismatch, Expectation};

/// The number of people on Messenger, and of Telegram chats. The id of a chat has at most ten digits.
const RECIPIENTS: u64 = 1_000_000_000;

/// A running server with one application, fake providers and a client. Dropping it ends everything without
/// waiting for the work in progress.
#[derive(Debug)]
pub struct TestServer {
    server: Server,
    client: Client,
}

impl TestServer {
    /// Starts a server with an empty database on a free port of the loopback interface.
    ///
    /// # Panics
    /// When there is no free port, or the temporary folder cannot be used.
    pub async fn start() -> Self {
        let server = must(Server::start().await, "start the server");
        let builder = Client::builder(server.origin());
        let builder = builder.api_key(server.api_key()).admin_key(server.admin_key());
        let client = must(builder.build(), "make the client");
        Self { server, client }
    }

    /// The url of the server, such as `http://127.0.0.1:40123`.
    #[must_use]
    pub fn url(&self) -> &str {
        self.server.origin()
    }

    /// The API key of the application.
    #[must_use]
    pub fn api_key(&self) -> &str {
        self.server.api_key()
    }

    /// The admin key.
    #[must_use]
    pub fn admin_key(&self) -> &str {
        self.server.admin_key()
    }

    /// The id of the application.
    #[must_use]
    pub fn app_id(&self) -> AppId {
        self.server.app_id()
    }

    /// A client with both keys.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The fake providers, for what this type has no function for.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        self.server.sandbox()
    }

    /// The time on the clock of the server and of its providers.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.server.now()
    }

    // -- Devices ---------------------------------------------------------------------------------------

    /// Registers an Android phone.
    pub async fn register_android(&self, device_id: impl AsRef<str>) -> DeviceId {
        let device_id = device_id.as_ref();
        let token = fcm_token(seed_of(device_id), &ScriptedResponse::ok());
        self.register(RegisterDevice::android(device_id, token)).await
    }

    /// Registers an iPhone.
    pub async fn register_ios(&self, device_id: impl AsRef<str>) -> DeviceId {
        let device_id = device_id.as_ref();
        let token = apns_token(seed_of(device_id), &ScriptedResponse::ok());
        self.register(RegisterDevice::ios(device_id, token)).await
    }

    /// Subscribes a browser.
    pub async fn subscribe_browser(&self, device_id: impl AsRef<str>) -> DeviceId {
        let subscribed = self.sandbox().subscribe(None, &ScriptedResponse::ok());
        let WebSubscription { endpoint, p256dh, auth } = must(subscribed, "subscribe the browser");
        let keys = PushKeys { p256dh, auth };
        let subscription = PushSubscription { endpoint, keys, ..PushSubscription::default() };
        self.subscribe(device_id.as_ref(), Subscribe::web(subscription)).await
    }

    /// Subscribes a person on Messenger.
    pub async fn subscribe_messenger(&self, device_id: impl AsRef<str>) -> DeviceId {
        let device_id = device_id.as_ref();
        let recipient =
            messenger_recipient(seed_of(device_id) % RECIPIENTS, &ScriptedResponse::ok());
        self.subscribe(device_id, Subscribe::messenger(recipient)).await
    }

    /// Subscribes a Telegram chat.
    pub async fn subscribe_telegram(&self, device_id: impl AsRef<str>) -> DeviceId {
        let device_id = device_id.as_ref();
        let chat = telegram_chat(seed_of(device_id) % RECIPIENTS, &ScriptedResponse::ok());
        self.subscribe(device_id, Subscribe::chat(chat)).await
    }

    async fn register(&self, device: RegisterDevice) -> DeviceId {
        let registered = self.client.devices().register(&device).await;
        must(registered, "register the device");
        must(device.device_id.parse(), "read the id of the device")
    }

    async fn subscribe(&self, device_id: &str, subscription: Subscribe) -> DeviceId {
        let subscription = Subscribe { device_id: Some(device_id.to_owned()), ..subscription };
        let subscribed = self.client.subscriptions().create(&subscription).await;
        must(subscribed, "subscribe the device").id
    }

    // -- What was delivered ----------------------------------------------------------------------------

    /// Waits until the server has sent everything that is due. Scheduled notifications, retries, and what
    /// waits for a rate or the end of a pause stay for later.
    ///
    /// # Panics
    /// When the server still has work after [`SETTLE_MAX`](crate::SETTLE_MAX).
    pub async fn settle(&self) {
        must(self.server.settle().await, "wait for the server");
    }

    /// Waits until the server has sent everything that is due, and returns the messages that the provider
    /// accepted for a device, the oldest first. The log keeps the last 10,000 messages of all devices.
    ///
    /// # Panics
    /// When there is no such device, or the server still has work after [`SETTLE_MAX`](crate::SETTLE_MAX).
    pub async fn delivered_to(&self, device_id: impl AsRef<str>) -> Vec<Message> {
        must(self.server.delivered_to(device_id.as_ref()).await, "read the messages")
    }

    /// Like [`delivered_to`](Self::delivered_to), with every request, also those that the provider refused.
    ///
    /// # Panics
    /// As `delivered_to`.
    pub async fn attempts_to(&self, device_id: impl AsRef<str>) -> Vec<ReceivedRequest> {
        must(self.server.attempts_to(device_id.as_ref()).await, "read the messages")
    }

    /// Forgets the messages that were delivered.
    pub fn forget_messages(&self) {
        self.server.forget_messages();
    }

    /// The first message to a device that is as expected. [`assert_delivered!`](crate::assert_delivered) calls
    /// it.
    ///
    /// # Errors
    /// When there is none, with what the device got, and why it did not get the last notification.
    ///
    /// # Panics
    /// As [`delivered_to`](Self::delivered_to).
    pub async fn check_delivered(
        &self,
        device_id: &str,
        expected: &Expectation,
    ) -> Result<Message, DeliveryMismatch> {
        let delivered = self.delivered_to(device_id).await;
        if let Some(message) = delivered.iter().find(|message| expected.matches(message)) {
            return Ok(message.clone());
        }
        let explanation = self.explain_last(device_id).await;
        Err(DeliveryMismatch::missing(device_id, expected, &delivered, explanation.as_deref()))
    }

    /// Checks that no message to a device is like this.
    /// [`assert_not_delivered!`](crate::assert_not_delivered) calls it.
    ///
    /// # Errors
    /// The messages that are.
    ///
    /// # Panics
    /// As [`delivered_to`](Self::delivered_to).
    pub async fn check_not_delivered(
        &self,
        device_id: &str,
        expected: &Expectation,
    ) -> Result<(), DeliveryMismatch> {
        let mut delivered = self.delivered_to(device_id).await;
        delivered.retain(|message| expected.matches(message));
        if delivered.is_empty() {
            return Ok(());
        }
        Err(DeliveryMismatch::unexpected(device_id, expected, &delivered))
    }

    /// Why a device did or did not get the last notification.
    async fn explain_last(&self, device_id: &str) -> Option<String> {
        let last = ListNotifications { limit: Some(1), ..ListNotifications::default() };
        let list = self.client.notifications().list(&last).await.ok()?;
        let Some(notification) = list.notifications.first() else {
            return Some("no notification was created".to_owned());
        };
        let device_id = DeviceId::new(device_id).ok()?;
        let explained = self.client.notifications().explain(&notification.id, &device_id).await;
        let summary = explained.ok()?.summary();
        let cause = summary.cause.map(|cause| format!(": {cause}")).unwrap_or_default();
        Some(format!("the last notification {}: {}{cause}", notification.id, summary.outcome))
    }

    // -- Time and failures -----------------------------------------------------------------------------

    /// Advances the clock of the server and of its providers. What becomes due on the way happens at its time,
    /// and has happened when this returns. The clock of the test itself does not change.
    ///
    /// # Panics
    /// When `by` is longer than [`ADVANCE_MAX`](crate::ADVANCE_MAX), when work becomes due at more than
    /// [`STOPS_MAX`](crate::STOPS_MAX) times on the way, and as [`settle`](Self::settle).
    pub async fn advance(&self, by: Duration) {
        must(self.server.advance(by).await, "advance the clock");
    }

    /// Makes the next `times` messages to a device fail. Replaces an earlier `fail_next` for this device.
    ///
    /// # Panics
    /// When there is no such device, it has no address, or `times` is 0.
    pub async fn fail_next(&self, device_id: impl AsRef<str>, failure: Failure, times: u32) {
        let set = self.server.fail_next(device_id.as_ref(), failure, times).await;
        must(set, "make the provider fail");
    }

    /// Makes all messages on a platform fail, until [`recover`](Self::recover). After several failures the
    /// server opens the circuit breaker of the platform, and sends only probes until one succeeds.
    ///
    /// # Panics
    /// When the sandbox has too many rules.
    pub fn fail(&self, platform: Platform, failure: Failure) {
        must(self.server.fail(platform, failure), "make the provider fail");
    }

    /// Removes all rules of the sandbox. A circuit breaker that is open closes after its next probe: advance the
    /// clock.
    pub fn recover(&self) {
        self.server.recover();
    }

    /// Stops the server after the work in progress has ended.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// A number that makes the address of a device, the same for the same id.
fn seed_of(device_id: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    device_id.hash(&mut hasher);
    hasher.finish()
}

fn must<T, E: std::error::Error>(result: Result<T, E>, what: &str) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("cannot {what}: {}", notify_server::error_chain(&error)),
    }
}
