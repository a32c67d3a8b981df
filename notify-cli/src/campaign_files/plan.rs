//! What it takes to make a server's campaigns those of a folder, and doing it.

use notify_client::{
    Client, Error,
    notify_core::{CampaignId, CampaignStatus},
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Campaign, Remote, difference, feeds_mut, folder::Local};
use crate::failure::{Failure, broken_rules};

/// What happens to a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    /// It is made.
    Create,
    /// It gets what the file says.
    Update,
    /// It is as the file says.
    Unchanged,
    /// It has no file and is disabled.
    Disable,
    /// It has no file and stays as it is.
    Left,
}

/// One campaign of a plan.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) action: Action,
    /// The file; null where there is none.
    pub(crate) file: Option<String>,
    /// The fields that change.
    pub(crate) changes: Vec<String>,
    #[serde(skip)]
    id: Option<CampaignId>,
    #[serde(skip)]
    wanted: Option<Campaign>,
    #[serde(skip)]
    status_now: CampaignStatus,
}

/// What is to be done, or was.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) campaigns: Vec<Step>,
}

impl Plan {
    /// Compares files with a server; `disable_missing` is about active campaigns without a file.
    pub(crate) fn make(files: Vec<Local>, server: Vec<Remote>, disable_missing: bool) -> Self {
        let mut server: Vec<Option<Remote>> = server.into_iter().map(Some).collect();
        let mut campaigns = Vec::new();
        for Local { file, campaign } in files {
            let remote = server.iter_mut().find(|remote| {
                remote.as_ref().is_some_and(|remote| remote.campaign.name == campaign.name)
            });
            campaigns.push(match remote.and_then(Option::take) {
                Some(remote) => compare(file, campaign, &remote),
                None => Step {
                    name: campaign.name.clone(),
                    action: Action::Create,
                    file: Some(file),
                    changes: Vec::new(),
                    id: None,
                    status_now: CampaignStatus::Active,
                    wanted: Some(campaign),
                },
            });
        }
        // A campaign of the files that becomes the default takes that from the one that is.
        let moves_default = campaigns
            .iter()
            .any(|step| step.wanted.as_ref().is_some_and(|campaign| campaign.is_default));
        for Remote { id, campaign } in server.into_iter().flatten() {
            let is_kept = campaign.is_default && !moves_default;
            let is_active = campaign.status == CampaignStatus::Active;
            let disabled = disable_missing && is_active && !is_kept;
            campaigns.push(Step {
                name: campaign.name,
                action: if disabled { Action::Disable } else { Action::Left },
                file: None,
                changes: if disabled { vec!["status".to_owned()] } else { Vec::new() },
                id: Some(id),
                status_now: campaign.status,
                wanted: None,
            });
        }
        Self { campaigns }
    }

    /// Does it. What fails names its file; what was done before stays done, and doing it again goes
    /// on from there.
    pub(crate) async fn carry_out(&self, notify: &Client) -> Result<(), Failure> {
        for step in &self.campaigns {
            step.carry_out(notify).await.map_err(|failure| step.named(failure))?;
        }
        Ok(())
    }
}

fn compare(file: String, wanted: Campaign, remote: &Remote) -> Step {
    let before = comparable(&remote.campaign);
    let changes = difference::paths(&before, &comparable(&wanted));
    Step {
        name: wanted.name.clone(),
        action: if changes.is_empty() { Action::Unchanged } else { Action::Update },
        file: Some(file),
        changes,
        id: Some(remote.id),
        status_now: remote.campaign.status,
        wanted: Some(wanted),
    }
}

/// A campaign as it is compared: a feed that is there keeps its name, so that its url alone counts.
fn comparable(campaign: &Campaign) -> Map<String, Value> {
    let mut fields = campaign.template.clone();
    for feed in feeds_mut(&mut fields) {
        if let Some(feed) = feed.as_object_mut() {
            feed.remove("name");
        }
    }
    fields.insert("status".to_owned(), campaign.status.as_str().into());
    fields
}

impl Step {
    async fn carry_out(&self, notify: &Client) -> Result<(), Failure> {
        let campaigns = notify.campaigns();
        match (self.action, self.id, &self.wanted) {
            (Action::Create, _, Some(wanted)) => {
                let template = wanted.request().map_err(Failure::Files)?;
                let id = campaigns.create(&template).await?.id;
                if wanted.status == CampaignStatus::Disabled {
                    campaigns.set_status(id, CampaignStatus::Disabled).await?;
                }
            }
            (Action::Update, Some(id), Some(wanted)) => {
                let template = wanted.request().map_err(Failure::Files)?;
                // A disabled campaign cannot become the default, nor the default be disabled (B27).
                if wanted.status == CampaignStatus::Active && self.status_now != wanted.status {
                    campaigns.set_status(id, CampaignStatus::Active).await?;
                }
                if self.changes.iter().any(|path| path != "status") {
                    campaigns.replace(id, &template).await?;
                }
                if wanted.status == CampaignStatus::Disabled && self.status_now != wanted.status {
                    campaigns.set_status(id, CampaignStatus::Disabled).await?;
                }
            }
            (Action::Disable, Some(id), _) => {
                campaigns.set_status(id, CampaignStatus::Disabled).await?;
            }
            (Action::Create | Action::Update | Action::Disable, ..)
            | (Action::Unchanged | Action::Left, ..) => {}
        }
        Ok(())
    }

    /// A failure with the file, or the campaign, that it is about.
    fn named(&self, failure: Failure) -> Failure {
        let about = self.file.as_deref().unwrap_or(&self.name);
        let named = |rules: &[String]| {
            Failure::Files(rules.iter().map(|rule| format!("{about}: {rule}")).collect())
        };
        match &failure {
            Failure::Files(rules) => named(rules),
            Failure::Call(error @ (Error::Invalid(_) | Error::Rejected { status: 400, .. })) => {
                broken_rules(error).map_or(failure, |rules| named(&rules))
            }
            _ => failure,
        }
    }
}
