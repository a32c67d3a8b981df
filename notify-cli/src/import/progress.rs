//! The progress bar: on stderr, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    Purpose,
    journal::{Counts, Journal},
};

const BAR: &str = "{bar:30} {percent}% {msg} ({elapsed}, {eta} left)";
const COUNT: &str = "{spinner} {msg} ({elapsed})";

/// What a person sees of an import while it runs.
pub(super) struct Progress {
    bar: ProgressBar,
    /// What is done to a row.
    done: &'static str,
}

impl Progress {
    /// Begins; `size` is that of the file, when it has one.
    pub(super) fn new(size: Option<u64>, purpose: Purpose) -> Self {
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr());
        let template = if size.is_some() { BAR } else { COUNT };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        let done = match purpose {
            Purpose::Register => "registered",
            Purpose::Tag => "tagged",
        };
        Self { bar, done }
    }

    pub(super) fn show(&self, journal: &Journal) {
        if self.bar.is_hidden() {
            return;
        }
        let Counts { done, refused, .. } = journal.counts();
        self.bar.set_position(journal.bytes());
        self.bar.set_message(format!("{done} {}, {refused} refused", self.done));
    }

    /// Does something that may write to the terminal.
    pub(super) fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
