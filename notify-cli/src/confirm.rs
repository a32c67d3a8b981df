//! A question before what cannot be undone, to a person at a terminal. Scripts are not asked.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;

use crate::{failure::Failure, output};

/// Whether to ask.
#[derive(Debug, Args)]
pub(crate) struct Consent {
    /// Skip the confirmation. The command asks for one only when standard input is a terminal, and
    /// refuses if standard error is not one, since the question would not show.
    #[arg(short, long)]
    yes: bool,
}

impl Consent {
    /// Whether to ask. Fails where a person types but would not see the question.
    pub(crate) fn is_to_be_asked(&self) -> Result<bool, Failure> {
        if self.yes || !io::stdin().is_terminal() {
            return Ok(false);
        }
        if io::stderr().is_terminal() {
            return Ok(true);
        }
        let why = "standard error is not a terminal, so the command cannot ask for confirmation: give --yes";
        Err(Failure::Usage(why.to_owned()))
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

/// Asks for the name of what is deleted.
pub(crate) fn ask_for_name(what: &str, name: &str) -> Result<(), Failure> {
    output::prompt(&format!("{what} Type `{}` to continue: ", name.trim()));
    if answer()? == name.trim() { Ok(()) } else { Err(Failure::Declined) }
}

fn answer() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::file("standard input"))?;
    Ok(line.trim().to_owned())
}
