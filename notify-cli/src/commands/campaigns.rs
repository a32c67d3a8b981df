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

const CREATE_HELP: &str = r#"Example of FILE:
  {"name": "spring", "layout_id": "content_with_two", "settings": {}, "features": [
    {"type": "content_feed", "position": 1, "data": {"feeds": [
      {"url": "https://shop.example/feed", "name": "News"}]}},
    {"type": "action_button", "position": 1, "data": {
      "type": "url", "title": "Shop", "url": "shop://sale"}}]}"#;

/// `notify campaigns`.
#[derive(Debug, Subcommand)]
pub(crate) enum Campaigns {
    /// Create a campaign of a template.
    #[command(after_help = CREATE_HELP)]
    Create {
        /// The template as JSON; `-` for standard input.
        file: PathBuf,
    },
    /// List campaigns, newest first.
    List {
        /// Part of the name, letter case ignored.
        #[arg(long)]
        name: Option<String>,
        /// Only campaigns with this status; `active` unless given.
        #[arg(long, value_parser = ["active", "disabled", "all"])]
        status: Option<String>,
        /// Campaigns to skip.
        #[arg(long, value_name = "N")]
        offset: Option<u64>,
        /// Maximum number of campaigns, 1 to 1,000; 50 unless given.
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
    /// Delete a campaign that no notification uses.
    Delete {
        /// Its id.
        id: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Write every campaign to a file of its own.
    Export {
        /// The folder; created if missing. A file that holds a campaign of the same name is overwritten.
        dir: PathBuf,
        /// Format of new files.
        #[arg(long, value_enum, default_value = "toml")]
        format: FileFormat,
    },
    /// Create and update campaigns from the files of a folder, matched by name.
    Apply {
        /// The folder, with a TOML or JSON file for each campaign.
        dir: PathBuf,
        /// Show the changes without making them.
        #[arg(long)]
        dry_run: bool,
        /// Exit with status 1 if there are changes to make.
        #[arg(long, requires = "dry_run")]
        exit_code: bool,
        /// Disable active campaigns that have no file, except the default one.
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
            let campaign = session.notify()?.campaigns().get(known("campaign", &id)?).await;
            let campaign = campaign.map_err(Failure::of_id("campaign", &id))?;
            session.out.show(&campaign, &view::CAMPAIGN)
        }
        Campaigns::Replace { id, file } => {
            let template: Template = input::request(&file)?;
            let id = known("campaign", &id)?;
            let replaced = session.notify()?.campaigns().replace(id, &template).await;
            replaced.map_err(Failure::of_id("campaign", &id))?;
            session.out.done()
        }
        Campaigns::Enable { id } => set_status(&id, CampaignStatus::Active, session).await,
        Campaigns::Disable { id } => set_status(&id, CampaignStatus::Disabled, session).await,
        Campaigns::Delete { id, consent } => {
            let id = known("campaign", &id)?;
            let notify = session.notify()?;
            if consent.is_to_be_asked()? {
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
    let set = session.notify()?.campaigns().set_status(known("campaign", id)?, status).await;
    set.map_err(Failure::of_id("campaign", &id))?;
    session.out.done()
}
