//! Parses the values of arguments: files, instants, platforms and others. The file `-` is standard input.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use clap::builder::{
    NonEmptyStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser,
};
use notify_client::{
    Error,
    notify_core::{
        Audience, CreateNotification, DeliveryOutcome, DeviceState, NotificationStatus,
        NotificationTranslations, Platform, ProviderKind, PutSegment, Request, Timestamp,
        UserState, json::JsonObject,
    },
};

use crate::failure::Failure;

/// Largest file that is read into memory, in bytes; far above the limit of a server.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Numbers below this (3 March 1973 in unix milliseconds) are probably seconds.
const SECONDS_BELOW: i64 = 100_000_000_000;

/// Reads a file, or standard input for `-`. An empty file is an error.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(Failure::file(path))?)
    };
    source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Failure::file(path))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::Usage(format!("{}: is larger than 16 MiB", path.display())));
    }
    if bytes.is_empty() {
        return Err(Failure::Usage(if path == Path::new("-") {
            "standard input is empty: `-` reads what is piped in".to_owned()
        } else {
            format!("{}: is empty", path.display())
        }));
    }
    Ok(bytes)
}

/// A text given as an argument; that of standard input for `-`, without its last line end.
pub(crate) fn text(argument: String) -> Result<String, Failure> {
    if argument != "-" {
        return Ok(argument);
    }
    let text = String::from_utf8(read(Path::new("-"))?)
        .map_err(|_| Failure::Usage("standard input is not UTF-8".to_owned()))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

/// Reads a request body and validates it with the server's own rules. The error lists every broken rule.
pub(crate) fn request<R: Request>(path: &Path) -> Result<R, Failure> {
    let body = read(path)?;
    let now = Timestamp::from_ms(jiff::Timestamp::now().as_millisecond());
    R::parse(&body, now).map_err(Error::Invalid)?;
    Ok(R::from_json(&body).map_err(Error::Invalid)?)
}

/// Parses an audience: JSON if it begins with `{`, the content of a file for `@FILE`, otherwise an
/// expression. `what` is the option or the argument with the text.
pub(crate) fn audience(what: &str, text: &str) -> Result<Audience, Failure> {
    let Some(path) = text.strip_prefix('@') else { return audience_text(what, text) };
    let path = Path::new(path);
    let content = String::from_utf8(read(path)?)
        .map_err(|_| Failure::Usage(format!("{}: is not UTF-8", path.display())))?;
    audience_text(&path.display().to_string(), &content)
}

/// Parses the expression or the JSON of an audience.
fn audience_text(what: &str, text: &str) -> Result<Audience, Failure> {
    if !text.trim_start().starts_with('{') {
        return Audience::parse_expression(text)
            .map_err(|error| Failure::Expression { what: what.to_owned(), error });
    }
    let object =
        json_object(text.trim()).map_err(|error| Failure::Usage(format!("{what}: {error}")))?;
    // The request has the audience as a field, so the errors have the paths of the API.
    let body = format!(r#"{{"audience":{}}}"#, object.as_str());
    let request = PutSegment::from_json(body.as_bytes()).map_err(Error::Invalid)?;
    Ok(request.audience.expect("an object that is not a condition is an error"))
}

/// Parses translations: JSON if the text begins with `{`, otherwise the content of a file.
pub(crate) fn translations(text: &str) -> Result<NotificationTranslations, Failure> {
    let content;
    let (what, json) = if text.trim_start().starts_with('{') {
        ("--translations", text)
    } else {
        content = String::from_utf8(read(Path::new(text))?)
            .map_err(|_| Failure::Usage(format!("{text}: is not UTF-8")))?;
        (text, content.as_str())
    };
    let object =
        json_object(json.trim()).map_err(|error| Failure::Usage(format!("{what}: {error}")))?;
    // In a request, the errors have the path of the API.
    let body = format!(r#"{{"translations":{}}}"#, object.as_str());
    let request = CreateNotification::from_json(body.as_bytes()).map_err(Error::Invalid)?;
    Ok(request.content.translations.expect("an object is not null"))
}

/// A JSON object given as an argument.
pub(crate) fn json_object(text: &str) -> Result<JsonObject, String> {
    JsonObject::new(text).map_err(|error| format!("not a JSON object: {error}"))
}

/// An instant given as an argument: unix milliseconds, `now`, or RFC 3339.
pub(crate) fn instant(text: &str) -> Result<Timestamp, String> {
    parse_instant(text)?.ok_or_else(|| {
        "must be a time like 2026-05-01T09:00:00Z, `now`, or unix milliseconds".to_owned()
    })
}

/// An [`instant`], or a span from now: `+10m`, `2h`, `1h30m`, `2d`.
pub(crate) fn future_instant(text: &str) -> Result<Timestamp, String> {
    if let Some(at) = parse_instant(text)? {
        return Ok(at);
    }
    from_now(text.strip_prefix('+').unwrap_or(text), jiff::Timestamp::now()).ok_or_else(|| {
        "must be a span from now like `+10m`, `2h` or `2d`, a time like 2026-05-01T09:00:00Z, or \
         unix milliseconds"
            .to_owned()
    })
}

/// An [`instant`], a day (its start in UTC), or a span before now: `7d`, `36h`.
pub(crate) fn past_instant(text: &str) -> Result<Timestamp, String> {
    if let Some(at) = parse_instant(text)? {
        return Ok(at);
    }
    let day = text.parse::<jiff::civil::Date>().ok();
    let start = day.and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
    let start = start.map(|start| Timestamp::from_ms(start.timestamp().as_millisecond()));
    start.or_else(|| before_now(text, jiff::Timestamp::now())).ok_or_else(|| {
        "must be a span before now like `7d`, a day like 2026-05-01, a time like \
         2026-05-01T09:00:00Z, or unix milliseconds"
            .to_owned()
    })
}

/// Parses an instant. Returns `None` if the text has another format, and an error if it looks like seconds.
fn parse_instant(text: &str) -> Result<Option<Timestamp>, String> {
    if text == "now" {
        return Ok(Some(Timestamp::from_ms(jiff::Timestamp::now().as_millisecond())));
    }
    match text.parse() {
        Ok(ms) if ms < SECONDS_BELOW => Err(format!(
            "looks like seconds: give unix milliseconds ({ms}000) or a time like \
             2026-05-01T09:00:00Z"
        )),
        Ok(ms) => Ok(Some(Timestamp::from_ms(ms))),
        Err(_) => {
            let at: Option<jiff::Timestamp> = text.parse().ok();
            Ok(at.map(|at| Timestamp::from_ms(at.as_millisecond())))
        }
    }
}

/// The instant that is a span after `now`.
fn from_now(text: &str, now: jiff::Timestamp) -> Option<Timestamp> {
    let at = now.checked_add(span(text)?).ok()?;
    Some(Timestamp::from_ms(at.as_millisecond()))
}

/// The instant that is a span before `now`.
fn before_now(text: &str, now: jiff::Timestamp) -> Option<Timestamp> {
    let at = now.checked_sub(span(text)?).ok()?;
    Some(Timestamp::from_ms(at.as_millisecond()))
}

/// A span in whole seconds.
pub(crate) fn span_seconds(text: &str) -> Result<u32, String> {
    let seconds = span(text).and_then(|span| u32::try_from(span.as_secs()).ok());
    seconds.ok_or_else(|| "must be a span like `30m`, `12h` or `7d`".to_owned())
}

/// Parses a span. A day has 24 hours; months are not accepted.
fn span(text: &str) -> Option<jiff::SignedDuration> {
    let span: jiff::Span = text.parse().ok()?;
    let span = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?;
    (!span.is_negative()).then_some(span)
}

/// The value of a filter. It must not be empty: a script whose variable is empty would select everything.
pub(crate) fn filter() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// One platform, or all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Platforms {
    All,
    Only(Platform),
}

/// The name of [`Platforms::All`] on the command line.
const ALL_PLATFORMS: &str = "all";

impl Platforms {
    /// The platforms that were given, each once.
    pub(crate) fn of(given: &[Self]) -> Vec<Platform> {
        let is_given = |platform: &Platform| {
            given.iter().any(|one| match one {
                Self::All => true,
                Self::Only(only) => only == platform,
            })
        };
        Platform::ALL.into_iter().filter(is_given).collect()
    }

    /// The platform of a filter; `None` for all.
    pub(crate) fn only(self) -> Option<Platform> {
        match self {
            Self::All => None,
            Self::Only(platform) => Some(platform),
        }
    }
}

/// Parses a platform or `all`.
pub(crate) fn platforms() -> impl TypedValueParser<Value = Platforms> {
    let values = Platform::ALL.iter().map(possible_platform);
    let values = values.chain([PossibleValue::new(ALL_PLATFORMS)]);
    PossibleValuesParser::new(values).map(|name| match &*name {
        ALL_PLATFORMS => Platforms::All,
        name => Platforms::Only(named_platform(name)),
    })
}

/// Parses a platform whose devices subscribe.
pub(crate) fn subscribed_platform() -> impl TypedValueParser<Value = Platform> {
    one_of(&[Platform::Web, Platform::FbMessenger, Platform::ChatApp])
}

/// An alias of [`Platform::ChatApp`] on the command line.
pub(crate) const TELEGRAM: &str = "telegram";

fn one_of(platforms: &[Platform]) -> impl TypedValueParser<Value = Platform> + use<> {
    PossibleValuesParser::new(platforms.iter().map(possible_platform))
        .map(|name| named_platform(&name))
}

fn possible_platform(platform: &Platform) -> PossibleValue {
    let value = PossibleValue::new(platform.as_str());
    if *platform == Platform::ChatApp { value.alias(TELEGRAM) } else { value }
}

fn named_platform(name: &str) -> Platform {
    match name {
        TELEGRAM => Platform::ChatApp,
        name => name.parse().expect("the values are the names of platforms"),
    }
}

/// Parses an outcome.
pub(crate) fn outcome() -> impl TypedValueParser<Value = DeliveryOutcome> {
    PossibleValuesParser::new(DeliveryOutcome::NAMES)
        .map(|name| name.parse().expect("the values are the names of outcomes"))
}

/// Parses the status of a notification.
pub(crate) fn status() -> impl TypedValueParser<Value = NotificationStatus> {
    PossibleValuesParser::new(NotificationStatus::NAMES)
        .map(|name| name.parse().expect("the values are the names of statuses"))
}

/// Parses whether a user was reached.
pub(crate) fn user_state() -> impl TypedValueParser<Value = UserState> {
    PossibleValuesParser::new(UserState::NAMES)
        .map(|name| name.parse().expect("the values are the names of states"))
}

/// Parses the state of a device.
pub(crate) fn device_state() -> impl TypedValueParser<Value = DeviceState> {
    PossibleValuesParser::new(DeviceState::NAMES)
        .map(|name| name.parse().expect("the values are the names of states"))
}

/// Parses a provider.
pub(crate) fn provider() -> impl TypedValueParser<Value = ProviderKind> {
    PossibleValuesParser::new(ProviderKind::ALL.map(ProviderKind::as_str))
        .map(|name| name.parse().expect("the values are the names of providers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_milliseconds_or_rfc_3339() {
        assert_eq!(instant("1767323045000"), Ok(Timestamp(1_767_323_045_000)));
        assert_eq!(instant("2026-01-02T03:04:05Z"), Ok(Timestamp(1_767_323_045_000)));
        assert_eq!(instant("2026-01-02T04:04:05+01:00"), Ok(Timestamp(1_767_323_045_000)));
        assert!(instant("now").unwrap() > Timestamp(1_767_323_045_000));
        for wrong in ["", "tomorrow", "2026-01-02", "1.5", "+10m", "2h"] {
            assert!(instant(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_audience_is_an_expression_or_json() {
        let vip = Audience::tag("vip");
        for (text, expected) in [
            ("tag = vip", vip.clone()),
            (r#"{"tag": "vip"}"#, vip.clone()),
            (" \n{\"tag\":\"vip\"}\n", vip.clone()),
            ("not tag = vip", vip.clone().negate()),
            (r#"{"not": {"tag": "vip"}}"#, vip.negate()),
            // A number in quotes is a text.
            ("seats = 3", Audience::attribute("seats").is(3)),
            ("seats = \"3\"", Audience::attribute("seats").is("3")),
        ] {
            assert_eq!(audience("--audience", text).unwrap(), expected, "{text}");
        }
        for (text, status, lines) in [
            ("", 2, vec!["--audience: expected a condition, such as `tag = vip`", "  ", "  ^"]),
            (
                "tag = vip an",
                2,
                vec![
                    "--audience: expected `and`, `or` or the end",
                    "  tag = vip an",
                    "            ^",
                ],
            ),
            (
                "tag = vip and plan is pro",
                2,
                vec![
                    "--audience: expected `absent`; write `plan = pro`",
                    "  tag = vip and plan is pro",
                    "                        ^",
                ],
            ),
            (r#"{"tag""#, 2, vec!["--audience: not a JSON object: "]),
            (
                r#"{"tga": "vip"}"#,
                3,
                vec![
                    "audience: must have exactly one of all, any, not, segment, tag,",
                    "audience.tga: unknown field, did you mean `tag`?",
                ],
            ),
            ("@absent.json", 2, vec!["absent.json: "]),
        ] {
            let failure = audience("--audience", text).unwrap_err();
            let seen = [failure.lines(None), failure.place()].concat();
            assert_eq!((failure.status(), seen.len()), (status, lines.len()), "{text}: {seen:?}");
            for (line, start) in seen.iter().zip(lines) {
                assert!(line.starts_with(start), "{text}: {seen:?}");
            }
        }
    }

    #[test]
    fn seconds_are_rejected() {
        for read in [instant, future_instant] {
            for seconds in ["1767323045", "99999999999", "0", "7"] {
                let cure = format!("give unix milliseconds ({seconds}000)");
                assert!(read(seconds).unwrap_err().contains(&cure), "{seconds}");
            }
            assert_eq!(read("100000000000"), Ok(Timestamp(100_000_000_000)));
        }
    }

    #[test]
    fn an_instant_past_may_be_a_day_or_a_span_before_now() {
        let now: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (span, minutes) in [("36h", 2_160), ("7d", 10_080), ("0s", 0)] {
            let at = Timestamp(1_767_323_045_000 - minutes * 60_000);
            assert_eq!(before_now(span, now), Some(at), "{span}");
        }
        assert_eq!(past_instant("2026-01-02"), Ok(Timestamp(1_767_312_000_000)));
        assert_eq!(past_instant("2026-01-02T03:04:05Z"), Ok(Timestamp(1_767_323_045_000)));
        let ago = past_instant("7d").unwrap().as_ms();
        assert!(ago <= jiff::Timestamp::now().as_millisecond() - 604_800_000);
        for wrong in ["", "yesterday", "-7d", "2026-13-01", "1mo"] {
            assert!(past_instant(wrong).unwrap_err().contains("`7d`"), "{wrong}");
        }
    }

    #[test]
    fn a_span_is_read_in_seconds() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("12h", 43_200), ("1d12h", 129_600)] {
            assert_eq!(span_seconds(text), Ok(seconds), "{text}");
        }
        for wrong in ["", "-1h", "12", "1mo", "99999999h"] {
            assert!(span_seconds(wrong).unwrap_err().contains("`12h`"), "{wrong}");
        }
    }

    #[test]
    fn an_instant_to_come_may_be_a_span_from_now() {
        let now: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (span, minutes) in [("10m", 10), ("2h", 120), ("1h30m", 90), ("2d", 2_880), ("0s", 0)] {
            let at = Timestamp(1_767_323_045_000 + minutes * 60_000);
            assert_eq!(from_now(span, now), Some(at), "{span}");
        }
        for wrong in ["", "-10m", "10m ago", "1mo", "10", "m", "99999999h"] {
            assert_eq!(from_now(wrong, now), None, "{wrong}");
        }
        let ahead = |span| future_instant(span).unwrap().as_ms();
        let now = jiff::Timestamp::now().as_millisecond();
        assert!(ahead("+10m") >= now + 600_000 && ahead("10m") < now + 660_000);
        assert_eq!(future_instant("2026-01-02T03:04:05Z"), Ok(Timestamp(1_767_323_045_000)));
        assert!(future_instant("tomorrow").unwrap_err().contains("`+10m`"));
    }
}
