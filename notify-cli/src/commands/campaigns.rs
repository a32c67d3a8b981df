//! `notify campaigns`, and campaigns as files.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use notify_client::notify_core::{
    CampaignStatus, ListCampaigns, Template,
    campaign_files::{FileFormat, Plan, RemoteCampaign},
};
use serde_json::json;

use crate::{
    campaign_files::{self, Folder, WriteOutcome},
    confirm::{self, ConfirmArgs},
    failure::Failure,
    input,
    output::view,
    session::Session,
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
    /// Create a campaign from a template.
    #[command(after_help = CREATE_HELP)]
    Create {
        /// The template as JSON; `-` for standard input.
        file: PathBuf,
    },
    /// List campaigns, newest first.
    List {
        /// Only campaigns whose name contains this text, ignoring case.
        #[arg(long)]
        name: Option<String>,
        /// Only campaigns with this status (default: `active`).
        #[arg(long, value_parser = ["active", "disabled", "all"])]
        status: Option<String>,
        /// Campaigns to skip.
        #[arg(long, value_name = "N")]
        offset: Option<u64>,
        /// Maximum number of campaigns, 1 to 1,000 (default: 50).
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// Show a campaign and its template.
    Get {
        /// Its name or id.
        #[arg(value_name = "NAME|ID")]
        id: String,
    },
    /// Replace a campaign's template.
    Replace {
        /// Its name or id.
        #[arg(value_name = "NAME|ID")]
        id: String,
        /// The template as JSON; `-` for standard input.
        file: PathBuf,
    },
    /// Activate a campaign.
    Enable {
        /// Its name or id.
        #[arg(value_name = "NAME|ID")]
        id: String,
    },
    /// Disable a campaign.
    Disable {
        /// Its name or id.
        #[arg(value_name = "NAME|ID")]
        id: String,
    },
    /// Delete a campaign that no notification uses.
    Delete {
        /// Its name or id.
        #[arg(value_name = "NAME|ID")]
        id: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Write each campaign to a file.
    Export {
        /// The folder, created if missing. A file with a campaign of the same name is overwritten.
        dir: PathBuf,
        /// Format of new files.
        #[arg(long, value_enum, default_value = "toml")]
        format: Format,
    },
    /// Create and update campaigns from the files of a folder, matched by name.
    Apply {
        /// The folder, with a TOML or JSON file for each campaign.
        dir: PathBuf,
        /// Show the changes without making them.
        #[arg(long)]
        dry_run: bool,
        /// Exit with status 1 if there are changes.
        #[arg(long, requires = "dry_run")]
        exit_code: bool,
        /// Disable active campaigns without a file, except the default one.
        #[arg(long)]
        disable_missing: bool,
    },
}

/// The format of a campaign file.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// TOML; the `data` of a button is JSON text.
    Toml,
    /// JSON, in the form of the API.
    Json,
}

impl From<Format> for FileFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Toml => Self::Toml,
            Format::Json => Self::Json,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(command: Campaigns, session: &mut Session) -> Result<(), Failure> {
    match command {
        Campaigns::Create { file } => {
            let template: Template = input::request(&file)?;
            let created = session.client()?.campaigns().create(&template).await?;
            session.out.show(&created, &view::CREATED)
        }
        Campaigns::List { name, status, offset, limit } => {
            let query = ListCampaigns { offset, limit, name, status };
            let page = session.client()?.campaigns().list(&query).await?;
            session.out.show(&page, &view::CAMPAIGNS)
        }
        Campaigns::Get { id } => {
            let id = session.named_campaign(&id).await?;
            let campaign = session.client()?.campaigns().get(id).await;
            let campaign = campaign.map_err(Failure::unknown_id("campaign", &id))?;
            session.out.show(&campaign, &view::CAMPAIGN)
        }
        Campaigns::Replace { id, file } => {
            let template: Template = input::request(&file)?;
            let id = session.named_campaign(&id).await?;
            let replaced = session.client()?.campaigns().replace(id, &template).await;
            replaced.map_err(Failure::unknown_id("campaign", &id))?;
            session.out.done()
        }
        Campaigns::Enable { id } => set_status(&id, CampaignStatus::Active, session).await,
        Campaigns::Disable { id } => set_status(&id, CampaignStatus::Disabled, session).await,
        Campaigns::Delete { id, confirm } => {
            let id = session.named_campaign(&id).await?;
            let notify = session.client()?;
            if confirm.is_required()? {
                let campaign = notify.campaigns().get(id).await;
                let campaign = campaign.map_err(Failure::unknown_id("campaign", &id))?;
                confirm::ask(&format!(
                    "Delete the campaign `{}` with its template? This cannot be undone.",
                    campaign.campaign.name
                ))?;
            }
            notify.campaigns().delete(id).await.map_err(Failure::unknown_id("campaign", &id))?;
            session.out.done()
        }
        Campaigns::Export { dir, format } => export(&dir, format.into(), session).await,
        Campaigns::Apply { dir, dry_run, exit_code, disable_missing } => {
            let folder = Folder::read(&dir)?;
            let notify = session.client()?;
            let server = campaign_files::remote_campaigns(&notify).await?;
            let plan = Plan::new(folder.campaigns, server, disable_missing);
            if !dry_run {
                campaign_files::apply(&plan, &notify).await?;
            }
            session.out.show(&plan, &view::CAMPAIGN_STEPS)?;
            let change_count = plan.change_count();
            if exit_code && change_count > 0 {
                return Err(Failure::CampaignsDiffer(change_count));
            }
            Ok(())
        }
    }
}

async fn export(dir: &Path, format: FileFormat, session: &mut Session) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(Failure::file(dir))?;
    let mut folder = Folder::read(dir)?;
    let server = campaign_files::remote_campaigns(&session.client()?).await?;
    let mut written = Vec::new();
    for RemoteCampaign { campaign, .. } in server {
        let (file, outcome) = folder.write(&campaign, format)?;
        let outcome = match outcome {
            WriteOutcome::New => "new",
            WriteOutcome::Changed => "changed",
            WriteOutcome::Unchanged => "unchanged",
        };
        written.push(json!({ "name": campaign.name, "file": file, "written": outcome }));
    }
    session.out.show(&json!({ "campaigns": written }), &view::CAMPAIGN_FILES)
}

async fn set_status(
    id: &str,
    status: CampaignStatus,
    session: &mut Session,
) -> Result<(), Failure> {
    let id = session.named_campaign(id).await?;
    let result = session.client()?.campaigns().set_status(id, status).await;
    result.map_err(Failure::unknown_id("campaign", &id))?;
    session.out.done()
}
