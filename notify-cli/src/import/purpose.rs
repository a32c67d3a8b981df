//! The purposes of a file, and how they differ.

/// The start of the name of a column or a member that has the value of one attribute.
pub(super) const ATTRIBUTE_PREFIX: &str = "attribute:";

/// The purpose of the rows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To register or subscribe devices, with their tags and attributes.
    Register,
    /// To set tags of devices; other fields are ignored.
    Tag,
    /// To create users, and to change their attributes; fields of a device are ignored.
    UpdateUser,
}

impl Purpose {
    /// The column with the id of the device or the user.
    pub(super) fn id_column(self) -> &'static str {
        match self {
            Self::Register | Self::Tag => "device_id",
            Self::UpdateUser => "user_id",
        }
    }

    /// The columns that a CSV file must have.
    pub(super) fn required_columns(self) -> &'static [&'static str] {
        match self {
            Self::Register => &["device_id", "platform"],
            Self::Tag => &["device_id", "tags"],
            Self::UpdateUser => &["user_id"],
        }
    }

    /// Whether the rows use this column. Others that are known are ignored.
    pub(super) fn uses_column(self, name: &str) -> bool {
        match self {
            Self::Register => true,
            Self::Tag => self.required_columns().contains(&name),
            Self::UpdateUser => {
                matches!(name, "user_id" | "attributes") || name.starts_with(ATTRIBUTE_PREFIX)
            }
        }
    }

    /// The fields that the API returns and no request sets. They are ignored.
    pub(super) fn read_only_fields(self) -> &'static [&'static str] {
        match self {
            Self::Register | Self::Tag => &["created_at", "updated_at"],
            Self::UpdateUser => &["created_at", "updated_at", "devices"],
        }
    }

    /// The member of a listing of the API that has the rows.
    pub(super) fn list_member(self) -> &'static str {
        match self {
            Self::Register | Self::Tag => "devices",
            Self::UpdateUser => "users",
        }
    }

    /// The end of the name of the state file.
    pub(super) fn state_suffix(self) -> &'static str {
        match self {
            Self::Register => ".notify-import",
            Self::Tag => ".notify-tags",
            Self::UpdateUser => ".notify-users",
        }
    }

    /// The command that imports a file.
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Register => "notify devices import",
            Self::Tag => "notify devices tag --file",
            Self::UpdateUser => "notify users import",
        }
    }

    /// The verb for a finished row.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Register => "registered",
            Self::Tag => "tagged",
            Self::UpdateUser => "imported",
        }
    }
}
