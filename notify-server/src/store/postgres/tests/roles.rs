//! Roles of the cluster other than the server's.

use super::super::schema::INSTALLATION_LOCK_OF_PUBLIC;
use super::super::session::Session;
use super::*;
use crate::error_chain::error_chain;

/// Drops a role at the end, because roles belong to the cluster and not to the database of the test.
struct Role(String);

impl Role {
    fn create(name: &str) -> Self {
        let name = format!("notify_{}_{name}", std::process::id());
        TestCluster::shared().execute(&format!("create role {name} login"));
        Self(name)
    }

    /// The url of a database for this role.
    fn url(&self, database: &TestDatabase) -> DatabaseUrl {
        let mut url = url::Url::parse(&database.url()).unwrap();
        url.set_username(&self.0).unwrap();
        url.as_str().parse().unwrap()
    }

    /// Runs statements in a session of this role, and returns the session, which keeps its locks.
    fn run(&self, database: &TestDatabase, sql: String) -> Result<Session, String> {
        let target = ConnectConfig::of(&self.url(database)).unwrap();
        let work = move || {
            let session = target.connect().map_err(|error| error_chain(&error).to_string())?;
            session.execute_batch(&sql).map_err(|error| error_chain(&error).to_string())?;
            Ok(session)
        };
        std::thread::spawn(work).join().unwrap()
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        TestCluster::shared().execute(&format!("drop role {}", self.0));
    }
}

/// PostgreSQL lets every role that connects take an advisory lock, so the right to connect has to go.
#[tokio::test]
async fn a_role_that_could_stop_writes_is_reported_until_it_may_not_connect() {
    let own = PostgresBackend::migrated(SetMode::On);
    let store = own.open();
    let app = fixtures::app(&store).await;
    let stranger = Role::create("stranger");
    assert!(store.storage().await.unwrap().foreign_roles >= Some(1));

    let denied = stranger.run(&own.0, "select from apps".to_owned());
    assert!(denied.is_err_and(|error| error.contains("permission denied")));
    let lock = format!("select pg_advisory_lock({INSTALLATION_LOCK_OF_PUBLIC})");
    let held = stranger.run(&own.0, lock.clone()).unwrap();
    let stopped = store.accept_notification(app, fixtures::broadcast(&[Platform::Android]), None);
    assert!(matches!(stopped.await, Err(StoreError::Unavailable(_))));
    drop(held);
    own.0.execute(&format!("revoke connect on database {} from public", own.0.name()));
    // The role may still be counted in the database of another test, but not here.
    assert_eq!(store.storage().await.unwrap().foreign_roles, Some(0));
    let refused = stranger.run(&own.0, lock);
    assert!(refused.is_err_and(|error| error.contains("permission denied for database")));
    assert_eq!(accept_many(&store, app, 3).await, (3, 0));
    store.close().await;
}

#[tokio::test]
async fn a_member_of_the_servers_role_is_not_foreign() {
    let own = PostgresBackend::migrated(SetMode::On);
    own.0.execute(&format!("revoke connect on database {} from public", own.0.name()));
    let member = Role::create("member");
    let server = own.0.texts("select quote_ident(current_user)").remove(0);
    TestCluster::shared().execute(&format!("grant {server} to {}", member.0));
    let store = own.open();
    assert_eq!(store.storage().await.unwrap().foreign_roles, Some(0));
    store.close().await;
}
