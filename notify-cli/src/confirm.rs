//! A question before what cannot be undone, to a person at a terminal. Scripts are not asked.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;

use crate::{failure::Failure, output};

/// Whether to ask.
#[derive(Debug, Args)]
pub(crate) struct Consent {
    /// Do it without a question. A command whose input or errors go elsewhere than to a terminal
    /// asks none.
    #[arg(short, long)]
    yes: bool,
}

impl Consent {
    /// Whether there is somebody to ask who has not agreed yet.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        !self.yes && io::stdin().is_terminal() && io::stderr().is_terminal()
    }
}

/// Asks a question that yes or no answers; nothing is no.
pub(crate) fn ask(question: &str) -> Result<(), Failure> {
    output::prompt(&format!("{question} [y/N] "));
    match &*answer()?.to_lowercase() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Declined),
    }
}

/// Asks for the name of what is to go.
pub(crate) fn ask_for_name(what: &str, name: &str) -> Result<(), Failure> {
    output::prompt(&format!("{what} Type `{}` to go on: ", name.trim()));
    if answer()? == name.trim() { Ok(()) } else { Err(Failure::Declined) }
}

fn answer() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::file("standard input"))?;
    Ok(line.trim().to_owned())
}
