//! The page of received messages, and the instructions. The page escapes all text from requests,
//! loads nothing from other origins and runs only its own script.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderValue, Response, header};

use crate::handler::respond;
use crate::request_log::ReceivedRequest;
use crate::script::Environment;
use crate::state::SandboxState;

/// The number of messages on the page, newest first. `page.js` has the same limit.
const ROWS_MAX: usize = 200;

/// The address of the script.
pub(crate) const SCRIPT_PATH: &str = "/sandbox/page.js";
/// The addresses of the script and of the page on the page, which a proxy may serve below a prefix.
const SCRIPT_LINK: &str = "sandbox/page.js";
const PAGE_LINK: &str = "./";
const SCRIPT: &str = include_str!("page.js");

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// `overflow-anchor:none`: the script keeps the scroll position itself, because not every browser does.
// `table-layout:fixed`: column widths that depend on the messages would change the heights of rows when
// a message arrives.
const STYLE: &str = "html{overflow-anchor:none}\
    body{font:15px/1.45 system-ui,sans-serif;margin:2rem;max-width:75rem}\
    table{border-collapse:collapse;width:100%;table-layout:fixed}th:first-child{width:7em}\
    th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid #ccc}\
    td{overflow-wrap:anywhere}pre{margin:0;white-space:pre-wrap;max-width:40rem}\
    .refused td:nth-child(3){color:#a11}.check td,.check pre{color:#777}";

/// The page.
pub(crate) fn render(state: &SandboxState) -> Response<Bytes> {
    let (entries, received) = state.log.latest(ROWS_MAX);
    let counts = state.log.counts();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>Notify sandbox</title><style>{STYLE}</style>\
         <script src=\"{SCRIPT_LINK}\" defer></script></head><body><h1>Notify sandbox</h1>\
         <p><span id=\"counts\">Received: {}, accepted: {}, shown: the last {}.</span> \
         <a href=\"{PAGE_LINK}\">Reload</a></p><div id=\"messages\">",
        counts.received,
        counts.accepted,
        entries.len(),
    );
    if entries.is_empty() {
        let _ = write!(page, "<pre>{}</pre>", escape(&instructions(state)));
    } else {
        page.push_str("<table><thead><tr><th>when</th><th>to</th><th>answer</th>");
        page.push_str("<th>payload</th><th>headers</th></tr></thead><tbody>");
        let numbers = (1..=received).rev();
        numbers.zip(entries.iter().rev()).for_each(|(no, entry)| push_row(&mut page, no, entry));
        page.push_str("</tbody></table>");
    }
    page.push_str("</div></body></html>\n");

    let mut response = respond(200, "text/html; charset=utf-8", page);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// The page's script.
pub(crate) fn script() -> Response<Bytes> {
    respond(200, "text/javascript; charset=utf-8", SCRIPT)
}

fn push_row(page: &mut String, number: u64, entry: &ReceivedRequest) {
    let at = jiff::Timestamp::from_millisecond(entry.at_ms).unwrap_or_default();
    let environment = match entry.environment {
        Some(Environment::Sandbox) => " (development)",
        Some(Environment::Production) | None => "",
    };
    let is_check = entry.is_credential_check();
    let class = match entry.status {
        _ if is_check => "check",
        200..300 => "accepted",
        _ => "refused",
    };
    let by_ending = if entry.is_by_ending { "<br>selected by the ending of the token" } else { "" };
    let note = if is_check {
        "<br>check of the credentials, no push"
    } else if entry.is_silent() {
        "<br>silent: it wakes the app, the system shows nothing"
    } else {
        ""
    };
    let payload = serde_json::to_string_pretty(&entry.payload).unwrap_or_default();
    let headers: Vec<String> =
        entry.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<tr data-number=\"{number}\" class=\"{class}\"><td>{}</td>\
         <td>{}{environment}<br><code>{}</code></td>\
         <td>{} {}{by_ending}{note}<br><small>{}</small></td><td><pre>{}</pre></td>\
         <td><pre>{}</pre></td></tr>",
        at.strftime("%H:%M:%S%.3f"),
        entry.provider.as_str(),
        escape(entry.token.as_deref().unwrap_or("no token")),
        entry.status,
        escape(entry.reason.as_deref().unwrap_or_default()),
        escape(entry.message_id.as_deref().unwrap_or_default()),
        escape(&payload),
        escape(&headers.join("\n")),
    );
}

/// A text for users: how to configure an application to send here, and how to see what arrives.
pub(crate) fn instructions(state: &SandboxState) -> String {
    let origin = &state.origin;
    let plain = origin.replacen("https", "http", 1);
    let topic = crate::apns::TOPICS[0];
    let project = state.credentials.service_account.project_id;
    format!(
        "sandbox listening on {origin} (and {plain})\n\
         \n\
         APNs   {origin}/apns and {origin}/apns-sandbox, topic {topic}\n\
         FCM    {origin}/fcm, project {project}, tokens from {origin}/token\n\
         Web    {origin}/push; the server needs --allow-private-networks to send there\n\
         Messenger {origin}/messenger\n\
         Telegram  {origin}/telegram\n\
         \n\
         configure an application to send here:\n\
         \x20 curl -s {plain}/sandbox/config/apns | notify providers put apns -\n\
         \x20 curl -s {plain}/sandbox/config/fcm | notify providers put fcm -\n\
         \x20 curl -s {plain}/sandbox/config/webpush | notify providers put webpush -\n\
         \x20 curl -s {plain}/sandbox/config/messenger | notify providers put messenger -\n\
         \x20 curl -s {plain}/sandbox/config/telegram | notify providers put telegram -\n\
         \n\
         subscribe a browser of this sandbox:\n\
         \x20 curl -s -X POST {plain}/sandbox/subscriptions |\n\
         \x20   notify subscriptions create --platform web --subscription -\n\
         \n\
         see what arrives:\n\
         \x20 {plain}/                   a page\n\
         \x20 curl {plain}/sandbox/received\n\
         \x20 curl {plain}/sandbox/counts\n\
         \n\
         make it fail:\n\
         \x20 curl {plain}/sandbox/rules -d '{{\"provider\": \"fcm\", \"status\": 503, \"times\": 2}}'\n\
         \x20 curl -X DELETE {plain}/sandbox/rules\n\
         \x20 an FCM token that ends in ~unregistered, ~429:3 or ~503x2, an APNs token that ends in\n\
         \x20 dead4100 (410 Unregistered) or dea25030 (503 twice) gets that answer; so does a person\n\
         \x20 or chat that ends in ~blocked or ~502\n\
         \n\
         the certificate authority: {plain}/sandbox/ca.pem\n"
    )
}

/// Escapes text for HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
