//! Tags of the application.

use notify_core::{PageQuery, TagList};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// The tags of the application's devices.
    Tags from tags;

    paged {
        /// One page of the tags, by name: `GET /v1/tags`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// for tag in notify.tags().list(&Default::default()).await?.tags {
        ///     println!("{}: {}", tag.name, tag.devices);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn list;

        /// All tags, starting with that page.
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
        fn all;

        (query: &PageQuery) -> TagList =
            Call::v1(Method::GET, &["tags"]).query(query);
    }
}
