//! What became of the rows of a file.

use super::{Column, View, count, one, plain, record};

const IMPORTED_EXPORT: &[Column] = &[
    plain("rows", "/rows"),
    plain("registered", "/registered"),
    plain("refused", "/refused"),
    plain("refused_file", "/refused_file"),
    plain("duplicates", "/duplicates"),
    plain("left_out", "/left_out"),
    plain("devices", "/devices"),
    plain("replaced", "/replaced"),
    plain("without_address", "/without_address"),
];
/// People see numbers that add up to the rows, and what they count in each name.
pub(crate) const IMPORTED: View = record(
    &[
        plain("rows", "/rows"),
        plain("devices registered", "/devices"),
        plain("rows replaced by later ones", "/replaced"),
        plain("rows refused", "/refused"),
        plain("refused_file", "/refused_file"),
        plain("rows left out", "/left_out"),
        count("registered without an address", "/without_address"),
    ],
    IMPORTED_EXPORT,
);
pub(crate) const TAGGED: View = one(&[
    plain("rows", "/rows"),
    plain("tagged", "/tagged"),
    plain("refused", "/refused"),
    plain("refused_file", "/refused_file"),
]);
