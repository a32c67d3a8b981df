//! The changes that make the campaigns of a server match those of files.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{CampaignDefinition, LocalCampaign, RemoteCampaign, feeds_mut};
use crate::{CampaignId, CampaignStatus, Template};

/// The action for a campaign. It is serialized as one word.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The campaign of the file does not exist on the server.
    Create(CampaignDefinition),
    /// The campaigns of the file and of the server differ.
    Update {
        /// The campaign of the server.
        id: CampaignId,
        /// The campaign of the file.
        wanted: CampaignDefinition,
        /// The campaign's current status on the server.
        status: CampaignStatus,
    },
    /// The campaigns of the file and of the server are equal.
    Unchanged,
    /// The active campaign has no file, and the plan disables such campaigns.
    Disable(CampaignId),
    /// The campaign has no file, and stays as it is.
    Left,
}

impl Action {
    /// The action as one word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Update { .. } => "update",
            Self::Unchanged => "unchanged",
            Self::Disable(_) => "disable",
            Self::Left => "left",
        }
    }
}

impl Serialize for Action {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The action for one campaign, with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Name of the campaign.
    pub name: String,
    /// The action.
    pub action: Action,
    /// The file, if there is one.
    pub file: Option<String>,
    /// The paths that change.
    pub changes: Vec<String>,
}

/// A call of the API.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Creates a campaign, which is active then, and sets its status if it is another one.
    Create {
        /// The template.
        template: Box<Template>,
        /// The status of the file.
        status: CampaignStatus,
    },
    /// Replaces the template of a campaign.
    Replace {
        /// The campaign.
        id: CampaignId,
        /// The new template.
        template: Box<Template>,
    },
    /// Sets the status of a campaign.
    SetStatus {
        /// The campaign.
        id: CampaignId,
        /// The new status.
        status: CampaignStatus,
    },
}

/// The actions for all campaigns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The campaigns of files in the order of the files, then the other campaigns of the server.
    pub campaigns: Vec<Step>,
}

impl Plan {
    /// Compares files with a server. With `disable_missing`, the plan disables active campaigns without a
    /// file.
    #[must_use]
    pub fn new(
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
    #[must_use]
    pub fn change_count(&self) -> usize {
        let is_change = |step: &&Step| !matches!(step.action, Action::Unchanged | Action::Left);
        self.campaigns.iter().filter(is_change).count()
    }
}

/// The step for a campaign of a file that the server has, too.
fn compare(file: String, wanted: CampaignDefinition, remote: &RemoteCampaign) -> Step {
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
fn comparable(campaign: &CampaignDefinition) -> Map<String, Value> {
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
    /// The file, or the name of a campaign without a file: what an error of the step is about.
    #[must_use]
    pub fn label(&self) -> &str {
        self.file.as_deref().unwrap_or(&self.name)
    }

    /// The calls that make the change, in order.
    ///
    /// # Errors
    ///
    /// Every broken rule of the campaign of the file.
    pub fn calls(&self) -> Result<Vec<Call>, Vec<String>> {
        match &self.action {
            Action::Create(wanted) => {
                let template = Box::new(wanted.request_body()?);
                Ok(vec![Call::Create { template, status: wanted.status }])
            }
            Action::Update { id, wanted, status } => {
                let (id, template) = (*id, Box::new(wanted.request_body()?));
                let template_differs = self.changes.iter().any(|path| path != "status");
                let replace = template_differs.then_some(Call::Replace { id, template });
                let set_status = (wanted.status != *status)
                    .then_some(Call::SetStatus { id, status: wanted.status });
                // Usually, a campaign is not active with its old template. The exception is a campaign
                // that becomes active and the default one. Its new template makes it the default
                // campaign, and the server refuses that while the campaign is disabled.
                let is_status_first = wanted.status == CampaignStatus::Active && wanted.is_default;
                let order =
                    if is_status_first { [set_status, replace] } else { [replace, set_status] };
                Ok(order.into_iter().flatten().collect())
            }
            Action::Disable(id) => {
                Ok(vec![Call::SetStatus { id: *id, status: CampaignStatus::Disabled }])
            }
            Action::Unchanged | Action::Left => Ok(Vec::new()),
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::super::FileFormat;
    use super::*;
    use crate::{Campaign, CampaignRecord, Feed, FeedStatus, Request, Timestamp};

    const ID: &str = "0190a3b2-7f00-7000-8000-000000000001";

    fn definition(change: &Value) -> CampaignDefinition {
        let mut fields = json!({"name": "Spring", "layout_id": "content_with_two", "settings": {},
            "features": [{"type": "action_button", "position": 1, "data": {"type": "fb"}}]});
        for (field, value) in change.as_object().unwrap() {
            fields[field] = value.clone();
        }
        CampaignDefinition::from_text(&fields.to_string(), FileFormat::Json).unwrap()
    }

    fn local(change: &Value) -> LocalCampaign {
        LocalCampaign { file: "spring.json".to_owned(), campaign: definition(change) }
    }

    fn remote(change: &Value) -> RemoteCampaign {
        RemoteCampaign { id: ID.parse().unwrap(), campaign: definition(change) }
    }

    fn calls(plan: &Plan) -> Vec<String> {
        let call = |call: Call| match call {
            Call::Create { status, .. } => format!("create {status}"),
            Call::Replace { .. } => "replace".to_owned(),
            Call::SetStatus { status, .. } => format!("set {status}"),
        };
        plan.campaigns.iter().flat_map(|step| step.calls().unwrap()).map(call).collect()
    }

    #[test]
    fn an_updated_campaign_is_not_active_with_its_old_template() {
        use CampaignStatus::{Active, Disabled};
        for (status, wanted, is_default, expected) in [
            (Disabled, Active, false, vec!["replace", "set active"]),
            (Disabled, Active, true, vec!["set active", "replace"]),
            (Active, Disabled, false, vec!["replace", "set disabled"]),
            (Active, Active, true, vec!["replace"]),
        ] {
            let wanted = json!({"status": wanted, "is_default": is_default, "layout_id": "content_with_three"});
            let server = vec![remote(&json!({"status": status}))];
            let plan = Plan::new(vec![local(&wanted)], server, false);
            assert_eq!(calls(&plan), expected, "{status:?} {wanted:?}");
        }
    }

    #[test]
    fn each_campaign_has_one_action() {
        let (same, disabled) = (json!({}), json!({"status": "disabled"}));
        let default = json!({"is_default": true});
        let other_default = json!({"name": "Autumn", "is_default": true});
        let rows = [
            (Some(&same), None, "create", vec!["create active"], 1),
            (Some(&disabled), None, "create", vec!["create disabled"], 1),
            (Some(&same), Some(&same), "unchanged", vec![], 0),
            (Some(&disabled), Some(&same), "update", vec!["set disabled"], 1),
            (None, Some(&same), "disable", vec!["set disabled"], 1),
            (None, Some(&disabled), "left", vec![], 0),
            (None, Some(&default), "left", vec![], 0),
        ];
        for (file, server, action, expected, changes) in rows {
            let files = file.map(local).into_iter().collect();
            let plan = Plan::new(files, server.map(remote).into_iter().collect(), true);
            let name = format!("{file:?} {server:?}");
            assert_eq!(plan.campaigns[0].action.as_str(), action, "{name}");
            assert_eq!((calls(&plan), plan.change_count()), (own(&expected), changes), "{name}");
        }
        // The default campaign is disabled if a file has another one.
        let plan = Plan::new(vec![local(&other_default)], vec![remote(&default)], true);
        assert_eq!(calls(&plan), ["create active", "set disabled"]);
        let plan = Plan::new(vec![local(&other_default)], vec![remote(&default)], false);
        assert_eq!(
            serde_json::to_value(&plan).unwrap(),
            json!({"campaigns": [
                {"name": "Autumn", "action": "create", "file": "spring.json", "changes": []},
                {"name": "Spring", "action": "left", "file": null, "changes": []},
            ]})
        );
    }

    fn own(calls: &[&str]) -> Vec<String> {
        calls.iter().map(|&call| call.to_owned()).collect()
    }

    #[test]
    fn a_feed_is_compared_by_its_url() {
        let feeds = |feed: Value| {
            json!({"features": [
            {"type": "content_feed", "position": 1, "data": {"feeds": [feed]}}]})
        };
        let template = json!({"name": "Spring", "layout_id": "content_with_two", "settings": {},
            "features": feeds(json!({"id": ID}))["features"]});
        let record = CampaignRecord {
            campaign: Campaign {
                id: ID.parse().unwrap(),
                name: "Spring".to_owned(),
                status: CampaignStatus::Active,
                is_default: false,
                created_at: Timestamp(0),
            },
            template: Template::parse(template.to_string().as_bytes(), Timestamp(0)).unwrap(),
        };
        let feed = Feed {
            id: ID.parse().unwrap(),
            name: "News".to_owned(),
            url: "https://a.example/feed".to_owned(),
            status: FeedStatus::Ok,
            items: 0,
            last_fetched_at: None,
            last_error: None,
            created_at: Timestamp(0),
        };
        let server = RemoteCampaign::new(record, &HashMap::from([(feed.id, feed)]));
        for (url, expected) in [
            ("https://a.example/feed", vec![]),
            ("https://b.example/feed", vec!["features[0].data.feeds[0].url"]),
        ] {
            let file = local(&feeds(json!({"url": url, "name": "Another name"})));
            let plan = Plan::new(vec![file], vec![server.clone()], false);
            assert_eq!(plan.campaigns[0].changes, expected, "{url}");
        }
    }

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
