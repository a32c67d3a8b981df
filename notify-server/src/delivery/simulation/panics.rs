//! Panics of the engine: it survives them, and a simulation must not.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Takes note of every panic of this process, by thread, and lets it be told as before.
pub(super) fn listen() {
    static LISTEN: Once = Once::new();
    LISTEN.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            before(panic);
        }));
    });
}

/// Whether this thread panicked since it was last asked.
pub(super) fn since_last_asked() -> bool {
    PANICKED.replace(false)
}
