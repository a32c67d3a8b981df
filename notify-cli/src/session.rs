//! The context of a command: the connection, opened on first use, and the output.

use std::{fmt::Display, path::PathBuf};

use notify_client::{
    Client, Page, Pages,
    notify_core::{AppId, CampaignId, FeedId, KeyId, ListCampaigns, PageQuery},
};

use crate::{
    connection::{self, Connection, ConnectionArgs},
    failure::Failure,
    output::Output,
};

/// Page size of requests for a whole listing.
pub(crate) const LARGE_PAGE: u32 = 500;

/// One run of a command.
pub(crate) struct Session {
    args: ConnectionArgs,
    connection: Option<Connection>,
    pub(crate) out: Output,
}

impl Session {
    pub(crate) fn new(args: ConnectionArgs, out: Output) -> Self {
        Self { args, connection: None, out }
    }

    /// The client of the server that flags, environment and profile select.
    pub(crate) fn client(&mut self) -> Result<Client, Failure> {
        if let Some(connection) = &self.connection {
            return Ok(connection.client.clone());
        }
        let connection = self.connection.insert(connection::connect(&self.args)?);
        Ok(connection.client.clone())
    }

    /// The file of an authority to trust in addition to the system's.
    pub(crate) fn ca_certificate(&self) -> Option<PathBuf> {
        self.args.ca_certificate()
    }

    /// The address of the server, if the client has been used.
    pub(crate) fn server(&self) -> Option<&str> {
        self.connection.as_ref().map(|connection| &*connection.server)
    }

    /// The address of the server and its profile: `http://… (profile `home`)`.
    pub(crate) fn server_label(&self) -> String {
        let Some(Connection { server, profile, .. }) = &self.connection else {
            return String::new();
        };
        match profile {
            Some(profile) => format!("{server} (profile `{profile}`)"),
            None => server.clone(),
        }
    }

    /// The application of `--app`. Without `--app`, the only application of the server, not counting the
    /// playground.
    pub(crate) async fn app(&mut self, name_or_id: Option<&str>) -> Result<AppId, Failure> {
        if let Some(app) = name_or_id {
            return self.named_app(app).await;
        }
        // With three applications, there is not only one, whether the playground is one of them or not.
        let query = PageQuery { limit: Some(3), cursor: None };
        let notify = self.client()?;
        let mut apps = notify.admin().list_apps(&query).await?.apps;
        if apps.len() == 2
            && let Ok(playground) = notify.admin().get_playground().await
        {
            apps.retain(|app| app.id != playground.app_id);
        }
        match apps.as_slice() {
            [app] => Ok(app.id),
            [] => Err(Failure::Usage("there is no application yet: `notify apps create NAME` creates one".into())),
            _ => Err(Failure::Usage(
                "there are several applications: give --app with a name or id of `notify apps list`"
                    .into(),
            )),
        }
    }

    /// The application with this id or name. A text that has the form of an id is taken as one. It is an
    /// error if several applications have the name.
    pub(crate) async fn named_app(&mut self, app: &str) -> Result<AppId, Failure> {
        if let Ok(id) = app.parse() {
            return Ok(id);
        }
        only_one("application", app, &self.apps_named(app).await?)
    }

    /// The campaign with this id or name.
    pub(crate) async fn named_campaign(&mut self, campaign: &str) -> Result<CampaignId, Failure> {
        if let Ok(id) = campaign.parse() {
            return Ok(id);
        }
        let notify = self.client()?;
        let mut ids = Vec::new();
        let mut query = ListCampaigns {
            offset: Some(0),
            limit: Some(LARGE_PAGE),
            name: Some(campaign.to_owned()),
            status: Some("all".to_owned()),
        };
        loop {
            let page = notify.campaigns().list(&query).await?.campaigns;
            let found = page.iter().filter(|found| found.name == campaign);
            ids.extend(found.map(|found| found.id));
            if (page.len() as u64) < u64::from(LARGE_PAGE) {
                return only_one("campaign", campaign, &ids);
            }
            query.offset = query.offset.map(|offset| offset + page.len() as u64);
        }
    }

    /// Replaces the name of a campaign with its id. `default` stays.
    pub(crate) async fn resolve_campaign(
        &mut self,
        campaign: &mut Option<String>,
    ) -> Result<(), Failure> {
        if let Some(name) = campaign.as_mut().filter(|name| *name != "default") {
            *name = self.named_campaign(name).await?.to_string();
        }
        Ok(())
    }

    /// The feed with this id or name.
    pub(crate) async fn named_feed(&mut self, feed: &str) -> Result<FeedId, Failure> {
        if let Ok(id) = feed.parse() {
            return Ok(id);
        }
        let notify = self.client()?;
        let feeds = notify.feeds();
        let all = feeds.all(&PageQuery { limit: Some(LARGE_PAGE), cursor: None });
        let ids = ids_of(all, |found| (found.name == feed).then_some(found.id)).await?;
        only_one("feed", feed, &ids)
    }

    /// The API key of an application with this id or name.
    pub(crate) async fn named_key(&mut self, app: AppId, key: &str) -> Result<KeyId, Failure> {
        if let Ok(id) = key.parse() {
            return Ok(id);
        }
        let keys = self.client()?.admin().list_keys(app).await;
        let keys = keys.map_err(Failure::unknown_id("application", &app))?.keys;
        let named = keys.iter().filter(|found| found.name.as_deref() == Some(key));
        only_one("key", key, &named.map(|found| found.id).collect::<Vec<_>>())
    }

    /// The admin key with this id or name.
    pub(crate) async fn named_admin_key(&mut self, key: &str) -> Result<KeyId, Failure> {
        if let Ok(id) = key.parse() {
            return Ok(id);
        }
        let keys = self.client()?.admin().list_admin_keys().await?.keys;
        let named = keys.iter().filter(|found| found.name.as_deref() == Some(key));
        only_one("admin key", key, &named.map(|found| found.id).collect::<Vec<_>>())
    }

    /// The ids of the applications with this name. The server allows several with the same name.
    pub(crate) async fn apps_named(&mut self, name: &str) -> Result<Vec<AppId>, Failure> {
        let notify = self.client()?;
        let admin = notify.admin();
        let apps = admin.all_apps(&PageQuery { limit: Some(LARGE_PAGE), cursor: None });
        ids_of(apps, |app| (app.name == name).then_some(app.id)).await
    }
}

/// The ids that `id_of` selects from a list.
async fn ids_of<P: Page, Id>(
    mut list: Pages<'_, P>,
    id_of: impl Fn(&P::Item) -> Option<Id>,
) -> Result<Vec<Id>, Failure> {
    let mut ids = Vec::new();
    while let Some(item) = list.next().await {
        ids.extend(id_of(&item?));
    }
    Ok(ids)
}

/// The id of the only resource that has a name.
fn only_one<Id: Copy + Display>(what: &str, name: &str, ids: &[Id]) -> Result<Id, Failure> {
    match ids {
        [id] => Ok(*id),
        [] => Err(Failure::NoMatch(format!("no {what} has the name or id `{name}`"))),
        several @ [first, second, ..] => Err(Failure::Usage(format!(
            "{} {what}s have the name `{name}`: give the id ({first}, {second}{})",
            several.len(),
            if several.len() > 2 { ", …" } else { "" }
        ))),
    }
}

/// Parses an id that the server assigned. A malformed id cannot exist, so it is reported as unknown.
pub(crate) fn parse_id<T: std::str::FromStr>(what: &str, id: &str) -> Result<T, Failure> {
    id.parse().map_err(|_| Failure::NoMatch(format!("no {what} has the id `{id}`")))
}

/// Parses an id that the caller assigned.
pub(crate) fn parse_caller_id<T>(
    what: &str,
    id: &str,
    new: impl FnOnce(String) -> Result<T, &'static str>,
) -> Result<T, Failure> {
    let object = serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(id);
    if object.is_ok() {
        return Err(Failure::Usage(format!(
            "{what}: this is a JSON object, not an id; `jq -r .id` extracts the id of a result"
        )));
    }
    new(id.to_owned()).map_err(|rule| Failure::Usage(format!("{what}: {rule}")))
}
