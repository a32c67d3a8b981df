//! `notify feeds` (B30).

use clap::Subcommand;
use notify_client::{
    Client, Error,
    notify_core::{CheckFeed, CreateFeed, Feed, FeedId, FeedStatus, PageQuery},
};

use super::paging::{PAGE_OF_ALL, PageArgs, find, show_all};
use crate::{
    address,
    confirm::{self, Consent},
    failure::Failure,
    output::{self, view},
    session::{Session, known},
};

/// `notify feeds`.
#[derive(Debug, Subcommand)]
pub(crate) enum Feeds {
    /// Create a feed, and print its id. If a feed with this address exists, print that one's id; its
    /// name stays.
    Create {
        /// Address of an RSS, Atom or JSON feed.
        feed_url: String,
        /// Its name.
        #[arg(long)]
        name: String,
    },
    /// List feeds with the result of their last fetch.
    List(PageArgs),
    /// Fetch a feed once, and show its items and problems. The server stores nothing.
    Check {
        /// Address of an RSS, Atom or JSON feed.
        url: String,
    },
    /// Delete a feed that no campaign uses.
    Delete {
        /// Its id.
        id: String,
        #[command(flatten)]
        consent: Consent,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Feeds, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    match command {
        Feeds::Create { feed_url, name } => {
            let feed = CreateFeed { url: feed_url, name };
            let created = notify.feeds().create(&feed).await?;
            session.out.show(&created, &view::CREATED)?;
            session.out.flush()?;
            // The feed is created whatever these find out.
            if let Ok(Some(known)) = find_feed(&notify, created.id).await {
                if known.name != feed.name {
                    let name = &known.name;
                    output::talk(&format!(
                        "a feed `{name}` has this address already, and keeps its name"
                    ));
                }
                for problem in problems(&notify, known).await {
                    output::talk(&format!("warning: the server cannot read this feed: {problem}"));
                }
            }
            Ok(())
        }
        Feeds::List(page) if page.all => {
            show_all(notify.feeds().all(&page.query()), session, &view::FEEDS).await
        }
        Feeds::List(page) => {
            let page = notify.feeds().list(&page.query()).await?;
            session.out.show(&page, &view::FEEDS)
        }
        Feeds::Check { url } => {
            let checked = notify.feeds().check(&CheckFeed { url }).await?;
            session.out.show(&checked, &view::FEED_CHECK)?;
            if session.out.is_for_people() {
                session.out.flush()?;
                for problem in &checked.problems {
                    output::talk(problem);
                }
            }
            match checked.status {
                FeedStatus::Ok => Ok(()),
                FeedStatus::Pending | FeedStatus::Failing => {
                    Err(Failure::Unwell("the feed cannot be used".to_owned()))
                }
            }
        }
        Feeds::Delete { id, consent } => {
            let id = known("feed", &id)?;
            if consent.is_to_be_asked()? {
                ask_to_delete(&notify, id).await?;
            }
            notify.feeds().delete(id).await.map_err(Failure::of_id("feed", &id))?;
            session.out.done()
        }
    }
}

/// What keeps the server from reading a feed: what its last fetch failed of, or, before the first one
/// of an address that a server refuses unless it may call private networks, what a check says.
async fn problems(notify: &Client, feed: Feed) -> Vec<String> {
    let is_public = address::is_public(&feed.url);
    match feed.status {
        FeedStatus::Ok => Vec::new(),
        FeedStatus::Failing => feed.last_error.into_iter().collect(),
        FeedStatus::Pending if is_public && !address::has_other_port(&feed.url) => Vec::new(),
        FeedStatus::Pending => match notify.feeds().check(&CheckFeed { url: feed.url }).await {
            Ok(checked) if checked.status == FeedStatus::Failing => checked.problems,
            Ok(_) | Err(_) => Vec::new(),
        },
    }
}

/// A feed as the listing has it.
async fn find_feed(notify: &Client, id: FeedId) -> Result<Option<Feed>, Error> {
    let query = PageQuery { limit: Some(PAGE_OF_ALL), cursor: None };
    find(notify.feeds().all(&query), |feed| feed.id == id).await
}

async fn ask_to_delete(notify: &Client, id: FeedId) -> Result<(), Failure> {
    let feed = find_feed(notify, id).await?;
    let feed = feed.ok_or_else(|| Failure::Missing(format!("no feed has the id `{id}`")))?;
    confirm::ask(&format!(
        "Delete the feed `{}` ({}) with its items? This cannot be undone.",
        feed.name, feed.url
    ))
}
