//! The providers of an application: status, configuration, test of the credentials, and resuming.

mod fields;

use askama::Template;
use http::Method;
use notify_core::doctor::{AppFacts, AppName, AppState, Finding, ProviderFacts, check_app};
use notify_core::{
    AppDiagnostics, AppId, ChannelDiagnostics, IosDiagnostics, ProviderKind, ProviderList,
    ProviderStatus, ProviderTestResult, ProviderView, Success,
};
use serde_json::Value;
use warp::reply::Response;

use self::fields::{FieldView, about, body_of, fields_of};
use super::doctor::{FindingRow, name_of};
use crate::api::console::calls::AppScope;
use crate::api::console::form::Form;
use crate::api::console::format::title_of;
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/providers", list),
        screen("/console/apps/{app}/providers/{provider}", provider),
        action("/console/apps/{app}/providers/{provider}", put),
        action("/console/apps/{app}/providers/{provider}/test", test),
        action("/console/apps/{app}/providers/{provider}/resume", resume),
        action("/console/apps/{app}/providers/{provider}/delete", delete),
    ]
}

/// The state of a provider: the word of the API, and the class of its badge.
pub(super) struct State {
    pub(super) word: &'static str,
    pub(super) tone: &'static str,
}

impl State {
    pub(super) fn of(channel: &ChannelDiagnostics) -> Self {
        if !channel.configured {
            let tone = if channel.devices > 0 { "bad" } else { "" };
            return Self { word: "not configured", tone };
        }
        let status = &channel.channel.status;
        let tone = match status {
            ProviderStatus::Available if channel.channel.services.is_empty() => "good",
            ProviderStatus::Available
            | ProviderStatus::Throttled { .. }
            | ProviderStatus::Unreachable { .. } => "warn",
            ProviderStatus::AuthRejected { .. } | ProviderStatus::Tripped => "bad",
        };
        Self { word: status.word(), tone }
    }
}

#[derive(Template)]
#[template(path = "providers.html")]
struct List {
    layout: Layout,
    base: String,
    cards: Vec<Card>,
}

/// A provider in the list.
struct Card {
    provider: ProviderKind,
    title: &'static str,
    about: fields::About,
    state: State,
    is_configured: bool,
    devices: u64,
    findings: Vec<FindingRow>,
}

async fn list(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Providers", "Providers").await?;
    let facts = Facts::read(&visit, &scope, &layout).await?;
    let cards = ProviderKind::ALL.into_iter().map(|provider| {
        let channel = facts.channel(provider);
        Card {
            provider,
            title: title_of(provider),
            about: about(provider),
            state: State::of(&channel),
            is_configured: channel.configured,
            devices: channel.devices,
            findings: facts.problems_of(&channel),
        }
    });
    let base = base_of(&layout, &scope);
    show(&List { cards: cards.collect(), base, layout })
}

/// What the API reports about the providers of an application.
struct Facts {
    app: notify_core::App,
    name: AppName,
    diagnostics: AppDiagnostics,
}

impl Facts {
    async fn read(visit: &Visit, scope: &AppScope, layout: &Layout) -> Result<Self, ApiError> {
        let path = format!("/admin/v1/apps/{}/devices/diagnostics", scope.app.id);
        let diagnostics: AppDiagnostics = visit.admin(&path).await?;
        Ok(Self { app: scope.app.clone(), name: name_of(layout, &scope.app), diagnostics })
    }

    /// The state of a provider, which need not be configured.
    fn channel(&self, provider: ProviderKind) -> ChannelDiagnostics {
        let known = self.diagnostics.channels.iter().find(|channel| channel.provider == provider);
        known.cloned().unwrap_or_else(|| ChannelDiagnostics {
            provider,
            configured: false,
            devices: 0,
            channel: notify_core::ChannelView {
                status: ProviderStatus::Available,
                services: Vec::new(),
            },
            unusable_tokens: None,
        })
    }

    /// The findings of `notify doctor` about the deliveries through a provider, without the remedies that
    /// the page of the provider has as forms.
    fn problems_of(&self, channel: &ChannelDiagnostics) -> Vec<FindingRow> {
        if !channel.configured && channel.devices == 0 {
            return Vec::new();
        }
        let only = AppDiagnostics {
            channels: vec![channel.clone()],
            webhooks: Vec::new(),
            feeds: Vec::new(),
            expiring_keys: Vec::new(),
            anonymous_devices: None,
            ..self.diagnostics.clone()
        };
        let findings = self.check(only, Vec::new()).into_iter();
        let findings =
            findings.filter(|finding| matches!(finding.check(), "channel" | "service" | "tokens"));
        findings.map(|finding| FindingRow::of(&finding, None)).collect()
    }

    /// The findings of `notify doctor` about the credentials of a provider.
    fn test_findings(&self, view: ProviderView, test: ProviderTestResult) -> Vec<FindingRow> {
        let only = AppDiagnostics {
            channels: Vec::new(),
            webhooks: Vec::new(),
            feeds: Vec::new(),
            expiring_keys: Vec::new(),
            anonymous_devices: None,
            ..self.diagnostics.clone()
        };
        let findings = self.check(only, vec![ProviderFacts { view, test: Ok(test) }]).into_iter();
        let findings = findings.filter(|finding| finding.check() != "status");
        findings.map(|finding| FindingRow::of(&finding, None)).collect()
    }

    fn check(&self, diagnostics: AppDiagnostics, providers: Vec<ProviderFacts>) -> Vec<Finding> {
        check_app(&AppFacts {
            app: self.app.clone(),
            name: self.name.clone(),
            state: Ok(AppState { diagnostics, providers }),
        })
    }
}

#[derive(Template)]
#[template(path = "provider.html")]
struct Page {
    layout: Layout,
    base: String,
    provider: ProviderKind,
    title: &'static str,
    about: fields::About,
    /// The argument of `--app`.
    argument: String,
    state: State,
    devices: u64,
    findings: Vec<FindingRow>,
    /// The stored configuration without secrets; `None` if there is none.
    view: Option<ProviderView>,
    facts: Vec<Fact>,
    is_held: bool,
    stop: Option<Stop>,
    tested: Vec<FindingRow>,
    fields: Vec<FieldView>,
    more: Vec<FieldView>,
    is_more_open: bool,
    /// The address at which the server receives messages of the provider's users.
    inbound: Option<String>,
    problems: Problems,
}

/// A field of the stored configuration.
struct Fact {
    name: String,
    value: String,
}

/// What an operator compares before deliveries that the server stopped are resumed.
struct Stop {
    /// The name of the app in the configuration, such as the topic.
    configured: Vec<Fact>,
    ios: Option<IosDiagnostics>,
}

/// What a form of the page did.
#[derive(Default)]
struct Outcome {
    problems: Problems,
    /// A configuration that was refused.
    refused: Option<Form>,
    tested: Option<ProviderTestResult>,
}

async fn provider(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show_page(&visit, &scope, Outcome::default()).await
}

fn provider_of(visit: &Visit) -> Result<ProviderKind, ApiError> {
    visit.ctx.path_param("provider")?.parse().map_err(|_| ApiError::NotFound)
}

fn api_path(app: AppId, provider: ProviderKind) -> String {
    format!("/admin/v1/apps/{app}/providers/{provider}")
}

async fn stored(
    visit: &Visit,
    scope: &AppScope,
    provider: ProviderKind,
) -> Result<Option<ProviderView>, ApiError> {
    let path = format!("/admin/v1/apps/{}/providers", scope.app.id);
    let ProviderList { providers } = visit.admin(&path).await?;
    Ok(providers.into_iter().find(|view| view.provider == provider))
}

async fn show_page(
    visit: &Visit,
    scope: &AppScope,
    outcome: Outcome,
) -> Result<Response, ApiError> {
    let provider = provider_of(visit)?;
    let title = title_of(provider);
    let layout = visit.app_layout(scope, title, "Providers").await?;
    let facts = Facts::read(visit, scope, &layout).await?;
    let view = stored(visit, scope, provider).await?;
    let channel = facts.channel(provider);
    let Outcome { problems, refused, tested } = outcome;
    let config = view.as_ref().map_or(&Value::Null, |view| &view.config);
    let all = fields_of(provider, config, refused.as_ref(), &problems);
    let (more, fields): (Vec<FieldView>, Vec<FieldView>) =
        all.into_iter().partition(|field| field.spec.is_rare);
    let shown = facts_of(config);
    let stop = (channel.channel.status == ProviderStatus::Tripped).then(|| Stop {
        configured: shown
            .iter()
            .filter(|fact| ["topic", "project_id", "subject"].contains(&fact.name.as_str()))
            .map(|fact| Fact { name: fact.name.clone(), value: fact.value.clone() })
            .collect(),
        ios: (provider == ProviderKind::Apns).then(|| facts.diagnostics.ios.clone()),
    });
    let tested = match (tested, &view) {
        (Some(tested), Some(view)) => facts.test_findings(view.clone(), tested),
        _ => Vec::new(),
    };
    let page = Page {
        base: base_of(&layout, scope),
        provider,
        title,
        about: about(provider),
        argument: facts.name.argument.clone(),
        state: State::of(&channel),
        devices: channel.devices,
        findings: facts.problems_of(&channel),
        facts: shown,
        is_held: matches!(channel.channel.status, ProviderStatus::AuthRejected { .. }),
        stop,
        tested,
        is_more_open: more.iter().any(|field| !field.problems.is_empty()),
        fields,
        more,
        inbound: inbound_address(visit, scope, provider),
        problems,
        view,
        layout,
    };
    show(&page)
}

/// The fields of a configuration, in one list.
fn facts_of(config: &Value) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (name, value) in config.as_object().into_iter().flatten() {
        match value {
            Value::Object(inner) => {
                let is_shown = |name: &str| name != "type";
                facts.extend(
                    inner
                        .iter()
                        .filter(|(name, _)| is_shown(name))
                        .map(|(name, value)| Fact { name: name.clone(), value: text_of(value) }),
                );
            }
            // The certificates are in the form.
            _ if name == "ca_certificate" => {
                facts.push(Fact { name: name.clone(), value: "set".to_owned() });
            }
            value => facts.push(Fact { name: name.clone(), value: text_of(value) }),
        }
    }
    facts
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Where Meta and Telegram send what people write and answer.
fn inbound_address(visit: &Visit, scope: &AppScope, provider: ProviderKind) -> Option<String> {
    let is_chat = matches!(provider, ProviderKind::Messenger | ProviderKind::Telegram);
    let public = &visit.ctx.api.public_url;
    is_chat.then(|| format!("{public}/hooks/{provider}/{}", scope.app.id))
}

async fn put(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let provider = provider_of(&visit)?;
    let body = body_of(provider, &form);
    let path = api_path(scope.app.id, provider);
    match visit.change_admin(Method::PUT, &path, &body).await {
        Ok(Success { .. }) => Ok(redirect(&format!("{provider}?done=saved"))),
        Err(error) => {
            let problems = Problems::of(error)?;
            show_page(&visit, &scope, Outcome { problems, refused: Some(form), tested: None }).await
        }
    }
}

/// Shows the provider's answer at once: it is not stored, so no other page could show it.
async fn test(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("{}/test", api_path(scope.app.id, provider_of(&visit)?));
    let tested: ProviderTestResult = visit.change_admin(Method::POST, &path, &()).await?;
    show_page(&visit, &scope, Outcome { tested: Some(tested), ..Outcome::default() }).await
}

async fn resume(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let provider = provider_of(&visit)?;
    let view = stored(&visit, &scope, provider).await?.ok_or(ApiError::NotFound)?;
    let is_stopped = view.channel.is_some_and(|channel| channel.status == ProviderStatus::Tripped);
    if is_stopped && form.text("confirm").is_empty() {
        let error = ApiError::invalid("confirm", "must be ticked before deliveries resume");
        let problems = Problems::of(error)?;
        return show_page(&visit, &scope, Outcome { problems, ..Outcome::default() }).await;
    }
    let path = format!("{}/resume", api_path(scope.app.id, provider));
    let Success { .. } = visit.change_admin(Method::POST, &path, &()).await?;
    Ok(redirect(&format!("../{provider}?done=resumed")))
}

async fn delete(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = api_path(scope.app.id, provider_of(&visit)?);
    let Success { .. } = visit.change_admin(Method::DELETE, &path, &()).await?;
    Ok(redirect("../../providers?done=deleted"))
}
