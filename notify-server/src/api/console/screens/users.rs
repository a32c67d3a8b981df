//! Users: the list, and one user with attributes and devices.

use askama::Template;
use http::Method;
use notify_core::{PatchUser, Success, User, UserDevice, UserId, UserList};
use warp::reply::Response;

use super::attributes::{self, AttributesPart, Refused};
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

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/users", list),
        action("/console/apps/{app}/users", open),
        screen("/console/apps/{app}/users/{user}", user),
        action("/console/apps/{app}/users/{user}/attributes", change_attributes),
        action("/console/apps/{app}/users/{user}/log-out", log_out),
        action("/console/apps/{app}/users/{user}/delete", delete),
    ]
}

/// A user in a list.
struct Row {
    path_id: String,
    user: User,
}

#[derive(Template)]
#[template(path = "users.html")]
struct List {
    layout: Layout,
    base: String,
    rows: Vec<Row>,
    next: Option<String>,
    /// Whether this is the first page.
    is_first: bool,
    /// The input of the form.
    user: String,
    problems: Problems,
    /// Whether the form can create the user of its input.
    can_create: bool,
}

async fn list(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&list_page(&visit, &scope, String::new(), Problems::default()).await?)
}

async fn list_page(
    visit: &Visit,
    scope: &AppScope,
    user: String,
    problems: Problems,
) -> Result<List, ApiError> {
    let layout = visit.app_layout(scope, "Users", "Users").await?;
    let cursor = visit.query("cursor")?;
    let page: UserList =
        visit.get(scope, &format!("/v1/users?cursor={}", encoded(&cursor))).await?;
    let rows = page.users.into_iter();
    Ok(List {
        base: base_of(&layout, scope),
        layout,
        rows: rows.map(|user| Row { path_id: encoded(user.user_id.as_str()), user }).collect(),
        next: page.next_cursor,
        is_first: cursor.is_empty(),
        user,
        problems,
        can_create: false,
    })
}

/// Opens the page of a user. Only the button "Create the user" creates one, because the id may be mistyped.
async fn open(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let given = form.text("user_id").to_owned();
    if let Err(rule) = UserId::new(given.clone()) {
        let problems = Problems::new(vec![format!("user_id: {rule}")]);
        return show(&list_page(&visit, &scope, given, problems).await?);
    }
    let id = encoded(&given);
    let path = format!("/v1/users/{id}");
    match visit.get::<User>(&scope, &path).await {
        Ok(_) => return Ok(redirect(&format!("users/{id}"))),
        Err(ApiError::NotFound) if form.text("create") == "yes" => {}
        Err(ApiError::NotFound) => {
            let problems = Problems::new(vec!["user_id: no user has this id".to_owned()]);
            let page = list_page(&visit, &scope, given, problems).await?;
            return show(&List { can_create: true, ..page });
        }
        Err(error) => return Err(error),
    }
    let new = PatchUser::default();
    match visit.change::<User>(&scope, Method::PATCH, &path, &new, None).await {
        Ok(_) => Ok(redirect(&format!("users/{id}?done=created"))),
        Err(error) => show(&list_page(&visit, &scope, given, Problems::of(error)?).await?),
    }
}

#[derive(Template)]
#[template(path = "user.html")]
struct UserPage {
    layout: Layout,
    base: String,
    path_id: String,
    user: User,
    devices: Vec<DeviceRow>,
    attributes: AttributesPart,
}

struct DeviceRow {
    path_id: String,
    device: UserDevice,
}

impl DeviceRow {
    fn platform(&self) -> &'static str {
        format::platform(&self.device.platform)
    }
}

async fn user(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&user_page(&visit, &scope, None).await?)
}

/// The path of the user's endpoint in the API.
fn api_path(visit: &Visit) -> Result<String, ApiError> {
    Ok(format!("/v1/users/{}", encoded(&visit.ctx.path_param("user")?)))
}

async fn user_page(
    visit: &Visit,
    scope: &AppScope,
    refused: Option<Refused>,
) -> Result<UserPage, ApiError> {
    let layout = visit.app_layout(scope, "User", "Users").await?;
    let user: User = visit.get(scope, &api_path(visit)?).await?;
    let (base, path_id) = (base_of(&layout, scope), encoded(user.user_id.as_str()));
    let page = format!("{base}/users/{path_id}");
    let attributes = AttributesPart::of(visit, page, &user.attributes)?;
    let devices = user.devices.iter().map(|device| DeviceRow {
        path_id: encoded(device.device_id.as_str()),
        device: device.clone(),
    });
    Ok(UserPage {
        attributes: match refused {
            Some(refused) => attributes.with(refused),
            None => attributes,
        },
        devices: devices.collect(),
        layout,
        base,
        path_id,
        user,
    })
}

async fn change_attributes(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let change = match attributes::change_of(&form) {
        Ok(change) => change,
        Err(refused) => return show(&user_page(&visit, &scope, Some(refused)).await?),
    };
    let path = api_path(&visit)?;
    // The API would create a user who was deleted in the meantime.
    let User { user_id, .. } = visit.get(&scope, &path).await?;
    let change = PatchUser { attributes: Some(change) };
    match visit.change::<User>(&scope, Method::PATCH, &path, &change, None).await {
        Ok(_) => Ok(redirect(&format!("../{}?done=saved", encoded(user_id.as_str())))),
        Err(error) => {
            let refused = attributes::refused(&form, error)?;
            show(&user_page(&visit, &scope, Some(refused)).await?)
        }
    }
}

async fn log_out(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/v1/devices/{}/user", encoded(form.exact("device")));
    let Success { .. } = visit.change(&scope, Method::DELETE, &path, &(), None).await?;
    let user = encoded(&visit.ctx.path_param("user")?);
    Ok(redirect(&format!("../{user}?done=logged-out")))
}

/// Deletes a user. The button says whether the devices are kept.
async fn delete(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let query = match form.text("devices") {
        "keep" => "?devices=keep",
        "erase" => "",
        _ => return Err(ApiError::invalid("devices", "must be keep or erase")),
    };
    let path = format!("{}{query}", api_path(&visit)?);
    let Success { .. } = visit.change(&scope, Method::DELETE, &path, &(), None).await?;
    Ok(redirect("../../users?done=deleted"))
}
