//! Parses the dates of feeds: RFC 3339, RFC 822, and other formats that feeds use, as long as the
//! date has only one possible meaning. A date without a zone is read as UTC.

#[cfg(test)]
mod tests;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::Offset;
use notify_core::Timestamp;

/// Longest date that is read, in bytes.
const DATE_BYTES_MAX: usize = 128;
/// Years of two digits below this are in the 21st century, others in the 20th (RFC 2822 section
/// 4.3).
const TWO_DIGITS_PIVOT: i64 = 50;

/// Words of relative times such as `45 minutes ago`, without the plural `s`.
const RELATIVE: [&str; 6] = ["second", "minute", "hour", "day", "week", "month"];
const RFC_822: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);

/// Parses a date; `None` if it is not a date or has several possible meanings.
pub(super) fn read(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if text.len() > DATE_BYTES_MAX {
        return None;
    }
    let time = text
        .parse::<jiff::Timestamp>()
        .ok()
        .or_else(|| Loose::new(text).read())
        // The strict parser reads what `Loose` does not, such as nested comments of RFC 822.
        .or_else(|| RFC_822.parse_timestamp(text).ok())?;
    // A date before 1970 is treated as missing.
    Some(Timestamp(time.as_millisecond())).filter(|time| time.0 >= 0)
}

/// A part of a date.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Number {
        value: i64,
        digits: usize,
    },
    /// In lower case.
    Word(String),
    Sign(char),
}

/// Where a date contains the time of day.
enum TimeOfDay {
    /// The date has no time of day.
    Missing,
    /// The position of the time among the tokens.
    At(usize),
}

/// A date whose parts can have any order. The parser takes the time, am or pm, and the zone out of
/// `tokens`, one after the other. The tokens that remain are the day, the month and the year.
struct Loose {
    tokens: Vec<Token>,
    time: Option<Time>,
    half: Option<Half>,
    offset: Offset,
    /// Whether the time is 24:00, which is midnight at the end of the day.
    is_midnight_after: bool,
}

impl Loose {
    fn new(text: &str) -> Self {
        let text = text.to_lowercase().replace("a.m", "am").replace("p.m", "pm");
        let mut tokens = Vec::new();
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            let continues_part: fn(char) -> bool = match first {
                c if c.is_ascii_digit() => |c| c.is_ascii_digit(),
                c if c.is_alphabetic() => char::is_alphabetic,
                _ => |_| false,
            };
            let end = rest.find(|c| !continues_part(c)).unwrap_or(rest.len()).max(first.len_utf8());
            let (part, after) = rest.split_at(end);
            rest = after;
            let token = if first.is_alphabetic() {
                Token::Word(part.to_owned())
            } else if let Ok(value) = part.parse() {
                Token::Number { value, digits: part.len() }
            } else if first == '\u{2212}' {
                // Unicode's minus is read as a hyphen.
                Token::Sign('-')
            } else {
                Token::Sign(first)
            };
            tokens.push(token);
        }
        let offset = Offset::UTC;
        Self { tokens, time: None, half: None, offset, is_midnight_after: false }
    }

    fn read(mut self) -> Option<jiff::Timestamp> {
        if let Some(time) = self.epoch() {
            return Some(time);
        }
        if self.is_relative() {
            return None;
        }
        self.split_compact()?;
        self.take_half();
        if let TimeOfDay::At(position) = self.take_time()? {
            self.take_zone(position);
        }
        let date = self.date()?;
        let time = self.time.unwrap_or(Time::midnight());
        let mut at = DateTime::from_parts(date, time);
        if self.is_midnight_after {
            at = at.checked_add(1.day()).ok()?;
        }
        self.offset.to_timestamp(at).ok()
    }

    fn number(&self, at: usize) -> Option<(i64, usize)> {
        match self.tokens.get(at)? {
            Token::Number { value, digits } => Some((*value, *digits)),
            Token::Word(_) | Token::Sign(_) => None,
        }
    }

    fn sign(&self, at: usize) -> Option<char> {
        match self.tokens.get(at)? {
            Token::Sign(sign) => Some(*sign),
            Token::Number { .. } | Token::Word(_) => None,
        }
    }

    fn word(&self, at: usize) -> Option<&str> {
        match self.tokens.get(at)? {
            Token::Word(word) => Some(word),
            Token::Number { .. } | Token::Sign(_) => None,
        }
    }

    /// A time in seconds (10 digits) or milliseconds (13 digits) since 1970.
    fn epoch(&self) -> Option<jiff::Timestamp> {
        match self.tokens[..] {
            [Token::Number { value, digits: 10 }] => jiff::Timestamp::from_second(value).ok(),
            [Token::Number { value, digits: 13 }] => jiff::Timestamp::from_millisecond(value).ok(),
            _ => None,
        }
    }

    /// Splits `20231216`, `20231216T143300` and `20231216143300`.
    fn split_compact(&mut self) -> Option<()> {
        let is_long = |at: usize| self.number(at).is_some_and(|(_, digits)| digits >= 8);
        let Some(at) = (0..self.tokens.len()).find(|at| is_long(*at)) else { return Some(()) };
        let (value, digits) = self.number(at)?;
        let has_t = self.word(at + 1) == Some("t");
        let following = self.number(at + 2).filter(|_| has_t);
        let (date, clock, token_count) = match (digits, following) {
            (8, Some((clock, 6))) => (value, Some(clock), 3),
            (8, Some((clock, 4))) => (value, Some(clock * 100), 3),
            (8, _) => (value, None, 1),
            (12, _) => (value / 10_000, Some(value % 10_000 * 100), 1),
            (14, _) => (value / 1_000_000, Some(value % 1_000_000), 1),
            _ => return None,
        };
        let number = |value, digits| Token::Number { value, digits };
        let mut parts = vec![
            number(date / 10_000, 4),
            Token::Sign('-'),
            number(date / 100 % 100, 2),
            Token::Sign('-'),
            number(date % 100, 2),
        ];
        if let Some(clock) = clock {
            let (hour, minute, second) = (clock / 10_000, clock / 100 % 100, clock % 100);
            parts.extend([
                Token::Sign(' '),
                number(hour, 2),
                Token::Sign(':'),
                number(minute, 2),
                Token::Sign(':'),
                number(second, 2),
            ]);
        }
        self.tokens.splice(at..at + token_count, parts);
        Some(())
    }

    /// Removes the half of the day (`am`, `pm`). The word follows the time, or precedes it in Asian
    /// languages. An `am` at another place is a German preposition and stays.
    fn take_half(&mut self) {
        let is_gap = |token: &&Token| matches!(token, Token::Sign(sign) if sign.is_whitespace());
        for at in (0..self.tokens.len()).rev() {
            let Some(half) = self.word(at).and_then(half) else { continue };
            let before = self.tokens[..at].iter().rev().find(|token| !is_gap(token));
            let follows_number = matches!(before, Some(Token::Number { .. }));
            if follows_number || self.word(at).is_some_and(|word| !word.is_ascii()) {
                self.tokens[at] = Token::Sign(' ');
                self.half = Some(half);
                return;
            }
        }
    }

    /// Whether the date is a relative time, such as `2 hours ago`. Its meaning depends on when the
    /// feed was written, which is unknown.
    fn is_relative(&self) -> bool {
        let words = (0..self.tokens.len()).filter_map(|at| self.word(at));
        words.into_iter().any(|word| RELATIVE.contains(&word.trim_end_matches('s')))
    }

    /// Removes the time of day and stores it in `self.time`. Returns where the time was; `None` if
    /// the time is invalid.
    fn take_time(&mut self) -> Option<TimeOfDay> {
        let is_between = |at: usize| self.sign(at) == Some(':') || self.word(at) == Some("h");
        let is_time = |at: &usize| {
            self.number(*at).is_some() && is_between(at + 1) && self.number(at + 2).is_some()
        };
        let Some(at) = (0..self.tokens.len()).find(is_time) else {
            return Some(TimeOfDay::Missing);
        };
        let (hour, _) = self.number(at)?;
        let (minute, _) = self.number(at + 2)?;
        let mut end = at + 3;
        let (mut second, mut nanosecond) = (0, 0);
        if let (Some(':' | '.'), Some((value, 1 | 2))) = (self.sign(end), self.number(end + 1)) {
            (second, end) = (value, end + 2);
            if let (Some('.' | ','), Some((value, digits @ 1..=9))) =
                (self.sign(end), self.number(end + 1))
            {
                nanosecond = value * 10_i64.pow(9 - u32::try_from(digits).ok()?);
                end += 2;
            }
        }
        let hour_in_day = match (self.half, hour) {
            (Some(Half::Morning), 12) => 0,
            (Some(Half::Afternoon), 1..=11) => hour + 12,
            _ => hour,
        };
        self.is_midnight_after = (hour_in_day, minute, second) == (24, 0, 0);
        let clock_hour = if self.is_midnight_after { 0 } else { hour_in_day };
        let part = |value: i64| i8::try_from(value).ok();
        // A leap second, 60, is read as 59.
        let time = Time::new(
            part(clock_hour)?,
            part(minute)?,
            part(second.min(59))?,
            i32::try_from(nanosecond).ok()?,
        );
        self.time = Some(time.ok()?);
        self.tokens.drain(at..end);
        // A space keeps the numbers before and after the time apart.
        self.tokens.insert(at, Token::Sign(' '));
        Some(TimeOfDay::At(at))
    }

    /// Removes the zone that follows the time: a name, an offset, or both. `time` is the position
    /// of the time.
    fn take_zone(&mut self, time: usize) {
        let mut at = time;
        while self.sign(at).is_some_and(|sign| sign.is_whitespace() || matches!(sign, '(' | '.')) {
            at += 1;
        }
        if let Some(offset) = self.word(at).and_then(zone) {
            self.offset = offset;
            self.tokens.remove(at);
            while self.sign(at).is_some_and(char::is_whitespace) {
                at += 1;
            }
        }
        let (Some(sign @ ('+' | '-')), Some((value, digits))) =
            (self.sign(at), self.number(at + 1))
        else {
            return;
        };
        let minutes = match (self.sign(at + 2), self.number(at + 3)) {
            (Some(':'), Some((minutes, 2))) => Some(minutes),
            _ => None,
        };
        let (offset, token_count) = match (digits, minutes) {
            (1 | 2, Some(minutes)) => (value * 60 + minutes, 4),
            (1 | 2, None) => (value * 60, 2),
            (3 | 4, _) => (value / 100 * 60 + value % 100, 2),
            _ => return,
        };
        let offset = if sign == '-' { -offset } else { offset };
        let offset = i32::try_from(offset * 60).ok().and_then(|s| Offset::from_seconds(s).ok());
        self.offset = offset.unwrap_or(self.offset);
        self.tokens.drain(at..at + token_count);
    }

    /// The day, from the tokens that are left.
    fn date(&self) -> Option<Date> {
        let numbers: Vec<_> = (0..self.tokens.len()).filter_map(|at| self.number(at)).collect();
        let mut months = (0..self.tokens.len()).filter_map(|at| self.word(at).and_then(month));
        // Three numbers need no name of a month. Of several words that could be months, the last
        // one is the month and the first a weekday: `mar.` is also Tuesday in some languages.
        self.date_of_numbers(&numbers).or_else(|| of_named_month(months.next_back()?, &numbers))
    }

    /// A date whose month is a number. Each number comes with its count of digits.
    fn date_of_numbers(&self, numbers: &[(i64, usize)]) -> Option<Date> {
        match numbers[..] {
            [(year, 4), (month, 1 | 2), (day, 1 | 2), ..] => day_of(year, month, day),
            [(first, 1 | 2), (second, 1 | 2), (year, digits @ (2 | 4)), ..] => {
                self.with_year_last(first, second, (year, digits))
            }
            // ISO 8601 allows a date without a day, or without a month and a day.
            [(year, 4), (month, 2)] if self.tokens.len() == 3 => day_of(year, month, 1),
            [(year, 4)] if self.tokens.len() == 1 => day_of(year, 1, 1),
            _ => None,
        }
    }

    /// A date of three numbers with the year last. Europe writes the day first, the USA the month.
    /// `None` if both orders are possible.
    fn with_year_last(&self, first: i64, second: i64, year: (i64, usize)) -> Option<Date> {
        let (year, year_digits) = year;
        let separator = self.tokens.iter().find_map(|token| match token {
            Token::Sign(sign @ ('.' | '-' | '/')) => Some(*sign),
            _ => None,
        })?;
        let is_year_clear = year_digits == 4 || year > 31 || separator == '.';
        let (day, month) = match separator {
            // Only a year is so large: it comes first, and the day comes last.
            _ if first > 31 => return day_of(full_year(first, 2)?, second, year),
            // In `03-04-05`, the year may be first or last.
            '-' if !is_year_clear => return None,
            _ if first > 12 => (first, second),
            _ if second > 12 => (second, first),
            '/' if self.half.is_some() => (second, first),
            // Both orders are possible.
            '/' if first != second => return None,
            _ => (first, second),
        };
        day_of(full_year(year, year_digits)?, month, day)
    }
}

/// A named month with its day and its year, which can have either order.
fn of_named_month(month: i8, numbers: &[(i64, usize)]) -> Option<Date> {
    let is_year = |(value, digits): &(i64, usize)| *digits >= 3 || *value > 31;
    let (day, (year, year_digits)) = match numbers {
        [year] if is_year(year) => (1, *year),
        [year, (day, _), ..] if is_year(year) => (*day, *year),
        [(day, _), year, ..] => (*day, *year),
        _ => return None,
    };
    day_of(full_year(year, year_digits)?, month.into(), day)
}

/// The full year for a number with this count of digits. RFC 2822 counts years of three digits from
/// 1900.
fn full_year(year: i64, digits: usize) -> Option<i64> {
    match digits {
        2 if year < TWO_DIGITS_PIVOT => Some(2_000 + year),
        2 | 3 => Some(1_900 + year),
        4 => Some(year),
        _ => None,
    }
}

fn day_of(year: i64, month: i64, day: i64) -> Option<Date> {
    let (year, month, day) =
        (i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    Date::new(year, month, day).ok()
}

// The words of dates: months in all languages whose names do not contradict each other, the halves
// of a day, and zones.

/// Months by the start of their names, in lower case.
const MONTHS: [(&str, i8); 114] = [
    // Before `mar`: November in Finnish.
    ("marras", 11),
    // English, and the names that other languages share with English.
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
    // German, Dutch, the languages of Scandinavia and Indonesian.
    ("jän", 1),
    ("mär", 3),
    ("mrz", 3),
    ("mae", 3),
    ("maa", 3),
    ("mrt", 3),
    ("mai", 5),
    ("mei", 5),
    ("maj", 5),
    ("agu", 8),
    ("avg", 8),
    ("okt", 10),
    ("dez", 12),
    ("des", 12),
    // French, Spanish, Italian, Portuguese, Romanian.
    ("ene", 1),
    ("gen", 1),
    ("ian", 1),
    ("fév", 2),
    ("fev", 2),
    ("avr", 4),
    ("abr", 4),
    ("mag", 5),
    ("mayo", 5),
    ("juin", 6),
    ("giu", 6),
    ("iun", 6),
    ("juil", 7),
    ("lug", 7),
    ("iul", 7),
    ("aoû", 8),
    ("aou", 8),
    ("ago", 8),
    ("set", 9),
    ("out", 10),
    ("ott", 10),
    ("noi", 11),
    ("déc", 12),
    ("dic", 12),
    // Hungarian.
    ("már", 3),
    ("ápr", 4),
    ("máj", 5),
    ("jún", 6),
    ("júl", 7),
    ("szept", 9),
    // Turkish.
    ("oca", 1),
    ("şub", 2),
    ("nis", 4),
    ("haz", 6),
    ("tem", 7),
    ("ağu", 8),
    ("eyl", 9),
    ("eki", 10),
    ("kas", 11),
    ("ara", 12),
    // Greek.
    ("ιαν", 1),
    ("φεβ", 2),
    ("μαρ", 3),
    ("μάρ", 3),
    ("απρ", 4),
    ("μάι", 5),
    ("μαΐ", 5),
    ("μαϊ", 5),
    ("ιουν", 6),
    ("ιούν", 6),
    ("ιουλ", 7),
    ("ιούλ", 7),
    ("αυγ", 8),
    ("αύγ", 8),
    ("σεπ", 9),
    ("οκτ", 10),
    ("νοε", 11),
    ("νοέ", 11),
    ("δεκ", 12),
    // Russian, Bulgarian, Ukrainian.
    ("янв", 1),
    ("яну", 1),
    ("січ", 1),
    ("фев", 2),
    ("лют", 2),
    ("мар", 3),
    ("бер", 3),
    ("апр", 4),
    ("кві", 4),
    ("май", 5),
    ("мая", 5),
    ("тра", 5),
    ("июн", 6),
    ("юни", 6),
    ("чер", 6),
    ("июл", 7),
    ("юли", 7),
    ("лип", 7),
    ("авг", 8),
    ("сер", 8),
    ("сен", 9),
    ("сеп", 9),
    ("вер", 9),
    ("окт", 10),
    ("жов", 10),
    ("ноя", 11),
    ("лис", 11),
    ("дек", 12),
];

/// Zones in minutes east of Greenwich. Names of RFC 822 have the meaning of RFC 822. If another
/// name belongs to several zones, it means the zone in which most people live.
const ZONES: [(&str, i32); 56] = [
    ("ut", 0),
    ("utc", 0),
    ("gmt", 0),
    ("z", 0),
    ("wet", 0),
    ("bst", 60),
    ("west", 60),
    ("cet", 60),
    ("met", 60),
    ("mez", 60),
    ("wat", 60),
    ("cest", 120),
    ("mest", 120),
    ("mesz", 120),
    ("eet", 120),
    ("cat", 120),
    ("sast", 120),
    ("eest", 180),
    ("idt", 180),
    ("eat", 180),
    ("msk", 180),
    ("trt", 180),
    ("msd", 240),
    ("gst", 240),
    ("pkt", 300),
    ("ist", 330),
    ("npt", 345),
    ("ict", 420),
    ("wib", 420),
    ("hkt", 480),
    ("sgt", 480),
    ("pht", 480),
    ("awst", 480),
    ("jst", 540),
    ("kst", 540),
    ("acst", 570),
    ("aest", 600),
    ("acdt", 630),
    ("aedt", 660),
    ("nzst", 720),
    ("nzdt", 780),
    ("brt", -180),
    ("art", -180),
    ("adt", -180),
    ("ndt", -150),
    ("nst", -210),
    ("ast", -240),
    ("edt", -240),
    ("est", -300),
    ("cdt", -300),
    ("cst", -360),
    ("mdt", -360),
    ("mst", -420),
    ("pdt", -420),
    ("pst", -480),
    ("hst", -600),
];

/// Half of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Morning,
    Afternoon,
}

/// The month of a word in lower case.
pub(super) fn month(word: &str) -> Option<i8> {
    MONTHS.iter().find(|(start, _)| word.starts_with(start)).map(|(_, month)| *month)
}

/// The half of the day of a word in lower case.
pub(super) fn half(word: &str) -> Option<Half> {
    match word {
        "am" | "πμ" | "오전" | "上午" | "午前" => Some(Half::Morning),
        "pm" | "μμ" | "오후" | "下午" | "午後" => Some(Half::Afternoon),
        _ => None,
    }
}

/// The offset of a zone's name in lower case.
pub(super) fn zone(word: &str) -> Option<Offset> {
    let (_, minutes) = ZONES.iter().find(|(name, _)| *name == word)?;
    Offset::from_seconds(minutes * 60).ok()
}
