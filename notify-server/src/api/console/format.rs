//! Times, numbers and charts in HTML.

use std::fmt::Write;

use jiff::tz::TimeZone;
use notify_core::{Platform, ProviderKind, Timestamp};

/// A time as HTML, in UTC. The script shows it in the time zone of the browser.
pub(super) fn time(at: &Timestamp) -> String {
    let Ok(instant) = jiff::Timestamp::from_millisecond(at.as_ms()) else {
        return format!("{at} ms");
    };
    let utc = instant.to_zoned(TimeZone::UTC);
    format!(
        "<time datetime=\"{}\">{}</time>",
        utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        utc.strftime("%Y-%m-%d %H:%M:%S UTC")
    )
}

/// The day of a time (UTC), such as `2026-11-23`.
pub(super) fn day(at: &Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_ms()) {
        Ok(instant) => instant.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d").to_string(),
        Err(_) => at.to_string(),
    }
}

/// A span of milliseconds in its two largest units, such as `3 days 4 h`.
pub(super) fn span(ms: i64) -> String {
    let minutes = ms.max(0) / 60_000;
    let (days, hours, minutes) = (minutes / 1_440, minutes / 60 % 24, minutes % 60);
    match (days, hours) {
        (0, 0) if minutes == 0 => "less than a minute".to_owned(),
        (0, 0) => format!("{minutes} min"),
        (0, hours) => format!("{hours} h {minutes} min"),
        (1, hours) => format!("1 day {hours} h"),
        (days, hours) => format!("{days} days {hours} h"),
    }
}

/// The span between two times.
pub(super) fn up(now: &Timestamp, start: &Timestamp) -> String {
    span(now.ms_since(*start))
}

/// A number of bytes, such as `4.2 MB`.
pub(super) fn bytes(count: &u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if *count < 1_000 {
        return format!("{count} bytes");
    }
    let (mut whole, mut tenths, mut unit) = (*count, 0, 0);
    for (index, _) in UNITS.iter().enumerate() {
        (whole, tenths, unit) = (whole / 1_000, whole % 1_000 / 100, index);
        if whole < 1_000 {
            break;
        }
    }
    if whole < 10 {
        format!("{whole}.{tenths} {}", UNITS[unit])
    } else {
        format!("{whole} {}", UNITS[unit])
    }
}

/// A number with separators, such as `1,000,000`.
pub(super) fn number(count: &u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun, such as `1 device` or `2,000 devices`.
pub(super) fn count(count: &u64, singular: &str) -> String {
    let plural = if *count == 1 { "" } else { "s" };
    format!("{} {singular}{plural}", number(count))
}

/// The name of a platform for people. Every page has the same names; the API has its own, such as `chatapp`.
pub(super) const fn platform(platform: &Platform) -> &'static str {
    match platform {
        Platform::Android => "Android",
        Platform::Ios => "iOS",
        Platform::Web => "Web",
        Platform::FbMessenger => "Messenger",
        Platform::ChatApp => "Telegram",
    }
}

/// An argument of a command for a shell, quoted if it needs to be.
pub(super) fn argument(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@/-".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The deepest indentation of JSON, in levels. Without a limit, deep nesting multiplies the size.
const INDENT_MAX: usize = 8;
/// The longest JSON that gets line breaks, in bytes.
const PRETTY_BYTES_MAX: usize = 64 * 1_024;

/// JSON with line breaks. The members keep their order, and numbers and texts stay as they are written. A text
/// over 64 KiB stays unchanged.
pub(super) fn pretty_json(json: &str) -> String {
    if json.len() > PRETTY_BYTES_MAX {
        return json.to_owned();
    }
    let mut pretty = String::with_capacity(json.len() * 2);
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    let break_line = |pretty: &mut String, depth: usize| {
        pretty.push('\n');
        pretty.extend(std::iter::repeat_n("  ", depth.min(INDENT_MAX)));
    };
    for char in json.chars() {
        if is_text {
            pretty.push(char);
            is_text = is_escaped || char != '"';
            is_escaped = !is_escaped && char == '\\';
            continue;
        }
        match char {
            '{' | '[' => {
                pretty.push(char);
                depth += 1;
                break_line(&mut pretty, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                let filled = pretty.trim_end().len();
                if pretty[..filled].ends_with(['{', '[']) {
                    pretty.truncate(filled);
                } else {
                    break_line(&mut pretty, depth);
                }
                pretty.push(char);
            }
            ',' => {
                pretty.push(char);
                break_line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            _ if char.is_whitespace() => {}
            _ => {
                is_text = char == '"';
                pretty.push(char);
            }
        }
    }
    pretty
}

/// The width and height of the space of one bar, and the height of a chart.
const BAR_WIDTH: u64 = 8;
const BAR_GAP: u64 = 2;
const CHART_HEIGHT: u64 = 64;

/// A bar of a chart: the values of its parts from the bottom, and its text.
pub(super) struct Bar<const PARTS: usize> {
    /// What the bar stands for, with its numbers; shown when the pointer is on it.
    pub(super) title: String,
    pub(super) parts: [u64; PARTS],
}

/// Bars as SVG. `label` says what the chart shows, for people who cannot see it. A table next to the chart
/// has the numbers. The parts of a bar have the classes `part-0`, `part-1` and so on. No text may be of a user.
pub(super) fn bars<const PARTS: usize>(label: &str, bars: &[Bar<PARTS>]) -> String {
    let sums = bars.iter().map(|bar| bar.parts.iter().sum::<u64>());
    let largest = sums.max().unwrap_or(0).max(1);
    let step = BAR_WIDTH + BAR_GAP;
    let width = step * bars.len() as u64;
    let mut svg = format!(
        "<svg class=\"bars\" role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {width} {CHART_HEIGHT}\" \
         preserveAspectRatio=\"none\">"
    );
    for (index, bar) in (0_u64..).zip(bars) {
        let (x, mut top) = (index * step, CHART_HEIGHT);
        for (part, value) in bar.parts.iter().enumerate().filter(|(_, value)| **value > 0) {
            // A day with any value has a visible part.
            let scaled = u128::from(*value) * u128::from(CHART_HEIGHT) / u128::from(largest);
            let height = u64::try_from(scaled).unwrap_or(CHART_HEIGHT).clamp(1, top.max(1));
            top = top.saturating_sub(height);
            let _ = write!(
                svg,
                "<rect class=\"part-{part}\" x=\"{x}\" y=\"{top}\" width=\"{BAR_WIDTH}\" \
                 height=\"{height}\"><title>{}</title></rect>",
                bar.title
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// The name of a provider for people.
pub(super) fn title_of(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Apns => "APNs",
        ProviderKind::Fcm => "FCM",
        ProviderKind::WebPush => "Web Push",
        ProviderKind::Messenger => "Messenger",
        ProviderKind::Telegram => "Telegram",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_and_bytes_have_units() {
        for (count, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(number(&count), expected);
        }
        for (count, expected) in [
            (0, "0 bytes"),
            (999, "999 bytes"),
            (1_000, "1.0 kB"),
            (4_250_000, "4.2 MB"),
            (31_000_000_000, "31 GB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(bytes(&count), expected);
        }
    }

    #[test]
    fn spans_have_two_units() {
        for (minutes, expected) in [
            (0, "less than a minute"),
            (59, "59 min"),
            (61, "1 h 1 min"),
            (1_440, "1 day 0 h"),
            (3_000, "2 days 2 h"),
        ] {
            assert_eq!(span(minutes * 60_000), expected);
        }
    }

    #[test]
    fn counted_things_have_their_plural() {
        for (number, expected) in [(0, "0 devices"), (1, "1 device"), (2_000, "2,000 devices")] {
            assert_eq!(count(&number, "device"), expected);
        }
    }

    #[test]
    fn an_argument_is_one_word_of_a_shell() {
        for (text, expected) in [
            ("a.b_c:d@e/f-1", "a.b_c:d@e/f-1"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(id)", "'$(id)'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(argument(text), expected);
        }
    }

    #[test]
    fn pretty_json_changes_only_white_space() {
        let json = r#"{"b":[1,2.50,{}],"a":"x\",{[: \\","c": [ ],"d":null}"#;
        let pretty = "{\n  \"b\": [\n    1,\n    2.50,\n    {}\n  ],\n  \"a\": \"x\\\",{[: \\\\\",\n  \
            \"c\": [],\n  \"d\": null\n}";
        assert_eq!(pretty_json(json), pretty);
        assert_eq!(pretty_json(pretty), pretty);
        assert_eq!(pretty_json("} not JSON"), "\n}notJSON");
    }

    #[test]
    fn pretty_json_grows_within_bounds() {
        let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let pretty = pretty_json(&deep(30_000));
        assert!(pretty.len() < 60_000 * 20, "{}", pretty.len());
        assert!(pretty.contains(&format!("\n{}1\n", "  ".repeat(INDENT_MAX))));
        let large = deep(PRETTY_BYTES_MAX / 2);
        assert_eq!(pretty_json(&large), large);
    }

    #[test]
    fn times_are_in_utc_until_a_script_shows_them() {
        let at = Timestamp(1_780_000_000_000);
        assert_eq!(
            time(&at),
            "<time datetime=\"2026-05-28T20:26:40Z\">2026-05-28 20:26:40 UTC</time>"
        );
        assert_eq!(day(&at), "2026-05-28");
    }

    #[test]
    fn the_largest_bar_has_the_height_of_the_chart_and_each_part_is_visible() {
        let bar = |parts| Bar { title: "day".to_owned(), parts };
        let svg = bars("sent", &[bar([0, 0]), bar([1, 0]), bar([999_999, 1])]);
        assert!(!svg.contains("x=\"0\""), "{svg}");
        assert!(svg.contains("part-0\" x=\"10\" y=\"63\" width=\"8\" height=\"1\""), "{svg}");
        assert!(svg.contains("part-0\" x=\"20\" y=\"1\" width=\"8\" height=\"63\""), "{svg}");
        assert!(svg.contains("part-1\" x=\"20\" y=\"0\" width=\"8\" height=\"1\""), "{svg}");
        assert!(svg.contains("<title>day</title>"), "{svg}");
    }
}
