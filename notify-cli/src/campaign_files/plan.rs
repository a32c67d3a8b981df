//! What it takes to make a server's campaigns those of a folder, and doing it.

use std::collections::HashMap;

use notify_client::notify_core::{
    Campaign as Listed, CampaignId, CampaignStatus, ListCampaigns, PageQuery,
};
use notify_client::{Client, Error};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::campaign_files::{Campaign, Local, feeds_mut, object};
use crate::commands::PAGE_OF_ALL;
use crate::failure::{Failure, broken_rules};

/// What happens to a campaign. It is shown as a word, in small letters.
#[derive(Debug)]
pub(crate) enum Action {
    /// It is made.
    Create(Campaign),
    /// It gets what the file says.
    Update {
        /// Which.
        id: CampaignId,
        /// What the file says.
        wanted: Campaign,
        /// Its status until now.
        status: CampaignStatus,
    },
    /// It is as the file says.
    Unchanged,
    /// It has no file and is disabled.
    Disable(CampaignId),
    /// It has no file and stays as it is.
    Left,
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Create(_) => "create",
            Self::Update { .. } => "update",
            Self::Unchanged => "unchanged",
            Self::Disable(_) => "disable",
            Self::Left => "left",
        })
    }
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
}

/// A call that an update takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Replace,
    SetStatus(CampaignStatus),
}

/// The calls of an update, in an order in which no campaign is active with a template that its file
/// does not have, as far as the server allows it: a disabled campaign cannot become the default, nor the
/// default be disabled (B27).
fn calls(status: CampaignStatus, wanted: &Campaign, is_replaced: bool) -> Vec<Call> {
    let replace = is_replaced.then_some(Call::Replace);
    let change = (wanted.status != status).then_some(Call::SetStatus(wanted.status));
    let is_status_first = wanted.status == CampaignStatus::Active && wanted.is_default;
    let order = if is_status_first { [change, replace] } else { [replace, change] };
    order.into_iter().flatten().collect()
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
        // A campaign of the files that becomes the default takes that from the one that is.
        let moves_default = files.iter().any(|local| local.campaign.is_default);
        for Local { file, campaign } in files {
            let remote = server.iter_mut().find(|remote| {
                remote.as_ref().is_some_and(|remote| remote.campaign.name == campaign.name)
            });
            campaigns.push(match remote.and_then(Option::take) {
                Some(remote) => compare(file, campaign, &remote),
                None => Step {
                    name: campaign.name.clone(),
                    action: Action::Create(campaign),
                    file: Some(file),
                    changes: Vec::new(),
                },
            });
        }
        for Remote { id, campaign } in server.into_iter().flatten() {
            let is_kept = campaign.is_default && !moves_default;
            let is_active = campaign.status == CampaignStatus::Active;
            let disabled = disable_missing && is_active && !is_kept;
            campaigns.push(Step {
                name: campaign.name,
                action: if disabled { Action::Disable(id) } else { Action::Left },
                file: None,
                changes: if disabled { vec!["status".to_owned()] } else { Vec::new() },
            });
        }
        Self { campaigns }
    }

    /// How many campaigns differ from what they are to be.
    pub(crate) fn changes(&self) -> usize {
        let is_change = |step: &&Step| !matches!(step.action, Action::Unchanged | Action::Left);
        self.campaigns.iter().filter(is_change).count()
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
    let changes = paths(&before, &comparable(&wanted));
    let name = wanted.name.clone();
    let action = if changes.is_empty() {
        Action::Unchanged
    } else {
        Action::Update { id: remote.id, wanted, status: remote.campaign.status }
    };
    Step { name, action, file: Some(file), changes }
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
        match &self.action {
            Action::Create(wanted) => {
                let template = wanted.request().map_err(Failure::Files)?;
                let id = campaigns.create(&template).await?.id;
                if wanted.status == CampaignStatus::Disabled {
                    campaigns.set_status(id, CampaignStatus::Disabled).await?;
                }
            }
            Action::Update { id, wanted, status } => {
                let template = wanted.request().map_err(Failure::Files)?;
                let is_replaced = self.changes.iter().any(|path| path != "status");
                for call in calls(*status, wanted, is_replaced) {
                    match call {
                        Call::Replace => drop(campaigns.replace(*id, &template).await?),
                        Call::SetStatus(status) => {
                            campaigns.set_status(*id, status).await?;
                        }
                    }
                }
            }
            Action::Disable(id) => {
                campaigns.set_status(*id, CampaignStatus::Disabled).await?;
            }
            Action::Unchanged | Action::Left => {}
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

// What differs between two templates, by path.

/// Most paths that are told of one campaign.
const PATHS_MAX: usize = 20;

/// The paths at which they differ, in order; the last one says when there are more.
pub(super) fn paths(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    objects(before, after, "", &mut found);
    if found.len() > PATHS_MAX {
        let more = found.len() - PATHS_MAX;
        found.truncate(PATHS_MAX);
        found.push(format!("and {more} more"));
    }
    found
}

fn objects(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &str,
    found: &mut Vec<String>,
) {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{name}");
        values(before.get(name), after.get(name), path, found);
    }
}

fn values(before: Option<&Value>, after: Option<&Value>, path: String, found: &mut Vec<String>) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            objects(before, after, &path, found);
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (place, (before, after)) in before.iter().zip(after).enumerate() {
                values(Some(before), Some(after), format!("{path}[{place}]"), found);
            }
        }
        (before, after) if before == after => {}
        _ => found.push(path),
    }
}

// The campaigns of a server, feeds by url.

/// Most campaigns that are kept as files.
const CAMPAIGNS_MAX: u64 = 10_000;

/// A campaign of the server.
pub(crate) struct Remote {
    pub(crate) id: CampaignId,
    pub(crate) campaign: Campaign,
}

impl Remote {
    /// The campaigns of the application, one a name, by name: of several the active one, of several
    /// disabled ones the newest. Two active ones of one name cannot be told apart.
    pub(crate) async fn all(notify: &Client) -> Result<Vec<Self>, Failure> {
        let mut listed = Vec::new();
        loop {
            let offset = Some(listed.len() as u64);
            let status = Some("all".to_owned());
            let query = ListCampaigns { offset, limit: Some(PAGE_OF_ALL), name: None, status };
            let page = notify.campaigns().list(&query).await?.campaigns;
            let is_last = page.len() < PAGE_OF_ALL as usize;
            listed.extend(page);
            if is_last {
                break;
            }
            if listed.len() as u64 >= CAMPAIGNS_MAX {
                return Err(Failure::Usage(format!("there are over {CAMPAIGNS_MAX} campaigns")));
            }
        }
        // The newest first among equals, as they are listed.
        listed.sort_by(|a, b| {
            let key = |status| status != CampaignStatus::Active;
            (&a.name, key(a.status)).cmp(&(&b.name, key(b.status)))
        });
        let mut wrong = Vec::new();
        let mut chosen: Vec<Listed> = Vec::new();
        for campaign in listed {
            match chosen.last() {
                Some(last) if last.name == campaign.name => {
                    if campaign.status == CampaignStatus::Active {
                        let (name, one, other) = (&campaign.name, last.id, campaign.id);
                        wrong.push(format!(
                            "two active campaigns are named `{name}` ({one}, {other}): disable or \
                             rename one"
                        ));
                    }
                }
                Some(_) | None => chosen.push(campaign),
            }
        }
        if !wrong.is_empty() {
            return Err(Failure::Files(wrong));
        }
        let urls = feed_urls(notify).await?;
        let mut all = Vec::with_capacity(chosen.len());
        for campaign in chosen {
            all.push(Self::read(notify, campaign.id, &urls).await?);
        }
        Ok(all)
    }

    async fn read(
        notify: &Client,
        id: CampaignId,
        urls: &HashMap<String, Value>,
    ) -> Result<Self, Failure> {
        let record = notify.campaigns().get(id).await?;
        let mut template = object(&record.template);
        for feed in feeds_mut(&mut template) {
            let known = feed["id"].as_str().and_then(|id| urls.get(id));
            if let Some(known) = known {
                feed.clone_from(known);
            }
        }
        let campaign = Campaign {
            name: record.template.name,
            status: record.campaign.status,
            is_default: record.campaign.is_default,
            template,
        };
        Ok(Self { id, campaign })
    }
}

/// Feeds as files name them, by id.
async fn feed_urls(notify: &Client) -> Result<HashMap<String, Value>, Failure> {
    let query = PageQuery { limit: Some(PAGE_OF_ALL), cursor: None };
    let feeds = notify.feeds();
    let mut pages = feeds.all(&query);
    let mut urls = HashMap::new();
    while let Some(feed) = pages.next().await {
        let feed = feed?;
        urls.insert(feed.id.to_string(), json!({ "url": feed.url, "name": feed.name }));
    }
    Ok(urls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_is_not_active_with_what_its_file_does_not_say() {
        use CampaignStatus::{Active, Disabled};
        let replaced_and = |status| vec![Call::Replace, Call::SetStatus(status)];
        for (status, wanted, is_default, calls_expected) in [
            (Disabled, Active, false, replaced_and(Active)),
            (Disabled, Active, true, vec![Call::SetStatus(Active), Call::Replace]),
            (Active, Disabled, false, replaced_and(Disabled)),
            (Active, Active, true, vec![Call::Replace]),
        ] {
            let campaign = Campaign {
                name: "Spring".to_owned(),
                status: wanted,
                is_default,
                template: Map::new(),
            };
            assert_eq!(calls(status, &campaign, true), calls_expected, "{status:?} {wanted:?}");
        }
    }
}

#[cfg(test)]
mod difference_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_have_their_paths() {
        let object = |value: Value| value.as_object().unwrap().clone();
        let before = object(json!({"a": 1, "b": {"c": [1, {"d": 2}], "e": 1}, "f": [1]}));
        let after = object(json!({"a": 1, "b": {"c": [1, {"d": 3}]}, "f": [1, 2], "g": null}));
        assert_eq!(paths(&before, &after), ["b.c[1].d", "b.e", "f", "g"]);
        assert!(paths(&before, &before).is_empty());
        let many: Vec<i32> = (0..30).collect();
        let fewer: Vec<i32> = (1..31).collect();
        let told = paths(&object(json!({"l": many})), &object(json!({"l": fewer})));
        assert_eq!((told.len(), told.last().unwrap().as_str()), (21, "and 10 more"));
    }
}
