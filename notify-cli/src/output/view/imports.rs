//! What became of the rows of a file.

use super::{View, one, plain};

pub(crate) const IMPORTED: View = one(&[
    plain("rows", "/rows"),
    plain("registered", "/registered"),
    plain("refused", "/refused"),
    plain("refused_file", "/refused_file"),
    plain("duplicates", "/duplicates"),
    plain("left_out", "/left_out"),
]);
pub(crate) const TAGGED: View = one(&[
    plain("rows", "/rows"),
    plain("tagged", "/tagged"),
    plain("refused", "/refused"),
    plain("refused_file", "/refused_file"),
]);
