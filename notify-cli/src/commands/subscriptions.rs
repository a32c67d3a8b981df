//! `notify subscriptions` (B25).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use notify_client::{
    Error,
    notify_core::{Platform, Request, Subscribe, json::JsonObject},
};

use crate::{failure::Failure, input, output::view, session::Session};

/// `notify subscriptions`.
#[derive(Debug, Subcommand)]
pub(crate) enum Subscriptions {
    /// Subscribe a browser, a person on Messenger, or a chat.
    Create(Create),
}

/// Arguments of `notify subscriptions create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its platform: web, fb-messenger (Facebook Messenger) or chatapp (Telegram).
    #[arg(long, value_parser = input::subscribed_platform())]
    platform: Platform,
    /// For `web`: a file with the browser's `PushSubscription` as JSON; `-` for standard input.
    #[arg(long, value_name = "FILE", required_if_eq("platform", "web"))]
    subscription: Option<PathBuf>,
    /// For `fb-messenger` and `chatapp` (Telegram): the person or chat.
    #[arg(
        long, value_name = "ID", allow_negative_numbers = true,
        required_if_eq_any([
            ("platform", "fb-messenger"), ("platform", "chatapp"), ("platform", input::TELEGRAM),
        ]),
    )]
    recipient_id: Option<String>,
    /// Its device id; made by the server unless given.
    #[arg(long, value_name = "ID")]
    device_id: Option<String>,
    /// Language code.
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    /// Offset from UTC: GMT or GMT±HH:MM.
    #[arg(long, value_name = "OFFSET")]
    timezone: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(command: Subscriptions, session: &mut Session) -> Result<(), Failure> {
    let Subscriptions::Create(args) = command;
    let subscription = match &args.subscription {
        Some(path) => Some(browser(&input::read(path)?)?),
        None => None,
    };
    let subscribe = Subscribe {
        platform: args.platform.to_string(),
        subscription: subscription.and_then(|subscribe| subscribe.subscription),
        recipient_id: args.recipient_id,
        device_id: args.device_id,
        language: args.language,
        timezone: args.timezone,
        ..Subscribe::default()
    };
    let created = session.notify()?.subscriptions().create(&subscribe).await?;
    session.out.show(&created, &view::CREATED)
}

/// Reads a browser's subscription with the rules of the body that it is part of.
fn browser(bytes: &[u8]) -> Result<Subscribe, Failure> {
    let object = std::str::from_utf8(bytes)
        .map_err(|error| error.to_string())
        .and_then(input::json_object)
        .map_err(|error| Failure::Usage(format!("subscription: {error}")))?;
    let body = format!(r#"{{"platform":"web","subscription":{}}}"#, JsonObject::as_str(&object));
    Ok(Subscribe::from_json(body.as_bytes()).map_err(Error::Invalid)?)
}
