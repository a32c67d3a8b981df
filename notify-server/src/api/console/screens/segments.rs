//! Segments: the list, and one segment with its condition and its size.

use askama::Template;
use http::Method;
use notify_core::{
    Audience, PreviewSegment, PutSegment, Segment, SegmentList, SegmentName, SegmentPreview,
    Success, Timestamp,
};
use warp::reply::Response;

use super::expressions;
use crate::api::console::calls::{AppScope, encoded};
use crate::api::console::form::Form;
use crate::api::console::format;
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

/// The page of a segment has the name in its query, because a name can be a text that a path cannot contain,
/// such as `..`.
pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/segments", list),
        screen("/console/apps/{app}/segments/edit", edit),
        action("/console/apps/{app}/segments/edit", submit),
        action("/console/apps/{app}/segments/delete", delete),
    ]
}

/// A segment in a list.
struct Row {
    query_name: String,
    expression: String,
    segment: Segment,
}

#[derive(Template)]
#[template(path = "segments.html")]
struct List {
    layout: Layout,
    base: String,
    rows: Vec<Row>,
    next: Option<String>,
    is_first: bool,
}

async fn list(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Segments", "Segments").await?;
    let cursor = visit.query("cursor")?;
    let path = format!("/v1/segments?cursor={}", encoded(&cursor));
    let page: SegmentList = visit.get(&scope, &path).await?;
    let rows = page.segments.into_iter().map(|segment| Row {
        query_name: encoded(segment.name.as_str()),
        expression: segment.audience.to_string(),
        segment,
    });
    show(&List {
        base: base_of(&layout, &scope),
        layout,
        rows: rows.collect(),
        next: page.next_cursor,
        is_first: cursor.is_empty(),
    })
}

#[derive(Template)]
#[template(path = "segment.html")]
struct SegmentPage {
    layout: Layout,
    base: String,
    is_new: bool,
    name: String,
    query_name: String,
    expression: String,
    /// When an existing segment was changed for the last time.
    changed_at: Option<Timestamp>,
    problems: Problems,
    /// Where the expression is wrong; empty if it is not.
    place: String,
    /// Whether the expression is not finished, while the operator types.
    is_unfinished: bool,
    size: Option<Size>,
    /// Whether the script shows only parts of this response, while the operator types.
    is_live: bool,
}

/// How many devices meet the condition.
struct Size {
    /// Their number, such as `about 1,204 devices`.
    total: String,
    is_estimate: bool,
    rows: Vec<SizeRow>,
}

struct SizeRow {
    platform: &'static str,
    devices: String,
}

impl Size {
    fn of(preview: &SegmentPreview) -> Self {
        let sizes = &preview.platforms;
        let is_estimate = sizes.iter().any(|size| !size.exact);
        let about = |is_exact: bool| if is_exact { "" } else { "about " };
        let total = sizes.iter().map(|size| size.devices).sum();
        Self {
            total: format!("{}{}", about(!is_estimate), format::count(&total, "device")),
            is_estimate,
            rows: sizes
                .iter()
                .map(|size| SizeRow {
                    platform: format::platform(&size.platform),
                    devices: format!("{}{}", about(size.exact), format::number(&size.devices)),
                })
                .collect(),
        }
    }
}

impl SegmentPage {
    async fn of(visit: &Visit, scope: &AppScope, name: &str) -> Result<Self, ApiError> {
        let is_new = name.is_empty();
        let layout = visit.app_layout(scope, "Segment", "Segments").await?;
        let segment: Option<Segment> = if is_new {
            None
        } else {
            Some(visit.get(scope, &format!("/v1/segments/{}", encoded(name))).await?)
        };
        Ok(Self {
            base: base_of(&layout, scope),
            layout,
            is_new,
            name: name.to_owned(),
            query_name: encoded(name),
            expression: segment.as_ref().map(|one| one.audience.to_string()).unwrap_or_default(),
            changed_at: segment.map(|segment| segment.updated_at),
            problems: Problems::default(),
            place: String::new(),
            is_unfinished: false,
            size: None,
            is_live: false,
        })
    }

    /// The condition. If the expression is wrong, returns `None` and adds the problem to the page.
    fn audience(&mut self) -> Option<Audience> {
        match expressions::parse(&self.expression) {
            Ok(audience) => Some(audience),
            Err(problem) if self.is_live && problem.is_at_end => {
                self.is_unfinished = true;
                None
            }
            Err(problem) => {
                self.problems = Problems::new(vec![format!("audience: {}", problem.what)]);
                self.place = problem.place;
                None
            }
        }
    }

    /// Counts the devices that meet the condition.
    async fn count(&mut self, visit: &Visit, scope: &AppScope) -> Result<(), ApiError> {
        let Some(audience) = self.audience() else { return Ok(()) };
        let request = PreviewSegment::new(audience);
        let preview: Result<SegmentPreview, ApiError> =
            visit.preview(scope, "/v1/segments/preview", &request).await;
        match preview {
            Ok(preview) => self.size = Some(Size::of(&preview)),
            Err(error) => self.problems = Problems::of(error)?,
        }
        Ok(())
    }
}

async fn edit(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let mut page = SegmentPage::of(&visit, &scope, &visit.query("name")?).await?;
    if !page.is_new {
        page.count(&visit, &scope).await?;
    }
    show(&page)
}

async fn submit(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let is_new = form.text("new") == "1";
    // The form returns the name of an existing segment, in which browsers change the line breaks.
    let name = if is_new { form.text("name").to_owned() } else { form.lines("name") };
    let mut page = SegmentPage::of(&visit, &scope, if is_new { "" } else { &name }).await?;
    page.name.clone_from(&name);
    page.expression = form.lines("audience");
    let is_saving = form.text("do") == "save";
    page.is_live = !is_saving && form.text("live") == "1";
    if !is_saving {
        page.count(&visit, &scope).await?;
        return show(&page);
    }
    let audience = page.audience();
    if is_new && let Err(error) = check_new_name(&visit, &scope, &name).await {
        let mut rules = Problems::of(error)?.all().to_vec();
        rules.extend_from_slice(page.problems.all());
        page.problems = Problems::new(rules);
    }
    let Some(audience) = audience.filter(|_| page.problems.is_empty()) else { return show(&page) };
    let path = format!("/v1/segments/{}", encoded(&name));
    let request = PutSegment::new(audience);
    match visit.change::<Segment>(&scope, Method::PUT, &path, &request, None).await {
        Ok(_) => {
            let done = if is_new { "created" } else { "saved" };
            Ok(redirect(&format!("edit?name={}&done={done}", encoded(&name))))
        }
        Err(error) => {
            page.problems = Problems::of(error)?;
            show(&page)
        }
    }
}

/// Checks the name of a new segment, which must not replace another one.
async fn check_new_name(visit: &Visit, scope: &AppScope, name: &str) -> Result<(), ApiError> {
    SegmentName::new(name).map_err(|rule| ApiError::invalid("name", rule))?;
    match visit.get::<Segment>(scope, &format!("/v1/segments/{}", encoded(name))).await {
        Ok(_) => Err(ApiError::invalid("name", "is the name of another segment")),
        Err(ApiError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn delete(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/v1/segments/{}", encoded(&form.lines("name")));
    let Success { .. } = visit.change(&scope, Method::DELETE, &path, &(), None).await?;
    Ok(redirect("../segments?done=deleted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_about_a_number() {
        let size = |exact: bool| {
            let preview = serde_json::json!({"platforms": [
                {"platform": "android", "devices": 1_200_000, "exact": exact},
                {"platform": "ios", "devices": 1, "exact": true}]});
            Size::of(&serde_json::from_value(preview).unwrap())
        };
        let (exact, estimate) = (size(true), size(false));
        assert_eq!(exact.total, "1,200,001 devices");
        assert_eq!(estimate.total, "about 1,200,001 devices");
        assert_eq!((exact.is_estimate, estimate.is_estimate), (false, true));
        let rows: Vec<&str> = estimate.rows.iter().map(|row| row.devices.as_str()).collect();
        assert_eq!(rows, ["about 1,200,000", "1"]);
    }
}
