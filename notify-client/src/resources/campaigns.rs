//! Campaigns.

use notify_core::{
    CampaignCreated, CampaignId, CampaignList, CampaignRecord, CampaignStatus, ListCampaigns,
    SetCampaignStatus, Template,
};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Campaigns: templates of the content that a device adds to notifications.
    Campaigns from campaigns;

    /// Creates an active campaign: `POST /v1/campaigns`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the template breaks a rule; [`crate::Error::Rejected`] if
    /// it names an unknown feed.
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

    /// Lists campaigns, newest first: `GET /v1/campaigns`; only active ones unless `status` is set.
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

    /// Reads a campaign with its template, every default filled in:
    /// `GET /v1/campaigns/:id`.
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
    /// notification uses it, or it is the default one: disable it instead.
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
