//! The progress bar: on stderr, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::journal::Journal;

const BAR: &str = "{bar:30} {percent}% {msg} ({elapsed}, {eta} left)";
const COUNT: &str = "{spinner} {msg} ({elapsed})";

/// What a person sees of an import while it runs.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Begins; `size` is that of the file, when it has one.
    pub(super) fn new(size: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr());
        let template = if size.is_some() { BAR } else { COUNT };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        Self(bar)
    }

    pub(super) fn show(&self, journal: &Journal) {
        if self.0.is_hidden() {
            return;
        }
        let (registered, refused) = journal.counts();
        self.0.set_position(journal.bytes());
        self.0.set_message(format!("{registered} registered, {refused} refused"));
    }

    /// Does something that may write to the terminal.
    pub(super) fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }

    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}
