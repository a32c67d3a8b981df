//! Enrichments, which the SDK of a device requests.

use notify_core::{CampaignRef, Enrichment, EnrichmentQuery};
use reqwest::{Method, header};

use crate::{
    Error,
    call::{Call, Response},
    handle::handle,
};

/// Response of [`Enrichments::get`].
#[derive(Debug, Clone, PartialEq)]
pub enum EnrichmentResponse {
    /// The current enrichment.
    Fresh {
        /// The enrichment.
        enrichment: Box<Enrichment>,
        /// Its `ETag`, for `if_none_match` of the next call.
        etag: Option<String>,
    },
    /// The enrichment of `if_none_match` is still current.
    NotModified,
}

handle! {
    /// Enrichments: campaigns in the form that a device displays.
    Enrichments from enrichments;

    /// Reads the enrichment of a campaign: `GET /v1/enrichments/:campaign_id`. `if_none_match` is
    /// the `ETag` of an earlier response.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the campaign is disabled or unknown, there is no default
    /// one, or the query contains an unknown id.
    ///
    /// ```no_run
    /// # use notify_client::{EnrichmentResponse, notify_core::{CampaignRef, EnrichmentQuery}};
    /// # async fn example(notify: notify_client::Client, known: String)
    /// # -> Result<(), notify_client::Error> {
    /// let query = EnrichmentQuery { device_id: Some("pixel-7".into()), ..Default::default() };
    /// match notify.enrichments().get(CampaignRef::Default, &query, Some(&known)).await? {
    ///     EnrichmentResponse::Fresh { enrichment, etag } => println!("{:?}", enrichment.layout_id),
    ///     EnrichmentResponse::NotModified => println!("not modified"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn get(
        campaign: CampaignRef,
        query: &EnrichmentQuery,
        if_none_match: Option<&str>
    ) -> EnrichmentResponse =
        Call::<Enrichment>::v1(Method::GET, &["enrichments", &campaign.to_string()]).query(query)
            .map(|call| call.if_none_match(if_none_match.map(str::to_owned)).decode_with(decode));
}

fn decode(response: &Response) -> Result<EnrichmentResponse, Error> {
    if response.status == 304 {
        return Ok(EnrichmentResponse::NotModified);
    }
    let enrichment = Box::new(response.json()?);
    Ok(EnrichmentResponse::Fresh { enrichment, etag: response.header(header::ETAG) })
}
