//! `notify notifications`.

use clap::Subcommand;
use notify_client::notify_core::{
    DeliveryOutcome, ListDeliveries, ListNotificationUsers, ListNotifications, NotificationId,
    NotificationStatus, PageQuery, UserState,
};

use super::paging::{self, PageArgs};
use crate::{
    failure::Failure,
    input,
    output::view,
    session::{Session, parse_caller_id},
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
    List {
        /// Only notifications with this status.
        #[arg(long, value_parser = input::status())]
        status: Option<NotificationStatus>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// List the deliveries of a notification, one for each device.
    Deliveries {
        /// Its id.
        id: String,
        /// Only deliveries with this outcome.
        #[arg(long, value_parser = input::outcome())]
        outcome: Option<DeliveryOutcome>,
        /// Only deliveries with exactly this reason.
        #[arg(long, value_parser = input::filter())]
        reason: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// List the users of a notification, and whether they were reached.
    Users {
        /// Its id.
        id: String,
        /// Only users in this state.
        #[arg(long, value_parser = input::user_state())]
        state: Option<UserState>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Pause a notification. The server sends the rest only after `resume`, and `ttl_seconds` keeps
    /// running.
    Pause {
        /// Its id.
        id: String,
    },
    /// Resume a paused notification.
    Resume {
        /// Its id.
        id: String,
    },
    /// Cancel a notification. Messages that were already sent cannot be recalled.
    Cancel {
        /// Its id.
        id: String,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Notifications, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let notifications = notify.notifications();
    match command {
        Notifications::Get { id } => {
            let id = parse_caller_id("id", &id, NotificationId::new)?;
            let notification = notifications.get(&id).await;
            let notification = notification.map_err(Failure::unknown_id("notification", &id))?;
            session.out.show(&notification, &view::NOTIFICATION)
        }
        Notifications::List { status, page } => {
            let PageQuery { limit, cursor } = page.query();
            let query = ListNotifications { limit, cursor, status };
            let (first, all) = (notifications.list(&query), notifications.all(&query));
            paging::show(page.all, first, all, session, &view::NOTIFICATIONS).await
        }
        Notifications::Deliveries { id, outcome, reason, page } => {
            let id = parse_caller_id("id", &id, NotificationId::new)?;
            let PageQuery { limit, cursor } = page.query();
            let query = ListDeliveries { limit, cursor, outcome, reason };
            let first = notifications.deliveries(&id, &query);
            let all = notifications.all_deliveries(&id, &query);
            paging::show(page.all, first, all, session, &view::DELIVERIES)
                .await
                .map_err(Failure::unknown_id("notification", &id))
        }
        Notifications::Users { id, state, page } => {
            let id = parse_caller_id("id", &id, NotificationId::new)?;
            let PageQuery { limit, cursor } = page.query();
            let query = ListNotificationUsers { limit, cursor, state };
            let (first, all) =
                (notifications.users(&id, &query), notifications.all_users(&id, &query));
            paging::show(page.all, first, all, session, &view::NOTIFICATION_USERS)
                .await
                .map_err(Failure::unknown_id("notification", &id))
        }
        Notifications::Pause { id } => {
            let id = parse_caller_id("id", &id, NotificationId::new)?;
            let paused = notifications.pause(&id).await;
            paused.map_err(Failure::unknown_id("notification", &id))?;
            session.out.done()
        }
        Notifications::Resume { id } => {
            let id = parse_caller_id("id", &id, NotificationId::new)?;
            let resumed = notifications.resume(&id).await;
            resumed.map_err(Failure::unknown_id("notification", &id))?;
            session.out.done()
        }
        Notifications::Cancel { id } => {
            let id = parse_caller_id("id", &id, NotificationId::new)?;
            let canceled = notifications.cancel(&id).await;
            canceled.map_err(Failure::unknown_id("notification", &id))?;
            session.out.done()
        }
    }
}
