//! `notify enrichments`.

use clap::Subcommand;
use notify_client::{
    EnrichmentResponse,
    notify_core::{CampaignRef, EnrichmentQuery},
};

use crate::{
    failure::Failure,
    output::{self, view},
    session::Session,
};

/// `notify enrichments`.
#[derive(Debug, Subcommand)]
pub(crate) enum Enrichments {
    /// Show what a device displays for a campaign.
    Get {
        /// Name or id of the campaign, or `default`.
        #[arg(value_name = "NAME|ID")]
        campaign: String,
        /// Id of the notification that the device displays.
        #[arg(long, value_name = "ID")]
        notification: Option<String>,
        /// Id of the device.
        #[arg(long, value_name = "DEVICE_ID")]
        device: Option<String>,
        /// Print only `not modified` if the enrichment still has this entity tag.
        #[arg(long, value_name = "ETAG")]
        if_none_match: Option<String>,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Enrichments, session: &mut Session) -> Result<(), Failure> {
    let Enrichments::Get { campaign, notification, device, if_none_match } = command;
    let campaign = match campaign.as_str() {
        "default" => CampaignRef::Default,
        name => CampaignRef::Id(session.named_campaign(name).await?),
    };
    let query = EnrichmentQuery { notification_id: notification, device_id: device };
    let notify = session.client()?;
    let response = notify.enrichments().get(campaign, &query, if_none_match.as_deref()).await;
    let response = response.map_err(Failure::not_found(unknown_ids(campaign, &query)))?;
    match response {
        EnrichmentResponse::Fresh { enrichment, etag } => {
            session.out.show(&*enrichment, &view::ENRICHMENT)?;
            session.out.flush()?;
            if let Some(etag) = etag {
                output::print_message(&format!("etag {etag}"));
            }
        }
        EnrichmentResponse::NotModified => output::print_message("not modified"),
    }
    Ok(())
}

/// The message for a 404. The response does not contain the unknown id, so the message lists all ids.
fn unknown_ids(campaign: CampaignRef, query: &EnrichmentQuery) -> String {
    let mut message = match campaign {
        CampaignRef::Default => "no campaign is the default one".to_owned(),
        CampaignRef::Id(id) => format!("no active campaign has the id `{id}`"),
    };
    if let Some(id) = &query.notification_id {
        message.push_str(&format!(", or no notification the id `{id}`"));
    }
    if let Some(id) = &query.device_id {
        message.push_str(&format!(", or no device the id `{id}`"));
    }
    message
}
