//! The whole API as its users drive it: the SDK over every endpoint, the `notify` command over the
//! main ways.

mod campaign_files;
mod cli;
mod sdk;
