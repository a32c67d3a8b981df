//! Tags of the application.

use notify_core::{PageQuery, TagList};
use reqwest::Method;

use crate::{call::Call, handle::handle, parameters};

handle! {
    /// The tags that the application's devices have.
    Tags from tags;

    /// One page of the tags, by name: `GET /v1/tags`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when `limit` is not 1 to 1,000.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// for tag in notify.tags().list(&Default::default()).await?.tags {
    ///     println!("{}: {}", tag.name, tag.devices);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn list(query: &PageQuery) -> TagList =
        Call::v1(Method::GET, &["tags"]).filtered::<PageQuery>(parameters::page(query));

    pages {
        /// All tags from that page on, page by page.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.tags().all(&Default::default());
        /// while let Some(tag) = all.next().await {
        ///     println!("{}", tag?.name);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all(query: &PageQuery) -> TagList =
            Call::v1(Method::GET, &["tags"]).filtered::<PageQuery>(parameters::page(query));
    }
}
