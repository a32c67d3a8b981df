//! What browsers may do, in columns.

use super::{View, one, plain};

pub(crate) const WEB_ACCESS: View = one(&[
    plain("allowed_origins", "/allowed_origins"),
    plain("allowed_tags", "/allowed_tags"),
    plain("push_services", "/push_services"),
]);
