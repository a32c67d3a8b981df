//! Campaigns in columns, and what becomes of them as files.

use super::{Column, Kind, View, column, many, nested, one, plain, text, time};

const CAMPAIGN_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    text("name", "/name"),
    plain("status", "/status"),
    plain("is_default", "/is_default"),
    time("created_at", "/created_at").optional(),
];
pub(crate) const CAMPAIGNS: View = many("campaigns", CAMPAIGN_COLUMNS);
pub(crate) const CAMPAIGN: View = one(&[
    plain("id", "/id"),
    text("name", "/name"),
    plain("status", "/status"),
    plain("is_default", "/is_default"),
    time("created_at", "/created_at"),
    plain("layout_id", "/template/layout_id"),
    nested("settings", "/template/settings"),
    nested("strings", "/template/strings"),
    nested("features", "/template/features"),
]);

pub(crate) const CAMPAIGN_STEPS: View = many(
    "campaigns",
    &[
        text("name", "/name"),
        plain("action", "/action"),
        text("file", "/file"),
        column("changes", "/changes", Kind::Lines),
    ],
);
pub(crate) const CAMPAIGN_FILES: View = many(
    "campaigns",
    &[text("name", "/name"), text("file", "/file"), plain("written", "/written")],
);
