//! Segments: audiences with a name.

use notify_core::{
    PageQuery, PreviewSegment, PutSegment, Segment, SegmentList, SegmentName, SegmentPreview,
};
use reqwest::Method;

use super::check_name;
use crate::{call::Call, handle::handle};

handle! {
    /// Segments: audiences with a name.
    Segments from segments;

    /// Creates a segment, or replaces the condition of the segment with that name:
    /// `PUT /v1/segments/:name`. A notification that was accepted earlier keeps the condition that it had.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the condition breaks a rule or names another segment.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{Audience, PutSegment, SegmentName};
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let active = Audience::last_active_at().within_days(30);
    /// let paying = Audience::attribute("plan").is_in("pro", ["team"]);
    /// let segment = PutSegment::new(active.and(paying));
    /// notify.segments().put(&SegmentName::new("active customers")?, &segment).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn put(name: &SegmentName, segment: &PutSegment) -> Segment =
        check_name(name.as_str())
            .and_then(|name| Call::v1(Method::PUT, &["segments", name]).body(segment));

    /// Reads a segment: `GET /v1/segments/:name`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the name is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::SegmentName;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let segment = notify.segments().get(&SegmentName::new("active customers")?).await?;
    /// println!("{}", segment.audience);
    /// # Ok(())
    /// # }
    /// ```
    fn get(name: &SegmentName) -> Segment =
        check_name(name.as_str()).map(|name| Call::v1(Method::GET, &["segments", name]));

    /// Deletes a segment: `DELETE /v1/segments/:name`. A notification that was accepted earlier keeps the
    /// condition.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the name is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::SegmentName;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// notify.segments().delete(&SegmentName::new("active customers")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn delete(name: &SegmentName) -> () =
        check_name(name.as_str())
            .map(|name| Call::v1(Method::DELETE, &["segments", name]).discard_response());

    /// Counts the devices that meet a condition now: `POST /v1/segments/preview`. A large number can be an
    /// estimate.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the condition breaks a rule; [`crate::Error::Rejected`] if it names
    /// an unknown segment.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{Audience, PreviewSegment};
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let german = PreviewSegment::new(Audience::language().is("de"));
    /// for size in notify.segments().preview(&german).await?.platforms {
    ///     println!("{}: {}{}", size.platform, if size.exact { "" } else { "about " }, size.devices);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn preview(segment: &PreviewSegment) -> SegmentPreview =
        Call::v1(Method::POST, &["segments", "preview"]).body(segment);

    paged {
        /// One page of the segments, by name: `GET /v1/segments`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// for segment in notify.segments().list(&Default::default()).await?.segments {
        ///     println!("{}: {}", segment.name, segment.audience);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn list;

        /// All segments, starting with the page that the query selects.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.segments().all(&Default::default());
        /// while let Some(segment) = all.next().await {
        ///     println!("{}", segment?.name);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all;

        (query: &PageQuery) -> SegmentList =
            Call::v1(Method::GET, &["segments"]).query(query);
    }
}
