//! Why the server did not start.

use std::path::PathBuf;

use crate::certificates::TlsError;
use crate::config::MASTER_KEY_VARIABLE;
use crate::secrets::MasterKeyError;
use crate::store::StoreError;
use crate::store::postgres;
use crate::store::sqlite::OpenError;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The data folder cannot be made.
    #[error("cannot create the data folder {}", path.display())]
    DataDir {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Something else has the name of the data folder.
    #[error("{} is not a folder: --data-dir takes the folder of the database", .0.display())]
    NoFolder(PathBuf),
    /// The folder held a database, which is gone.
    #[error(
        "{} holds an installation ({} exists), but {} is missing: mount its volume or restore the last \
         backup. For a new installation, give --data-dir an empty folder",
        folder.display(), evidence.display(), database.display()
    )]
    NoDatabase {
        /// The folder.
        folder: PathBuf,
        /// What is missing.
        database: PathBuf,
        /// What is there.
        evidence: PathBuf,
    },
    /// The database cannot be opened.
    #[error("cannot open the database")]
    Open(#[from] OpenError),
    /// The database of `--database-url` cannot be opened.
    #[error("cannot open the database")]
    Connect(#[from] postgres::OpenError),
    /// A database that other machines can reach has no key of one machine's.
    #[error(
        "--database-url needs a master key of your own, the same for all servers of that \
         database: set {MASTER_KEY_VARIABLE}, or --master-key-file"
    )]
    NoMasterKey,
    /// The thread that opens the database ended early.
    #[error("the database was not opened")]
    Interrupted,
    /// There is no master key, or it is another one.
    #[error("cannot use the master key in {place}")]
    MasterKey {
        /// The variable or file that holds it.
        place: String,
        /// Why.
        #[source]
        source: MasterKeyError,
    },
    /// TLS cannot be served.
    #[error("cannot serve TLS")]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; choose another address with --listen")]
    Listen {
        /// Which.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The delivery engine cannot run.
    #[error("the delivery engine did not start")]
    Engine(#[source] std::io::Error),
    /// The store failed at the start.
    #[error("the database does not answer")]
    Store(#[from] StoreError),
}
