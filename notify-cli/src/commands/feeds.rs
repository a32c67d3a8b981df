//! `notify feeds`.

use clap::Subcommand;
use notify_client::{
    Client, Error,
    notify_core::{CheckFeed, CreateFeed, Feed, FeedId, FeedStatus, PageQuery, address},
};

use super::paging::{self, PageArgs};
use crate::{
    confirm::{self, ConfirmArgs},
    failure::Failure,
    output::{self, view},
    session::{LARGE_PAGE, Session},
};

/// `notify feeds`.
#[derive(Debug, Subcommand)]
pub(crate) enum Feeds {
    /// Create a feed and print its id. If a feed with this address exists, print its id and keep its
    /// name.
    Create {
        /// Address of an RSS, Atom or JSON feed.
        feed_url: String,
        /// Its name.
        #[arg(long)]
        name: String,
    },
    /// List feeds with the result of their last fetch.
    List(PageArgs),
    /// Fetch a feed once and show its items and problems. The server stores nothing.
    Check {
        /// Address of an RSS, Atom or JSON feed.
        url: String,
    },
    /// Delete a feed that no campaign uses.
    Delete {
        /// Its name or id.
        #[arg(value_name = "NAME|ID")]
        id: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Feeds, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    match command {
        Feeds::Create { feed_url, name } => {
            let feed = CreateFeed { url: feed_url, name };
            let created = notify.feeds().create(&feed).await?;
            session.out.show(&created, &view::CREATED)?;
            session.out.flush()?;
            // The feed has been created. If these requests fail, only the notes are missing.
            if let Ok(Some(existing)) = find_feed(&notify, created.id).await {
                if existing.name != feed.name {
                    let name = &existing.name;
                    output::print_message(&format!(
                        "the feed `{name}` already has this address and keeps its name"
                    ));
                }
                for problem in problems(&notify, existing).await {
                    output::print_message(&format!(
                        "warning: the server cannot read this feed: {problem}"
                    ));
                }
            }
            Ok(())
        }
        Feeds::List(page) => {
            let (feeds, query) = (notify.feeds(), page.query());
            let (first, all) = (feeds.list(&query), feeds.all(&query));
            paging::show(page.all, first, all, session, &view::FEEDS).await
        }
        Feeds::Check { url } => {
            let checked = notify.feeds().check(&CheckFeed { url }).await?;
            session.out.show(&checked, &view::FEED_CHECK)?;
            if session.out.is_human_readable() {
                session.out.flush()?;
                for problem in &checked.problems {
                    output::print_message(problem);
                }
            }
            match checked.status {
                FeedStatus::Ok => Ok(()),
                FeedStatus::Pending | FeedStatus::Failing => {
                    Err(Failure::CheckFailed("the feed cannot be used".to_owned()))
                }
            }
        }
        Feeds::Delete { id, confirm } => {
            let id = session.named_feed(&id).await?;
            if confirm.is_required()? {
                confirm_delete(&notify, id).await?;
            }
            notify.feeds().delete(id).await.map_err(Failure::unknown_id("feed", &id))?;
            session.out.done()
        }
    }
}

/// Why the server cannot read a feed: the error of the last fetch. Before the first fetch, the function
/// requests a check, but only if the server may refuse the address: it looks private or has an unusual port.
async fn problems(notify: &Client, feed: Feed) -> Vec<String> {
    match feed.status {
        FeedStatus::Ok => Vec::new(),
        FeedStatus::Failing => feed.last_error.into_iter().collect(),
        FeedStatus::Pending => {
            let may_be_refused =
                !address::is_public(&feed.url) || address::has_unusual_port(&feed.url);
            if !may_be_refused {
                return Vec::new();
            }
            match notify.feeds().check(&CheckFeed { url: feed.url }).await {
                Ok(checked) if checked.status == FeedStatus::Failing => checked.problems,
                Ok(_) | Err(_) => Vec::new(),
            }
        }
    }
}

/// Finds a feed in the listing. The API has no endpoint that reads a single feed.
async fn find_feed(notify: &Client, id: FeedId) -> Result<Option<Feed>, Error> {
    let query = PageQuery { limit: Some(LARGE_PAGE), cursor: None };
    paging::find(notify.feeds().all(&query), |feed| feed.id == id).await
}

async fn confirm_delete(notify: &Client, id: FeedId) -> Result<(), Failure> {
    let feed = find_feed(notify, id).await?;
    let feed = feed.ok_or_else(|| Failure::NoMatch(format!("no feed has the id `{id}`")))?;
    confirm::ask(&format!(
        "Delete the feed `{}` ({}) with its items? This cannot be undone.",
        feed.name, feed.url
    ))
}
