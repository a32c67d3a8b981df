//! Confirmation of commands that cannot be undone. Only a user at a terminal is asked.

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
    /// Whether the command must ask. Fails if standard input is a terminal but the question would not be
    /// visible, because standard error is redirected.
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

/// Asks a yes-or-no question. Any answer but yes is a failure.
pub(crate) fn ask(question: &str) -> Result<(), Failure> {
    output::prompt(&format!("{question} [y/N] "));
    match &*read_answer()?.to_lowercase() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Declined),
    }
}

/// Asks the user to type the name of the resource to delete. Any other answer is a failure.
pub(crate) fn ask_for_name(what: &str, name: &str) -> Result<(), Failure> {
    output::prompt(&format!("{what} Type `{}` to continue: ", name.trim()));
    if read_answer()? == name.trim() { Ok(()) } else { Err(Failure::Declined) }
}

fn read_answer() -> Result<String, Failure> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::file("standard input"))?;
    Ok(line.trim().to_owned())
}
