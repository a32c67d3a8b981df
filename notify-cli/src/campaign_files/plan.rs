//! The changes that make the campaigns of a server match those of a folder.

use std::collections::HashMap;

use notify_client::notify_core::{
    Campaign as Listed, CampaignId, CampaignStatus, ListCampaigns, PageQuery,
};
use notify_client::{Client, Error};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::campaign_files::{Campaign, LocalCampaign, feeds_mut, to_object};
use crate::commands::LARGE_PAGE;
use crate::failure::{Failure, broken_rules};

/// The action for a campaign. It is serialized as one word.
#[derive(Debug)]
pub(crate) enum Action {
    Create(Campaign),
    Update {
        id: CampaignId,
        /// The campaign of the file.
        wanted: Campaign,
        /// The campaign's current status on the server.
        status: CampaignStatus,
    },
    Unchanged,
    /// The campaign has no file, and `--disable-missing` was given.
    Disable(CampaignId),
    /// The campaign has no file, and stays as it is.
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

/// The action for one campaign, with its reasons.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) action: Action,
    /// The file, if there is one.
    pub(crate) file: Option<String>,
    /// The paths that change.
    pub(crate) changes: Vec<String>,
}

/// A call of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Replace,
    SetStatus(CampaignStatus),
}

/// The calls of an update of a campaign that has the status `status` on the server. Usually, their order
/// keeps a campaign from being active with its old template. The exception is a campaign that becomes active
/// and the default one. Its new template makes it the default campaign, and the server refuses that while
/// the campaign is disabled.
fn calls(status: CampaignStatus, wanted: &Campaign, template_differs: bool) -> Vec<Call> {
    let replace = template_differs.then_some(Call::Replace);
    let set_status = (wanted.status != status).then_some(Call::SetStatus(wanted.status));
    let is_status_first = wanted.status == CampaignStatus::Active && wanted.is_default;
    let order = if is_status_first { [set_status, replace] } else { [replace, set_status] };
    order.into_iter().flatten().collect()
}

/// The actions for all campaigns.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) campaigns: Vec<Step>,
}

impl Plan {
    /// Compares files with a server. With `disable_missing`, the plan disables active campaigns without a
    /// file.
    pub(crate) fn new(
        files: Vec<LocalCampaign>,
        server: Vec<RemoteCampaign>,
        disable_missing: bool,
    ) -> Self {
        let mut server: Vec<Option<RemoteCampaign>> = server.into_iter().map(Some).collect();
        let mut campaigns = Vec::new();
        // If a file has the default campaign, the current default campaign loses that role, and can then
        // be disabled.
        let files_have_default = files.iter().any(|local| local.campaign.is_default);
        for LocalCampaign { file, campaign } in files {
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
        for RemoteCampaign { id, campaign } in server.into_iter().flatten() {
            let stays_default = campaign.is_default && !files_have_default;
            let is_active = campaign.status == CampaignStatus::Active;
            let (action, changes) = if disable_missing && is_active && !stays_default {
                (Action::Disable(id), vec!["status".to_owned()])
            } else {
                (Action::Left, Vec::new())
            };
            campaigns.push(Step { name: campaign.name, action, file: None, changes });
        }
        Self { campaigns }
    }

    /// The number of campaigns that change.
    pub(crate) fn change_count(&self) -> usize {
        let is_change = |step: &&Step| !matches!(step.action, Action::Unchanged | Action::Left);
        self.campaigns.iter().filter(is_change).count()
    }

    /// Applies the changes. A failure has the name of its file. Changes made before the failure remain, and
    /// a later run makes only the missing ones.
    pub(crate) async fn apply(&self, notify: &Client) -> Result<(), Failure> {
        for step in &self.campaigns {
            step.apply(notify).await.map_err(|failure| step.with_file(failure))?;
        }
        Ok(())
    }
}

/// The step for a campaign of a file that the server has, too.
fn compare(file: String, wanted: Campaign, remote: &RemoteCampaign) -> Step {
    let before = comparable(&remote.campaign);
    let changes = changed_paths(&before, &comparable(&wanted));
    let name = wanted.name.clone();
    let action = if changes.is_empty() {
        Action::Unchanged
    } else {
        Action::Update { id: remote.id, wanted, status: remote.campaign.status }
    };
    Step { name, action, file: Some(file), changes }
}

/// The fields that are compared. They do not include the names of feeds, because an existing feed keeps
/// its name.
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
    async fn apply(&self, notify: &Client) -> Result<(), Failure> {
        let campaigns = notify.campaigns();
        match &self.action {
            Action::Create(wanted) => {
                let template = wanted.request_body().map_err(Failure::Files)?;
                let id = campaigns.create(&template).await?.id;
                if wanted.status == CampaignStatus::Disabled {
                    campaigns.set_status(id, CampaignStatus::Disabled).await?;
                }
            }
            Action::Update { id, wanted, status } => {
                let template = wanted.request_body().map_err(Failure::Files)?;
                let template_differs = self.changes.iter().any(|path| path != "status");
                for call in calls(*status, wanted, template_differs) {
                    match call {
                        Call::Replace => campaigns.replace(*id, &template).await?,
                        Call::SetStatus(status) => campaigns.set_status(*id, status).await?,
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

    /// Adds the name of the file, or of the campaign, to a failure.
    fn with_file(&self, failure: Failure) -> Failure {
        let about = self.file.as_deref().unwrap_or(&self.name);
        let with_name = |rules: &[String]| {
            Failure::Files(rules.iter().map(|rule| format!("{about}: {rule}")).collect())
        };
        match &failure {
            Failure::Files(rules) => with_name(rules),
            Failure::Call(error @ (Error::Invalid(_) | Error::Rejected { status: 400, .. })) => {
                broken_rules(error).map_or(failure, |rules| with_name(&rules))
            }
            _ => failure,
        }
    }
}

// The differences between two templates.

/// Most paths that are shown for a campaign.
const PATHS_MAX: usize = 20;

/// The paths that differ, in order. If there are more than [`PATHS_MAX`], the last entry is the number of
/// omitted paths.
fn changed_paths(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut paths = Vec::new();
    compare_objects(before, after, "", &mut paths);
    if paths.len() > PATHS_MAX {
        let more = paths.len() - PATHS_MAX;
        paths.truncate(PATHS_MAX);
        paths.push(format!("and {more} more"));
    }
    paths
}

fn compare_objects(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &str,
    changed: &mut Vec<String>,
) {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{name}");
        compare_values(before.get(name), after.get(name), path, changed);
    }
}

fn compare_values(
    before: Option<&Value>,
    after: Option<&Value>,
    path: String,
    changed: &mut Vec<String>,
) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            compare_objects(before, after, &path, changed);
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare_values(Some(before), Some(after), format!("{path}[{index}]"), changed);
            }
        }
        (before, after) if before == after => {}
        _ => changed.push(path),
    }
}

// The campaigns of a server.

/// Most campaigns of an application that files support.
const CAMPAIGNS_MAX: u64 = 10_000;

/// A campaign of the server, with feeds by url.
pub(crate) struct RemoteCampaign {
    pub(crate) id: CampaignId,
    pub(crate) campaign: Campaign,
}

impl RemoteCampaign {
    /// Reads the campaigns of the application, sorted by name. Of several campaigns with the same name, it
    /// returns the active one, or the newest if none is active. Two active campaigns with the same name are
    /// an error.
    pub(crate) async fn list_all(notify: &Client) -> Result<Vec<Self>, Failure> {
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
                return Err(Failure::Usage(format!(
                    "there are more than {CAMPAIGNS_MAX} campaigns"
                )));
            }
        }
        // The sort is stable: campaigns with equal keys stay in the order of the listing, newest first.
        listed.sort_by(|a, b| {
            let is_inactive = |status| status != CampaignStatus::Active;
            (&a.name, is_inactive(a.status)).cmp(&(&b.name, is_inactive(b.status)))
        });
        let mut errors = Vec::new();
        let mut chosen: Vec<Listed> = Vec::new();
        for campaign in listed {
            match chosen.last() {
                Some(last) if last.name == campaign.name => {
                    if campaign.status == CampaignStatus::Active {
                        let (name, first, second) = (&campaign.name, last.id, campaign.id);
                        errors.push(format!(
                            "two active campaigns are named `{name}` ({first}, {second}): disable or \
                             rename one"
                        ));
                    }
                }
                Some(_) | None => chosen.push(campaign),
            }
        }
        if !errors.is_empty() {
            return Err(Failure::Files(errors));
        }
        let feeds = feeds_by_id(notify).await?;
        let mut all = Vec::with_capacity(chosen.len());
        for campaign in chosen {
            all.push(Self::read(notify, campaign.id, &feeds).await?);
        }
        Ok(all)
    }

    async fn read(
        notify: &Client,
        id: CampaignId,
        feeds: &HashMap<String, Value>,
    ) -> Result<Self, Failure> {
        let record = notify.campaigns().get(id).await?;
        let mut template = to_object(&record.template);
        for feed in feeds_mut(&mut template) {
            let existing = feed["id"].as_str().and_then(|id| feeds.get(id));
            if let Some(existing) = existing {
                feed.clone_from(existing);
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

/// All feeds of the application by id, each in the form in which a file contains it.
async fn feeds_by_id(notify: &Client) -> Result<HashMap<String, Value>, Failure> {
    let query = PageQuery { limit: Some(LARGE_PAGE), cursor: None };
    let feeds = notify.feeds();
    let mut pages = feeds.all(&query);
    let mut feeds_by_id = HashMap::new();
    while let Some(feed) = pages.next().await {
        let feed = feed?;
        feeds_by_id.insert(feed.id.to_string(), json!({ "url": feed.url, "name": feed.name }));
    }
    Ok(feeds_by_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_updated_campaign_is_not_active_with_its_old_template() {
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
        assert_eq!(changed_paths(&before, &after), ["b.c[1].d", "b.e", "f", "g"]);
        assert!(changed_paths(&before, &before).is_empty());
        let many: Vec<i32> = (0..30).collect();
        let fewer: Vec<i32> = (1..31).collect();
        let paths = changed_paths(&object(json!({"l": many})), &object(json!({"l": fewer})));
        assert_eq!((paths.len(), paths.last().unwrap().as_str()), (21, "and 10 more"));
    }
}
