//! Parameters and column values. Parameters are not copied. A column is copied only if it is read
//! as an owned type such as `String`.

use serde::Serialize;

/// The type of a column or parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::store) enum Type {
    Integer,
    Text,
    Blob,
}

/// A parameter. `Null` has the type of its column, since PostgreSQL prepares a statement for the
/// types of its parameters.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum Value<'v> {
    Null(Type),
    Integer(i64),
    Text(&'v str),
    Blob(&'v [u8]),
}

impl From<Option<i64>> for Value<'_> {
    fn from(number: Option<i64>) -> Self {
        number.map_or(Self::Null(Type::Integer), Self::Integer)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl Value<'_> {
    /// The type for which a statement is prepared.
    pub(in crate::store) fn kind(&self) -> Type {
        match self {
            Self::Null(kind) => *kind,
            Self::Integer(_) => Type::Integer,
            Self::Text(_) => Type::Text,
            Self::Blob(_) => Type::Blob,
        }
    }
}

/// A type that can be a parameter.
pub(in crate::store) trait Param {
    /// The type of its column.
    const KIND: Type;

    /// The parameter value.
    fn value(&self) -> Value<'_>;
}

/// The value of a parameter, for [`params!`].
pub(in crate::store) fn value<P: Param + ?Sized>(param: &P) -> Value<'_> {
    param.value()
}

/// Parameters of different types, in the order of their numbers.
macro_rules! params {
    ($($param:expr),* $(,)?) => { [$($crate::store::sql::value(&$param)),*] };
}
pub(in crate::store) use params;

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Param for $integer {
            const KIND: Type = Type::Integer;

            fn value(&self) -> Value<'_> {
                Value::Integer(i64::from(*self))
            }
        }
    )*};
}
integers!(i64, i32, u32, u16, u8, bool);

macro_rules! borrowed {
    ($($owner:ty => $kind:ident),*) => {$(
        impl Param for $owner {
            const KIND: Type = Type::$kind;

            fn value(&self) -> Value<'_> {
                Value::$kind(self)
            }
        }
    )*};
}
borrowed!(str => Text, String => Text, [u8] => Blob, Vec<u8> => Blob);

impl<const N: usize> Param for [u8; N] {
    const KIND: Type = Type::Blob;

    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

impl<P: Param + ?Sized> Param for &P {
    const KIND: Type = P::KIND;

    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<P: Param + ?Sized> Param for Box<P> {
    const KIND: Type = P::KIND;

    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<P: Param + ToOwned<Owned: Param> + ?Sized> Param for std::borrow::Cow<'_, P> {
    const KIND: Type = P::KIND;

    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl<P: Param> Param for Option<P> {
    const KIND: Type = P::KIND;

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null(P::KIND), Param::value)
    }
}

/// The parameters of one run of a statement.
pub(in crate::store) trait Params: Sized {
    /// Calls `take` with the values and returns its result.
    fn with<R>(self, take: impl FnOnce(&[Value<'_>]) -> R) -> R;
}

/// Implements [`Params`] for each array length, and not for all with one generic impl: for an empty
/// array, that impl would leave the type of the elements ambiguous.
macro_rules! params_of {
    ($($count:literal)*) => {
        impl Params for [Value<'_>; 0] {
            fn with<R>(self, take: impl FnOnce(&[Value<'_>]) -> R) -> R {
                take(&self)
            }
        }
        $(
            impl<P: Param> Params for [P; $count] {
                fn with<R>(self, take: impl FnOnce(&[Value<'_>]) -> R) -> R {
                    take(&self.each_ref().map(Param::value))
                }
            }
        )*
    };
}
/// Parameters whose number is only known at run time.
impl Params for &[Value<'_>] {
    fn with<R>(self, take: impl FnOnce(&[Value<'_>]) -> R) -> R {
        take(self)
    }
}
params_of!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18);

impl Param for Value<'_> {
    /// Not used: `KIND` is the type of an absent parameter, and an absent value is [`Value::Null`].
    const KIND: Type = Type::Integer;

    fn value(&self) -> Value<'_> {
        *self
    }
}

/// The value of a column. Text is kept as the bytes from the database; they are checked as UTF-8
/// when they are read.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum ColumnRef<'r> {
    Null,
    Integer(i64),
    Text(&'r [u8]),
    Blob(&'r [u8]),
}

impl<'r> ColumnRef<'r> {
    /// The text without a copy; `None` if the column has another type or is not UTF-8.
    pub(in crate::store) fn as_str(self) -> Option<&'r str> {
        match self {
            Self::Text(text) => std::str::from_utf8(text).ok(),
            Self::Null | Self::Integer(_) | Self::Blob(_) => None,
        }
    }

    /// The bytes without a copy; `None` if the column has another type.
    pub(in crate::store) fn as_blob(self) -> Option<&'r [u8]> {
        match self {
            Self::Blob(bytes) => Some(bytes),
            Self::Null | Self::Integer(_) | Self::Text(_) => None,
        }
    }

    fn as_integer(self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(integer),
            Self::Null | Self::Text(_) | Self::Blob(_) => None,
        }
    }
}

/// A type that a column can be read as.
pub(in crate::store) trait FromColumn: Sized {
    /// Reads the column; `None` if it has another type or is out of range.
    fn from_column(column: ColumnRef<'_>) -> Option<Self>;
}

macro_rules! from_integers {
    ($($integer:ty),*) => {$(
        impl FromColumn for $integer {
            fn from_column(column: ColumnRef<'_>) -> Option<Self> {
                column.as_integer()?.try_into().ok()
            }
        }
    )*};
}
from_integers!(i64, i32, u32, u16, u8);

impl FromColumn for bool {
    fn from_column(column: ColumnRef<'_>) -> Option<Self> {
        column.as_integer().map(|integer| integer != 0)
    }
}

impl FromColumn for String {
    fn from_column(column: ColumnRef<'_>) -> Option<Self> {
        column.as_str().map(str::to_owned)
    }
}

impl FromColumn for Vec<u8> {
    fn from_column(column: ColumnRef<'_>) -> Option<Self> {
        column.as_blob().map(<[u8]>::to_vec)
    }
}

impl<const N: usize> FromColumn for [u8; N] {
    fn from_column(column: ColumnRef<'_>) -> Option<Self> {
        column.as_blob()?.try_into().ok()
    }
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(column: ColumnRef<'_>) -> Option<Self> {
        match column {
            ColumnRef::Null => Some(None),
            present => T::from_column(present).map(Some),
        }
    }
}

// A list is one parameter, a JSON array: one statement handles any number of rows. Each statement
// costs a round trip if the database is on another machine.

/// Selects the numbers of the first parameter, a list of [`list_of`]: `where no in {NUMBERS}`.
pub(in crate::store) const NUMBERS: &str =
    "(select cast(value as bigint) from json_each(json(?1)))";
/// Selects the texts of the first parameter, a list of [`list_of`].
pub(in crate::store) const TEXTS: &str = "(select value from json_each(json(?1)))";
/// Selects the pairs of the first parameter, a list of [`list_of`]: `from {PAIRS} pairs`. Each has a number
/// and a text.
pub(in crate::store) const PAIRS: &str =
    "(select cast(json(value) ->> 0 as bigint) as number, json(value) ->> 1 as text
      from json_each(json(?1)))";

/// Encodes a list for [`NUMBERS`], [`TEXTS`] or [`PAIRS`].
pub(in crate::store) fn list_of<T: Serialize>(items: &[T]) -> String {
    serde_json::to_string(items).expect("numbers and texts are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_parameter_has_the_type_of_its_column() {
        assert_eq!(None::<i64>.value().kind(), Type::Integer);
        assert_eq!(None::<&str>.value().kind(), Type::Text);
        assert_eq!(None::<[u8; 16]>.value().kind(), Type::Blob);
        assert_eq!(Some(true).value().kind(), Type::Integer);
    }

    #[test]
    fn a_column_is_read_only_as_its_own_type() {
        let (integer, text) = (ColumnRef::Integer(300), ColumnRef::Text(b"300"));
        assert_eq!(u32::from_column(integer), Some(300));
        assert_eq!(u8::from_column(integer), None, "out of range");
        assert_eq!(i64::from_column(text), None);
        assert_eq!(String::from_column(text).as_deref(), Some("300"));
        assert_eq!(String::from_column(ColumnRef::Text(&[0xff])), None, "not UTF-8");
        assert_eq!(<[u8; 2]>::from_column(ColumnRef::Blob(b"abc")), None, "wrong length");
        assert_eq!(i64::from_column(ColumnRef::Null), None);
        assert_eq!(Option::<i64>::from_column(ColumnRef::Null), Some(None));
        assert_eq!(Option::<i64>::from_column(text), None);
    }
}
