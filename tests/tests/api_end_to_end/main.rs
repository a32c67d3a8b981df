//! The whole API through its clients: the SDK over every endpoint, and the main commands of
//! `notify`.

mod campaign_files;
mod cli;
mod imports;
mod sdk;
