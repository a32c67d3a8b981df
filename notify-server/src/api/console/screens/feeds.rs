//! Feeds: the list, checking an address, and one feed.

use askama::Template;
use http::Method;
use notify_core::{
    CheckFeed, CreateFeed, Feed, FeedCheck, FeedCreated, FeedList, FeedStatus, Success,
};
use warp::reply::Response;

use super::campaigns::{feeds_by_id, shown_image};
use crate::api::console::calls::{AppScope, encoded};
use crate::api::console::form::{Form, new_key};
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/feeds", list),
        action("/console/apps/{app}/feeds", create),
        action("/console/apps/{app}/feeds/check", check),
        screen("/console/apps/{app}/feeds/{id}", feed),
        action("/console/apps/{app}/feeds/{id}/check", check_again),
        action("/console/apps/{app}/feeds/{id}/delete", delete),
    ]
}

/// The class of the badge of a feed.
fn tone_of(status: &FeedStatus) -> &'static str {
    match status {
        FeedStatus::Ok => "good",
        FeedStatus::Failing => "bad",
        FeedStatus::Pending => "busy",
    }
}

/// The result of a check, which the server does not keep.
struct Checked {
    url: String,
    is_readable: bool,
    count: u64,
    items: Vec<Item>,
    problems: Vec<String>,
}

/// An item that a check found.
struct Item {
    title: String,
    url: String,
    image: Option<String>,
    published: String,
}

impl Checked {
    fn of(url: String, check: FeedCheck) -> Self {
        let items = check.items.into_iter().map(|item| Item {
            title: item.title,
            url: item.url,
            image: item.image_url.and_then(shown_image),
            published: item
                .published_at
                .map_or_else(|| "no date".to_owned(), |at| crate::api::console::format::time(&at)),
        });
        Self {
            url,
            is_readable: check.status == FeedStatus::Ok,
            count: check.count,
            items: items.collect(),
            problems: check.problems,
        }
    }
}

async fn run_check(visit: &Visit, scope: &AppScope, url: &str) -> Result<Checked, ApiError> {
    let request = CheckFeed { url: url.to_owned() };
    let check: FeedCheck =
        visit.change(scope, Method::POST, "/v1/feeds/check", &request, None).await?;
    Ok(Checked::of(url.to_owned(), check))
}

#[derive(Template)]
#[template(path = "feeds.html")]
struct List {
    layout: Layout,
    base: String,
    feeds: Vec<Feed>,
    next: Option<String>,
    key: String,
    url: String,
    name: String,
    checked: Option<Checked>,
    problems: Problems,
}

impl List {
    async fn of(visit: &Visit, scope: &AppScope, form: &Form) -> Result<Self, ApiError> {
        let layout = visit.app_layout(scope, "Feeds", "Feeds").await?;
        let path = format!("/v1/feeds?cursor={}", encoded(&visit.query("cursor")?));
        let page: FeedList = visit.get(scope, &path).await?;
        Ok(Self {
            base: base_of(&layout, scope),
            layout,
            feeds: page.feeds,
            next: page.next_cursor,
            key: new_key(),
            url: form.text("url").to_owned(),
            name: form.text("name").to_owned(),
            checked: None,
            problems: Problems::default(),
        })
    }
}

async fn list(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&List::of(&visit, &scope, &Form::default()).await?)
}

async fn create(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let request =
        CreateFeed { url: form.text("url").to_owned(), name: form.text("name").to_owned() };
    match visit.change(&scope, Method::POST, "/v1/feeds", &request, form.key()).await {
        Ok(FeedCreated { id }) => Ok(redirect(&format!("feeds/{id}?done=created"))),
        Err(error) => {
            let problems = Problems::of(error)?;
            show(&List { problems, ..List::of(&visit, &scope, &form).await? })
        }
    }
}

async fn check(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let page = List::of(&visit, &scope, &form).await?;
    match run_check(&visit, &scope, form.text("url")).await {
        Ok(checked) => show(&List { checked: Some(checked), ..page }),
        Err(error) => show(&List { problems: Problems::of(error)?, ..page }),
    }
}

#[derive(Template)]
#[template(path = "feed.html")]
struct FeedPage {
    layout: Layout,
    base: String,
    feed: Feed,
    checked: Option<Checked>,
    problems: Problems,
}

impl FeedPage {
    async fn of(visit: &Visit, scope: &AppScope) -> Result<Self, ApiError> {
        let layout = visit.app_layout(scope, "Feed", "Feeds").await?;
        let id = visit.ctx.id("id")?;
        let feed = feeds_by_id(visit, scope).await?.remove(&id).ok_or(ApiError::NotFound)?;
        let base = base_of(&layout, scope);
        Ok(Self { layout, base, feed, checked: None, problems: Problems::default() })
    }
}

async fn feed(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&FeedPage::of(&visit, &scope).await?)
}

async fn check_again(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let page = FeedPage::of(&visit, &scope).await?;
    let checked = Some(run_check(&visit, &scope, &page.feed.url).await?);
    show(&FeedPage { checked, ..page })
}

async fn delete(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/v1/feeds/{}", encoded(&visit.ctx.path_param("id")?));
    match visit.change(&scope, Method::DELETE, &path, &(), None).await {
        Ok(Success { .. }) => Ok(redirect("../../feeds?done=deleted")),
        Err(error) => {
            let problems = Problems::of(error)?;
            show(&FeedPage { problems, ..FeedPage::of(&visit, &scope).await? })
        }
    }
}
