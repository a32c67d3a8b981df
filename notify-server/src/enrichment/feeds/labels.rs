//! The names of charsets: those of browsers, and those that Java, Python, Windows and databases write.

use encoding_rs::Encoding;

/// Names that browsers do not know, without what is no letter or digit.
const ALIASES: [(&str, &str); 30] = [
    ("ansi", "windows-1252"),
    ("big5eten", "big5"),
    ("big5hkscs", "big5"),
    ("eucjp", "euc-jp"),
    ("eucjis2004", "euc-jp"),
    ("euccn", "gbk"),
    ("euckr", "euc-kr"),
    ("gb180302000", "gb18030"),
    ("gb180302005", "gb18030"),
    ("gb23121980", "gbk"),
    ("isolatin1", "windows-1252"),
    ("jis", "iso-2022-jp"),
    ("koi8ru", "koi8-u"),
    ("koreanwansung", "euc-kr"),
    ("ksc56011987", "euc-kr"),
    ("latin1", "iso-8859-1"),
    ("latin2", "iso-8859-2"),
    ("latin5", "iso-8859-9"),
    ("latin9", "iso-8859-15"),
    ("maccyrillic", "x-mac-cyrillic"),
    ("macroman", "macintosh"),
    ("shiftjis2004", "shift_jis"),
    ("shiftjisx0213", "shift_jis"),
    ("tis6202533", "windows-874"),
    ("uhc", "euc-kr"),
    ("ujis", "euc-jp"),
    ("utf8", "utf-8"),
    ("utf8mb3", "utf-8"),
    ("utf8mb4", "utf-8"),
    ("utf8sig", "utf-8"),
];
/// Code pages by their numbers, which follow `cp`, `ms`, `win` or `windows`.
const CODE_PAGES: [(&str, &str); 9] = [
    ("866", "ibm866"),
    ("874", "windows-874"),
    ("932", "shift_jis"),
    ("936", "gbk"),
    ("949", "euc-kr"),
    ("950", "big5"),
    ("28591", "iso-8859-1"),
    ("54936", "gb18030"),
    ("65001", "utf-8"),
];

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    Known(&'static Encoding),
    /// None, or one that is none.
    Unknown,
    /// A charset of seven bits that browsers do not read: its bytes look like ASCII and are not.
    Unsupported,
}

/// What a name stands for.
pub(super) fn label(name: &str) -> Label {
    let name = name.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    let bare: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    if bare == "utf7" || bare == "unicode11utf7" {
        return Label::Unsupported;
    }
    let dashed = name.replace(['_', ' '], "-");
    let known = of_browsers(&name)
        .or_else(|| of_browsers(&dashed))
        .or_else(|| looked_up(&ALIASES, &bare))
        .or_else(|| code_page(&bare))
        .or_else(|| iso_8859(&bare));
    known.map_or(Label::Unknown, Label::Known)
}

fn of_browsers(name: &str) -> Option<&'static Encoding> {
    Encoding::for_label(name.as_bytes())
}

fn looked_up(table: &[(&str, &str)], name: &str) -> Option<&'static Encoding> {
    let (_, known) = table.iter().find(|(alias, _)| *alias == name)?;
    of_browsers(known)
}

fn code_page(bare: &str) -> Option<&'static Encoding> {
    let number = ["windows", "win", "cp", "ms", "xcp", "ibm"];
    let number = number.iter().find_map(|prefix| bare.strip_prefix(prefix))?;
    looked_up(&CODE_PAGES, number).or_else(|| of_browsers(&format!("windows-{number}")))
}

/// `8859_5`, `iso8859_5`, `csisolatin…` and the like.
fn iso_8859(bare: &str) -> Option<&'static Encoding> {
    let part = bare.strip_prefix("iso").unwrap_or(bare).strip_prefix("8859")?;
    of_browsers(&format!("iso-8859-{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_origin_are_known() {
        let cases = [
            ("UTF-8", "UTF-8"),
            ("utf_8", "UTF-8"),
            ("utf8mb4", "UTF-8"),
            ("\"utf-8\"", "UTF-8"),
            ("cp949", "EUC-KR"),
            ("ms949", "EUC-KR"),
            ("uhc", "EUC-KR"),
            ("euc_kr", "EUC-KR"),
            ("cp932", "Shift_JIS"),
            ("Shift-JIS", "Shift_JIS"),
            ("cp936", "GBK"),
            ("GB_2312-80", "GBK"),
            ("cp950", "Big5"),
            ("EUC_JP", "EUC-JP"),
            ("win-1251", "windows-1251"),
            ("windows1251", "windows-1251"),
            ("Cp1252", "windows-1252"),
            ("latin-1", "windows-1252"),
            ("iso8859_15", "ISO-8859-15"),
            ("ISO_8859-2", "ISO-8859-2"),
            ("8859_5", "ISO-8859-5"),
            ("cp866", "IBM866"),
        ];
        for (name, expected) in cases {
            let Label::Known(encoding) = label(name) else { panic!("{name} is not known") };
            assert_eq!(encoding.name(), expected, "{name}");
        }
        assert_eq!(label("klingon"), Label::Unknown);
        assert_eq!(label("windows-9999"), Label::Unknown);
        assert_eq!(label(""), Label::Unknown);
        assert_eq!(label("utf-7"), Label::Unsupported);
    }
}
