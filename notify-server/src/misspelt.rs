//! The known name that was probably meant by a misspelt one.

/// Most letters by which a name may differ from the one that is suggested.
const TYPO_LETTERS_MAX: usize = 2;

/// The known name with the fewest different letters, at most [`TYPO_LETTERS_MAX`]. Two swapped letters count as one.
pub(crate) fn nearest_name<'k>(
    name: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min()
        .filter(|(letters, _)| *letters <= TYPO_LETTERS_MAX)
        .map(|(_, known)| known)
}
