//! Iteration over all items of a listing, one page in memory at a time.

use std::vec;

use notify_core::{
    App, AppList, AuditEntry, AuditList, Delivery, DeliveryList, Device, DeviceList, Feed,
    FeedList, NotificationList, NotificationRecord, NotificationUser, NotificationUsers, Segment,
    SegmentList, Session, SessionList, TagList, TagSummary, User, UserList, Webhook,
    WebhookAttempt, WebhookAttemptList, WebhookList,
};

use crate::{Client, Error, call::Call};

/// One page of a listing with cursor pagination.
pub trait Page: serde::de::DeserializeOwned + std::fmt::Debug {
    /// An entry of the listing.
    type Item: std::fmt::Debug;

    /// The items, and the cursor of the next page.
    fn into_parts(self) -> (Vec<Self::Item>, Option<String>);
}

macro_rules! page {
    ($($list:ident { $field:ident: $item:ident })*) => {$(
        impl Page for $list {
            type Item = $item;

            fn into_parts(self) -> (Vec<$item>, Option<String>) {
                (self.$field, self.next_cursor)
            }
        }
    )*};
}

page! {
    AppList { apps: App }
    DeliveryList { deliveries: Delivery }
    DeviceList { devices: Device }
    FeedList { feeds: Feed }
    WebhookList { webhooks: Webhook }
    WebhookAttemptList { attempts: WebhookAttempt }
    NotificationList { notifications: NotificationRecord }
    NotificationUsers { users: NotificationUser }
    UserList { users: User }
    SegmentList { segments: Segment }
    TagList { tags: TagSummary }
    SessionList { sessions: Session }
    AuditList { entries: AuditEntry }
}

/// The position in a listing, for both transports.
#[derive(Debug)]
struct Position<P: Page> {
    /// The items of the current page that have not been returned yet.
    items: vec::IntoIter<P::Item>,
    /// The call for the next page; `None` after the last page or an error.
    next: Option<Result<Call<P>, Error>>,
}

impl<P: Page> Position<P> {
    fn new(first: Result<Call<P>, Error>) -> Self {
        Self { items: Vec::new().into_iter(), next: Some(first) }
    }

    /// Moves to `page`, which is the response of `call`.
    fn enter(&mut self, page: P, mut call: Call<P>) {
        let (items, cursor) = page.into_parts();
        self.items = items.into_iter();
        self.next = cursor.map(|cursor| {
            call.query.retain(|(name, _)| *name != "cursor");
            call.query.push(("cursor", cursor));
            Ok(call)
        });
    }
}

/// All items of a listing, fetched page by page. The iteration ends after an error.
///
/// ```no_run
/// use notify_client::notify_core::ListDevices;
///
/// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
/// let mut devices = notify.devices().all(&ListDevices::default());
/// while let Some(device) = devices.next().await {
///     println!("{}", device?.device_id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "no request is sent before `next`"]
pub struct Pages<'a, P: Page> {
    client: &'a Client,
    position: Position<P>,
}

impl<'a, P: Page> Pages<'a, P> {
    pub(crate) fn new(client: &'a Client, first: Result<Call<P>, Error>) -> Self {
        Self { client, position: Position::new(first) }
    }

    /// The next item; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<P::Item, Error>> {
        loop {
            if let Some(item) = self.position.items.next() {
                return Some(Ok(item));
            }
            let call = match self.position.next.take()? {
                Ok(call) => call,
                Err(error) => return Some(Err(error)),
            };
            match self.client.send(&call, None).await {
                Ok(page) => self.position.enter(page, call),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(feature = "blocking")]
pub(crate) mod blocking {
    //! The blocking form, an [`Iterator`].

    use super::{Call, Error, Page, Position};
    use crate::blocking::Client;

    /// All items of a listing, fetched page by page. The iteration ends after an error.
    #[derive(Debug)]
    #[must_use = "no request is sent before `next`"]
    pub struct Pages<'a, P: Page> {
        client: &'a Client,
        position: Position<P>,
    }

    impl<'a, P: Page> Pages<'a, P> {
        pub(crate) fn new(client: &'a Client, first: Result<Call<P>, Error>) -> Self {
            Self { client, position: Position::new(first) }
        }
    }

    impl<P: Page> Iterator for Pages<'_, P> {
        type Item = Result<P::Item, Error>;

        fn next(&mut self) -> Option<Self::Item> {
            loop {
                if let Some(item) = self.position.items.next() {
                    return Some(Ok(item));
                }
                let call = match self.position.next.take()? {
                    Ok(call) => call,
                    Err(error) => return Some(Err(error)),
                };
                match self.client.send(&call, None) {
                    Ok(page) => self.position.enter(page, call),
                    Err(error) => return Some(Err(error)),
                }
            }
        }
    }
}
