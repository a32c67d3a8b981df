//! The progress bar: on stderr, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    Purpose,
    state::{Counts, ImportState},
};

const BAR: &str = "{bar:30} {percent}% {msg} ({elapsed}, {eta} left)";
const COUNT: &str = "{spinner} {msg} ({elapsed})";

/// The progress bar of an import.
pub(super) struct Progress {
    bar: ProgressBar,
    /// The verb for a finished row.
    verb: &'static str,
}

impl Progress {
    /// Starts the bar; `size` is the size of the file, if known.
    pub(super) fn new(size: Option<u64>, purpose: Purpose) -> Self {
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr());
        let template = if size.is_some() { BAR } else { COUNT };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        let verb = match purpose {
            Purpose::Register => "registered",
            Purpose::Tag => "tagged",
        };
        Self { bar, verb }
    }

    pub(super) fn show(&self, state: &ImportState) {
        if self.bar.is_hidden() {
            return;
        }
        let Counts { done, refused, .. } = state.counts();
        self.bar.set_position(state.bytes());
        self.bar.set_message(format!("{done} {}, {refused} refused", self.verb));
    }

    /// Hides the bar while `write` may print to the terminal.
    pub(super) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
