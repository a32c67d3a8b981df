//! The control API. It requires no key, so the port must be reachable only by its operator. It refuses
//! requests of web pages ([`crate::own_callers`]).
//!
//! | call | effect or response |
//! |---|---|
//! | `GET /` | the page: the last messages |
//! | `GET /sandbox/config`, `/sandbox/config/apns`, …`/fcm`, …`/webpush`, …`/messenger`, …`/telegram` | the bodies for `PUT …/providers/:provider` |
//! | `GET /sandbox/ca.pem` | the certificate to trust |
//! | `GET /sandbox/received?provider=&token=&limit=` | the last messages, oldest first |
//! | `DELETE /sandbox/received` | clears the messages and the counts |
//! | `GET /sandbox/counts` | how often each response was given |
//! | `GET`, `POST`, `DELETE /sandbox/rules` | a [`Rule`] as JSON, or a list of them |
//! | `POST /sandbox/subscriptions` | subscribes a browser: `{application_server_key?, keys?, script?}` |
//! | `DELETE /sandbox/connections` | closes every open connection, including the caller's |
//! | `POST /sandbox/tokens` | sets the environment and topic of an APNs token: `{token, environment?, topic?}` |
//! | `GET`, `POST /sandbox/settings` | [`Settings`]; an absent field keeps its value |

use bytes::Bytes;
use http::{Method, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::handler::{Request, json, respond};
use crate::request_log::ReceivedRequest;
use crate::rules::Rule;
use crate::script::Provider;
use crate::state::{SandboxState, Settings, TokenInfo};
use crate::{own_callers, page, webpush};

/// The number of messages that one response lists by default.
const RECEIVED_LISTED_DEFAULT: usize = 1_000;

/// The providers that receive messages.
const PROVIDERS: [Provider; 5] =
    [Provider::Apns, Provider::Fcm, Provider::WebPush, Provider::Messenger, Provider::Telegram];

/// Why a request is refused.
enum ControlError {
    Invalid(String),
    Foreign(&'static str),
    NotFound,
    MethodNotAllowed,
}

type ControlResult = Result<Response<Bytes>, ControlError>;

/// Responds to a request that is not for a provider.
pub(crate) fn handle(state: &SandboxState, request: &Request) -> Response<Bytes> {
    let (status, error) = match route(state, request) {
        Ok(response) => return response,
        Err(ControlError::Invalid(error)) => (400, error),
        Err(ControlError::Foreign(error)) => (403, error.to_owned()),
        Err(ControlError::NotFound) => (404, "no such path".to_owned()),
        Err(ControlError::MethodNotAllowed) => (405, "no such method on this path".to_owned()),
    };
    json(status, &json!({ "errors": [error] }))
}

fn route(state: &SandboxState, request: &Request) -> ControlResult {
    let head = &request.head;
    if let Some(error) = own_callers::refusal(state.address, &head.uri, &head.headers) {
        return Err(ControlError::Foreign(error));
    }
    let method = &request.head.method;
    match request.head.uri.path() {
        "/" => get(method, || page::render(state)),
        page::SCRIPT_PATH => get(method, page::script),
        "/sandbox/config" => get(method, || ok(&configs(state))),
        "/sandbox/ca.pem" => {
            get(method, || respond(200, "application/x-pem-file", state.credentials.ca_pem.clone()))
        }
        "/sandbox/counts" => get(method, || ok(&state.log.counts())),
        "/sandbox/received" if method == Method::DELETE => {
            state.log.clear();
            Ok(ok(&json!({})))
        }
        "/sandbox/received" => {
            let received = received(state, request)?;
            get(method, || ok(&json!({ "received": received })))
        }
        "/sandbox/connections" if method == Method::DELETE => {
            state.drop_connections();
            Ok(ok(&json!({})))
        }
        "/sandbox/connections" => Err(ControlError::MethodNotAllowed),
        "/sandbox/rules" => rules(state, request),
        "/sandbox/subscriptions" => subscribe(state, request),
        "/sandbox/tokens" => set_token_info(state, request),
        "/sandbox/settings" => settings(state, request),
        path => {
            let provider = path.strip_prefix("/sandbox/config/").and_then(messaging_provider);
            let provider = provider.ok_or(ControlError::NotFound)?;
            get(method, || ok(&state.config(provider)))
        }
    }
}

fn get(method: &Method, response: impl FnOnce() -> Response<Bytes>) -> ControlResult {
    if method == Method::GET { Ok(response()) } else { Err(ControlError::MethodNotAllowed) }
}

fn ok(body: &impl serde::Serialize) -> Response<Bytes> {
    json(200, body)
}

fn configs(state: &SandboxState) -> Value {
    PROVIDERS.iter().map(|provider| (provider.as_str(), state.config(*provider))).collect()
}

fn messaging_provider(name: &str) -> Option<Provider> {
    PROVIDERS.into_iter().find(|provider| provider.as_str() == name)
}

fn received(state: &SandboxState, request: &Request) -> Result<Vec<ReceivedRequest>, ControlError> {
    let query = request.head.uri.query().unwrap_or_default();
    let (mut provider, mut token, mut limit) = (None, None, RECEIVED_LISTED_DEFAULT);
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let invalid = |rule: &str| ControlError::Invalid(format!("{name}: {rule}"));
        match name.as_ref() {
            "provider" => {
                let rule = || invalid("must be apns, fcm, webpush, messenger or telegram");
                provider = Some(messaging_provider(&value).ok_or_else(rule)?);
            }
            "token" => token = Some(value.into_owned()),
            "limit" => limit = value.parse().map_err(|_| invalid("must be a number"))?,
            _ => return Err(invalid("is not a parameter")),
        }
    }
    let mut entries = state.log.entries();
    entries.retain(|entry| {
        provider.is_none_or(|wanted| entry.provider == wanted)
            && (token.is_none() || entry.token == token)
    });
    let surplus = entries.len().saturating_sub(limit);
    Ok(entries.split_off(surplus))
}

fn rules(state: &SandboxState, request: &Request) -> ControlResult {
    match request.head.method {
        Method::GET => Ok(ok(&json!({ "rules": state.rules.all() }))),
        Method::DELETE => {
            state.rules.clear();
            Ok(ok(&json!({})))
        }
        Method::POST => {
            let rules = match parse(request)? {
                Value::Array(list) => list,
                rule => vec![rule],
            };
            for rule in rules {
                let rule: Rule = serde_json::from_value(rule).map_err(|error| invalid(&error))?;
                state.rules.add(rule).map_err(|error| ControlError::Invalid(error.to_string()))?;
            }
            Ok(ok(&json!({ "rules": state.rules.all() })))
        }
        _ => Err(ControlError::MethodNotAllowed),
    }
}

fn set_token_info(state: &SandboxState, request: &Request) -> ControlResult {
    #[derive(Deserialize)]
    struct Body {
        token: String,
        #[serde(flatten)]
        info: TokenInfo,
    }

    if request.head.method != Method::POST {
        return Err(ControlError::MethodNotAllowed);
    }
    let body: Body = parse(request)?;
    state.set_token_info(&body.token, body.info);
    Ok(ok(&json!({})))
}

/// Responds with the JSON form of the browser's `PushSubscription`.
fn subscribe(state: &SandboxState, request: &Request) -> ControlResult {
    #[derive(Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Body {
        application_server_key: Option<String>,
        keys: Option<webpush::BrowserKeys>,
        script: String,
    }

    if request.head.method != Method::POST {
        return Err(ControlError::MethodNotAllowed);
    }
    let body: Body = if request.body.is_empty() { Body::default() } else { parse(request)? };
    let key = body.application_server_key.as_deref();
    let subscription = webpush::subscribe(state, key, body.keys, &body.script)
        .map_err(|error| ControlError::Invalid(error.to_string()))?;
    Ok(ok(&json!({
        "endpoint": subscription.endpoint,
        "expirationTime": null,
        "keys": { "p256dh": subscription.p256dh, "auth": subscription.auth },
    })))
}

fn settings(state: &SandboxState, request: &Request) -> ControlResult {
    match request.head.method {
        Method::GET => {}
        Method::POST => {
            let changes: serde_json::Map<String, Value> = parse(request)?;
            let mut all =
                serde_json::to_value(state.settings.borrow().clone()).expect("settings are JSON");
            for (name, value) in changes {
                all[name] = value;
            }
            let changed: Settings = serde_json::from_value(all).map_err(|error| invalid(&error))?;
            state.settings.send_replace(changed);
        }
        _ => return Err(ControlError::MethodNotAllowed),
    }
    let current: Settings = state.settings.borrow().clone();
    Ok(ok(&current))
}

fn parse<Body: DeserializeOwned>(request: &Request) -> Result<Body, ControlError> {
    serde_json::from_slice(&request.body).map_err(|error| invalid(&error))
}

fn invalid(error: &serde_json::Error) -> ControlError {
    ControlError::Invalid(format!("body: {error}"))
}
