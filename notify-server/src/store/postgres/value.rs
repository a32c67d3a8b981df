//! Values in PostgreSQL's binary format. Integers and booleans are stored as `bigint`. Computed
//! columns may have other types, which are converted.
//!
//! Texts in PostgreSQL cannot contain U+0000. Requests that contain it are refused earlier. In
//! other texts, such as those of feeds, it is replaced with U+FFFD.

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};

use crate::store::sql::{ColumnRef, Value};

type BoxError = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for Value<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match self {
            Self::Null(_) => Ok(IsNull::Yes),
            Self::Integer(integer) => integer.to_sql(kind, out),
            Self::Text(text) if text.contains('\0') => {
                text.replace('\0', "\u{fffd}").to_sql(kind, out)
            }
            Self::Text(text) => text.to_sql(kind, out),
            Self::Blob(bytes) => bytes.to_sql(kind, out),
        }
    }

    /// Statements are prepared for the types of their values.
    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

impl<'r> FromSql<'r> for ColumnRef<'r> {
    fn from_sql(kind: &Type, raw: &'r [u8]) -> Result<Self, BoxError> {
        Ok(match *kind {
            Type::BOOL => Self::Integer(i64::from(bool::from_sql(kind, raw)?)),
            Type::INT2 => Self::Integer(i64::from(i16::from_sql(kind, raw)?)),
            Type::INT4 => Self::Integer(i64::from(i32::from_sql(kind, raw)?)),
            Type::INT8 => Self::Integer(i64::from_sql(kind, raw)?),
            Type::NUMERIC => Self::Integer(integer_of(raw).ok_or("not a whole number")?),
            Type::BYTEA => Self::Blob(raw),
            _ => Self::Text(raw),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, BoxError> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(
            *kind,
            Type::BOOL
                | Type::INT2
                | Type::INT4
                | Type::INT8
                | Type::NUMERIC
                | Type::BYTEA
                | Type::TEXT
                | Type::VARCHAR
                | Type::NAME
                | Type::UNKNOWN
        )
    }
}

/// Decodes a `numeric` that is an integer, such as the sum of `bigint` columns; `None` for any
/// other `numeric`. The format is a head of four 16-bit words, then digits to the base 10,000. The
/// head contains the number of digits, the weight, the sign and the scale. The value of the first
/// digit is multiplied by 10,000 to the power of the weight.
fn integer_of(raw: &[u8]) -> Option<i64> {
    let (head, digits) = raw.split_at_checked(8)?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (digit_count, sign) = (word(0), word(4));
    let weight = i16::from_be_bytes([head[2], head[3]]);
    let (digits, _) = digits.as_chunks::<2>();
    if digits.len() != usize::from(digit_count) {
        return None;
    }
    let mut number = 0_i64;
    for place in 0..=weight {
        let digit = digits.get(usize::try_from(place).ok()?).copied().unwrap_or_default();
        let digit = i64::from(u16::from_be_bytes(digit));
        number = number.checked_mul(10_000)?.checked_add(digit)?;
    }
    let has_fraction = i64::try_from(digits.len()).ok()? > i64::from(weight) + 1;
    if has_fraction {
        return None;
    }
    match sign {
        0 => Some(number),
        0x4000 => number.checked_neg(),
        // Not a number, or infinite.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::integer_of;

    fn numeric(weight: i16, sign: u16, digits: &[u16]) -> Vec<u8> {
        let count = u16::try_from(digits.len()).unwrap();
        let words = [count, weight.cast_unsigned(), sign, 0];
        words.iter().chain(digits).flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn sums_are_whole_numbers() {
        for (raw, expected) in [
            (numeric(0, 0, &[]), Some(0)),
            (numeric(0, 0, &[7]), Some(7)),
            (numeric(1, 0, &[1]), Some(10_000)),
            (numeric(1, 0, &[123, 4_567]), Some(1_234_567)),
            (numeric(1, 0x4000, &[1, 1]), Some(-10_001)),
            (numeric(0, 0, &[1, 5_000]), None),
            (numeric(0, 0xc000, &[]), None),
            (numeric(9, 0, &[9]), None),
            (vec![0; 7], None),
        ] {
            assert_eq!(integer_of(&raw), expected, "{raw:?}");
        }
    }
}
