//! Confirmation of commands that cannot be undone, at a terminal only.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;

use crate::{failure::Failure, output};

/// Options of a command that asks for confirmation.
#[derive(Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Skip the confirmation. The command asks for one only when standard input is a terminal, and
    /// refuses if standard error is not one, since the question would not show.
    #[arg(short, long)]
    yes: bool,
}

impl ConfirmArgs {
    /// Whether to ask. Fails if input is a terminal but the question would not be visible.
    pub(crate) fn is_required(&self) -> Result<bool, Failure> {
        if self.yes || !io::stdin().is_terminal() {
            return Ok(false);
        }
        if io::stderr().is_terminal() {
            return Ok(true);
        }
        let message = "standard error is not a terminal, so the command cannot ask for confirmation: give --yes";
        Err(Failure::Usage(message.to_owned()))
    }
}

/// Asks a yes-or-no question; the default is no.
pub(crate) fn ask(question: &str) -> Result<(), Failure> {
    output::prompt(&format!("{question} [y/N] "));
    match &*answer()?.to_lowercase() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Declined),
    }
}

/// Asks the user to type the name of the resource to delete.
pub(crate) fn ask_for_name(what: &str, name: &str) -> Result<(), Failure> {
    output::prompt(&format!("{what} Type `{}` to continue: ", name.trim()));
    if answer()? == name.trim() { Ok(()) } else { Err(Failure::Declined) }
}

fn answer() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::file("standard input"))?;
    Ok(line.trim().to_owned())
}
