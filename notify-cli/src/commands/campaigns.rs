//! `notify campaigns` (spec 4.4, B27 to B29), and campaigns as files.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use notify_client::notify_core::{CampaignStatus, ListCampaigns, Template};
use serde_json::json;

use crate::{
    campaign_files::{FileFormat, Folder, Plan, Remote, Written},
    confirm::{self, Consent},
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
        #[command(flatten)]
        consent: Consent,
    },
    /// Write every campaign to a file of its own.
    Export {
        /// The folder; made when missing. A file that holds a campaign of that name is written over.
        dir: PathBuf,
        /// Form of new files.
        #[arg(long, value_enum, default_value = "toml")]
        format: FileFormat,
    },
    /// Make the campaigns of the server those of a folder's files, by name.
    Apply {
        /// The folder, with a TOML or JSON file for each campaign.
        dir: PathBuf,
        /// Show what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
        /// Exit with status 1 where something would be done.
        #[arg(long, requires = "dry_run")]
        exit_code: bool,
        /// Disable active campaigns that have no file; the default one stays.
        #[arg(long)]
        disable_missing: bool,
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
        Campaigns::Delete { id, consent } => {
            let id = known("campaign", &id)?;
            let notify = session.notify()?;
            if consent.is_to_be_asked() {
                let campaign = notify.campaigns().get(id).await;
                let campaign = campaign.map_err(Failure::of_id("campaign", &id))?;
                confirm::ask(&format!(
                    "Delete the campaign `{}` with its template? This cannot be undone.",
                    campaign.campaign.name
                ))?;
            }
            notify.campaigns().delete(id).await.map_err(Failure::of_id("campaign", &id))?;
            session.out.done()
        }
        Campaigns::Export { dir, format } => export(&dir, format, session).await,
        Campaigns::Apply { dir, dry_run, exit_code, disable_missing } => {
            let folder = Folder::read(&dir)?;
            let notify = session.notify()?;
            let server = Remote::all(&notify).await?;
            let plan = Plan::make(folder.campaigns, server, disable_missing);
            if !dry_run {
                plan.carry_out(&notify).await?;
            }
            session.out.show(&plan, &view::CAMPAIGN_STEPS)?;
            match plan.changes() {
                changes if exit_code && changes > 0 => Err(Failure::Differing(changes)),
                _ => Ok(()),
            }
        }
    }
}

async fn export(dir: &Path, format: FileFormat, session: &mut Session) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(Failure::file(dir))?;
    let mut folder = Folder::read(dir)?;
    let mut written = Vec::new();
    for Remote { campaign, .. } in Remote::all(&session.notify()?).await? {
        let (file, how) = folder.write(&campaign, format)?;
        let how = match how {
            Written::New => "new",
            Written::Changed => "changed",
            Written::Unchanged => "unchanged",
        };
        written.push(json!({ "name": campaign.name, "file": file, "written": how }));
    }
    session.out.show(&json!({ "campaigns": written }), &view::CAMPAIGN_FILES)
}

async fn set_status(
    id: &str,
    status: CampaignStatus,
    session: &mut Session,
) -> Result<(), Failure> {
    session.notify()?.campaigns().set_status(known("campaign", id)?, status).await?;
    session.out.done()
}
