//! Campaigns as files: export, and a plan of the changes before they are made.
//!
//! A text can contain several files. A line `# file: spring.toml` begins the next file.

use std::collections::BTreeSet;

use askama::Template;
use http::{HeaderValue, Method, header};
use notify_core::campaign_files::{
    Action, CAMPAIGNS_MAX, Call, CampaignDefinition, CampaignFile, FileFormat, Plan,
    RemoteCampaign, Step, file_name, one_per_name, parse_files,
};
use notify_core::{
    CampaignCreated, CampaignList, CampaignRecord, CampaignStatus, SetCampaignStatus, Success,
};
use warp::reply::Response;

use super::campaigns::{EXAMPLE, feeds_by_id};
use crate::api::console::calls::{AppScope, encoded};
use crate::api::console::form::{Form, new_key};
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;
use crate::keys::{hex, sha256};

/// The beginning of the line before a file in a text with several files.
const FILE_MARK: &str = "# file: ";
/// The campaigns that are read at once.
const PAGE: usize = 1_000;
/// The most text of campaigns that a page holds in memory: 16 MiB.
const BYTES_MAX: usize = 16 * 1024 * 1024;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/campaigns/export", export_all),
        screen("/console/apps/{app}/campaigns/apply", show_form),
        action("/console/apps/{app}/campaigns/plan", show_plan),
        action("/console/apps/{app}/campaigns/apply", apply),
        screen("/console/apps/{app}/campaigns/{id}/export", export),
    ]
}

// Export.

async fn export(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/v1/campaigns/{}", encoded(&visit.ctx.path_param("id")?));
    let record: CampaignRecord = visit.get(&scope, &path).await?;
    let feeds = feeds_by_id(&visit, &scope).await?;
    let campaign = RemoteCampaign::new(record, &feeds).campaign;
    let (format, text) = text_of(&campaign)?;
    Ok(download(&file_name(&campaign.name, format, |_| false), text))
}

async fn export_all(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let mut text = String::new();
    let mut used = BTreeSet::new();
    for RemoteCampaign { campaign, .. } in remote_campaigns(&visit, &scope).await? {
        let (format, content) = text_of(&campaign)?;
        let name = file_name(&campaign.name, format, |name| used.contains(name));
        text.push_str(&format!("{FILE_MARK}{name}\n{content}\n"));
        used.insert(name);
    }
    Ok(download("campaigns.txt", text))
}

/// The text of a file: TOML, or JSON if the campaign has a value that TOML cannot express, or a line that
/// would begin another file.
fn text_of(campaign: &CampaignDefinition) -> Result<(FileFormat, String), ApiError> {
    if let Ok(text) = campaign.to_text(FileFormat::Toml)
        && !text.lines().any(|line| line.starts_with(FILE_MARK))
    {
        return Ok((FileFormat::Toml, text));
    }
    let text = campaign.to_text(FileFormat::Json);
    text.map(|text| (FileFormat::Json, text)).map_err(|error| ApiError::Internal(error.into()))
}

/// A file that the browser stores. Its name consists of letters, digits, dashes and dots.
fn download(name: &str, text: String) -> Response {
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    response
}

/// The campaigns of the application in the form of files.
async fn remote_campaigns(
    visit: &Visit,
    scope: &AppScope,
) -> Result<Vec<RemoteCampaign>, ApiError> {
    let mut listed = Vec::new();
    loop {
        let path = format!("/v1/campaigns?status=all&limit={PAGE}&offset={}", listed.len());
        let CampaignList { campaigns } = visit.get(scope, &path).await?;
        let is_last = campaigns.len() < PAGE;
        listed.extend(campaigns);
        if is_last {
            break;
        }
        if listed.len() as u64 >= CAMPAIGNS_MAX {
            let what = format!("there are more than {CAMPAIGNS_MAX}");
            return Err(ApiError::invalid("campaigns", &what));
        }
    }
    let chosen = one_per_name(listed).map_err(ApiError::Invalid)?;
    let feeds = feeds_by_id(visit, scope).await?;
    let mut all = Vec::with_capacity(chosen.len());
    let mut bytes = 0;
    for campaign in chosen {
        let path = format!("/v1/campaigns/{}", campaign.id);
        let remote = RemoteCampaign::new(visit.get(scope, &path).await?, &feeds);
        bytes += text_of(&remote.campaign)?.1.len();
        if bytes > BYTES_MAX {
            let what = "are more than 16 MiB, which is too much for a page: use `notify campaigns \
                        export` and `notify campaigns apply`";
            return Err(ApiError::invalid("campaigns", what));
        }
        all.push(remote);
    }
    Ok(all)
}

// Apply.

#[derive(Template)]
#[template(path = "campaign_apply.html")]
struct ApplyForm {
    layout: Layout,
    base: String,
    files: String,
    disable_missing: bool,
    problems: Problems,
}

#[derive(Template)]
#[template(path = "campaign_plan.html")]
struct PlanPage {
    layout: Layout,
    base: String,
    files: String,
    disable_missing: bool,
    /// Identifies the plan, so that the second button applies this plan or none.
    fingerprint: String,
    key: String,
    steps: Vec<Step>,
    has_left: bool,
    changes: usize,
    /// How many of the changes create a campaign.
    created: usize,
    note: &'static str,
    problems: Problems,
}

/// What an operator submitted.
struct Submitted {
    files: String,
    disable_missing: bool,
}

impl Submitted {
    fn of(form: &Form) -> Self {
        // Browsers submit the line ends of a text as `\r\n`.
        let files = form.text("files").replace("\r\n", "\n");
        Self { files, disable_missing: !form.text("disable_missing").is_empty() }
    }

    /// The changes that the files make.
    async fn plan(&self, visit: &Visit, scope: &AppScope) -> Result<Plan, ApiError> {
        let files = parse_files(split(&self.files)).map_err(ApiError::Invalid)?;
        if files.is_empty() {
            return Err(ApiError::invalid("files", "paste a campaign, or choose its file"));
        }
        let remote = remote_campaigns(visit, scope).await?;
        Ok(Plan::new(files, remote, self.disable_missing))
    }

    async fn form(
        self,
        visit: &Visit,
        scope: &AppScope,
        problems: Problems,
    ) -> Result<Response, ApiError> {
        let layout = visit.app_layout(scope, "Apply campaign files", "Campaigns").await?;
        let Self { files, disable_missing } = self;
        let base = base_of(&layout, scope);
        show(&ApplyForm { layout, base, files, disable_missing, problems })
    }

    async fn plan_page(
        self,
        visit: &Visit,
        scope: &AppScope,
        plan: Plan,
        note: &'static str,
        problems: Problems,
    ) -> Result<Response, ApiError> {
        let layout = visit.app_layout(scope, "Plan", "Campaigns").await?;
        let Self { files, disable_missing } = self;
        let page = PlanPage {
            base: base_of(&layout, scope),
            layout,
            files,
            disable_missing,
            fingerprint: fingerprint(&plan),
            key: new_key(),
            changes: plan.change_count(),
            created: plan
                .campaigns
                .iter()
                .filter(|step| matches!(step.action, Action::Create(_)))
                .count(),
            has_left: plan.campaigns.iter().any(|step| step.action == Action::Left),
            steps: plan.campaigns,
            note,
            problems,
        };
        show(&page)
    }
}

/// The files in a text.
fn split(text: &str) -> Vec<CampaignFile> {
    let mut files: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        match (line.strip_prefix(FILE_MARK), files.last_mut()) {
            (Some(name), _) => files.push((name.trim().to_owned(), String::new())),
            (None, Some((_, content))) => content.push_str(line),
            (None, None) if line.trim().is_empty() => {}
            (None, None) => {
                let format = if line.trim_start().starts_with('{') {
                    FileFormat::Json
                } else {
                    FileFormat::Toml
                };
                files.push((format!("pasted.{}", format.extension()), line.to_owned()));
            }
        }
    }
    let files = files.into_iter();
    files.map(|(name, content)| CampaignFile { name, content: content.into_bytes() }).collect()
}

/// A hash of all changes of a plan.
fn fingerprint(plan: &Plan) -> String {
    hex(&sha256(format!("{plan:?}").as_bytes()))
}

/// The class of the badge of an action.
fn tone_of(action: &Action) -> &'static str {
    match action {
        Action::Create(_) => "good",
        Action::Update { .. } => "busy",
        Action::Disable(_) => "bad",
        Action::Unchanged | Action::Left => "",
    }
}

async fn show_form(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let files = if visit.query("example")?.is_empty() { "" } else { EXAMPLE };
    let submitted = Submitted { files: files.to_owned(), disable_missing: false };
    submitted.form(&visit, &scope, Problems::default()).await
}

async fn show_plan(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let submitted = Submitted::of(&form);
    match submitted.plan(&visit, &scope).await {
        Ok(plan) => submitted.plan_page(&visit, &scope, plan, "", Problems::default()).await,
        Err(error) => submitted.form(&visit, &scope, Problems::of(error)?).await,
    }
}

async fn apply(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let submitted = Submitted::of(&form);
    let plan = match submitted.plan(&visit, &scope).await {
        Ok(plan) => plan,
        Err(error) => return submitted.form(&visit, &scope, Problems::of(error)?).await,
    };
    if fingerprint(&plan) != form.text("plan") {
        let note = "The campaigns have changed since the plan was made. This is the new plan.";
        return submitted.plan_page(&visit, &scope, plan, note, Problems::default()).await;
    }
    for (index, step) in plan.campaigns.iter().enumerate() {
        let key = form.key().map(|key| format!("{key}-{index}"));
        if let Err(error) = apply_step(&visit, &scope, step, key.as_deref()).await {
            let rules = Problems::of(error)?;
            let rules = rules.all().iter().map(|rule| format!("{}: {rule}", step.label()));
            let problems = Problems::of(ApiError::Invalid(rules.collect()))?;
            // The steps before this one were made.
            let plan = submitted.plan(&visit, &scope).await?;
            let note = "The server refused a change. This is what is left to do.";
            return submitted.plan_page(&visit, &scope, plan, note, problems).await;
        }
    }
    Ok(redirect("../campaigns?done=applied"))
}

async fn apply_step(
    visit: &Visit,
    scope: &AppScope,
    step: &Step,
    key: Option<&str>,
) -> Result<(), ApiError> {
    let set_status = async |id, status: CampaignStatus| {
        let path = format!("/v1/campaigns/{id}/status");
        let status = SetCampaignStatus { status: status.as_str().to_owned() };
        let Success { .. } = visit.change(scope, Method::PUT, &path, &status, None).await?;
        Ok::<_, ApiError>(())
    };
    for call in step.calls().map_err(ApiError::Invalid)? {
        match call {
            Call::Create { template, status } => {
                let CampaignCreated { id } =
                    visit.change(scope, Method::POST, "/v1/campaigns", &*template, key).await?;
                if status == CampaignStatus::Disabled {
                    set_status(id, status).await?;
                }
            }
            Call::Replace { id, template } => {
                let path = format!("/v1/campaigns/{id}");
                let Success { .. } =
                    visit.change(scope, Method::PUT, &path, &*template, None).await?;
            }
            Call::SetStatus { id, status } => set_status(id, status).await?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_can_contain_several_files() {
        let names = |text: &str| {
            let files = split(text).into_iter();
            files
                .map(|file| (file.name, String::from_utf8(file.content).unwrap()))
                .collect::<Vec<_>>()
        };
        let pair = |name: &str, content: &str| (name.to_owned(), content.to_owned());
        assert_eq!(names(""), []);
        assert_eq!(names("\na = 1\nb = 2"), [pair("pasted.toml", "a = 1\nb = 2")]);
        assert_eq!(names("\n {}"), [pair("pasted.json", " {}")]);
        assert_eq!(
            names("# file: a.toml\na = 1\n# file: b.json\n{}\n"),
            [pair("a.toml", "a = 1\n"), pair("b.json", "{}\n")]
        );
    }

    #[test]
    fn the_example_is_a_valid_campaign() {
        assert_eq!(parse_files(split(EXAMPLE)).unwrap().len(), 1);
    }
}
