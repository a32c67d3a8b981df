//! Campaigns as files: reads and writes the files of a folder, reads the campaigns of a server, and makes
//! the calls of a plan.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use notify_client::notify_core::campaign_files::{
    CAMPAIGNS_MAX, Call, CampaignDefinition, CampaignFile, FileFormat, LocalCampaign, Plan,
    RemoteCampaign, Step, file_name, one_per_name, parse_files,
};
use notify_client::notify_core::{CampaignStatus, Feed, FeedId, ListCampaigns, PageQuery};
use notify_client::{Client, Error};

use crate::failure::{Failure, broken_rules};
use crate::files;
use crate::input;
use crate::session::LARGE_PAGE;

/// The campaign files of a folder.
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) campaigns: Vec<LocalCampaign>,
}

/// The effect of writing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    New,
    Changed,
    Unchanged,
}

impl Folder {
    /// Reads every TOML and JSON file. The error lists all mistakes of all files, each with its file and
    /// field.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(Failure::file(path))? {
            let entry = entry.map_err(Failure::file(path))?;
            if entry.path().is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let content = match FileFormat::of(&name) {
                Some(_) => input::read(&path.join(&name))?,
                None => Vec::new(),
            };
            files.push(CampaignFile { name, content });
        }
        let campaigns = parse_files(files).map_err(Failure::Files)?;
        Ok(Self { path: path.to_owned(), campaigns })
    }

    /// Writes a campaign. It replaces the file that has a campaign with the same name; without such a
    /// file, it creates one. Returns the name of the file.
    pub(crate) fn write(
        &mut self,
        campaign: &CampaignDefinition,
        format: FileFormat,
    ) -> Result<(String, WriteOutcome), Failure> {
        let existing = self.campaigns.iter().find(|local| local.campaign.name == campaign.name);
        if let Some(existing) = existing
            && existing.campaign == *campaign
        {
            return Ok((existing.file.clone(), WriteOutcome::Unchanged));
        }
        let (file, outcome) = match existing {
            Some(existing) => (existing.file.clone(), WriteOutcome::Changed),
            None => {
                // The file system decides whether a name is in use, because on some systems, names
                // that differ only by case are the same.
                let is_used = |name: &str| self.path.join(name).exists();
                (file_name(&campaign.name, format, is_used), WriteOutcome::New)
            }
        };
        let format = if file.ends_with(".json") { FileFormat::Json } else { FileFormat::Toml };
        let text = campaign
            .to_text(format)
            .map_err(|error| Failure::Files(vec![format!("{file}: {error}")]))?;
        let path = self.path.join(&file);
        // The user may have put a link there, for example to a file of another checkout.
        let target = path.canonicalize().unwrap_or_else(|_| path.clone());
        let mode = if target.exists() { files::mode_of(&target) } else { files::SHARED };
        files::replace(&target, text.as_bytes(), mode).map_err(Failure::file(&path))?;
        if outcome == WriteOutcome::New {
            let campaign = campaign.clone();
            self.campaigns.push(LocalCampaign { file: file.clone(), campaign });
        }
        Ok((file, outcome))
    }
}

/// Reads the campaigns of the application, sorted by name, one for each name.
pub(crate) async fn remote_campaigns(notify: &Client) -> Result<Vec<RemoteCampaign>, Failure> {
    let mut listed = Vec::new();
    loop {
        let offset = Some(listed.len() as u64);
        let status = Some("all".to_owned());
        let query = ListCampaigns { offset, limit: Some(LARGE_PAGE), name: None, status };
        let page = notify.campaigns().list(&query).await?.campaigns;
        let is_last = page.len() < LARGE_PAGE as usize;
        listed.extend(page);
        if is_last {
            break;
        }
        if listed.len() as u64 >= CAMPAIGNS_MAX {
            return Err(Failure::Usage(format!("there are more than {CAMPAIGNS_MAX} campaigns")));
        }
    }
    let chosen = one_per_name(listed).map_err(Failure::Files)?;
    let feeds = feeds_by_id(notify).await?;
    let mut all = Vec::with_capacity(chosen.len());
    for campaign in chosen {
        let record = notify.campaigns().get(campaign.id).await?;
        all.push(RemoteCampaign::new(record, &feeds));
    }
    Ok(all)
}

async fn feeds_by_id(notify: &Client) -> Result<HashMap<FeedId, Feed>, Failure> {
    let query = PageQuery { limit: Some(LARGE_PAGE), cursor: None };
    let feeds = notify.feeds();
    let mut pages = feeds.all(&query);
    let mut feeds_by_id = HashMap::new();
    while let Some(feed) = pages.next().await {
        let feed = feed?;
        feeds_by_id.insert(feed.id, feed);
    }
    Ok(feeds_by_id)
}

/// Applies the changes. A failure has the name of its file. Changes made before the failure remain, and
/// a later run makes only the missing ones.
pub(crate) async fn apply(plan: &Plan, notify: &Client) -> Result<(), Failure> {
    for step in &plan.campaigns {
        apply_step(step, notify).await.map_err(|failure| with_file(step, failure))?;
    }
    Ok(())
}

async fn apply_step(step: &Step, notify: &Client) -> Result<(), Failure> {
    let campaigns = notify.campaigns();
    for call in step.calls().map_err(Failure::Files)? {
        match call {
            Call::Create { template, status } => {
                let id = campaigns.create(&template).await?.id;
                if status == CampaignStatus::Disabled {
                    campaigns.set_status(id, status).await?;
                }
            }
            Call::Replace { id, template } => campaigns.replace(id, &template).await?,
            Call::SetStatus { id, status } => campaigns.set_status(id, status).await?,
        }
    }
    Ok(())
}

/// Adds the name of the file, or of the campaign, to a failure.
fn with_file(step: &Step, failure: Failure) -> Failure {
    let label = step.label();
    let with_name = |rules: &[String]| {
        Failure::Files(rules.iter().map(|rule| format!("{label}: {rule}")).collect())
    };
    match &failure {
        Failure::Files(rules) => with_name(rules),
        Failure::Call(error @ (Error::Invalid(_) | Error::Rejected { status: 400, .. })) => {
            broken_rules(error).map_or(failure, |rules| with_name(&rules))
        }
        _ => failure,
    }
}
