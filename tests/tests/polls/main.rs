//! The public page of a poll: under voters, repeats, replays, other polls' answers and kills at once; and
//! in a browser.

mod page;
mod voters;
