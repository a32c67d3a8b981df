//! A server that answers what a test says and keeps what it was asked.

use std::time::Duration;

use notify_client::{
    Client, ClientBuilder,
    notify_core::{CampaignId, DeviceId, NotificationId},
};
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::any};

pub(crate) const API_KEY: &str = "nk_test";
pub(crate) const ADMIN_KEY: &str = "na_test";
pub(crate) const ID: &str = "0190a3b2-7f00-7000-8000-000000000001";

/// An answer as the API gives it.
#[allow(clippy::needless_pass_by_value, reason = "it is called with literals")]
pub(crate) fn answer(status: u16, body: Value) -> ResponseTemplate {
    ResponseTemplate::new(status)
        .insert_header("x-request-id", "req-1")
        .set_body_raw(body.to_string(), "application/json; charset=utf-8")
}

pub(crate) struct Server(pub(crate) MockServer);

impl Server {
    /// Answers every request with this success.
    pub(crate) async fn answering(body: Value) -> Self {
        Self::giving(vec![answer(200, body)]).await
    }

    /// Gives these answers in turn; past the last one, none fits and wiremock answers 404.
    pub(crate) async fn giving(answers: Vec<ResponseTemplate>) -> Self {
        let server = MockServer::start().await;
        for answer in answers {
            Mock::given(any()).respond_with(answer).up_to_n_times(1).mount(&server).await;
        }
        Self(server)
    }

    /// A client of this server that retries at once.
    pub(crate) fn client(&self) -> Client {
        self.settings(Client::builder(&self.0.uri())).build().unwrap()
    }

    pub(crate) fn settings<C>(&self, builder: ClientBuilder<C>) -> ClientBuilder<C> {
        let at_once = Duration::from_millis(1);
        builder.api_key(API_KEY).admin_key(ADMIN_KEY).retries(2).retry_delays(at_once, at_once)
    }

    pub(crate) async fn requests(&self) -> Vec<Request> {
        self.0.received_requests().await.unwrap()
    }

    /// Checks that exactly this was asked, once: `METHOD path?query` and the whole body.
    pub(crate) async fn saw(&self, line: &str, body: Option<Value>) {
        let requests = self.requests().await;
        assert_eq!(requests.len(), 1, "{requests:?}");
        let request = &requests[0];
        assert_eq!(self::line(request), line);
        let sent = (!request.body.is_empty()).then(|| request.body_json::<Value>().unwrap());
        assert_eq!(sent, body, "{line}");
        assert_eq!(header(request, "accept"), Some("application/json"));
        assert_eq!(
            header(request, "user-agent"),
            Some(concat!("notify-client/", env!("CARGO_PKG_VERSION")))
        );
        assert_eq!(header(request, "content-type"), body.map(|_| "application/json"), "{line}");
        let under_v1 = request.url.path().starts_with("/v1/");
        let bearer = format!("Bearer {ADMIN_KEY}");
        assert_eq!(header(request, "x-api-key"), under_v1.then_some(API_KEY), "{line}");
        assert_eq!(header(request, "authorization"), (!under_v1).then_some(&*bearer), "{line}");
        let keyed = under_v1 && request.method.as_str() == "POST";
        assert_eq!(header(request, "idempotency-key").is_some(), keyed, "{line}");
    }
}

pub(crate) fn line(request: &Request) -> String {
    let query = request.url.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{} {}{query}", request.method, request.url.path())
}

pub(crate) fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    Some(request.headers.get(name)?.to_str().unwrap())
}

pub(crate) fn done() -> Value {
    json!({ "success": true })
}

pub(crate) fn notification_id() -> NotificationId {
    NotificationId::new("mine/1").unwrap()
}

pub(crate) fn device_id() -> DeviceId {
    DeviceId::new("a b/ü").unwrap()
}

pub(crate) fn campaign_id() -> CampaignId {
    ID.parse().unwrap()
}
