//! Walking through all pages of a listing, without holding more than one of them.

use std::vec;

use notify_core::{
    App, AppList, Delivery, DeliveryList, Device, DeviceList, Feed, FeedList, NotificationList,
    NotificationRecord, TagList, TagSummary, Webhook, WebhookAttempt, WebhookAttemptList,
    WebhookList,
};

use crate::{Client, Error, call::Call};

/// One page of a listing that pages with a cursor.
pub trait Page: serde::de::DeserializeOwned + std::fmt::Debug {
    /// What the listing lists.
    type Item: std::fmt::Debug;

    /// The items, and where the next page begins.
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
    TagList { tags: TagSummary }
}

/// Where the walk stands, for both transports.
#[derive(Debug)]
struct Walk<P: Page> {
    items: vec::IntoIter<P::Item>,
    next: Option<Result<Call<P>, Error>>,
}

impl<P: Page> Walk<P> {
    fn new(first: Result<Call<P>, Error>) -> Self {
        Self { items: Vec::new().into_iter(), next: Some(first) }
    }

    /// What comes next: an item that is here, the end, or a page to ask for.
    fn step(&mut self) -> Step<P> {
        if let Some(item) = self.items.next() {
            return Step::Give(Some(Ok(item)));
        }
        match self.next.take() {
            None => Step::Give(None),
            Some(Ok(call)) => Step::Ask(call),
            Some(Err(error)) => Step::Give(Some(Err(error))),
        }
    }

    /// Takes a page that the call before asked for.
    fn take(&mut self, page: P, again: Call<P>) {
        let (items, cursor) = page.into_parts();
        self.items = items.into_iter();
        self.next = cursor.map(|cursor| Ok(again.at(cursor)));
    }
}

/// What a walk does next.
enum Step<P: Page> {
    /// Gives this to the caller.
    Give(Option<Result<P::Item, Error>>),
    /// Sends this, then goes on.
    Ask(Call<P>),
}

impl<P: Page> Call<P> {
    /// The same listing from that cursor on.
    fn at(mut self, cursor: String) -> Self {
        self.query.retain(|(name, _)| *name != "cursor");
        self.query.push(("cursor", cursor));
        self
    }

    fn again(&self) -> Self {
        Self {
            method: self.method.clone(),
            credential: self.credential,
            segments: self.segments.clone(),
            query: self.query.clone(),
            body: self.body.clone(),
            if_none_match: self.if_none_match.clone(),
            read: self.read,
            gone: self.gone,
        }
    }
}

/// Every item of a listing, page by page. It ends after an error.
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
#[must_use = "nothing is asked for before `next`"]
pub struct Pages<'a, P: Page> {
    client: &'a Client,
    walk: Walk<P>,
}

impl<'a, P: Page> Pages<'a, P> {
    pub(crate) fn new(client: &'a Client, first: Result<Call<P>, Error>) -> Self {
        Self { client, walk: Walk::new(first) }
    }

    /// The next item; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<P::Item, Error>> {
        loop {
            let call = match self.walk.step() {
                Step::Give(item) => return item,
                Step::Ask(call) => call,
            };
            let again = call.again();
            match self.client.send(Ok(call), None).await {
                Ok(page) => self.walk.take(page, again),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(feature = "blocking")]
pub(crate) mod blocking {
    //! The same walk as an [`Iterator`].

    use super::{Call, Error, Page, Step, Walk};
    use crate::blocking::Client;

    /// Every item of a listing, page by page. It ends after an error.
    #[derive(Debug)]
    #[must_use = "nothing is asked for before `next`"]
    pub struct Pages<'a, P: Page> {
        client: &'a Client,
        walk: Walk<P>,
    }

    impl<'a, P: Page> Pages<'a, P> {
        pub(crate) fn new(client: &'a Client, first: Result<Call<P>, Error>) -> Self {
            Self { client, walk: Walk::new(first) }
        }
    }

    impl<P: Page> Iterator for Pages<'_, P> {
        type Item = Result<P::Item, Error>;

        fn next(&mut self) -> Option<Self::Item> {
            loop {
                let call = match self.walk.step() {
                    Step::Give(item) => return item,
                    Step::Ask(call) => call,
                };
                let again = call.again();
                match self.client.send(Ok(call), None) {
                    Ok(page) => self.walk.take(page, again),
                    Err(error) => return Some(Err(error)),
                }
            }
        }
    }
}
