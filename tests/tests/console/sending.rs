//! The send page: its preview, its problems, and that what it sends arrives once and as previewed.

use anyhow::{Context, Result};
use notify_client::Client;
use notify_core::{ListNotifications, NotificationId, Timestamp};
use notify_sandbox::ScriptedResponse;
use notify_server::store::sqlite::Fault;
use notify_tests::{
    Operator, Response, TestServer, android as android_device, completed, configure_all, crowd,
    ios, register, unlimited,
};
use serde_json::{Value, json};

use crate::{MARKUP, android, first_app, operator};

/// An operator on the send page of the first application.
struct Sender {
    server: TestServer,
    operator: Operator,
    base: String,
}

impl Sender {
    async fn on(server: TestServer) -> Result<Self> {
        let operator = operator(&server).await?;
        let base = format!("apps/{}", first_app(&server).await);
        Ok(Self { server, operator, base })
    }

    async fn open(&self, query: &str) -> Response {
        self.operator.get(&format!("{}/send{query}", self.base)).await
    }

    async fn submit(&self, fields: &[(&str, &str)]) -> Result<Response> {
        self.operator.submit(&format!("{}/send", self.base), fields).await
    }

    async fn preview(&self, fields: &[(&str, &str)]) -> Result<Response> {
        let page = self.submit(&[fields, &[("do", "preview")]].concat()).await?;
        assert_eq!(page.status, 200, "{}", page.text);
        Ok(page)
    }

    async fn press_send(&self, fields: &[(&str, &str)]) -> Result<Response> {
        self.submit(&[fields, &[("do", "send")]].concat()).await
    }

    /// The texts of all notifications, newest first.
    async fn sent(&self) -> Result<Vec<String>> {
        let list = self.server.client().notifications().list(&ListNotifications::default()).await?;
        let texts = list.notifications.iter().map(|record| {
            let request: Value = serde_json::from_str(record.request.as_str()).unwrap();
            request["text"].as_str().unwrap_or_default().to_owned()
        });
        Ok(texts.collect())
    }
}

/// The page to which a response leads after sending, and the id of the notification.
#[track_caller]
fn sent_id(response: &Response) -> NotificationId {
    assert_eq!(response.status, 303, "{}", response.text);
    let location = response.header("location");
    let id = location.strip_prefix("notifications/").and_then(|rest| rest.split('?').next());
    assert!(location.ends_with("?done=sent"), "{location}");
    NotificationId::new(id.unwrap()).unwrap()
}

/// The text of the element that begins with this tag, without entities.
fn element<'p>(page: &'p str, tag: &str) -> &'p str {
    let rest = page.split_once(tag).unwrap_or_else(|| panic!("no {tag}: {page}")).1;
    rest.split('<').next().unwrap()
}

/// A JSON text in the page.
fn json_in(page: &str, tag: &str) -> Value {
    let text = element(page, tag);
    let text = text.replace("&#34;", "\"").replace("&#39;", "'").replace("&#60;", "<");
    let text = text.replace("&#62;", ">").replace("&#38;", "&");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn key_of(page: &str) -> String {
    let rest = page.split_once("name=\"key\" value=\"").unwrap().1;
    rest.split('"').next().unwrap().to_owned()
}

/// The problem that stands at a field.
fn problem_at<'p>(page: &'p str, field: &str) -> &'p str {
    let rest = page.split_once(&format!("id=\"{field}-problem\"")).unwrap().1;
    let rest = rest.split_once('>').unwrap().1;
    rest.strip_prefix("<p class=\"error\">").map_or("", |rest| rest.split('<').next().unwrap())
}

async fn phones(client: &Client) -> Result<()> {
    let ok = ScriptedResponse::ok();
    register(client, [android_device(1, &ok), ios(2, &ok)]).await
}

#[tokio::test]
async fn no_platform_is_preselected() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    phones(&sender.server.client()).await?;
    let page = sender.open("").await.text;
    assert_eq!(page.matches("name=\"platform\"").count(), 5);
    let (form, _) = page.split_once("<aside").unwrap();
    let boxes = form.split("type=\"checkbox\"").skip(1);
    let count = boxes.clone().count();
    assert_eq!(count, 9, "five platforms, two kinds, the local time, and the pause after a canary");
    assert!(boxes.into_iter().all(|rest| !rest.split('>').next().unwrap().contains("checked")));
    assert!(page.contains("Still missing: a text and a recipient."), "{page}");
    let refused = sender.press_send(&[("text", "Hello")]).await?;
    let choose = "choose a platform, or enter users or devices";
    assert_eq!(problem_at(&refused.text, "platforms"), choose);
    assert!(refused.text.contains(&format!("<li>To: {choose}</li>")));
    let fields = [("text", "Hello"), ("platform", "ios"), ("campaign", "spring"), ("tag", " ")];
    let refused = sender.press_send(&fields).await?;
    assert_eq!(problem_at(&refused.text, "campaign_id"), "There is no campaign with this id");
    assert!(!refused.text.contains("tags["), "no empty tag is sent");
    assert!(refused.text.contains("\nHello</textarea>"), "the input stays");
    assert_eq!(sender.sent().await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_preview_shows_count_drawing_payload_and_bytes() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    phones(&sender.server.client()).await?;
    let fields = [("text", "Dinner is ready"), ("platform", "android"), ("platform", "ios")];
    let first = sender.preview(&fields).await?.text;
    assert!(first.contains("Would reach <strong>2 devices</strong> now"), "{first}");
    for drawn in ["class=\"screen android\"", "class=\"screen ios\""] {
        assert!(first.contains(drawn), "{drawn}: {first}");
    }
    assert!(!first.contains("class=\"screen web\""), "the platform is not targeted");
    assert_eq!(first.matches("<p class=\"body\" dir=\"auto\">Dinner is ready</p>").count(), 2);
    assert!(first.contains("Send to 2 devices"), "{first}");
    let bytes =
        |page: &str| element(page, "aria-label=\"Size for Android\"></meter> <span>").to_owned();
    assert!(bytes(&first).ends_with(" of 4,096 bytes"), "{}", bytes(&first));
    let fields = [("text", "Dinner!"), ("platform", "android"), ("live", "1")];
    let second = sender.preview(&fields).await?.text;
    assert!(second.contains("<strong>1 device</strong>"), "{second}");
    assert!(!second.contains("class=\"screen ios\""), "{second}");
    assert_ne!(bytes(&first), bytes(&second));
    let payload = json_in(&second, "<code id=\"payload-android\">");
    assert_eq!(payload["message"]["notification"]["body"], "Dinner!");
    assert_eq!(sender.sent().await?, [""; 0], "nothing was sent");
    Ok(())
}

/// People would read the braces.
#[tokio::test]
async fn a_variable_that_is_not_replaced_is_a_problem() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    let fields = [("platform", "android"), ("text", "Hello {{first_name|you}}")];
    let warning =
        "personalize: is not set, so people see `{{first_name|you}}` and not the attribute";
    let page = sender.preview(&fields).await?.text;
    assert!(page.contains(&format!("<li>{warning}</li>")), "{page}");
    let personal = sender.preview(&[&fields[..], &[("personalize", "1")]].concat()).await?.text;
    assert!(!personal.contains("personalize: is not set"), "{personal}");
    Ok(())
}

#[tokio::test]
async fn while_typing_only_what_was_entered_is_a_problem() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    let page = sender.preview(&[("text", "Hi"), ("live", "1")]).await?.text;
    assert_eq!(problem_at(&page, "platforms"), "");
    assert!(page.contains("Still missing: a recipient"), "{page}");
    let refused = sender.press_send(&[("text", "Hi"), ("live", "1")]).await?.text;
    assert_ne!(problem_at(&refused, "platforms"), "", "sending leaves out no rule");
    let fields = [("text", "Hi"), ("url", "no url"), ("platform", "ios"), ("live", "1")];
    let page = sender.preview(&fields).await?.text;
    assert_ne!(problem_at(&page, "url"), "");
    assert!(page.contains("id=\"drawn\">"), "the last drawing stays");
    assert!(!page.contains("data-focus"), "the cursor stays where the operator types");
    Ok(())
}

#[tokio::test]
async fn raw_json_is_drawn_too() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    phones(&sender.server.client()).await?;
    let alert = json!({"title": "Own title", "body": "Own body"});
    let request = json!({"text": "Hi", "platforms": ["ios"],
        "ios_json": {"aps": {"alert": alert, "badge": 7, "sound": "default"}, "image_url": "http://x/y.png"}});
    let fields = [("mode", "json"), ("json", &request.to_string())];
    let page = sender.preview(&fields).await?.text;
    for drawn in [
        "<p class=\"title\" dir=\"auto\">Own title</p>",
        "<p class=\"body\" dir=\"auto\">Own body</p>",
        "<span class=\"count\">7</span>",
        "The console shows only images over https.",
    ] {
        assert!(page.contains(drawn), "{drawn}: {page}");
    }
    let broken = sender.preview(&[("mode", "json"), ("json", "{\"text\": }")]).await?.text;
    assert_ne!(problem_at(&broken, "json"), "");
    assert!(broken.contains("{&#34;text&#34;: }</textarea>"), "the input stays");
    sent_id(&sender.press_send(&fields).await?);
    Ok(())
}

#[tokio::test]
async fn payload_and_headers_equal_what_the_sandbox_received() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    let client = sender.server.client();
    phones(&client).await?;
    let fields = [
        ("text", "Line one\r\nLine two"),
        ("url", "https://shop.example/?a=1&b=2"),
        ("image_url", "https://shop.example/i.png"),
        ("title", "A <title>"),
        ("badge", "3"),
        ("ios_sound", "ping"),
        ("ttl", "600"),
        ("priority", "normal"),
        ("collapse_key", "dinner"),
        ("platform", "android"),
        ("platform", "ios"),
    ];
    let page = sender.preview(&fields).await?.text;
    let sent = sent_id(&sender.press_send(&fields).await?);
    completed(&client, &sent).await?;
    let received = sender.server.sandbox().received();
    // The preview has a placeholder for the device, and its notification has another id.
    for (platform, token, id) in [
        ("android", "/message/token", "/message/data/notification_id"),
        ("ios", "", "/notification_id"),
    ] {
        let mut previewed = json_in(&page, &format!("<code id=\"payload-{platform}\">"));
        let is_ios = platform == "ios";
        let message = received
            .iter()
            .find(|message| message.payload.get("aps").is_some() == is_ios)
            .context("the message arrived")?;
        assert_eq!(message.payload.pointer(id), Some(&json!(sent.as_str())));
        for pointer in [token, id].into_iter().filter(|pointer| !pointer.is_empty()) {
            *previewed.pointer_mut(pointer).unwrap() =
                message.payload.pointer(pointer).unwrap().clone();
        }
        assert_eq!(previewed, message.payload, "{platform}");
        let wire = page.split_once(&format!("id=\"wire-{platform}\"")).unwrap().1;
        let headers = wire.split_once("<dl").unwrap().1.split("</dl>").next().unwrap();
        let mut names = 0;
        for pair in headers.split("<dt>").skip(1) {
            let (name, rest) = pair.split_once("</dt><dd><code>").unwrap();
            let value = rest.split('<').next().unwrap();
            let arrived = message.headers.get(name).with_context(|| format!("{name} arrived"))?;
            // The id of the message and the end of its time follow from the notification.
            if !matches!(name, "apns-id" | "apns-expiration") {
                assert_eq!(arrived, value, "{name}");
            }
            names += 1;
        }
        assert_eq!(names, if is_ios { 6 } else { 1 }, "{headers}");
    }
    Ok(())
}

#[tokio::test]
async fn a_payload_of_4_097_bytes_is_barred_with_the_reason_at_the_field() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    phones(&sender.server.client()).await?;
    let to_ios =
        |text: String| vec![("text".to_owned(), text), ("platform".to_owned(), "ios".to_owned())];
    let size = async |letters: usize| -> Result<(usize, String)> {
        let fields = to_ios("x".repeat(letters));
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let page = sender.preview(&fields).await?.text;
        let shown = page.split_once("aria-label=\"Size for iOS\"").unwrap().1;
        let bytes = shown.split_once("<span").unwrap().1.split_once('>').unwrap().1;
        let bytes = bytes.split(" of ").next().unwrap().replace(',', "").parse()?;
        Ok((bytes, page))
    };
    // The title is shortened to make room, so that the size is exact only near the limit.
    let (mut letters, (mut bytes, mut page)) = (3_900, size(3_900).await?);
    while bytes != 4_097 {
        letters = letters + 4_097 - bytes;
        (bytes, page) = size(letters).await?;
    }
    assert_eq!(problem_at(&page, "text"), "4,097 bytes for iOS, at most 4,096 are allowed");
    let button = page.split_once("value=\"send\"").unwrap().1.split('>').next().unwrap();
    assert!(button.contains("disabled"), "{button}");
    let text = "x".repeat(letters);
    let refused = sender.press_send(&[("text", &text), ("platform", "ios")]).await?;
    assert_eq!(refused.status, 200);
    assert!(problem_at(&refused.text, "text").starts_with("4,097 bytes"), "{}", refused.text);
    assert_eq!(sender.sent().await?.len(), 0);
    let text = "x".repeat(letters - 1);
    sent_id(&sender.press_send(&[("text", &text), ("platform", "ios")]).await?);
    Ok(())
}

#[tokio::test]
async fn over_100_devices_nothing_goes_without_the_typed_number() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    let client = sender.server.client();
    register(&client, crowd(100)).await?;
    let fields = [("text", "Hi"), ("platform", "android"), ("platform", "ios")];
    let sent = sent_id(&sender.press_send(&fields).await?);
    completed(&client, &sent).await?;
    let ok = ScriptedResponse::ok();
    register(&client, [android_device(1_000, &ok)]).await?;
    let confirmed = |number| [&fields[..], &[("confirm", number)]].concat();
    for (typed, problem) in [
        ("", "type 101 to send to 101 devices"),
        ("all", "type 101 to send to 101 devices"),
        ("100", "it would reach 101 devices now: type 101 to send"),
    ] {
        let page = sender.press_send(&confirmed(typed)).await?;
        assert_eq!(page.status, 200);
        assert_eq!(problem_at(&page.text, "confirm"), problem);
    }
    // The number changes between the preview and sending.
    assert!(sender.preview(&fields).await?.text.contains("Type 101 to confirm"));
    register(&client, [android_device(1_001, &ok)]).await?;
    let page = sender.press_send(&confirmed("101")).await?;
    assert_eq!(
        problem_at(&page.text, "confirm"),
        "it would reach 102 devices now: type 102 to send"
    );
    assert_eq!(sender.sent().await?.len(), 1, "only the first one");
    sent_id(&sender.press_send(&confirmed("102")).await?);
    assert_eq!(sender.sent().await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn two_presses_send_once() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    phones(&sender.server.client()).await?;
    let key = key_of(&sender.open("").await.text);
    let fields = [("text", "Hi"), ("platform", "ios"), ("key", key.as_str())];
    let page = sender.preview(&fields).await?;
    assert_eq!(key_of(&page.text), key, "a preview keeps the key");
    let (first, second) = tokio::join!(sender.press_send(&fields), sender.press_send(&fields));
    assert_eq!(sent_id(&first?), sent_id(&second?));
    assert_eq!(sender.sent().await?, ["Hi"]);
    assert_ne!(key_of(&sender.open("").await.text), key, "the next form has a fresh key");
    // The operator goes back, changes the text and sends that too.
    let changed = [("text", "Hi again"), fields[1], fields[2]];
    let asked = sender.press_send(&changed).await?;
    assert!(asked.text.contains("An earlier version of this form was sent already."));
    assert_eq!(sender.sent().await?, ["Hi"]);
    let key = key_of(&asked.text);
    sent_id(&sender.press_send(&[changed[0], changed[1], ("key", key.as_str())]).await?);
    assert_eq!(sender.sent().await?, ["Hi again", "Hi"]);
    Ok(())
}

#[tokio::test]
async fn after_a_503_the_form_stays_and_the_same_key_is_used() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    phones(&sender.server.client()).await?;
    let key = key_of(&sender.open("").await.text);
    let fields = [("text", "Hi"), ("platform", "ios"), ("key", key.as_str())];
    sender.server.store().fail(Fault::FailEveryCommit);
    let page = sender.press_send(&fields).await?;
    sender.server.store().remove_fault();
    assert_eq!(page.status, 503, "{}", page.text);
    assert!(page.text.contains("It may have been stored or not: press Send again"));
    assert_eq!(key_of(&page.text), key);
    assert!(page.text.contains("\nHi</textarea>"), "the input stays");
    sent_id(&sender.press_send(&fields).await?);
    assert_eq!(sender.sent().await?, ["Hi"]);
    Ok(())
}

#[tokio::test]
async fn links_fill_the_form_from_a_notification_or_for_a_device() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    let caller = sender.server.caller();
    caller.post("/v1/devices", &android(MARKUP)).await.ok();
    let request = json!({"text": MARKUP, "platforms": ["android"], "url": "myapp://kitchen"});
    let id = caller.post("/v1/notifications", &request).await.id();
    let base = &sender.base;
    let page = sender.operator.get(&format!("{base}/notifications/{id}")).await.text;
    assert!(page.contains(&format!("/send?from={id}")), "{page}");
    let page = sender.open(&format!("?from={id}")).await.text;
    assert!(
        page.contains("value=\"android\" checked") && page.contains("value=\"myapp://kitchen\"")
    );
    assert_eq!(json_in(&page, "<code id=\"request-json\">"), request);
    let device = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%26";
    let page = sender.operator.get(&format!("{base}/devices/{device}")).await.text;
    assert!(page.contains("/send?device=%3Cscript%3Ealert"), "{page}");
    let page = sender.open(&format!("?device={device}&text=Hello")).await.text;
    assert!(page.contains("Send to 1 device"), "{page}");
    assert!(!page.contains("<script>alert"));
    assert_eq!(
        json_in(&page, "<code id=\"request-json\">"),
        json!({"text": "Hello", "device_ids": [MARKUP]})
    );
    Ok(())
}

#[tokio::test]
async fn devices_without_a_provider_do_not_count() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    phones(&sender.server.client()).await?;
    let path = format!("/admin/v1/{}/providers/apns", sender.base);
    sender.server.admin().delete(&path).await.ok();
    let fields = [("text", "Hi"), ("platform", "android"), ("platform", "ios")];
    let page = sender.preview(&fields).await?.text;
    let reach = format!(
        "<p class=\"note warn\">Would reach <strong>1 device</strong> now; 1 iOS device cannot be \
         reached: <a href=\"../../{}/providers/apns\">APNs is not configured</a></p>",
        sender.base
    );
    assert!(page.contains(&reach), "{page}");
    assert!(page.contains("Send to 1 device<"), "{page}");
    Ok(())
}

#[tokio::test]
async fn a_notification_can_be_scheduled() -> Result<()> {
    // Its clock shows 2026-11-21.
    let server = TestServer::with_manual_clock(unlimited()).await;
    configure_all(&server.client(), server.app_id, server.sandbox()).await?;
    let sender = Sender::on(server).await?;
    sender.server.caller().post("/v1/devices", &android("phone")).await.ok();
    let fields = [("text", "Later"), ("platform", "android"), ("at", "2026-11-22T08:00")];
    let page = sender.preview(&fields).await?;
    assert!(page.text.contains("Schedule for 1 device"), "{}", page.text);
    let id = sent_id(&sender.press_send(&fields).await?);
    let record = sender.server.client().notifications().get(&id).await?;
    assert_eq!(
        (record.status.as_str(), record.send_at),
        ("scheduled", Some(Timestamp(1_795_334_400_000)))
    );
    Ok(())
}

#[tokio::test]
async fn a_time_in_the_past_is_refused_at_its_field() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    phones(&sender.server.client()).await?;
    for extra in [("local", "0"), ("local", "1")] {
        let fields = [("text", "Hi"), ("platform", "ios"), ("at", "2020-01-01T08:00"), extra];
        let page = sender.press_send(&fields).await?;
        let what = "This time is in the past. Leave it empty to send now.";
        assert_eq!(problem_at(&page.text, "send_at"), what);
        assert!(!page.text.contains("would be sent at once"), "{}", page.text);
    }
    assert_eq!(sender.sent().await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn without_provider_or_device_the_page_says_which_step_is_missing() -> Result<()> {
    let sender = Sender::on(TestServer::without_providers().await).await?;
    let page = sender.open("").await.text;
    assert!(
        page.contains("No provider is configured.")
            && page.contains("No device has registered yet.")
    );
    sender.server.caller().post("/v1/devices", &android("phone")).await.ok();
    let page = sender.open("").await.text;
    assert!(
        page.contains("No provider is configured.") && !page.contains("No device has"),
        "{page}"
    );
    Ok(())
}

/// Registers two phones, logs the first one in as `ada`, who has the plan `pro`, and creates a segment of such devices.
async fn audience(sender: &Sender) -> Result<()> {
    phones(&sender.server.client()).await?;
    let caller = sender.server.caller();
    caller.patch("/v1/users/ada", &json!({"attributes": {"plan": "pro"}})).await.ok();
    caller.put("/v1/devices/a1/user", &json!({"user_id": "ada"})).await.ok();
    let condition = json!({"audience": {"attribute": "plan", "is": "pro"}});
    caller.put("/v1/segments/customers", &condition).await.ok();
    Ok(())
}

#[tokio::test]
async fn users_an_expression_and_a_segment_choose_the_devices() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    audience(&sender).await?;
    let all = [("text", "Hi"), ("platform", "android"), ("platform", "ios")];
    let ada = [("text", "Hi"), ("users", "ada,\r\nnobody")];
    for (fields, reach, request) in [
        (&all[..], "2 devices", json!({})),
        (
            &[&all[..], &[("audience", "plan = pro")]].concat(),
            "1 device",
            json!({"audience": {"attribute": "plan", "is": "pro"}}),
        ),
        (
            &[&all[..], &[("segment", "customers"), ("audience", "not platform = android")]]
                .concat(),
            "0 devices",
            json!({"audience": {"all": [{"segment": "customers"},
                {"not": {"field": "platform", "is": "android"}}]}}),
        ),
        (&ada, "1 device", json!({"user_ids": ["ada", "nobody"]})),
        (&[&ada[..], &[("platform", "ios")]].concat(), "0 devices", json!({"platforms": ["ios"]})),
    ] {
        let page = sender.preview(fields).await?.text;
        assert!(
            page.contains(&format!("Would reach <strong>{reach}</strong> now")),
            "{fields:?}: {page}"
        );
        let shown = json_in(&page, "<code id=\"request-json\">");
        for (name, value) in request.as_object().unwrap() {
            assert_eq!(&shown[name], value, "{fields:?}");
        }
    }
    let page = sender.preview(&ada).await?.text;
    assert!(page.contains("; 1 unknown user id"), "{page}");
    let command = element(&page, "<code id=\"request-command\">");
    assert_eq!(command, "notify send --text Hi --user ada --user nobody");
    let both = [("text", "Hi"), ("users", "ada"), ("devices", "a1")];
    let page = sender.press_send(&both).await?.text;
    assert_eq!(problem_at(&page, "user_ids"), "must not be combined with device ids");
    let id = sent_id(&sender.press_send(&ada).await?);
    let record = completed(&sender.server.client(), &id).await?;
    assert_eq!((record.counts.sent, record.users.map(|users| users.reached)), (1, Some(1)));
    Ok(())
}

#[tokio::test]
async fn a_wrong_audience_is_marked_and_nothing_is_sent_or_previewed_without_it() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    audience(&sender).await?;
    let with = |field: &'static str, value: &'static str| {
        [("text", "Hi"), ("platform", "android"), ("platform", "ios"), (field, value)]
    };
    for button in ["preview", "send"] {
        let wrong = with("audience", "plan = pro, team");
        let page = sender.submit(&[&wrong[..], &[("do", button)]].concat()).await?;
        assert_eq!(page.status, 200);
        let page = page.text;
        let what = problem_at(&page, "audience");
        assert_eq!(what, "expected `and`, `or` or the end");
        let place = element(&page, "aria-label=\"Where the condition is wrong\">");
        assert_eq!(place, "plan = pro, team\n          ^");
        assert!(page.contains(&format!("<li>Condition: {what}</li>")), "{page}");
        assert!(!page.contains("Would reach"), "{page}");
        assert!(page.contains("plan = pro, team</textarea>"), "the input stays: {page}");
        // The request that the page shows reaches no device.
        let shown = json_in(&page, "<code id=\"request-json\">");
        assert_eq!(shown["audience"], json!({"any": []}));
    }
    let live = [&with("audience", "plan = ")[..], &[("live", "1")]].concat();
    let page = sender.preview(&live).await?.text;
    assert_eq!(problem_at(&page, "audience"), "", "{page}");
    assert!(page.contains("Still missing: the end of the condition."), "{page}");
    assert!(page.contains("id=\"drawn\">"), "the last drawing stays");
    let page = sender.press_send(&live).await?.text;
    assert_eq!(problem_at(&page, "audience"), "expected a value");
    let page = sender.press_send(&with("segment", "gone")).await?.text;
    assert_eq!(problem_at(&page, "audience"), "there is no segment `gone`");
    assert!(page.contains("<option value=\"gone\" selected>gone (deleted)</option>"), "{page}");
    let page = sender.press_send(&with("users", ",")).await?.text;
    assert_eq!(problem_at(&page, "user_ids"), "must hold at least 1 id when it is given");
    assert_eq!(sender.sent().await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn links_fill_the_form_for_a_user_or_a_segment() -> Result<()> {
    let sender = Sender::on(TestServer::start().await).await?;
    audience(&sender).await?;
    let page = sender.open("?user=ada&text=Hello").await.text;
    assert!(page.contains("Send to 1 device"), "{page}");
    let page = sender.open("?segment=customers&text=Hello").await.text;
    assert!(page.contains("<option value=\"customers\" selected>"), "{page}");
    assert!(page.contains("Still missing: a recipient"), "a segment is not a target: {page}");
    Ok(())
}
