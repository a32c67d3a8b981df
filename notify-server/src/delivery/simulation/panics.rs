//! Panics of the engine: the engine survives them, but they fail a simulation.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Records every panic of this process, by thread, and still reports it as before.
pub(super) fn install_hook() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            before(panic);
        }));
    });
}

/// Whether this thread panicked since the last call.
pub(super) fn take_panicked() -> bool {
    PANICKED.replace(false)
}
