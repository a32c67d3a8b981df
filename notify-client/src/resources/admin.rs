//! The admin API: applications, their keys and providers, diagnostics.

use notify_core::{
    AdminKeyCreated, AdminKeyList, App, AppCreated, AppDiagnostics, AppId, AppList, AuditList,
    CreateAdminKey, CreateApp, CreateKey, DeviceId, Diagnostics, KeyCreated, KeyId, KeyList,
    ListAudit, PageQuery, Playground, PlaygroundAnswer, PlaygroundMessageList, ProviderKind,
    ProviderList, ProviderTestResult, ProviderView, RenameKey, RotateKey, SessionId, SessionList,
    SetPlaygroundAnswer, SetWebAccess, UpdateApp, WebAccess,
};
use reqwest::Method;
use serde_json::Value;

use crate::{call::Call, handle::handle};

handle! {
    /// The admin API, which needs [`crate::ClientBuilder::admin_key`]. It takes no `Idempotency-Key`. A
    /// creation is therefore not retried if the server may have executed it: the call ends with the error.
    Admin from admin;

    /// Creates an application: `POST /admin/v1/apps`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CreateApp;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let app = CreateApp { name: "Shop".into(), language: None };
    /// let id = notify.admin().create_app(&app).await?.id;
    /// # Ok(())
    /// # }
    /// ```
    fn create_app(app: &CreateApp) -> AppCreated = Call::admin(Method::POST, &["apps"]).body(app);

    /// Reads an application: `GET /admin/v1/apps/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::AppId;
    /// # async fn example(notify: notify_client::Client, id: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// println!("{}", notify.admin().get_app(id).await?.name);
    /// # Ok(())
    /// # }
    /// ```
    fn get_app(id: AppId) -> App = Ok(Call::admin(Method::GET, &["apps", &id.to_string()]));

    /// Changes an application: `PATCH /admin/v1/apps/:id`. A field that is `None` keeps its value.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if a field breaks a rule; [`crate::Error::NotFound`] if the
    /// id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, UpdateApp};
    /// # async fn example(notify: notify_client::Client, id: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// let suspend = UpdateApp { status: Some("suspended".into()), ..Default::default() };
    /// notify.admin().update_app(id, &suspend).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn update_app(id: AppId, change: &UpdateApp) -> () =
        Call::admin(Method::PATCH, &["apps", &id.to_string()]).discard_response().body(change);

    /// Deletes an application with all its data: `DELETE /admin/v1/apps/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::AppId;
    /// # async fn example(notify: notify_client::Client, id: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.admin().delete_app(id).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn delete_app(id: AppId) -> () =
        Ok(Call::admin(Method::DELETE, &["apps", &id.to_string()]).discard_response());

    /// Creates an API key: `POST /admin/v1/apps/:id/keys`. Only this response contains the key.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule; [`crate::Error::NotFound`] if the id is
    /// unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, CreateKey, KeyScope};
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// let key = CreateKey { name: Some("shop".into()), ..CreateKey::default() };
    /// let key = key.scope(KeyScope::Read).scope(KeyScope::Send);
    /// let key = notify.admin().create_key(app, &key).await?.api_key;
    /// # Ok(())
    /// # }
    /// ```
    fn create_key(app: AppId, key: &CreateKey) -> KeyCreated =
        Call::admin(Method::POST, &["apps", &app.to_string(), "keys"]).body(key);

    /// Lists the API keys without their secrets: `GET /admin/v1/apps/:id/keys`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::AppId;
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// let keys = notify.admin().list_keys(app).await?.keys;
    /// # Ok(())
    /// # }
    /// ```
    fn list_keys(app: AppId) -> KeyList =
        Ok(Call::admin(Method::GET, &["apps", &app.to_string(), "keys"]));

    /// Revokes an API key at once: `DELETE /admin/v1/apps/:id/keys/:key_id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if an id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, KeyId};
    /// # async fn example(notify: notify_client::Client, app: AppId, key: KeyId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.admin().revoke_key(app, key).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn revoke_key(app: AppId, key: KeyId) -> () =
        Ok(Call::admin(Method::DELETE, &["apps", &app.to_string(), "keys", &key.to_string()]).discard_response());

    /// Creates the successor of an API key, with the same name and scopes:
    /// `POST /admin/v1/apps/:id/keys/:key_id/rotate`. Only this response contains the new key. The rotated
    /// key expires after the overlap.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the overlap is too long; [`crate::Error::NotFound`] if an id is
    /// unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, KeyId, RotateKey};
    /// # async fn example(notify: notify_client::Client, app: AppId, key: KeyId)
    /// # -> Result<(), notify_client::Error> {
    /// let successor = notify.admin().rotate_key(app, key, &RotateKey::default()).await?.api_key;
    /// # Ok(())
    /// # }
    /// ```
    fn rotate_key(app: AppId, key: KeyId, rotation: &RotateKey) -> KeyCreated =
        Call::admin(Method::POST, &["apps", &app.to_string(), "keys", &key.to_string(), "rotate"])
            .body(rotation);

    /// Configures a provider: `PUT /admin/v1/apps/:id/providers/:provider`. The server checks the
    /// configuration; its fields depend on the provider.
    ///
    /// # Errors
    /// [`crate::Error::Rejected`] if the configuration breaks a rule;
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, ProviderKind};
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let account: serde_json::Value = serde_json::from_slice(&std::fs::read("account.json")?)?;
    /// let config = serde_json::json!({ "service_account": account });
    /// notify.admin().put_provider(app, ProviderKind::Fcm, &config).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn put_provider(app: AppId, provider: ProviderKind, config: &Value) -> () =
        Call::admin(Method::PUT, &["apps", &app.to_string(), "providers", provider.as_str()])
            .discard_response()
            .unvalidated_body(config);

    /// Reads a provider's configuration without its secrets:
    /// `GET /admin/v1/apps/:id/providers/:provider`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the provider is not configured.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, ProviderKind};
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// let apns = notify.admin().get_provider(app, ProviderKind::Apns).await?;
    /// println!("{}", apns.config["topic"]);
    /// # Ok(())
    /// # }
    /// ```
    fn get_provider(app: AppId, provider: ProviderKind) -> ProviderView =
        Ok(Call::admin(Method::GET, &["apps", &app.to_string(), "providers", provider.as_str()]));

    /// Lists the configured providers: `GET /admin/v1/apps/:id/providers`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::AppId;
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// for provider in notify.admin().list_providers(app).await?.providers {
    ///     println!("{}", provider.provider);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn list_providers(app: AppId) -> ProviderList =
        Ok(Call::admin(Method::GET, &["apps", &app.to_string(), "providers"]));

    /// Removes a provider: `DELETE /admin/v1/apps/:id/providers/:provider`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the provider is not configured.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, ProviderKind};
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.admin().delete_provider(app, ProviderKind::Fcm).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn delete_provider(app: AppId, provider: ProviderKind) -> () =
        Ok(Call::admin(Method::DELETE, &["apps", &app.to_string(), "providers", provider.as_str()])
            .discard_response());

    /// Checks the credentials of a provider: `POST /admin/v1/apps/:id/providers/:provider/test`. No device
    /// receives anything. The check may take half a minute.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the provider is not configured.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, ProviderKind};
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// let checked = notify.admin().test_provider(app, ProviderKind::Apns).await?;
    /// println!("{}: {}", checked.ok, checked.detail);
    /// # Ok(())
    /// # }
    /// ```
    fn test_provider(app: AppId, provider: ProviderKind) -> ProviderTestResult =
        Ok(Call::admin(
            Method::POST,
            &["apps", &app.to_string(), "providers", provider.as_str(), "test"],
        ));

    /// Resumes the held deliveries of a provider:
    /// `POST /admin/v1/apps/:id/providers/:provider/resume`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the provider is not configured.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, ProviderKind};
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.admin().resume_provider(app, ProviderKind::Apns).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn resume_provider(app: AppId, provider: ProviderKind) -> () =
        Ok(Call::admin(
            Method::POST,
            &["apps", &app.to_string(), "providers", provider.as_str(), "resume"],
        )
        .discard_response());

    /// Sets which pages may subscribe browsers without an API key: `PUT /admin/v1/apps/:id/web`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if an origin is invalid; [`crate::Error::NotFound`] if the id
    /// is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AppId, SetWebAccess};
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// let access = SetWebAccess {
    ///     allowed_origins: vec!["https://shop.example".into()],
    ///     ..Default::default()
    /// };
    /// notify.admin().set_web_access(app, &access).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn set_web_access(app: AppId, access: &SetWebAccess) -> () =
        Call::admin(Method::PUT, &["apps", &app.to_string(), "web"]).discard_response().body(access);

    /// Reads which pages may subscribe browsers without an API key: `GET /admin/v1/apps/:id/web`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if no page has access, or the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::AppId;
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// println!("{:?}", notify.admin().get_web_access(app).await?.allowed_origins);
    /// # Ok(())
    /// # }
    /// ```
    fn get_web_access(app: AppId) -> WebAccess =
        Ok(Call::admin(Method::GET, &["apps", &app.to_string(), "web"]));

    /// Revokes the access of all pages: `DELETE /admin/v1/apps/:id/web`. Devices that are already
    /// subscribed stay.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if no page has access, or the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::AppId;
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.admin().clear_web_access(app).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn clear_web_access(app: AppId) -> () =
        Ok(Call::admin(Method::DELETE, &["apps", &app.to_string(), "web"]).discard_response());

    /// Reads the configuration and the health of the server: `GET /admin/v1/diagnostics`.
    ///
    /// # Errors
    /// [`crate::Error::Server`] if the server's storage does not respond.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let free = notify.admin().diagnostics().await?.storage.free_bytes;
    /// # Ok(())
    /// # }
    /// ```
    fn diagnostics() -> Diagnostics = Ok(Call::admin(Method::GET, &["diagnostics"]));

    /// Compares the devices of an application with its providers:
    /// `GET /admin/v1/apps/:id/devices/diagnostics`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::AppId;
    /// # async fn example(notify: notify_client::Client, app: AppId)
    /// # -> Result<(), notify_client::Error> {
    /// let ios = notify.admin().app_diagnostics(app).await?.ios;
    /// println!("{} of {} devices are for development", ios.sandbox, ios.sampled);
    /// # Ok(())
    /// # }
    /// ```
    fn app_diagnostics(app: AppId) -> AppDiagnostics =
        Ok(Call::admin(Method::GET, &["apps", &app.to_string(), "devices", "diagnostics"]));

    /// Creates an admin key: `POST /admin/v1/keys`. Only this response contains the key.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the name is too long.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CreateAdminKey;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let ada = CreateAdminKey { name: Some("Ada".into()) };
    /// let key = notify.admin().create_admin_key(&ada).await?.admin_key;
    /// # Ok(())
    /// # }
    /// ```
    fn create_admin_key(key: &CreateAdminKey) -> AdminKeyCreated =
        Call::admin(Method::POST, &["keys"]).body(key);

    /// Lists the admin keys without their secrets: `GET /admin/v1/keys`.
    ///
    /// # Errors
    /// Only errors of the transport and the server.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let keys = notify.admin().list_admin_keys().await?.keys;
    /// # Ok(())
    /// # }
    /// ```
    fn list_admin_keys() -> AdminKeyList = Ok(Call::admin(Method::GET, &["keys"]));

    /// Renames an admin key: `PATCH /admin/v1/keys/:key_id`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the name breaks a rule; [`crate::Error::NotFound`] if the id is
    /// unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{KeyId, RenameKey};
    /// # async fn example(notify: notify_client::Client, key: KeyId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.admin().rename_admin_key(key, &RenameKey { name: "Ada".into() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn rename_admin_key(key: KeyId, rename: &RenameKey) -> () =
        Call::admin(Method::PATCH, &["keys", &key.to_string()]).discard_response().body(rename);

    /// Revokes an admin key at once and ends the console sessions that it signed in:
    /// `DELETE /admin/v1/keys/:key_id`.
    ///
    /// # Errors
    /// [`crate::Error::Rejected`] for the only admin key; [`crate::Error::NotFound`] if the id is
    /// unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::KeyId;
    /// # async fn example(notify: notify_client::Client, key: KeyId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.admin().revoke_admin_key(key).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn revoke_admin_key(key: KeyId) -> () =
        Ok(Call::admin(Method::DELETE, &["keys", &key.to_string()]).discard_response());

    /// Ends a session of the console: `DELETE /admin/v1/sessions/:session_id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::SessionId;
    /// # async fn example(notify: notify_client::Client, session: SessionId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.admin().end_session(session).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn end_session(session: SessionId) -> () =
        Ok(Call::admin(Method::DELETE, &["sessions", &session.to_string()]).discard_response());
    /// Starts the playground, or returns the running one: `POST /admin/v1/playground`. Only this response
    /// contains the API key of its application.
    ///
    /// # Errors
    /// [`crate::Error::Rejected`] if another server uses the database; [`crate::Error::NotFound`] if the
    /// server was built without the sandbox.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{CreateNotification, Platform};
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let playground = notify.admin().start_playground().await?;
    /// let key = playground.api_key.unwrap_or_default();
    /// let sender = notify_client::Client::builder("http://127.0.0.1:8080").api_key(key).build()?;
    /// let hello = CreateNotification::to_platforms([Platform::Android, Platform::Ios], "Hello");
    /// sender.notifications().create(&hello).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn start_playground() -> Playground = Ok(Call::admin(Method::POST, &["playground"]));

    /// Reads the running playground, without its API key: `GET /admin/v1/playground`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if it does not run.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// for device in notify.admin().get_playground().await?.devices {
    ///     println!("{}: {}", device.device_id, device.description);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn get_playground() -> Playground = Ok(Call::admin(Method::GET, &["playground"]));

    /// Stops the playground and deletes its application: `DELETE /admin/v1/playground`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if it does not run.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// notify.admin().stop_playground().await?;
    /// # Ok(())
    /// # }
    /// ```
    fn stop_playground() -> () =
        Ok(Call::admin(Method::DELETE, &["playground"]).discard_response());

    /// Lists the last messages that the fake providers of the playground received, newest first:
    /// `GET /admin/v1/playground/messages`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if it does not run.
    ///
    /// ```no_run
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// for message in notify.admin().list_playground_messages().await?.messages {
    ///     println!("{} {}", message.answer.status, message.payload);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn list_playground_messages() -> PlaygroundMessageList =
        Ok(Call::admin(Method::GET, &["playground", "messages"]));

    /// Sets the answer of the fake provider to the next message to a device of the playground:
    /// `PUT /admin/v1/playground/devices/:device_id/answer`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the playground does not run or does not have the device;
    /// [`crate::Error::Rejected`] if no message can reach the device.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{DeviceId, PlaygroundAnswer};
    /// # async fn example(notify: notify_client::Client, device: DeviceId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.admin().set_playground_answer(&device, PlaygroundAnswer::Unavailable).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn set_playground_answer(device: &DeviceId, answer: PlaygroundAnswer) -> () =
        Call::admin(Method::PUT, &["playground", "devices", device.as_str(), "answer"])
            .discard_response()
            .body(&SetPlaygroundAnswer { answer: answer.to_string() });

    paged {
        /// One page of the applications, oldest first: `GET /admin/v1/apps`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let page = notify.admin().list_apps(&Default::default()).await?;
        /// # Ok(())
        /// # }
        /// ```
        fn list_apps;

        /// All applications, starting with the page that the query selects.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.admin().all_apps(&Default::default());
        /// while let Some(app) = all.next().await {
        ///     println!("{}", app?.name);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all_apps;

        (query: &PageQuery) -> AppList =
            Call::admin(Method::GET, &["apps"]).query(query);
    }

    paged {
        /// One page of the console's sessions, newest first: `GET /admin/v1/sessions`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let page = notify.admin().list_sessions(&Default::default()).await?;
        /// # Ok(())
        /// # }
        /// ```
        fn list_sessions;

        /// All sessions of the console, starting with the page that the query selects.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.admin().all_sessions(&Default::default());
        /// while let Some(session) = all.next().await {
        ///     println!("{}", session?.address);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all_sessions;

        (query: &PageQuery) -> SessionList =
            Call::admin(Method::GET, &["sessions"]).query(query);
    }

    paged {
        /// One page of the changes that operators made, newest first: `GET /admin/v1/audit`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let page = notify.admin().list_audit(&Default::default()).await?;
        /// # Ok(())
        /// # }
        /// ```
        fn list_audit;

        /// All changes that operators made, starting with the page that the query selects.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.admin().all_audit(&Default::default());
        /// while let Some(entry) = all.next().await {
        ///     println!("{}", entry?.action);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all_audit;

        (query: &ListAudit) -> AuditList = Call::admin(Method::GET, &["audit"]).query(query);
    }
}
