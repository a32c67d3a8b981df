//! PostgreSQL for tests: a temporary server of this process, or the one that [`URL_VARIABLE`]
//! names. Each test gets its own database. Tests fail if PostgreSQL is missing.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::DatabaseUrl;
use super::connect_config::ConnectConfig;
use super::session::Session;
use crate::store::sql::{FromColumn, Row};

/// The URL of a database whose user is a superuser, to use instead of a temporary server.
pub const URL_VARIABLE: &str = "NOTIFY_TEST_POSTGRES_URL";
/// The line in the log of a server that is ready.
const READY: &str = "database system is ready to accept connections";
/// The longest wait for a statement. It is long because creating a database waits for the disk.
const STATEMENT_WAIT: Duration = Duration::from_secs(60);
/// How often starting a server is tried again because another process took its port.
const STARTS_MAX: u32 = 3;
/// Runs a server in a folder until the standard input of the script ends, which happens at the
/// latest when this process ends. Then deletes the folder.
const SCRIPT: &str = r#"
trap 'rm -rf "$1"' EXIT
"$2/initdb" -D "$1/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$1/log" 2>&1 ||
    { cat "$1/log" >&2; exit 1; }
"$2/postgres" -D "$1/data" -k "$1" -c listen_addresses=127.0.0.1 -c port="$3" -c fsync=off \
    -c full_page_writes=off -c max_connections=300 -c shared_buffers=64MB \
    -c ssl=on -c ssl_cert_file="$1/server.crt" -c ssl_key_file="$1/server.key" &
server=$!
cat >/dev/null
kill -QUIT "$server"
wait "$server"
"#;

/// A server.
#[derive(Debug)]
pub struct TestCluster {
    /// The URL of the database that creates others.
    url: String,
    /// Ends the server when it is dropped, or when this process ends.
    _running: Option<Child>,
    /// The folder of a temporary server.
    #[cfg(test)]
    folder: PathBuf,
}

/// The database of one test, dropped with it.
#[derive(Debug)]
pub struct TestDatabase {
    cluster: &'static TestCluster,
    name: String,
    /// The schema that the URL names; `None` if it names none.
    schema: Option<&'static str>,
}

impl TestCluster {
    /// The server of this process, started at first use.
    ///
    /// # Panics
    /// When there is no PostgreSQL.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TestCluster> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var(URL_VARIABLE) {
            Ok(url) => Self {
                url,
                _running: None,
                #[cfg(test)]
                folder: PathBuf::new(),
            },
            Err(_) => Self::start(),
        })
    }

    /// A separate server with TLS for `localhost`.
    pub(super) fn start() -> Self {
        Self::start_with(certify)
    }

    /// A separate server with TLS. `certify` writes its certificate and key.
    pub(super) fn start_with(certify: fn(&Path) -> Result<(), Box<dyn Error>>) -> Self {
        let programs = programs();
        for _ in 0..STARTS_MAX {
            let port = free_port();
            let folder = std::env::temp_dir().join(format!("notify-postgres-{port}"));
            if let Some(running) = run(&folder, &programs, port, certify) {
                let url = format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable");
                return Self {
                    url,
                    _running: Some(running),
                    #[cfg(test)]
                    folder,
                };
            }
        }
        panic!("PostgreSQL does not start");
    }

    /// A file of a temporary server; `ca.crt` issued its certificate.
    #[cfg(test)]
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The URL of the database that creates others.
    #[cfg(test)]
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Creates an empty database.
    ///
    /// # Panics
    /// When the database cannot be created.
    pub fn database(&'static self) -> TestDatabase {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("notify_{}_{nth}", std::process::id());
        self.execute(&format!("create database {name} template template0 encoding 'UTF8'"));
        TestDatabase { cluster: self, name, schema: None }
    }

    /// Creates a database with an empty schema and without the schema `public`.
    ///
    /// # Panics
    /// When the database cannot be created.
    pub fn database_with_schema(&'static self, schema: &'static str) -> TestDatabase {
        let mut database = self.database();
        database.execute(&format!("drop schema public; create schema {schema}"));
        database.schema = Some(schema);
        database
    }

    /// Creates a database with the tables of this version. It is a copy of a database that was migrated
    /// once, which takes a tenth of the time of the migrations.
    #[cfg(test)]
    pub(super) fn migrated_database(&'static self) -> TestDatabase {
        static TEMPLATE: OnceLock<TestDatabase> = OnceLock::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let template = TEMPLATE.get_or_init(|| {
            let template = self.database();
            let url: DatabaseUrl = template.url().parse().expect("the url of the server is one");
            let target = ConnectConfig::of(&url).expect("it names no certificates");
            let migrate = || super::open::migrate(&target, Duration::ZERO);
            let migrated = std::thread::scope(|scope| scope.spawn(migrate).join());
            migrated.expect("it does not panic").expect("an empty database can be migrated");
            // A database can be copied once its last connection has ended.
            self.execute(&format!(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{}'",
                template.name
            ));
            template
        });
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("notify_{}_copy_{nth}", std::process::id());
        self.execute(&format!("create database {name} template {}", template.name));
        TestDatabase { cluster: self, name, schema: template.schema }
    }

    /// Runs a statement in the database that creates others.
    ///
    /// # Panics
    /// When it fails.
    pub fn execute(&self, sql: &str) {
        execute(&self.url, sql);
    }
}

impl TestDatabase {
    /// The URL of the database, in the form of `--database-url`.
    ///
    /// # Panics
    /// When the URL of the server is invalid.
    pub fn url(&self) -> String {
        let mut url = url::Url::parse(&self.cluster.url).expect("the url of the server is one");
        url.set_path(&self.name);
        if let Some(schema) = self.schema {
            url.query_pairs_mut().append_pair("options", &format!("-csearch_path={schema}"));
        }
        url.into()
    }

    /// As [`TestDatabase::url`], but of a schema.
    #[cfg(test)]
    pub(in crate::store) fn url_of_schema(&self, schema: &str) -> String {
        let mut url = url::Url::parse(&self.url()).expect("the url of the database is one");
        url.query_pairs_mut().append_pair("options", &format!("-csearch_path={schema}"));
        url.into()
    }

    /// The name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements in the database. A store that has the database open is not informed.
    ///
    /// # Panics
    /// When one fails.
    pub fn execute(&self, sql: &str) {
        execute(&self.url(), sql);
    }

    /// Runs a statement in a transaction that stays open until the result is dropped.
    ///
    /// # Panics
    /// When it fails.
    #[cfg(test)]
    pub(super) fn hold(&self, sql: &str) -> HeldTransaction {
        let (url, sql) = (self.url(), sql.to_owned());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            on_session(&url, move |session| {
                let limits = "set idle_in_transaction_session_timeout = 0; begin";
                session.execute_batch(limits).expect("the statement is right");
                session.execute_batch(&sql).expect("the statement is right");
                begun.send(()).expect("the test waits");
                // An error means that the test has dropped the sender.
                let _ = released.recv();
                session.execute_batch("rollback").expect("the statement is right");
            });
        });
        has_begun.recv().expect("the statement runs");
        HeldTransaction { release: Some(release), thread: Some(thread) }
    }

    /// The numbers that a query returns, one per row.
    ///
    /// # Panics
    /// When it fails.
    pub fn numbers(&self, sql: &str) -> Vec<i64> {
        self.first_column(sql)
    }

    /// The texts that a query returns, one per row.
    #[cfg(test)]
    pub(in crate::store) fn texts(&self, sql: &str) -> Vec<String> {
        self.first_column(sql)
    }

    fn first_column<T: FromColumn + Send>(&self, sql: &str) -> Vec<T> {
        on_session(&self.url(), |session| {
            let rows =
                session.query(session.statement_index(sql), &[]).expect("the query is right");
            let value = |row| Row::Postgres(row).get(0).expect("it gives what is asked for");
            rows.iter().map(value).collect()
        })
    }
}

/// A transaction that is open until this is dropped.
#[cfg(test)]
pub(super) struct HeldTransaction {
    release: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[cfg(test)]
impl Drop for HeldTransaction {
    fn drop(&mut self) {
        drop(self.release.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the transaction ends");
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        self.cluster.execute(&format!("drop database {} with (force)", self.name));
    }
}

fn execute(url: &str, sql: &str) {
    on_session(url, |session| {
        session.execute_batch_within(STATEMENT_WAIT, sql).expect("the statement is right");
    });
}

/// On a separate thread, since tests have a runtime and another one must not start inside it.
fn on_session<T: Send>(url: &str, work: impl FnOnce(&Session) -> T + Send) -> T {
    let url: DatabaseUrl = url.parse().expect("the url of the server is one");
    let work = || {
        let target = ConnectConfig::of(&url).expect("it names no certificates");
        let session = target.connect().expect("the server can be connected to");
        session.execute_batch("set statement_timeout = 0").expect("the statement is right");
        work(&session)
    };
    std::thread::scope(|scope| scope.spawn(work).join()).expect("the work was done")
}

/// Starts a server; `None` when it ended at once.
fn run(
    folder: &Path,
    programs: &Path,
    port: u16,
    certify: fn(&Path) -> Result<(), Box<dyn Error>>,
) -> Option<Child> {
    std::fs::create_dir(folder).expect("the folder for temporary files can be written");
    certify(folder).expect("certificates can be made");
    let mut command = Command::new("sh");
    command.arg("-c").arg(SCRIPT).arg("sh").arg(folder).arg(programs).arg(port.to_string());
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    #[cfg(unix)]
    as_ordinary_user(&mut command, &[folder, &folder.join("server.key")]);
    let mut running = command.spawn().expect("there is a shell");
    let mut log = BufReader::new(running.stderr.take().expect("it is piped")).lines();
    let ready = log.by_ref().map_while(Result::ok).any(|line| line.contains(READY));
    if !ready {
        let _ = running.wait();
        return None;
    }
    // A full pipe would block the server.
    std::thread::spawn(move || log.map_while(Result::ok).for_each(drop));
    Some(running)
}

/// Writes a certificate for `localhost`, its key, and the certificate of who issued it.
fn certify(folder: &Path) -> Result<(), Box<dyn Error>> {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    std::fs::write(folder.join("ca.crt"), authority.self_signed(&key)?.pem())?;
    let authority = Issuer::new(authority, key);
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(vec!["localhost".to_owned()])?.signed_by(&key, &authority)?;
    write_pair(folder, &leaf.pem(), &key.serialize_pem())
}

/// Writes the certificate and the key of a server.
pub(super) fn write_pair(
    folder: &Path,
    certificate: &str,
    key: &str,
) -> Result<(), Box<dyn Error>> {
    std::fs::write(folder.join("server.crt"), certificate)?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(folder.join("server.key"))?.write_all(key.as_bytes())?;
    Ok(())
}

/// Makes a command run in its own process group, which a terminal's interrupt does not reach, and
/// not as root, which PostgreSQL refuses. Its user gets ownership of `owned`.
///
/// # Panics
/// When it would run as root, and there is no other user for it.
#[cfg(unix)]
pub fn as_ordinary_user(command: &mut Command, owned: &[&Path]) {
    use std::os::unix::process::CommandExt;
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().expect("there is an `id`");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().ok()
    };
    command.process_group(0);
    if id(&["-u"]) != Some(0) {
        return;
    }
    let (Some(user), Some(group)) = (id(&["-u", "postgres"]), id(&["-g", "postgres"])) else {
        panic!("PostgreSQL does not run as root, and there is no user `postgres`");
    };
    for owned in owned {
        std::os::unix::fs::chown(owned, Some(user), Some(group)).expect("root may give files away");
    }
    command.uid(user).gid(group);
}

/// A free loopback port.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it is bound").port()
}

/// Where PostgreSQL's programs are: on the path, or where Debian puts them, the latest first.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn programs() -> PathBuf {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&on_path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut versions: Vec<_> = versions.flatten().map(|version| version.path()).collect();
        versions.sort();
        folders.extend(versions.into_iter().rev().map(|version| version.join("bin")));
    }
    folders
        .into_iter()
        .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        .unwrap_or_else(|| {
            panic!("there is no PostgreSQL: install it, or name a server in {URL_VARIABLE}")
        })
}
