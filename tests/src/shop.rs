//! An installation with a history, as an operator has it after some days: the application "Shop" with people
//! on five platforms, notifications with failures, a campaign, a feed, a poll and webhooks; the application
//! "Courier", whose deliveries to APNs the guard has stopped; an application without anything; and the
//! playground.

use std::time::Duration;

use anyhow::{Context, Result};
use notify_client::Client;
use notify_core::{NotificationId, NotificationStatus, ProviderKind};
use notify_sandbox::{ScriptedResponse, apns_token, fcm_token, messenger_recipient, telegram_chat};
use notify_server::clock::Clock;
use serde_json::{Value, json};

use crate::{Caller, Site, TestServer, browser, configure_all, unlimited, until};

/// The people of the shop on Android, and as many on iOS.
const PHONES: u64 = 120;
/// The people of the shop with a browser, and as many on Messenger and in Telegram.
const OTHERS: u64 = 12;
/// The devices of the application whose key is for another topic. The guard stops at the 21st.
const COURIERS: u64 = 40;
/// The times from midnight to the first message of a day, from there to the second, and to midnight.
const MORNING: Duration = Duration::from_secs(8 * 3_600 + 11 * 60);
const NOON: Duration = Duration::from_secs(4 * 3_600 + 26 * 60);
const EVENING: Duration = Duration::from_secs(11 * 3_600 + 23 * 60);
/// How far ahead a notification is scheduled.
const SCHEDULED_AHEAD_MS: i64 = 10 * 3_600_000;
/// The time by which the clock advances while messages are sent.
const STEP: Duration = Duration::from_millis(200);
/// The failures of the shop's phones: each has a reason of the provider, and one in how many phones has it.
const FAILURES: [(u64, &str, &str); 2] =
    [(23, "UNREGISTERED", "Unregistered"), (37, "SENDER_ID_MISMATCH", "DeviceTokenNotForTopic")];
/// What the shop sends: a text, a link, a tag, and one in how many of those who get it open it.
const MESSAGES: [(&str, &str, &str, usize); 7] = [
    ("Your order is on its way 📦", "https://shop.example/orders/4711", "orders", 2),
    ("Good morning! Fresh bread until 10 o'clock", "https://shop.example/today", "news", 5),
    ("Only today: free delivery", "https://shop.example/delivery", "deals", 3),
    ("Your parcel is waiting at the counter", "https://shop.example/pickup", "orders", 2),
    ("The winter collection is here ❄️", "https://shop.example/winter", "news", 4),
    ("Back in stock: the blue teapot", "https://shop.example/teapot", "deals", 6),
    ("Thank you! How did you like your order?", "https://shop.example/review", "orders", 3),
];
const FEED: &str = r#"{"version": "https://jsonfeed.org/version/1.1", "title": "Shop stories",
    "items": [
    {"id": "1", "title": "How our tea is grown", "url": "https://shop.example/stories/tea",
     "date_published": "2026-11-20T08:00:00Z"},
    {"id": "2", "title": "Five gifts for cooks", "url": "https://shop.example/stories/gifts",
     "date_published": "2026-11-19T08:00:00Z"},
    {"id": "3", "title": "Open longer in December", "url": "https://shop.example/stories/open",
     "date_published": "2026-11-18T08:00:00Z"}]}"#;

/// The running installation.
pub struct Shop {
    /// The server, with a manual clock.
    pub server: TestServer,
    /// The admin key of an operator with a name.
    pub admin_key: String,
    /// The site with the shop's feed and the receiver of its webhooks.
    site: Site,
}

impl Shop {
    /// Starts the installation, with a history of this many days.
    ///
    /// # Errors
    /// When the server refuses a request.
    pub async fn open(days: usize) -> Result<Self> {
        let server = TestServer::with_manual_clock(unlimited()).await;
        let site =
            Site::start(&[("/feed.json", FEED.to_owned()), ("/hooks", String::new())]).await?;
        let name = json!({"name": "Ada Lovelace"});
        let key = server.admin().post("/admin/v1/keys", &name).await.ok();
        let admin_key = key["admin_key"].as_str().context("a key")?.to_owned();
        let shop = Self { server, admin_key, site };
        shop.furnish(days).await?;
        Ok(shop)
    }

    async fn furnish(&self, days: usize) -> Result<()> {
        let server = &self.server;
        let (admin, caller) = (Caller::admin(server.origin(), &self.admin_key), server.caller());
        let client = server.client();
        let app = server.app_id;
        admin.patch(&format!("/admin/v1/apps/{app}"), &json!({"name": "Shop"})).await.ok();
        configure_all(&client, app, server.sandbox()).await?;
        admin.post("/admin/v1/keys", &json!({"name": "Grace Hopper"})).await.ok();
        for name in ["backend", "newsletter job"] {
            admin.post(&format!("/admin/v1/apps/{app}/keys"), &json!({"name": name})).await.ok();
        }
        let web = json!({"allowed_origins": ["https://shop.example"], "allowed_tags": ["news"]});
        admin.put(&format!("/admin/v1/apps/{app}/web"), &web).await.ok();
        self.people(&client, &caller).await?;
        self.content(&caller).await;
        for day in 0..days {
            self.day(&caller, day).await?;
        }
        self.today(&caller).await?;
        self.courier().await?;
        admin.post("/admin/v1/apps", &json!({"name": "Loyalty card"})).await.id();
        self.playground(&admin).await
    }

    /// Registers the shop's people.
    async fn people(&self, client: &Client, caller: &Caller) -> Result<()> {
        let (models, phones) =
            (["pixel-9", "galaxy-s25", "fairphone-6"], ["iphone-17", "iphone-16"]);
        for (number, seed) in (0..PHONES).enumerate() {
            let failure = FAILURES.iter().find(|(every, ..)| seed % every == every - 1);
            let answer = |reason: Option<&str>| {
                reason.map_or_else(ScriptedResponse::ok, ScriptedResponse::reason)
            };
            let android = json!({"device_id": format!("{}-{seed:03}", models[number % 3]),
                "platform": "android", "sdk_type": "android_push",
                "push_token": fcm_token(seed, &answer(failure.map(|(_, fcm, _)| *fcm))),
                "app_version": "5.2.0", "os_version": "16", "language": "en", "country": "AT",
                "device_description": models[number % 3]});
            let ios = json!({"device_id": format!("{}-{seed:03}", phones[number % 2]),
                "platform": "ios", "sdk_type": "ios_push",
                "push_token": apns_token(seed, &answer(failure.map(|(_, _, apns)| *apns))),
                "app_version": "5.2.1", "os_version": "27.1", "language": "de", "country": "DE"});
            for device in [android, ios] {
                caller.post("/v1/devices", &device).await.ok();
                let id = device["device_id"].as_str().context("an id")?;
                let mut tags = vec!["orders"];
                tags.extend((seed % 3 != 0).then_some("news"));
                tags.extend((seed % 4 == 0).then_some("deals"));
                tag(caller, id, &tags).await;
            }
        }
        let ok = ScriptedResponse::ok();
        for seed in 0..OTHERS {
            let id = format!("firefox-{seed:03}");
            browser(client, self.server.sandbox(), &id, &ok).await?;
            tag(caller, &id, &["news"]).await;
            for (platform, recipient) in [
                ("fb-messenger", json!({"recipient_id": messenger_recipient(seed, &ok)})),
                ("chatapp", json!({"recipient_id": telegram_chat(seed, &ok)})),
            ] {
                let mut person = recipient;
                person["platform"] = json!(platform);
                caller.post("/v1/subscriptions", &person).await.ok();
            }
        }
        Ok(())
    }

    /// Creates a campaign, a feed and webhooks.
    async fn content(&self, caller: &Caller) {
        let feed =
            json!({"url": format!("{}/feed.json", self.site.origin), "name": "Shop stories"});
        let feed = caller.post("/v1/feeds", &feed).await.id();
        let campaign = json!({"name": "Daily stories", "layout_id": "content_with_two",
            "settings": {}, "is_default": true,
            "strings": [{"name": "recommendations_title", "translations": {"def": "More for you"}}],
            "features": [
                {"type": "content_feed", "position": 1, "data": {"feeds": [{"id": feed}]}},
                {"type": "action_button", "position": 1,
                    "data": {"type": "url", "title": "To the shop", "url": "https://shop.example/"}},
                {"type": "action_button", "position": 2, "data": {"type": "wa"}}]});
        caller.post("/v1/campaigns", &campaign).await.id();
        for (path, events) in
            [("hooks", json!(["notification.completed"])), ("gone", json!(["poll.answered"]))]
        {
            let webhook = json!({"url": format!("{}/{path}", self.site.origin), "events": events,
                "description": if path == "hooks" { "order system" } else { "old survey tool" }});
            caller.post("/v1/webhooks", &webhook).await.id();
        }
    }

    /// Sends the messages of a day.
    async fn day(&self, caller: &Caller, day: usize) -> Result<()> {
        for (number, after) in [MORNING, NOON].into_iter().enumerate() {
            self.server.clock().advance(after);
            // On every other day, only the first message is sent.
            if number > day % 2 {
                continue;
            }
            let (text, url, tag, opens) = MESSAGES[(day + number * 3) % MESSAGES.len()];
            let message = json!({"text": text, "url": url, "tags": [tag],
                "platforms": ["android", "ios", "web"]});
            let id = caller.post("/v1/notifications", &message).await.id();
            self.settle(&id).await?;
            self.engage(caller, &id, opens).await?;
        }
        self.server.clock().advance(EVENING);
        Ok(())
    }

    /// Reports that some of the devices received and opened a notification.
    async fn engage(&self, caller: &Caller, id: &str, opens: usize) -> Result<()> {
        let path = format!("/v1/notifications/{id}/deliveries?outcome=sent&limit=100");
        let deliveries = caller.get(&path).await.ok();
        let deliveries = deliveries["deliveries"].as_array().context("a list")?.iter().enumerate();
        let events: Vec<Value> = deliveries
            .flat_map(|(number, delivery)| {
                let kinds: &[&str] =
                    if number % opens == 0 { &["received", "opened"] } else { &["received"] };
                kinds.iter().map(|kind| {
                    json!({"type": kind, "notification_id": id, "device_id": delivery["device_id"]})
                })
            })
            .collect();
        caller.post("/v1/events", &json!({"events": events})).await.ok();
        Ok(())
    }

    /// Asks a question, sends to people in chats, schedules a notification, and sends to everyone.
    async fn today(&self, caller: &Caller) -> Result<()> {
        self.server.clock().advance(MORNING);
        let poll = json!({"platforms": ["android", "ios"], "tags": ["deals"], "poll": {
            "text": "Which tea shall we roast next?", "layout_id": "poll_text",
            "answers": [{"text": "Hojicha"}, {"text": "Kukicha"}, {"text": "Genmaicha"}]}});
        let poll = caller.post("/v1/notifications", &poll).await.id();
        self.settle(&poll).await?;
        let answers = caller.get(&format!("/v1/polls/{poll}")).await.ok();
        for (answer, clicks) in
            answers["answers"].as_array().context("answers")?.iter().zip([23, 9, 14])
        {
            let id = answer["id"].as_str().context("an id")?;
            for _ in 0..clicks {
                caller.post(&format!("/v1/polls/{poll}/answers/{id}"), &json!({})).await.ok();
            }
        }
        let later = json!({"text": "Black week begins at eight", "platforms": ["android", "ios"],
            "send_at": self.server.clock().now().plus_ms(SCHEDULED_AHEAD_MS)});
        caller.post("/v1/notifications", &later).await.id();
        self.server.clock().advance(Duration::from_secs(1_000));
        let sale = json!({"text": "The sale has begun: everything 20 % off",
            "url": "https://shop.example/sale",
            "platforms": ["android", "ios", "web", "fb-messenger", "chatapp"]});
        let sale = caller.post("/v1/notifications", &sale).await.id();
        self.settle(&sale).await?;
        self.engage(caller, &sale, 3).await
    }

    /// An application whose configuration is for another topic.
    async fn courier(&self) -> Result<()> {
        let (app, caller) = self.server.create_app("Courier").await;
        let app = app.parse()?;
        let client = self.server.client();
        let config = self.server.sandbox().apns_config();
        client.admin().put_provider(app, ProviderKind::Apns, &config).await?;
        let foreign = ScriptedResponse::reason("BadDeviceToken");
        for seed in 0..COURIERS {
            let device = json!({"device_id": format!("courier-{seed:02}"), "platform": "ios",
                "sdk_type": "ios_push", "push_token": apns_token(10_000 + seed, &foreign)});
            caller.post("/v1/devices", &device).await.ok();
        }
        let message = json!({"text": "A new tour is waiting", "platforms": ["ios"]});
        caller.post("/v1/notifications", &message).await.id();
        until("the guard stops the deliveries", async || {
            self.server.clock().advance(STEP);
            let provider = client.admin().get_provider(app, ProviderKind::Apns).await?;
            let provider = serde_json::to_value(provider)?;
            Ok((provider["channel"]["state"] == "stopped").then_some(()))
        })
        .await
    }

    /// The playground, whose devices got a message.
    async fn playground(&self, admin: &Caller) -> Result<()> {
        let playground = admin.post("/admin/v1/playground", &json!({})).await.ok();
        let key = playground["api_key"].as_str().context("a key")?;
        let hello = json!({"text": "Hello", "platforms": ["android", "ios", "chatapp"]});
        let id =
            Caller::app(self.server.origin(), key).post("/v1/notifications", &hello).await.id();
        self.settle_as(&Client::builder(self.server.origin()).api_key(key).build()?, &id).await
    }

    /// Advances the clock until a notification of the shop is completed.
    async fn settle(&self, id: &str) -> Result<()> {
        self.settle_as(&self.server.client(), id).await
    }

    /// Advances the clock until a notification of an application is completed.
    async fn settle_as(&self, client: &Client, id: &str) -> Result<()> {
        let id = NotificationId::new(id).map_err(anyhow::Error::msg)?;
        until("the notification is completed", async || {
            let record = client.notifications().get(&id).await?;
            if record.status == NotificationStatus::Completed {
                return Ok(Some(()));
            }
            self.server.clock().advance(STEP);
            Ok(None)
        })
        .await
    }

    /// Stops the server.
    pub async fn close(self) {
        self.server.stop().await;
    }
}

async fn tag(caller: &Caller, device: &str, names: &[&str]) {
    let tags = names.iter().map(|name| json!({"name": name, "type": "bool", "value": true}));
    let tags = json!({"tags": tags.collect::<Vec<_>>()});
    caller.post(&format!("/v1/devices/{device}/tags"), &tags).await.ok();
}
