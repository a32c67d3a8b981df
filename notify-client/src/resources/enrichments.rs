//! Enrichment: what a device's SDK asks for (B31).

use notify_core::{CampaignRef, DeviceId, Enrichment, NotificationId};
use reqwest::{Method, header};

use crate::{
    Error,
    call::{Answer, Call},
    handle::handle,
};

/// For whom an enrichment is asked, and what the asker has already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnrichmentQuery {
    /// The notification that is enriched.
    pub notification_id: Option<NotificationId>,
    /// The device that shows it.
    pub device_id: Option<DeviceId>,
    /// `ETag` of an answer that the asker still has.
    pub if_none_match: Option<String>,
}

/// Answer of [`Enrichments::get`].
#[derive(Debug, Clone, PartialEq)]
pub enum EnrichmentAnswer {
    /// The enrichment as it is now.
    Fresh {
        /// The enrichment.
        enrichment: Box<Enrichment>,
        /// For [`EnrichmentQuery::if_none_match`] of the next call.
        etag: Option<String>,
    },
    /// What the asker has is still so.
    NotModified,
}

handle! {
    /// Enrichments: campaigns as a device shows them.
    Enrichments from enrichments;

    /// Reads the enrichment of a campaign: `GET /v1/enrichments/:campaign_id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the campaign is disabled or not there, when there is no
    /// default one, or when the query names something unknown.
    ///
    /// ```no_run
    /// # use notify_client::{EnrichmentAnswer, EnrichmentQuery, notify_core::CampaignRef};
    /// # async fn example(notify: notify_client::Client, etag: String)
    /// # -> Result<(), notify_client::Error> {
    /// let query = EnrichmentQuery { if_none_match: Some(etag), ..Default::default() };
    /// match notify.enrichments().get(CampaignRef::Default, &query).await? {
    ///     EnrichmentAnswer::Fresh { enrichment, etag } => println!("{:?}", enrichment.layout_id),
    ///     EnrichmentAnswer::NotModified => println!("as before"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn get(campaign: CampaignRef, query: &EnrichmentQuery) -> EnrichmentAnswer =
        Ok(enrichment(campaign, query));
}

fn enrichment(campaign: CampaignRef, query: &EnrichmentQuery) -> Call<EnrichmentAnswer> {
    let plain: Call<Enrichment> = Call::v1(Method::GET, &["enrichments", &campaign.to_string()]);
    let mut parameters = Vec::new();
    if let Some(id) = &query.notification_id {
        parameters.push(("notification_id", id.to_string()));
    }
    if let Some(id) = &query.device_id {
        parameters.push(("device_id", id.to_string()));
    }
    plain.query(parameters).unless(query.if_none_match.clone()).reading(read)
}

fn read(answer: &Answer) -> Result<EnrichmentAnswer, Error> {
    if answer.status == 304 {
        return Ok(EnrichmentAnswer::NotModified);
    }
    let enrichment = Box::new(answer.json()?);
    Ok(EnrichmentAnswer::Fresh { enrichment, etag: answer.header(header::ETAG) })
}
