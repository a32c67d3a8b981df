//! `notify feeds` (B30).

use clap::Subcommand;
use notify_client::{
    Client, Error,
    notify_core::{CheckFeed, CreateFeed, Feed, FeedId, FeedStatus, PageQuery},
};

use super::paging::{PAGE_OF_ALL, PageArgs, find, show_all};
use crate::{
    confirm::{self, Consent},
    failure::Failure,
    output::{self, view},
    session::{Session, known},
};

/// `notify feeds`.
#[derive(Debug, Subcommand)]
pub(crate) enum Feeds {
    /// Create a feed. The one that has this address already is answered as it is, under its own name.
    Create {
        /// Address of an RSS, Atom or JSON feed.
        feed_url: String,
        /// Its name.
        #[arg(long)]
        name: String,
    },
    /// List feeds with how their last fetch went.
    List(PageArgs),
    /// Show what would be taken from a feed, and what is wrong with it. Keeps nothing.
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
            // It is made all the same where its name cannot be found out.
            if let Ok(Some(known)) = find_feed(&notify, created.id).await
                && known.name != feed.name
            {
                let name = known.name;
                output::talk(&format!("it was there before as `{name}`, and keeps that name"));
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
                    Err(Failure::Unwell("the feed cannot be used as it is".to_owned()))
                }
            }
        }
        Feeds::Delete { id, consent } => {
            let id = known("feed", &id)?;
            if consent.is_to_be_asked() {
                ask_to_delete(&notify, id).await?;
            }
            notify.feeds().delete(id).await.map_err(Failure::of_id("feed", &id))?;
            session.out.done()
        }
    }
}

/// A feed as the listing has it.
async fn find_feed(notify: &Client, id: FeedId) -> Result<Option<Feed>, Error> {
    let query = PageQuery { limit: Some(PAGE_OF_ALL), cursor: None };
    find(notify.feeds().all(&query), |feed| feed.id == id).await
}

async fn ask_to_delete(notify: &Client, id: FeedId) -> Result<(), Failure> {
    let feed = find_feed(notify, id).await?;
    let feed = feed.ok_or_else(|| Failure::NotFound(format!("no feed has the id `{id}`")))?;
    confirm::ask(&format!(
        "Delete the feed `{}` ({}) with its items? This cannot be undone.",
        feed.name, feed.url
    ))
}
