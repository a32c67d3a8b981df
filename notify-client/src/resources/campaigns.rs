//! Campaigns, and enrichments, which the SDK of a device requests.

use notify_core::{
    CampaignCreated, CampaignId, CampaignList, CampaignRecord, CampaignRef, CampaignStatus,
    Enrichment, EnrichmentQuery, ListCampaigns, SetCampaignStatus, Template,
};
use reqwest::{Method, header};

use crate::{
    Error,
    call::{Call, Response},
    handle::handle,
};

handle! {
    /// Campaigns: templates of the content that a device adds to notifications.
    Campaigns from campaigns;

    /// Creates an active campaign: `POST /v1/campaigns`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the template breaks a rule; [`crate::Error::Rejected`] if
    /// it has the id of an unknown feed.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{Template, TemplateSettings};
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let spring = Template {
    ///     name: "spring".into(),
    ///     layout_id: "content_with_two".into(),
    ///     settings: Some(TemplateSettings::default()),
    ///     ..Default::default()
    /// };
    /// let id = notify.campaigns().create(&spring).await?.id;
    /// # Ok(())
    /// # }
    /// ```
    fn create(template: &Template) -> CampaignCreated =
        Call::v1(Method::POST, &["campaigns"]).body(template);

    /// Lists campaigns, newest first: `GET /v1/campaigns`. Without `status`, it lists only active ones.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if a parameter breaks a rule.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::ListCampaigns;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let spring = ListCampaigns { name: Some("spring".into()), ..Default::default() };
    /// let campaigns = notify.campaigns().list(&spring).await?.campaigns;
    /// # Ok(())
    /// # }
    /// ```
    fn list(query: &ListCampaigns) -> CampaignList =
        Call::v1(Method::GET, &["campaigns"]).query(query);

    /// Reads a campaign: `GET /v1/campaigns/:id`. Its template has the defaults of absent fields.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CampaignId;
    /// # async fn example(notify: notify_client::Client, id: CampaignId)
    /// # -> Result<(), notify_client::Error> {
    /// let template = notify.campaigns().get(id).await?.template;
    /// # Ok(())
    /// # }
    /// ```
    fn get(id: CampaignId) -> CampaignRecord =
        Ok(Call::v1(Method::GET, &["campaigns", &id.to_string()]));

    /// Replaces a campaign's template: `PUT /v1/campaigns/:id`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the template breaks a rule; [`crate::Error::NotFound`] if
    /// the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{CampaignId, Template};
    /// # async fn example(notify: notify_client::Client, id: CampaignId, template: Template)
    /// # -> Result<(), notify_client::Error> {
    /// notify.campaigns().replace(id, &template).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn replace(id: CampaignId, template: &Template) -> () =
        Call::v1(Method::PUT, &["campaigns", &id.to_string()]).discard_response().body(template);

    /// Activates or disables a campaign: `PUT /v1/campaigns/:id/status`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Rejected`] if
    /// the campaign is the default one, which cannot be disabled.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{CampaignId, CampaignStatus};
    /// # async fn example(notify: notify_client::Client, id: CampaignId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.campaigns().set_status(id, CampaignStatus::Disabled).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn set_status(id: CampaignId, status: CampaignStatus) -> () =
        Call::v1(Method::PUT, &["campaigns", &id.to_string(), "status"])
            .discard_response()
            .body(&SetCampaignStatus { status: status.as_str().to_owned() });

    /// Deletes a campaign: `DELETE /v1/campaigns/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Rejected`] if a
    /// notification uses the campaign, which can then only be disabled, or if it is the default one.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CampaignId;
    /// # async fn example(notify: notify_client::Client, id: CampaignId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.campaigns().delete(id).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn delete(id: CampaignId) -> () =
        Ok(Call::v1(Method::DELETE, &["campaigns", &id.to_string()]).discard_response());
}

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
    /// [`crate::Error::NotFound`] if the campaign is disabled or unknown, if there is no default
    /// campaign, or if the query contains an unknown id.
    ///
    /// ```no_run
    /// # use notify_client::{EnrichmentResponse, notify_core::{CampaignRef, EnrichmentQuery}};
    /// # async fn example(notify: notify_client::Client, last_etag: String)
    /// # -> Result<(), notify_client::Error> {
    /// let query = EnrichmentQuery { device_id: Some("pixel-7".into()), ..Default::default() };
    /// match notify.enrichments().get(CampaignRef::Default, &query, Some(&last_etag)).await? {
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
            .map(|call| call.if_none_match(if_none_match.map(str::to_owned)).decode_with(decode_enrichment));
}

fn decode_enrichment(response: &Response) -> Result<EnrichmentResponse, Error> {
    if response.status == 304 {
        return Ok(EnrichmentResponse::NotModified);
    }
    let enrichment = Box::new(response.json()?);
    Ok(EnrichmentResponse::Fresh { enrichment, etag: response.header(header::ETAG) })
}
