//! Enums that are strings on the wire.

use std::fmt::{self, Display, Formatter};

/// Declares an enum whose variants are strings in JSON, in queries and in the database. One declaration
/// defines the names, their documentation and all conversions. Later versions may add variants, so the enum is
/// `non_exhaustive`, except with the feature `exhaustive`.
///
/// ```text
/// wire_enum! {
///     /// State of an application.
///     pub enum AppStatus {
///         /// In use.
///         Active = "active",
///     }
/// }
/// ```
macro_rules! wire_enum {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
        pub enum $name {$(
            $(#[$variant_attribute])*
            #[serde(rename = $text)]
            #[cfg_attr(feature = "openapi", schema(rename = $text))]
            $variant,
        )*}

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: [Self; Self::NAMES.len()] = [$(Self::$variant),*];

            /// The name of every variant, in the order of [`Self::ALL`].
            pub const NAMES: [&'static str; [$($text),*].len()] = [$($text),*];

            /// The name in JSON, in queries and in the database.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl $crate::field::Named for $name {
            #[cfg(feature = "openapi")]
            fn add_to(schemas: &mut $crate::schema::Schemas) -> serde_json::Value {
                schemas.add_type::<Self>()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownName;

            fn from_str(name: &str) -> Result<Self, $crate::UnknownName> {
                let variant = Self::ALL.into_iter().find(|variant| variant.as_str() == name);
                variant.ok_or($crate::UnknownName { known: &Self::NAMES })
            }
        }
    };
}
pub(crate) use wire_enum;

/// The error for a text that is not a name of the enum. Its message is `must be one of` and the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownName {
    pub(crate) known: &'static [&'static str],
}

impl Display for UnknownName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "must be one of {}", self.known.join(", "))
    }
}

impl std::error::Error for UnknownName {}
