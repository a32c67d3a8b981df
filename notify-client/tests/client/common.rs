//! A mock server that sends given responses and records its requests.

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

/// A response of the API.
#[allow(clippy::needless_pass_by_value, reason = "it is called with literals")]
pub(crate) fn response(status: u16, body: Value) -> ResponseTemplate {
    ResponseTemplate::new(status)
        .insert_header("x-request-id", "req-1")
        .set_body_raw(body.to_string(), "application/json; charset=utf-8")
}

pub(crate) struct Server(pub(crate) MockServer);

impl Server {
    /// Responds once, with this body.
    pub(crate) async fn with_body(body: Value) -> Self {
        Self::with_responses(vec![response(200, body)]).await
    }

    /// Sends these responses in turn; after the last one, wiremock responds with 404.
    pub(crate) async fn with_responses(responses: Vec<ResponseTemplate>) -> Self {
        let server = MockServer::start().await;
        for response in responses {
            Mock::given(any()).respond_with(response).up_to_n_times(1).mount(&server).await;
        }
        Self(server)
    }

    /// A client of this server that retries without delay.
    pub(crate) fn client(&self) -> Client {
        self.configure(Client::builder(&self.0.uri())).build().unwrap()
    }

    pub(crate) fn configure<C>(&self, builder: ClientBuilder<C>) -> ClientBuilder<C> {
        let no_delay = Duration::from_millis(1);
        builder.api_key(API_KEY).admin_key(ADMIN_KEY).retries(2).retry_delays(no_delay, no_delay)
    }

    pub(crate) async fn requests(&self) -> Vec<Request> {
        self.0.received_requests().await.unwrap()
    }

    /// Asserts that there was one request: `METHOD path?query` and the whole body.
    pub(crate) async fn assert_received(&self, line: &str, body: Option<Value>) {
        let requests = self.requests().await;
        assert_eq!(requests.len(), 1, "{requests:?}");
        let request = &requests[0];
        assert_eq!(self::line(request), line);
        let received_body =
            (!request.body.is_empty()).then(|| request.body_json::<Value>().unwrap());
        assert_eq!(received_body, body, "{line}");
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
        let takes_key = under_v1 && request.method.as_str() == "POST";
        assert_eq!(header(request, "idempotency-key").is_some(), takes_key, "{line}");
    }
}

pub(crate) fn line(request: &Request) -> String {
    let query = request.url.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{} {}{query}", request.method, request.url.path())
}

pub(crate) fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    Some(request.headers.get(name)?.to_str().unwrap())
}

pub(crate) fn success() -> Value {
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
