//! Reads and checks the bodies of the admin API.

use super::{
    AppChange, AppStatus, CreateApp, CreateKey, LANGUAGE_DEFAULT, NAME_CHARS_MAX, NewApp, NoBody,
    UpdateApp,
};
use crate::{
    Timestamp,
    json::{Body, Object},
    path::path,
    request::request,
    violations::Findings,
};

request!(CreateApp => NewApp, Body::Required, read_create, check_create);
request!(UpdateApp => AppChange, Body::Required, read_update, check_update);
request!(CreateKey => CreateKey, Body::Optional, read_key, check_key);
request!(NoBody => NoBody, Body::Optional, read_nothing, check_nothing);

fn read_create(object: &mut Object<'_, '_>) -> CreateApp {
    CreateApp { name: object.required_string("name"), language: object.string("language") }
}

fn check_create(request: CreateApp, _now: Timestamp, findings: &mut Findings) -> Option<NewApp> {
    let name = findings.required_up_to(&path("name"), request.name, NAME_CHARS_MAX);
    let language = findings.text_up_to(&path("language"), request.language, NAME_CHARS_MAX);
    Some(NewApp { name, language: language.unwrap_or_else(|| LANGUAGE_DEFAULT.to_owned()) })
}

fn read_update(object: &mut Object<'_, '_>) -> UpdateApp {
    UpdateApp {
        name: object.string("name"),
        language: object.string("language"),
        status: object.string("status"),
    }
}

fn check_update(request: UpdateApp, _now: Timestamp, findings: &mut Findings) -> Option<AppChange> {
    let status = request.status.as_deref();
    Some(AppChange {
        name: findings.text_up_to(&path("name"), request.name, NAME_CHARS_MAX),
        language: findings.text_up_to(&path("language"), request.language, NAME_CHARS_MAX),
        status: findings.optional_word(&path("status"), status, &AppStatus::ALL, AppStatus::as_str),
    })
}

fn read_key(object: &mut Object<'_, '_>) -> CreateKey {
    CreateKey { name: object.string("name") }
}

fn check_key(request: CreateKey, _now: Timestamp, findings: &mut Findings) -> Option<CreateKey> {
    Some(CreateKey { name: findings.text_up_to(&path("name"), request.name, NAME_CHARS_MAX) })
}

fn read_nothing(_: &mut Object<'_, '_>) -> NoBody {
    NoBody {}
}

#[expect(clippy::unnecessary_wraps, reason = "the form of every check")]
fn check_nothing(body: NoBody, _now: Timestamp, _: &mut Findings) -> Option<NoBody> {
    Some(body)
}
