//! What became of the rows of a file.

use super::{Column, View, one, plain};

const IMPORTED_EXPORT: &[Column] = &[
    plain("rows", "/rows"),
    plain("registered", "/registered"),
    plain("refused", "/refused"),
    plain("refused_file", "/refused_file"),
    plain("duplicates", "/duplicates"),
    plain("left_out", "/left_out"),
];
/// Rows are counted, not devices: people see it in each name.
pub(crate) const IMPORTED: View = View {
    list: None,
    noun: "",
    columns: &[
        plain("rows", "/rows"),
        plain("rows registered", "/registered"),
        plain("rows refused", "/refused"),
        plain("refused_file", "/refused_file"),
        plain("rows replaced by later ones", "/duplicates"),
        plain("rows left out", "/left_out"),
    ],
    export: IMPORTED_EXPORT,
    head: 1,
};
pub(crate) const TAGGED: View = one(&[
    plain("rows", "/rows"),
    plain("tagged", "/tagged"),
    plain("refused", "/refused"),
    plain("refused_file", "/refused_file"),
]);
