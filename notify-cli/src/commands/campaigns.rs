//! `notify campaigns` (spec 4.4, B27 to B29).

use std::path::PathBuf;

use clap::Subcommand;
use notify_client::notify_core::{CampaignStatus, ListCampaigns, Template};

use crate::{
    failure::Failure,
    input,
    output::view,
    session::{Session, known},
};

/// `notify campaigns`.
#[derive(Debug, Subcommand)]
pub(crate) enum Campaigns {
    /// Create a campaign of a template.
    Create {
        /// The template as JSON; `-` for standard input.
        file: PathBuf,
    },
    /// List campaigns, newest first.
    List {
        /// Part of the name, letter case ignored.
        #[arg(long)]
        name: Option<String>,
        /// Which ones; `active` unless given.
        #[arg(long, value_parser = ["active", "disabled", "all"])]
        status: Option<String>,
        /// Campaigns to skip.
        #[arg(long, value_name = "N")]
        offset: Option<u64>,
        /// Most campaigns, 1 to 1,000; 50 unless given.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// Show a campaign and its template.
    Get {
        /// Its id.
        id: String,
    },
    /// Replace a campaign's template.
    Replace {
        /// Its id.
        id: String,
        /// The template as JSON; `-` for standard input.
        file: PathBuf,
    },
    /// Activate a campaign.
    Enable {
        /// Its id.
        id: String,
    },
    /// Disable a campaign.
    Disable {
        /// Its id.
        id: String,
    },
    /// Delete a campaign that no notification names.
    Delete {
        /// Its id.
        id: String,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Campaigns, session: &mut Session) -> Result<(), Failure> {
    match command {
        Campaigns::Create { file } => {
            let template: Template = input::request(&file)?;
            let created = session.notify()?.campaigns().create(&template).await?;
            session.out.show(&created, &view::CREATED)
        }
        Campaigns::List { name, status, offset, limit } => {
            let query = ListCampaigns { offset, limit, name, status };
            let page = session.notify()?.campaigns().list(&query).await?;
            session.out.show(&page, &view::CAMPAIGNS)
        }
        Campaigns::Get { id } => {
            let campaign = session.notify()?.campaigns().get(known("campaign", &id)?).await?;
            session.out.show(&campaign, &view::CAMPAIGN)
        }
        Campaigns::Replace { id, file } => {
            let template: Template = input::request(&file)?;
            let id = known("campaign", &id)?;
            session.notify()?.campaigns().replace(id, &template).await?;
            session.out.done()
        }
        Campaigns::Enable { id } => set_status(&id, CampaignStatus::Active, session).await,
        Campaigns::Disable { id } => set_status(&id, CampaignStatus::Disabled, session).await,
        Campaigns::Delete { id } => {
            session.notify()?.campaigns().delete(known("campaign", &id)?).await?;
            session.out.done()
        }
    }
}

async fn set_status(
    id: &str,
    status: CampaignStatus,
    session: &mut Session,
) -> Result<(), Failure> {
    session.notify()?.campaigns().set_status(known("campaign", id)?, status).await?;
    session.out.done()
}
