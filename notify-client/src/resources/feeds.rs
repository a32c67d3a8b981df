//! Feeds.

use notify_core::{CheckFeed, CreateFeed, FeedCheck, FeedCreated, FeedId, FeedList, PageQuery};
use reqwest::Method;

use crate::{call::Call, handle::handle, parameters};

handle! {
    /// Feeds, whose items enrich notifications.
    Feeds from feeds;

    /// Creates a feed, or names the one that has this url: `POST /v1/feeds`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when it breaks a rule.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CreateFeed;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let news = CreateFeed { url: "https://example.com/rss".into(), name: "News".into() };
    /// let id = notify.feeds().create(&news).await?.id;
    /// # Ok(())
    /// # }
    /// ```
    fn create(feed: &CreateFeed) -> FeedCreated = Call::v1(Method::POST, &["feeds"]).checked(feed);

    /// Shows what would be taken from the feed of a url, without keeping anything:
    /// `POST /v1/feeds/check`. A feed that cannot be read is answered too, with its problems.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when it breaks a rule.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CheckFeed;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let check = CheckFeed { url: "https://example.com/rss".into() };
    /// let checked = notify.feeds().check(&check).await?;
    /// println!("{} items, {:?}", checked.count, checked.problems);
    /// # Ok(())
    /// # }
    /// ```
    fn check(feed: &CheckFeed) -> FeedCheck =
        Call::v1(Method::POST, &["feeds", "check"]).checked(feed);

    /// One page of the feeds: `GET /v1/feeds`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when `limit` is not 1 to 1,000.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let page = notify.feeds().list(&Default::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn list(query: &PageQuery) -> FeedList =
        Call::v1(Method::GET, &["feeds"]).filtered::<PageQuery>(parameters::page(query));

    /// Deletes a feed: `DELETE /v1/feeds/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names no feed; [`crate::Error::Rejected`] when a
    /// campaign uses it.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::FeedId;
    /// # async fn example(notify: notify_client::Client, id: FeedId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.feeds().delete(id).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn delete(id: FeedId) -> () = Ok(Call::v1(Method::DELETE, &["feeds", &id.to_string()]).done());

    pages {
        /// All feeds from that page on, page by page.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.feeds().all(&Default::default());
        /// while let Some(feed) = all.next().await {
        ///     println!("{}", feed?.name);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all(query: &PageQuery) -> FeedList =
            Call::v1(Method::GET, &["feeds"]).filtered::<PageQuery>(parameters::page(query));
    }
}
