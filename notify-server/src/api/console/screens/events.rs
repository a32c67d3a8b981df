//! The live events of an application.

use askama::Template;
use notify_core::WebhookEventType;
use warp::reply::Response;

use crate::api::console::calls::with_query;
use crate::api::console::format::argument;
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::screen;
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::handlers::event_stream::{self, StreamReader};
use crate::api::router::Endpoint;
use crate::store::{EventCursor, EventTypes};

/// The problem of a cursor from which the stream cannot continue.
const UNKNOWN_CURSOR: &str =
    "cursor: is unknown, or events after it are no longer stored: leave it empty to see new events";

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/events", events),
        screen("/console/apps/{app}/events/stream", stream),
    ]
}

#[derive(Template)]
#[template(path = "events.html")]
struct Events {
    layout: Layout,
    base: String,
    types: Vec<Type>,
    is_filtered: bool,
    cursor: String,
    /// The address of the stream.
    stream: String,
    /// The options of `notify tail` for the same events.
    options: String,
    /// What is wrong with the cursor.
    problems: Problems,
}

/// A type of events.
struct Type {
    name: &'static str,
    is_chosen: bool,
}

async fn events(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Events", "Events").await?;
    let query = visit.ctx.query()?;
    let chosen: Vec<&str> = query
        .iter()
        .filter(|(name, _)| name == "types")
        .flat_map(|(_, value)| value.split(','))
        .collect();
    let types: Vec<Type> = WebhookEventType::SUBSCRIBABLE_NAMES
        .iter()
        .map(|name| Type { name, is_chosen: chosen.contains(name) })
        .collect();
    let names: Vec<&str> =
        types.iter().filter(|kind| kind.is_chosen).map(|kind| kind.name).collect();
    let cursor = visit.query("cursor")?.trim().to_owned();
    let base = base_of(&layout, &scope);
    let mut options: String = names.iter().map(|name| format!(" --type {name}")).collect();
    if !cursor.is_empty() {
        options.push_str(&format!(" --since {}", argument(&cursor)));
    }
    let stream = with_query(&format!("{base}/events/stream"), &[("types", &names.join(","))]);
    let problems = if cursor.is_empty() {
        Problems::default()
    } else {
        let (store, from) = (&visit.ctx.api.store, EventCursor::After(cursor.clone()));
        match store.read_events(scope.no, from, EventTypes::of(&[])).await {
            Ok(page) if page.reset => Problems::new(vec![UNKNOWN_CURSOR.to_owned()]),
            Ok(_) => Problems::default(),
            Err(error) => Problems::of(error.into())?,
        }
    };
    let is_filtered = !names.is_empty();
    show(&Events { layout, base, is_filtered, types, cursor, stream, options, problems })
}

/// The stream of `GET /v1/events/stream`, for the operator of a session.
async fn stream(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let reader = StreamReader::Operator(visit.session.clone());
    event_stream::open(&visit.ctx, scope.no, reader).await
}
