//! Confirmation of commands that cannot be undone: a user at a terminal is asked, and a script gives `--yes`.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;

use crate::{failure::Failure, output};

/// Options of a command that asks for confirmation.
#[derive(Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Go ahead without asking. A script needs this option, because the command can ask only on a terminal.
    #[arg(short, long)]
    yes: bool,
}

impl ConfirmArgs {
    /// Whether the command must ask. Fails without a terminal, because nobody could answer, or see the
    /// question.
    pub(crate) fn is_required(&self) -> Result<bool, Failure> {
        if self.yes {
            return Ok(false);
        }
        let stream = if !io::stdin().is_terminal() {
            "input"
        } else if !io::stderr().is_terminal() {
            "error"
        } else {
            return Ok(true);
        };
        Err(Failure::Usage(format!(
            "this cannot be undone, and the command cannot ask for confirmation because standard {stream} is \
             not a terminal: give --yes to go ahead"
        )))
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
