//! A cache of bounded size, shared by threads.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A cache that keeps the entries used last, approximately: when the recent half of it is full, it
/// becomes the older half, and entries of the former older half that were not used since are dropped.
pub(crate) struct BoundedCache<K, V> {
    /// Largest weight of each half.
    half_max: usize,
    halves: Mutex<Halves<K, V>>,
}

struct Halves<K, V> {
    recent: HashMap<K, Entry<V>>,
    recent_weight: usize,
    older: HashMap<K, Entry<V>>,
}

struct Entry<V> {
    value: V,
    weight: usize,
}

impl<K: Hash + Eq, V: Clone> BoundedCache<K, V> {
    /// An empty cache whose entries weigh at most this much together.
    pub(crate) fn new(weight_max: usize) -> Self {
        let halves = Halves { recent: HashMap::new(), recent_weight: 0, older: HashMap::new() };
        Self { half_max: weight_max / 2, halves: Mutex::new(halves) }
    }

    /// The cached value.
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut halves = self.lock();
        if let Some(entry) = halves.recent.get(key) {
            return Some(entry.value.clone());
        }
        let (key, entry) = halves.older.remove_entry(key)?;
        let value = entry.value.clone();
        let dropped = halves.insert(key, entry, self.half_max);
        drop(halves);
        drop(dropped);
        Some(value)
    }

    /// Caches a value of this weight, unless it is heavier than half of the cache.
    pub(crate) fn insert(&self, key: K, value: V, weight: usize) {
        let mut halves = self.lock();
        halves.remove(&key);
        let dropped = halves.insert(key, Entry { value, weight }, self.half_max);
        drop(halves);
        drop(dropped);
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, key: &K) {
        self.lock().remove(key);
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        let mut halves = self.lock();
        halves.recent_weight = 0;
        let dropped = (std::mem::take(&mut halves.recent), std::mem::take(&mut halves.older));
        drop(halves);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, Halves<K, V>> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq, V> Halves<K, V> {
    /// Adds an absent entry; returns what is dropped for it, which takes a while and needs no lock.
    fn insert(&mut self, key: K, entry: Entry<V>, half_max: usize) -> HashMap<K, Entry<V>> {
        let mut dropped = HashMap::new();
        if entry.weight > half_max {
            return dropped;
        }
        if self.recent_weight + entry.weight > half_max {
            self.recent_weight = 0;
            dropped = std::mem::replace(&mut self.older, std::mem::take(&mut self.recent));
        }
        self.recent_weight += entry.weight;
        self.recent.insert(key, entry);
        dropped
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.recent.remove(key) {
            self.recent_weight -= entry.weight;
        }
        self.older.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<K, V> BoundedCache<K, V> {
        fn weight(&self) -> usize {
            let halves = self.halves.lock().unwrap();
            halves.recent.values().chain(halves.older.values()).map(|entry| entry.weight).sum()
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
        cache.insert("a", 51, 51);
        assert_eq!((cache.get("a"), cache.weight()), (None, 0), "heavier than half of the cache");
    }

    #[test]
    fn removed_entries_are_gone_from_both_halves() {
        let cache = BoundedCache::new(4);
        for key in 0..4 {
            cache.insert(key, (), 1);
        }
        cache.remove(&0);
        cache.remove(&3);
        assert_eq!([0, 1, 2, 3].map(|key| cache.get(&key).is_some()), [false, true, true, false]);
        cache.clear();
        assert_eq!((cache.get(&1), cache.weight()), (None, 0));
    }
}
