//! What several applications use together: one value for each key, as long as somebody uses it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, Weak};

/// Values by key. It holds none of them itself: with its last user a value goes.
pub(super) struct Shared<K, V> {
    values: Mutex<HashMap<K, Weak<V>>>,
}

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self { values: Mutex::default() }
    }
}

impl<K: Eq + Hash, V> Shared<K, V> {
    /// The value of that key, made where nobody uses one.
    pub(super) fn get(&self, key: K, make: impl FnOnce(&K) -> V) -> Arc<V> {
        let mut values = self.values.lock().expect("nothing panics under this lock");
        if let Some(value) = values.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        values.retain(|_, value| value.strong_count() > 0);
        let value = Arc::new(make(&key));
        values.insert(key, Arc::downgrade(&value));
        value
    }

    /// Every value in use, with its key.
    pub(super) fn all(&self) -> Vec<(K, Arc<V>)>
    where
        K: Clone,
    {
        let values = self.values.lock().expect("nothing panics under this lock");
        let live = values.iter().filter_map(|(key, value)| Some((key.clone(), value.upgrade()?)));
        live.collect()
    }
}
