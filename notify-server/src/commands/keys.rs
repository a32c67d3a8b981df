//! `notify-server app create` and `notify-server admin-key create`. They write to the database
//! directly, whether a server runs or not.

use std::io::Write;

use anyhow::{Context, bail};
use notify_core::{AppId, CreateApp, Request, Timestamp};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::keys::{KeyKind, make_key, reveal};
use crate::store::{PageRequest, Store};

use super::{open_existing, open_or_create, print};

/// Creates an application with an API key. For the first application of a database, it creates an
/// admin key too.
pub(super) async fn create_app(config: &Config, name: String, json: bool) -> anyhow::Result<()> {
    let now = SystemClock::start().now();
    let request = CreateApp { name, language: None };
    let app = match request.validate(now) {
        Ok(app) => app,
        Err(violations) => bail!("{violations}"),
    };
    let store = open_or_create(config).await?;
    let id = AppId(Uuid::now_v7());
    let api_key = make_key(KeyKind::Api, None, now);
    let admin_key = make_key(KeyKind::Admin, None, now);
    let bootstrapped =
        store.bootstrap(id, app.clone(), api_key.stored.clone(), admin_key.stored).await;
    let is_first = bootstrapped.context("the application was not created")?;
    if !is_first {
        let created = store.create_app(id, app.clone(), Some(api_key.stored), now).await;
        created.context("the application was not created")?;
    }
    if !is_first && has_namesake(&store, &app.name).await? {
        let name = &app.name;
        let line = format!(
            "warning: another application is named `{name}`: commands need the id of the one that is \
             meant"
        );
        writeln!(std::io::stderr(), "{line}").context("cannot write to standard error")?;
    }
    let mut answer = Map::new();
    answer.insert("id".into(), id.to_string().into());
    answer.insert("name".into(), app.name.into());
    answer.insert("api_key".into(), reveal(&api_key.secret).into());
    if is_first {
        answer.insert("admin_key".into(), reveal(&admin_key.secret).into());
    }
    show(answer, json)?;
    if is_first {
        // If the process ends before this line, the first start of a server creates and shows new
        // keys.
        store.keys_shown().await.context("the first start of a server shows other keys")?;
    }
    store.close().await;
    Ok(())
}

/// Applications that are read at a time.
const APPS_PER_PAGE: u32 = 100;

/// Whether more than one application has this name. Names may repeat, and the CLI accepts a name as
/// an id.
async fn has_namesake(store: &Store, name: &str) -> anyhow::Result<bool> {
    let (mut cursor, mut count) = (None, 0);
    loop {
        let page = store.list_apps(PageRequest { limit: APPS_PER_PAGE, cursor }).await?;
        count += page.rows.iter().filter(|app| app.name == name).count();
        cursor = page.next;
        if count > 1 || cursor.is_none() {
            return Ok(count > 1);
        }
    }
}

/// Creates an admin key for an existing installation. In the wrong folder, a new installation would hide the
/// mistake: its key opens no other.
pub(super) async fn create_admin_key(config: &Config, json: bool) -> anyhow::Result<()> {
    let now: Timestamp = SystemClock::start().now();
    let store = open_existing(config).await?;
    let key = make_key(KeyKind::Admin, None, now);
    let id = key.stored.id;
    store.add_recovery_key(key.stored).await.context("the admin key was not created")?;
    store.close().await;
    let mut answer = Map::new();
    answer.insert("id".into(), id.to_string().into());
    answer.insert("admin_key".into(), reveal(&key.secret).into());
    show(answer, json)
}

/// Prints the members as JSON on one line, or each member on its own line.
fn show(answer: Map<String, Value>, json: bool) -> anyhow::Result<()> {
    if json {
        return print(&Value::Object(answer).to_string());
    }
    for (name, value) in answer {
        let value = value.as_str().unwrap_or_default();
        print(&format!("{}: {value}", name.replace('_', " ")))?;
    }
    Ok(())
}
