//! `notify notifications` (B20).

use clap::Subcommand;
use notify_client::notify_core::{DeliveryOutcome, ListDeliveries, NotificationId, PageQuery};

use super::paging::{PageArgs, show_all};
use crate::{
    failure::Failure,
    input,
    output::view,
    session::{Session, own_id},
};

/// `notify notifications`.
#[derive(Debug, Subcommand)]
pub(crate) enum Notifications {
    /// Show a notification with its counts.
    Get {
        /// Its id.
        id: String,
    },
    /// List notifications, newest first.
    List(PageArgs),
    /// List the deliveries of a notification, one for each device.
    Deliveries {
        /// Its id.
        id: String,
        /// Only deliveries with this outcome.
        #[arg(long, value_parser = input::outcome())]
        outcome: Option<DeliveryOutcome>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Cancel what has not been sent yet.
    Cancel {
        /// Its id.
        id: String,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Notifications, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    match command {
        Notifications::Get { id } => {
            let id = own_id("id", &id, NotificationId::new)?;
            let notification = notify
                .notifications()
                .get(&id)
                .await
                .map_err(Failure::of_id("notification", &id))?;
            session.out.show(&notification, &view::NOTIFICATION)
        }
        Notifications::List(page) if page.all => {
            let pages = notify.notifications().all(&page.query());
            show_all(pages, session, &view::NOTIFICATIONS).await
        }
        Notifications::List(page) => {
            let page = notify.notifications().list(&page.query()).await?;
            session.out.show(&page, &view::NOTIFICATIONS)
        }
        Notifications::Deliveries { id, outcome, page } => {
            let id = own_id("id", &id, NotificationId::new)?;
            let is_all = page.all;
            let PageQuery { limit, cursor } = page.query();
            let query = ListDeliveries { limit, cursor, outcome };
            if is_all {
                let pages = notify.notifications().all_deliveries(&id, &query);
                let shown = show_all(pages, session, &view::DELIVERIES).await;
                return shown.map_err(Failure::of_id("notification", &id));
            }
            let page = notify
                .notifications()
                .deliveries(&id, &query)
                .await
                .map_err(Failure::of_id("notification", &id))?;
            session.out.show(&page, &view::DELIVERIES)
        }
        Notifications::Cancel { id } => {
            let id = own_id("id", &id, NotificationId::new)?;
            notify
                .notifications()
                .cancel(&id)
                .await
                .map_err(Failure::of_id("notification", &id))?;
            session.out.done()
        }
    }
}
