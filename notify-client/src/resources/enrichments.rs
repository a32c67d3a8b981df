//! Enrichment: what a device's SDK asks for.

use notify_core::{CampaignRef, Enrichment, EnrichmentQuery};
use reqwest::{Method, header};

use crate::{
    Error,
    call::{Answer, Call},
    handle::handle,
    parameters,
};

/// Answer of [`Enrichments::get`].
#[derive(Debug, Clone, PartialEq)]
pub enum EnrichmentAnswer {
    /// The enrichment as it is now.
    Fresh {
        /// The enrichment.
        enrichment: Box<Enrichment>,
        /// For `if_none_match` of the next call.
        etag: Option<String>,
    },
    /// What the asker has is still so.
    NotModified,
}

handle! {
    /// Enrichments: campaigns as a device shows them.
    Enrichments from enrichments;

    /// Reads the enrichment of a campaign: `GET /v1/enrichments/:campaign_id`. `if_none_match` is
    /// the tag of an answer that the caller still has.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the campaign is disabled or not there, when there is no
    /// default one, or when the query names something unknown.
    ///
    /// ```no_run
    /// # use notify_client::{EnrichmentAnswer, notify_core::{CampaignRef, EnrichmentQuery}};
    /// # async fn example(notify: notify_client::Client, known: String)
    /// # -> Result<(), notify_client::Error> {
    /// let query = EnrichmentQuery { device_id: Some("pixel-7".into()), ..Default::default() };
    /// match notify.enrichments().get(CampaignRef::Default, &query, Some(&known)).await? {
    ///     EnrichmentAnswer::Fresh { enrichment, etag } => println!("{:?}", enrichment.layout_id),
    ///     EnrichmentAnswer::NotModified => println!("as before"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn get(
        campaign: CampaignRef,
        query: &EnrichmentQuery,
        if_none_match: Option<&str>
    ) -> EnrichmentAnswer =
        Call::<Enrichment>::v1(Method::GET, &["enrichments", &campaign.to_string()])
            .filtered::<EnrichmentQuery>(parameters::enrichment(query))
            .map(|call| call.unless(if_none_match.map(str::to_owned)).reading(read));
}

fn read(answer: &Answer) -> Result<EnrichmentAnswer, Error> {
    if answer.status == 304 {
        return Ok(EnrichmentAnswer::NotModified);
    }
    let enrichment = Box::new(answer.json()?);
    Ok(EnrichmentAnswer::Fresh { enrichment, etag: answer.header(header::ETAG) })
}
