//! Many rows asked for by their numbers in one statement: where the database is another machine, each
//! statement is a way there and back.

/// Most rows of one statement. It is compiled once, for this many.
pub(in crate::store) const AT_ONCE: usize = 32;

/// The places of that many numbers, as in `where no in ({PLACES})`.
pub(in crate::store) const PLACES: &str = "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, \
    ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, \
    ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32";

/// Numbers of rows, at most [`AT_ONCE`] of them, for [`PLACES`]: the first stands again in the places
/// that are left, which changes nothing of a set.
pub(in crate::store) fn at_once(numbers: &[i64]) -> [i64; AT_ONCE] {
    debug_assert!((1..=AT_ONCE).contains(&numbers.len()));
    std::array::from_fn(|place| numbers.get(place).or(numbers.first()).copied().unwrap_or_default())
}
