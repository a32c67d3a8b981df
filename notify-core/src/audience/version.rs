//! Versions, which are compared number by number.

use std::cmp::Ordering;

/// The numbers of a version, such as 3, 10 and 2 of `3.10.2-beta`. Missing numbers are 0: `3.10` equals
/// `3.10.0`.
#[derive(Debug, Clone)]
pub struct Version(Vec<u64>);

impl Version {
    /// Reads the numbers of a version: digits, separated by single dots. Everything after them is ignored.
    /// Returns `None` if the text does not begin with a digit, so that it is not a version.
    ///
    /// ```
    /// use notify_core::Version;
    ///
    /// assert!(Version::parse("3.10").is_some_and(|version| version.numbers() == [3, 10]));
    /// assert!(Version::parse("3.10.2-beta").is_some_and(|version| version.numbers() == [3, 10, 2]));
    /// assert!(Version::parse("v3").is_none());
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers: Vec<u64> = Numbers::of(text).collect();
        while numbers.last() == Some(&0) && numbers.len() > 1 {
            numbers.pop();
        }
        (!numbers.is_empty()).then_some(Self(numbers))
    }

    /// The numbers, without zeros at the end.
    #[must_use]
    pub fn numbers(&self) -> &[u64] {
        &self.0
    }

    /// Compares the version in a text with this one. Returns `None` if the text is not a version.
    pub(super) fn compare(&self, text: &str) -> Option<Ordering> {
        let mut numbers = Numbers::of(text).peekable();
        numbers.peek()?;
        for own in &self.0 {
            let order = numbers.next().unwrap_or(0).cmp(own);
            if order.is_ne() {
                return Some(order);
            }
        }
        let is_equal = numbers.all(|number| number == 0);
        Some(if is_equal { Ordering::Equal } else { Ordering::Greater })
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Version {}

/// The numbers of a version. A number that does not fit into 64 bits is the largest one that does.
struct Numbers<'t> {
    rest: &'t [u8],
}

impl<'t> Numbers<'t> {
    fn of(text: &'t str) -> Self {
        Self { rest: text.as_bytes() }
    }
}

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = match rest {
            [b'.', after @ ..] => after,
            _ => &[],
        };
        let add =
            |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
        Some(number.iter().fold(0, add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_number_by_number() {
        for (text, with, expected) in [
            ("3.10", "3.9", Some(Ordering::Greater)),
            ("3.10", "3.10.0", Some(Ordering::Equal)),
            ("3.10.0.0", "3.10", Some(Ordering::Equal)),
            ("3.10.0.1", "3.10", Some(Ordering::Greater)),
            ("3", "3.0.1", Some(Ordering::Less)),
            ("03", "3", Some(Ordering::Equal)),
            ("3.10.2-beta", "3.10.2", Some(Ordering::Equal)),
            ("3.10-beta.7", "3.10", Some(Ordering::Equal)),
            ("3..7", "3", Some(Ordering::Equal)),
            ("3.", "3", Some(Ordering::Equal)),
            ("10beta", "10", Some(Ordering::Equal)),
            ("0", "0.0", Some(Ordering::Equal)),
            ("99999999999999999999999", "99999999999999999999998", Some(Ordering::Equal)),
            ("99999999999999999999999", "5", Some(Ordering::Greater)),
            ("v3", "3", None),
            ("", "3", None),
            (".3", "3", None),
            ("٣", "3", None),
        ] {
            let with = Version::parse(with).unwrap();
            assert_eq!(with.compare(text), expected, "{text} with {:?}", with.numbers());
        }
    }
}
