//! The scripting API and the page. It is for whoever runs the sandbox: it has no key, and it must
//! not be reachable by others.
//!
//! | call | what |
//! |---|---|
//! | `GET /` | the page: the last messages |
//! | `GET /sandbox/config`, `/sandbox/config/apns`, …`/fcm`, …`/webpush`, …`/messenger`, …`/telegram` | what to configure: the bodies of `PUT …/providers/:provider` |
//! | `GET /sandbox/ca.pem` | the certificate to trust |
//! | `GET /sandbox/received?provider=&token=&limit=` | the last messages, oldest first |
//! | `DELETE /sandbox/received` | forgets them, and the counts |
//! | `GET /sandbox/counts` | how often each answer was given |
//! | `GET`, `POST`, `DELETE /sandbox/rules` | a [`Rule`] as JSON, or a list of them |
//! | `POST /sandbox/subscriptions` | `{application_server_key?, keys?, script?}`: subscribes a browser |
//! | `DELETE /sandbox/connections` | ends every open connection, this one too |
//! | `POST /sandbox/tokens` | `{token, environment?, topic?}`: where an APNs token belongs |
//! | `GET`, `POST /sandbox/settings` | [`Settings`]; a field left out keeps its value |

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::Provider;
use super::exchange::{Call, json, respond};
use super::journal::Received;
use super::page;
use super::rules::Rule;
use super::scene::{Declared, Scene, Settings};
use super::webpush;

/// Messages that one answer lists unless told otherwise.
const RECEIVED_LISTED_DEFAULT: usize = 1_000;

/// Whose messages the journal holds.
const SENDERS: [Provider; 5] =
    [Provider::Apns, Provider::Fcm, Provider::WebPush, Provider::Messenger, Provider::Telegram];

/// Why a call is refused.
enum Refused {
    Invalid(String),
    NotFound,
    MethodNotAllowed,
}

type Answered = Result<Response<Bytes>, Refused>;

/// Answers a call that is no provider's.
pub(super) fn answer(scene: &Scene, call: &Call) -> Response<Bytes> {
    let (status, error) = match route(scene, call) {
        Ok(response) => return response,
        Err(Refused::Invalid(error)) => (StatusCode::BAD_REQUEST, error),
        Err(Refused::NotFound) => (StatusCode::NOT_FOUND, "no such path".to_owned()),
        Err(Refused::MethodNotAllowed) => {
            (StatusCode::METHOD_NOT_ALLOWED, "no such method on this path".to_owned())
        }
    };
    json(status, &json!({ "errors": [error] }))
}

fn route(scene: &Scene, call: &Call) -> Answered {
    let method = &call.head.method;
    match call.head.uri.path() {
        "/" => get(method, || page::render(scene)),
        page::SCRIPT_PATH => get(method, page::script),
        "/sandbox/config" => get(method, || ok(&config(scene))),
        "/sandbox/config/apns" => get(method, || ok(&scene.apns_config(0))),
        "/sandbox/config/fcm" => get(method, || ok(&scene.fcm_config())),
        "/sandbox/config/webpush" => get(method, || ok(&scene.webpush_config())),
        "/sandbox/config/messenger" => get(method, || ok(&scene.messenger_config())),
        "/sandbox/config/telegram" => get(method, || ok(&scene.telegram_config())),
        "/sandbox/ca.pem" => get(method, || {
            respond(StatusCode::OK, "application/x-pem-file", scene.credentials.ca_pem.clone())
        }),
        "/sandbox/counts" => get(method, || ok(&scene.journal.counts())),
        "/sandbox/received" if method == Method::DELETE => {
            scene.journal.clear();
            Ok(ok(&json!({})))
        }
        "/sandbox/received" => {
            let received = received(scene, call)?;
            get(method, || ok(&json!({ "received": received })))
        }
        "/sandbox/connections" if call.head.method == Method::DELETE => {
            scene.cut();
            Ok(ok(&json!({})))
        }
        "/sandbox/connections" => Err(Refused::MethodNotAllowed),
        "/sandbox/rules" => rules(scene, call),
        "/sandbox/subscriptions" => subscribe(scene, call),
        "/sandbox/tokens" => declare(scene, call),
        "/sandbox/settings" => settings(scene, call),
        _ => Err(Refused::NotFound),
    }
}

fn get(method: &Method, answer: impl FnOnce() -> Response<Bytes>) -> Answered {
    if method == Method::GET { Ok(answer()) } else { Err(Refused::MethodNotAllowed) }
}

fn ok(body: &impl serde::Serialize) -> Response<Bytes> {
    json(StatusCode::OK, body)
}

fn config(scene: &Scene) -> Value {
    json!({
        "apns": scene.apns_config(0),
        "fcm": scene.fcm_config(),
        "webpush": scene.webpush_config(),
        "messenger": scene.messenger_config(),
        "telegram": scene.telegram_config(),
    })
}

fn received(scene: &Scene, call: &Call) -> Result<Vec<Received>, Refused> {
    let query = call.head.uri.query().unwrap_or_default();
    let (mut provider, mut token, mut limit) = (None, None, RECEIVED_LISTED_DEFAULT);
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let invalid = |rule: &str| Refused::Invalid(format!("{name}: {rule}"));
        match name.as_ref() {
            "provider" => {
                let named = SENDERS.into_iter().find(|provider| provider.as_str() == value);
                let rule = || invalid("must be apns, fcm, webpush, messenger or telegram");
                provider = Some(named.ok_or_else(rule)?);
            }
            "token" => token = Some(value.into_owned()),
            "limit" => limit = value.parse().map_err(|_| invalid("must be a number"))?,
            _ => return Err(invalid("is not a parameter")),
        }
    }
    let mut entries = scene.journal.entries();
    entries.retain(|entry| {
        provider.is_none_or(|wanted| entry.provider == wanted)
            && (token.is_none() || entry.token == token)
    });
    let surplus = entries.len().saturating_sub(limit);
    Ok(entries.split_off(surplus))
}

fn rules(scene: &Scene, call: &Call) -> Answered {
    match call.head.method {
        Method::GET => Ok(ok(&json!({ "rules": scene.rules.all() }))),
        Method::DELETE => {
            scene.rules.clear();
            Ok(ok(&json!({})))
        }
        Method::POST => {
            let wanted = match parse(call)? {
                Value::Array(list) => list,
                one => vec![one],
            };
            for rule in wanted {
                let rule: Rule = serde_json::from_value(rule).map_err(|error| invalid(&error))?;
                scene.rules.add(rule).map_err(|error| Refused::Invalid(error.to_string()))?;
            }
            Ok(ok(&json!({ "rules": scene.rules.all() })))
        }
        _ => Err(Refused::MethodNotAllowed),
    }
}

fn declare(scene: &Scene, call: &Call) -> Answered {
    #[derive(Deserialize)]
    struct Body {
        token: String,
        #[serde(flatten)]
        declared: Declared,
    }

    if call.head.method != Method::POST {
        return Err(Refused::MethodNotAllowed);
    }
    let body: Body = parse(call)?;
    scene.declare(&body.token, body.declared);
    Ok(ok(&json!({})))
}

/// Answers what the browser's `PushSubscription` serialises to.
fn subscribe(scene: &Scene, call: &Call) -> Answered {
    #[derive(Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Body {
        application_server_key: Option<String>,
        keys: Option<webpush::BrowserKeys>,
        script: String,
    }

    if call.head.method != Method::POST {
        return Err(Refused::MethodNotAllowed);
    }
    let body: Body = if call.body.is_empty() { Body::default() } else { parse(call)? };
    let key = body.application_server_key.as_deref();
    let made = webpush::subscribe(scene, key, body.keys, &body.script)
        .map_err(|error| Refused::Invalid(error.to_string()))?;
    Ok(ok(&json!({
        "endpoint": made.endpoint,
        "expirationTime": null,
        "keys": { "p256dh": made.p256dh, "auth": made.auth },
    })))
}

fn settings(scene: &Scene, call: &Call) -> Answered {
    match call.head.method {
        Method::GET => {}
        Method::POST => {
            let changes: serde_json::Map<String, Value> = parse(call)?;
            let mut all =
                serde_json::to_value(scene.settings.borrow().clone()).expect("settings are JSON");
            for (name, value) in changes {
                all[name] = value;
            }
            let changed: Settings = serde_json::from_value(all).map_err(|error| invalid(&error))?;
            scene.settings.send_replace(changed);
        }
        _ => return Err(Refused::MethodNotAllowed),
    }
    let current: Settings = scene.settings.borrow().clone();
    Ok(ok(&current))
}

fn parse<Body: DeserializeOwned>(call: &Call) -> Result<Body, Refused> {
    serde_json::from_slice(&call.body).map_err(|error| invalid(&error))
}

fn invalid(error: &serde_json::Error) -> Refused {
    Refused::Invalid(format!("body: {error}"))
}
