//! Language tags (RFC 5646): which of them name the same language, and which of several texts a device reads.
//!
//! Systems write the language of one reader in many ways: `zh-Hant-TW` on iOS, `zh_TW` in Java, `iw` for `he`
//! on old versions of Android. All tags are therefore compared in one form, which follows from the data of
//! CLDR (Unicode Technical Standard 35, "`LocaleId` Canonicalization" and "Likely Subtags").

use std::iter::{once, successors};

use icu_locale::subtags::{Language, Region, Script, Variants, language};
use icu_locale::{LanguageIdentifier, Locale, LocaleCanonicalizer, LocaleExpander};

/// A language tag whose beginning names a language.
struct Tag {
    /// The language, the script and the region, without aliases.
    id: LanguageIdentifier,
    /// The other subtags, each behind a hyphen, in lower case.
    rest: String,
}

impl Tag {
    /// Reads a tag. Returns `None` for a text that does not begin with the code of a language.
    fn read(text: &str) -> Option<Self> {
        // POSIX names an encoding or a modifier behind the tag, and Java a script: `de_AT.UTF-8`,
        // `zh_TW_#Hant`.
        let (tag, behind) = match text.find(['.', '@', '#']) {
            Some(end) => text.split_at(end),
            None => (text, ""),
        };
        let mut subtags = tag.trim().split(['-', '_']).filter(|part| !part.is_empty()).peekable();
        let language =
            subtags.next()?.parse::<Language>().ok().filter(|code| !code.is_unknown())?;
        let script_of_java =
            behind.strip_prefix('#').and_then(|text| text.split(['-', '_']).next());
        let script: Option<Script> = match subtags.peek().and_then(|part| part.parse().ok()) {
            Some(script) => {
                subtags.next();
                Some(script)
            }
            None => script_of_java.and_then(|script| script.parse().ok()),
        };
        let region: Option<Region> = subtags.peek().and_then(|part| part.parse().ok());
        if region.is_some() {
            subtags.next();
        }
        let mut locale = Locale::from(LanguageIdentifier {
            language,
            script,
            region,
            variants: Variants::new(),
        });
        LocaleCanonicalizer::new_extended().canonicalize(&mut locale);
        // CLDR has no alias here, but one locale for both.
        if locale.id.language == language!("no") {
            locale.id.language = language!("nb");
        }
        let rest = subtags.flat_map(|part| ["-", part]).collect::<String>().to_ascii_lowercase();
        Some(Self { id: locale.id, rest })
    }

    /// The language, the script and the region that the language most likely has with what the tag says.
    fn likely(&self) -> LanguageIdentifier {
        let mut likely = self.id.clone();
        LocaleExpander::new_extended().maximize(&mut likely);
        likely
    }

    /// The tag with this script and region.
    fn with(&self, script: Option<Script>, region: Option<Region>) -> String {
        let mut id = self.id.clone();
        (id.script, id.region) = (script, region);
        format!("{}{}", id.to_string().to_ascii_lowercase(), self.rest)
    }

    /// The form in which tags are compared. The script is always named, except in a tag that is a language
    /// alone, because a language includes all its scripts.
    fn comparable(&self) -> String {
        let is_alone = self.id.region.is_none() && self.rest.is_empty();
        let script = match self.id.script {
            None if !is_alone => self.likely().script,
            script => script,
        };
        self.with(script, self.id.region)
    }

    /// Another form of a tag that stays open: with the script that a language alone most likely has, or with
    /// the region that a language in a script most likely has.
    fn more_exact(&self) -> Option<String> {
        if self.id.region.is_some() || !self.rest.is_empty() {
            return None;
        }
        let likely = self.likely();
        let region = likely.region.filter(|_| self.id.script.is_some());
        Some(self.with(likely.script, region))
    }
}

/// The form in which language tags are compared: in lower case, with hyphens, without aliases, and with the
/// script. A text that is no language tag only becomes lower case.
pub(crate) fn comparable_language(tag: &str) -> String {
    Tag::read(tag).map_or_else(|| spelled(tag), |tag| tag.comparable())
}

/// A tag in lower case with hyphens.
pub(crate) fn spelled(tag: &str) -> String {
    tag.replace('_', "-").to_ascii_lowercase()
}

/// The language of a reader.
pub(crate) struct ReaderLanguage {
    own: String,
    more_exact: Option<String>,
}

impl ReaderLanguage {
    pub(crate) fn read(tag: &str) -> Self {
        match Tag::read(tag) {
            Some(tag) => Self { own: tag.comparable(), more_exact: tag.more_exact() },
            None => Self { own: spelled(tag), more_exact: None },
        }
    }

    /// The languages that include the reader's, as [`comparable_language`] writes them: the reader's own
    /// first, then those shortened from the right (RFC 4647, section 3.4).
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &str> {
        let shortened =
            successors(Some(self.own.as_str()), |tag| Some(tag.rsplit_once('-')?.0)).skip(1);
        once(self.own.as_str()).chain(self.more_exact.as_deref()).chain(shortened)
    }
}

/// The languages of several texts, among which each reader finds the one to read.
#[derive(Debug, Clone)]
pub struct Languages(Vec<TextLanguage>);

/// The language of a text.
#[derive(Debug, Clone)]
struct TextLanguage {
    spelled: String,
    comparable: String,
}

impl Languages {
    /// The languages with these tags.
    #[must_use]
    pub fn new<S: AsRef<str>>(tags: &[S]) -> Self {
        let of_tag = |tag: &S| TextLanguage {
            spelled: spelled(tag.as_ref()),
            comparable: comparable_language(tag.as_ref()),
        };
        Self(tags.iter().map(of_tag).collect())
    }

    /// Finds the text for a reader: that with the reader's own tag, else that of the same language, else that
    /// of a language shortened from the right. Returns the index of its tag.
    #[must_use]
    pub fn find(&self, of_reader: &str) -> Option<usize> {
        let own = spelled(of_reader);
        let with_own_tag = self.0.iter().position(|text| text.spelled == own);
        with_own_tag.or_else(|| {
            let reader = ReaderLanguage::read(of_reader);
            reader
                .ranges()
                .find_map(|range| self.0.iter().position(|text| text.comparable == range))
        })
    }
}

/// Finds the text for a reader among texts with these language tags, as [`Languages::find`] does.
///
/// ```
/// use notify_core::find_language;
///
/// let languages = ["pt", "pt-BR", "zh-Hant", "he"];
/// assert_eq!(find_language(&languages, "pt_br"), Some(1));
/// assert_eq!(find_language(&languages, "pt-PT"), Some(0));
/// assert_eq!(find_language(&languages, "zh-TW"), Some(2));
/// assert_eq!(find_language(&languages, "zh"), None);
/// assert_eq!(find_language(&languages, "iw-IL"), Some(3));
/// ```
#[must_use]
pub fn find_language<S: AsRef<str>>(languages: &[S], of_reader: &str) -> Option<usize> {
    Languages::new(languages).find(of_reader)
}
