//! Feeds.

use notify_core::{CheckFeed, CreateFeed, FeedCheck, FeedCreated, FeedId, FeedList, PageQuery};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Feeds, whose items campaigns display.
    Feeds from feeds;

    /// Creates a feed, or returns the id of the existing feed with this url: `POST /v1/feeds`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CreateFeed;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let news = CreateFeed { url: "https://example.com/rss".into(), name: "News".into() };
    /// let id = notify.feeds().create(&news).await?.id;
    /// # Ok(())
    /// # }
    /// ```
    fn create(feed: &CreateFeed) -> FeedCreated = Call::v1(Method::POST, &["feeds"]).body(feed);

    /// Fetches a feed and returns its items and problems, without storing anything:
    /// `POST /v1/feeds/check`. An unreadable feed is not an error.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule.
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
        Call::v1(Method::POST, &["feeds", "check"]).body(feed);

    /// Deletes a feed: `DELETE /v1/feeds/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Rejected`] if a
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
    fn delete(id: FeedId) -> () = Ok(Call::v1(Method::DELETE, &["feeds", &id.to_string()]).discard_response());

    paged {
        /// One page of the feeds: `GET /v1/feeds`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let page = notify.feeds().list(&Default::default()).await?;
        /// # Ok(())
        /// # }
        /// ```
        fn list;

        /// All feeds, starting with the page that the query selects.
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
        fn all;

        (query: &PageQuery) -> FeedList =
            Call::v1(Method::GET, &["feeds"]).query(query);
    }
}
