//! Polls: the results of one poll, and the polls among the notifications.

use askama::Template;
use notify_core::{NotificationList, NotificationRecord, Poll, PollAnswer, Timestamp};
use warp::reply::Response;

use crate::api::console::calls::encoded;
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::screen::screen;
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![screen("/console/apps/{app}/polls", list), screen("/console/apps/{app}/polls/{id}", poll)]
}

/// A poll in a list.
struct Row {
    path_id: String,
    text: String,
    answers: usize,
    created_at: Timestamp,
}

impl Row {
    /// The poll of a notification, if it has one.
    fn of(record: &NotificationRecord) -> Option<Self> {
        let request: serde_json::Value = serde_json::from_str(record.request.as_str()).ok()?;
        let poll = request.get("poll")?.as_object()?;
        Some(Self {
            path_id: encoded(record.id.as_str()),
            text: poll.get("text")?.as_str()?.to_owned(),
            answers: poll.get("answers").and_then(serde_json::Value::as_array).map_or(0, Vec::len),
            created_at: record.created_at,
        })
    }
}

/// Whether a notification has a poll.
pub(in crate::api::console) fn has_poll(record: &NotificationRecord) -> bool {
    Row::of(record).is_some()
}

#[derive(Template)]
#[template(path = "polls.html")]
struct List {
    layout: Layout,
    base: String,
    polls: Vec<Row>,
    is_first: bool,
    next: Option<String>,
}

/// The polls among a page of notifications. The API does not list polls.
async fn list(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Polls", "Polls").await?;
    let base = base_of(&layout, &scope);
    let id = visit.query("id")?;
    if !id.trim().is_empty() {
        return Ok(redirect(&format!("polls/{}", encoded(id.trim()))));
    }
    let cursor = visit.query("cursor")?;
    let path = format!("/v1/notifications?cursor={}", encoded(&cursor));
    let page: NotificationList = visit.get(&scope, &path).await?;
    let polls = page.notifications.iter().filter_map(Row::of).collect();
    show(&List { layout, base, polls, is_first: cursor.is_empty(), next: page.next_cursor })
}

#[derive(Template)]
#[template(path = "poll.html")]
struct PollPage {
    layout: Layout,
    base: String,
    path_id: String,
    votes: u64,
    answers: Vec<Answer>,
    poll: Poll,
}

/// An answer of a poll.
struct Answer {
    text: String,
    image: Option<String>,
    bar: String,
    share: String,
    clicks: u64,
    /// Whether no other answer has more votes.
    leads: bool,
}

impl Answer {
    fn of(index: usize, answer: PollAnswer, most: u64) -> Self {
        let text =
            if answer.text.is_empty() { format!("Image {}", index + 1) } else { answer.text };
        Self {
            text,
            image: super::campaigns::shown_image(answer.image_url),
            bar: bar(answer.percentage),
            share: format!("{} %", answer.percentage),
            clicks: answer.clicks,
            leads: most > 0 && answer.clicks == most,
        }
    }
}

/// A bar that is filled to `percentage`, as SVG. Screen readers skip it, because the row of the table also
/// has the number.
fn bar(percentage: f64) -> String {
    format!(
        "<svg class=\"share\" aria-hidden=\"true\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\">\
         <rect class=\"track\" width=\"100\" height=\"4\"></rect>\
         <rect width=\"{percentage}\" height=\"4\"></rect></svg>"
    )
}

async fn poll(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Poll", "Polls").await?;
    let path_id = encoded(&visit.ctx.path_param("id")?);
    let mut poll: Poll = match visit.get(&scope, &format!("/v1/polls/{path_id}")).await {
        Ok(poll) => poll,
        // The API answers 400 for an unknown id.
        Err(ApiError::Invalid(_)) => return Err(ApiError::NotFound),
        Err(error) => return Err(error),
    };
    let most = poll.answers.iter().map(|answer| answer.clicks).max().unwrap_or(0);
    let answers = std::mem::take(&mut poll.answers).into_iter().enumerate();
    let answers: Vec<Answer> =
        answers.map(|(index, answer)| Answer::of(index, answer, most)).collect();
    let votes = answers.iter().map(|answer| answer.clicks).sum();
    let base = base_of(&layout, &scope);
    show(&PollPage { layout, base, path_id, votes, answers, poll })
}
