//! Which addresses were told to slow down. A provider that says so to all is left alone for a
//! while; an address that is told so while others get through is alone with it.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::store::DeviceKey;

/// Most addresses that are remembered; beyond it all are forgotten, and told once more.
const TOLD_MAX: usize = 1_000;

/// Addresses of one lane that were told to slow down.
#[derive(Debug, Default)]
pub(super) struct Throttled(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    told: HashSet<DeviceKey>,
    last: Option<DeviceKey>,
    /// Whether somebody got through since one was told.
    others_go: bool,
}

impl Throttled {
    /// A delivery got through to the provider, whatever came of it.
    pub(super) fn passed(&self, key: DeviceKey) {
        let mut state = self.0.lock().expect("nothing panics under this lock");
        state.others_go = true;
        state.told.remove(&key);
    }

    /// An address is told to slow down. Answers whether that is about it alone: it was told before,
    /// and others got through meanwhile, or it was the last one that was told.
    pub(super) fn is_alone(&self, key: DeviceKey) -> bool {
        let mut state = self.0.lock().expect("nothing panics under this lock");
        let was_last = state.last.replace(key) == Some(key);
        if state.told.len() >= TOLD_MAX {
            state.told.clear();
        }
        let was_told = !state.told.insert(key);
        let is_alone = was_told && (state.others_go || was_last);
        if !is_alone {
            state.others_go = false;
        }
        is_alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What addresses are told in turn, and whether it is about them alone; a `0` gets through.
    #[test]
    fn who_is_told_again_while_others_get_through_is_alone() {
        for (name, turns) in [
            ("one among many", &[(1, false), (0, false), (1, true), (0, false), (1, true)][..]),
            ("one at the head of the line", &[(1, false), (1, true), (2, false), (2, true)]),
            ("everybody", &[(1, false), (2, false), (1, false), (2, false), (3, false)]),
            ("everybody, and then nobody", &[(1, false), (2, false), (0, false), (3, false)]),
        ] {
            let throttled = Throttled::default();
            for (nth, (key, is_alone)) in turns.iter().enumerate() {
                match key {
                    0 => throttled.passed(DeviceKey(99)),
                    _ => assert_eq!(throttled.is_alone(DeviceKey(*key)), *is_alone, "{name} {nth}"),
                }
            }
        }
    }

    #[test]
    fn who_gets_through_is_like_any_other() {
        let throttled = Throttled::default();
        assert!(!throttled.is_alone(DeviceKey(1)));
        throttled.passed(DeviceKey(1));
        throttled.passed(DeviceKey(2));
        assert!(!throttled.is_alone(DeviceKey(1)));
    }
}
