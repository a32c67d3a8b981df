//! A cache of bounded weight, shared by threads.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;

/// A cache that drops the least recently used entries.
pub(crate) struct BoundedCache<K: Hash + Eq, V> {
    weight_max: usize,
    entries: Mutex<Entries<K, V>>,
}

struct Entries<K: Hash + Eq, V> {
    by_use: LruCache<K, Entry<V>>,
    /// The sum of the entries' weights.
    weight: usize,
}

struct Entry<V> {
    value: V,
    weight: usize,
}

impl<K: Hash + Eq, V> Entries<K, V> {
    fn put(&mut self, key: K, entry: Entry<V>, weight_max: usize) {
        self.weight += entry.weight;
        let replaced = self.by_use.put(key, entry);
        self.weight -= replaced.map_or(0, |entry| entry.weight);
        while self.weight > weight_max {
            let Some((_, entry)) = self.by_use.pop_lru() else { break };
            self.weight -= entry.weight;
        }
    }
}

impl<K: Hash + Eq, V: Clone> BoundedCache<K, V> {
    /// An empty cache whose entries weigh at most `weight_max` together.
    pub(crate) fn new(weight_max: usize) -> Self {
        // A bounded `LruCache` would allocate space for all its entries at once.
        let entries = Entries { by_use: LruCache::unbounded(), weight: 0 };
        Self { weight_max, entries: Mutex::new(entries) }
    }

    /// The cached value.
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.lock().by_use.get(key).map(|entry| entry.value.clone())
    }

    /// Caches a value of this weight. A value that is too heavy for the cache is not kept.
    pub(crate) fn insert(&self, key: K, value: V, weight: usize) {
        self.lock().put(key, Entry { value, weight }, self.weight_max);
    }

    /// The cached value, or a new one of weight 1, which is then cached.
    pub(crate) fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> V {
        let mut entries = self.lock();
        if let Some(entry) = entries.by_use.get(&key) {
            return entry.value.clone();
        }
        let value = make();
        entries.put(key, Entry { value: value.clone(), weight: 1 }, self.weight_max);
        value
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, key: &K) {
        let mut entries = self.lock();
        entries.weight -= entries.by_use.pop(key).map_or(0, |entry| entry.weight);
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        let mut entries = self.lock();
        entries.by_use.clear();
        entries.weight = 0;
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<K: Hash + Eq, V> BoundedCache<K, V> {
        fn weight(&self) -> usize {
            let entries = self.entries.lock().unwrap();
            let sum = entries.by_use.iter().map(|(_, entry)| entry.weight).sum();
            assert_eq!(entries.weight, sum);
            sum
        }
    }

    #[test]
    fn entries_in_use_stay_and_the_weight_is_bounded() {
        let cache = BoundedCache::new(100);
        cache.insert(0, "used", 10);
        for key in 1..1_000 {
            cache.insert(key, "new", 7);
            assert_eq!(cache.get(&0), Some("used"));
            assert_eq!(cache.get(&key), Some("new"));
            assert!(cache.weight() <= 100);
        }
        assert_eq!(cache.get(&1), None);
    }

    #[test]
    fn a_value_replaces_the_one_of_the_same_key() {
        let cache = BoundedCache::new(100);
        for weight in [10, 40, 20] {
            cache.insert("a", weight, weight);
            assert_eq!((cache.get("a"), cache.weight()), (Some(weight), weight));
        }
        cache.insert("a", 101, 101);
        assert_eq!((cache.get("a"), cache.weight()), (None, 0), "heavier than the cache");
    }

    #[test]
    fn a_new_value_does_not_replace_one_of_the_same_key() {
        let cache = BoundedCache::new(2);
        for (key, made, expected) in
            [(1, "a", "a"), (1, "b", "a"), (2, "c", "c"), (3, "d", "d"), (1, "e", "e")]
        {
            assert_eq!(cache.get_or_insert_with(key, || made), expected, "{key}");
            assert!(cache.weight() <= 2);
        }
    }

    #[test]
    fn removed_entries_are_not_found() {
        let cache = BoundedCache::new(4);
        for key in 0..4 {
            cache.insert(key, (), 1);
        }
        cache.remove(&0);
        assert_eq!([0, 1, 2, 3].map(|key| cache.get(&key).is_some()), [false, true, true, true]);
        cache.clear();
        assert_eq!((cache.get(&1), cache.weight()), (None, 0));
    }
}
