//! The public page of a poll under everything at once: voters, repeats, replays, other polls' answers,
//! kills (S15 of the catalogue of attacks); and as a browser sees it.

mod browser;
mod clicked;
mod voters;
