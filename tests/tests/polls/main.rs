//! The public page of a poll: with many voters, repeats, replays, answers of other polls and kills at the
//! same time; and in a browser.

mod page;
mod voters;
