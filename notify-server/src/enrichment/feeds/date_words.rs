//! The words of dates: months in the languages whose names do not contradict each other, the two
//! halves of a day, and zones.

use jiff::tz::Offset;

/// Months by the start of their names, in lower case.
const MONTHS: [(&str, i8); 114] = [
    // Before `mar`: November in Finnish.
    ("marras", 11),
    // English, and what others share with it.
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

/// Zones in minutes east of Greenwich. Where one name is that of several, the most people count; those
/// of RFC 822 are its own.
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

/// The month that a word in lower case names.
pub(super) fn month(word: &str) -> Option<i8> {
    MONTHS.iter().find(|(start, _)| word.starts_with(start)).map(|(_, month)| *month)
}

/// The half of the day that a word in lower case names.
pub(super) fn half(word: &str) -> Option<Half> {
    match word {
        "am" | "πμ" | "오전" | "上午" | "午前" => Some(Half::Morning),
        "pm" | "μμ" | "오후" | "下午" | "午後" => Some(Half::Afternoon),
        _ => None,
    }
}

/// The zone that a word in lower case names.
pub(super) fn zone(word: &str) -> Option<Offset> {
    let (_, minutes) = ZONES.iter().find(|(name, _)| *name == word)?;
    Offset::from_seconds(minutes * 60).ok()
}
