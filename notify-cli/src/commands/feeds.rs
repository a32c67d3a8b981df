//! `notify feeds` (B30).

use clap::Subcommand;
use notify_client::notify_core::CreateFeed;

use super::paging::{PageArgs, show_all};
use crate::{
    failure::Failure,
    output::{self, view},
    session::{Session, known},
};

/// `notify feeds`.
#[derive(Debug, Subcommand)]
pub(crate) enum Feeds {
    /// Create a feed, or name the one that has this address. Feeds are not fetched yet.
    Create {
        /// Address of an RSS, Atom or JSON feed.
        feed_url: String,
        /// Its name.
        #[arg(long)]
        name: String,
    },
    /// List feeds. They are not fetched yet: their status stays `pending`.
    List(PageArgs),
    /// Delete a feed that no campaign uses.
    Delete {
        /// Its id.
        id: String,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Feeds, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    match command {
        Feeds::Create { feed_url, name } => {
            let created = notify.feeds().create(&CreateFeed { url: feed_url, name }).await?;
            session.out.show(&created, &view::CREATED)?;
            say_the_limit(session)
        }
        Feeds::List(page) if page.all => {
            show_all(notify.feeds().all(&page.query()), session, &view::FEEDS).await?;
            say_the_limit(session)
        }
        Feeds::List(page) => {
            let page = notify.feeds().list(&page.query()).await?;
            session.out.show(&page, &view::FEEDS)?;
            say_the_limit(session)
        }
        Feeds::Delete { id } => {
            notify.feeds().delete(known("feed", &id)?).await?;
            session.out.done()
        }
    }
}

/// Tells people what scripts need not hear each time (known limits of `CHANGELOG.md`).
fn say_the_limit(session: &mut Session) -> Result<(), Failure> {
    if session.out.is_for_people() {
        session.out.flush()?;
        output::talk("feeds are not fetched yet: their status stays `pending`");
    }
    Ok(())
}
