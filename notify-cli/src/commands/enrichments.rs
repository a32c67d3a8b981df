//! `notify enrichments` (B31).

use clap::Subcommand;
use notify_client::{
    EnrichmentResponse,
    notify_core::{CampaignRef, EnrichmentQuery},
};

use crate::{
    failure::Failure,
    output::{self, view},
    session::{Session, known},
};

/// `notify enrichments`.
#[derive(Debug, Subcommand)]
pub(crate) enum Enrichments {
    /// Show what a device shows for a campaign.
    Get {
        /// Id of the campaign, or `default`.
        campaign: String,
        /// The notification that the device shows.
        #[arg(long, value_name = "ID")]
        notification: Option<String>,
        /// The device that asks.
        #[arg(long, value_name = "DEVICE_ID")]
        device: Option<String>,
        /// Show nothing when the answer is still the one with this tag.
        #[arg(long, value_name = "ETAG")]
        if_none_match: Option<String>,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Enrichments, session: &mut Session) -> Result<(), Failure> {
    let Enrichments::Get { campaign, notification, device, if_none_match } = command;
    let campaign = match campaign.as_str() {
        "default" => CampaignRef::Default,
        id => CampaignRef::Id(known("campaign", id)?),
    };
    let query = EnrichmentQuery { notification_id: notification, device_id: device };
    let notify = session.notify()?;
    let got = notify.enrichments().get(campaign, &query, if_none_match.as_deref()).await;
    let got = got.map_err(Failure::when_not_found(unknown(campaign, &query)))?;
    match got {
        EnrichmentResponse::Fresh { enrichment, etag } => {
            session.out.show(&*enrichment, &view::ENRICHMENT)?;
            session.out.flush()?;
            if let Some(etag) = etag {
                output::talk(&format!("etag {etag}"));
            }
        }
        EnrichmentResponse::NotModified => output::talk("not modified"),
    }
    Ok(())
}

/// What there is nothing of: the server says of all of it no more than that.
fn unknown(campaign: CampaignRef, query: &EnrichmentQuery) -> String {
    let mut unknown = match campaign {
        CampaignRef::Default => "no campaign is the default one".to_owned(),
        CampaignRef::Id(id) => format!("no active campaign has the id `{id}`"),
    };
    if let Some(id) = &query.notification_id {
        unknown.push_str(&format!(", or no notification the id `{id}`"));
    }
    if let Some(id) = &query.device_id {
        unknown.push_str(&format!(", or no device the id `{id}`"));
    }
    unknown
}
