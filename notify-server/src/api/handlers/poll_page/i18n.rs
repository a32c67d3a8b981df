//! What the page says by itself, by language; English where a language is missing.

use notify_core::Poll;

/// The texts of a language. Numbers stand after a colon, since languages bend words by them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// Language code.
    pub(super) lang: &'static str,
    /// An answer that has no text, before its number.
    pub(super) answer: &'static str,
    /// How many answered, before a number.
    pub(super) votes: &'static str,
    /// Beside the answer that the visitor gave.
    pub(super) yours: &'static str,
    /// After the vote.
    pub(super) thanks: &'static str,
    /// There is no such poll.
    pub(super) unknown: &'static str,
    /// A vote that names nothing.
    pub(super) refused: &'static str,
    /// Too many votes.
    pub(super) busy: &'static str,
    /// The server failed.
    pub(super) failed: &'static str,
}

/// Languages that are written from right to left.
const RIGHT_TO_LEFT: [&str; 9] = ["ar", "dv", "fa", "he", "iw", "ps", "sd", "ur", "yi"];

const ENGLISH: Words = Words {
    lang: "en",
    answer: "Answer",
    votes: "Votes",
    yours: "your answer",
    thanks: "Thank you for your answer.",
    unknown: "There is no such poll.",
    refused: "This vote cannot be counted.",
    busy: "Too many votes at once. Please try again in a minute.",
    failed: "That did not work. Please try again later.",
};

const LANGUAGES: [Words; 7] = [
    ENGLISH,
    Words {
        lang: "de",
        answer: "Antwort",
        votes: "Stimmen",
        yours: "Ihre Antwort",
        thanks: "Danke für Ihre Antwort.",
        unknown: "Diese Umfrage gibt es nicht.",
        refused: "Diese Stimme kann nicht gezählt werden.",
        busy: "Zu viele Stimmen auf einmal. Bitte versuchen Sie es in einer Minute noch einmal.",
        failed: "Das hat nicht geklappt. Bitte versuchen Sie es später noch einmal.",
    },
    Words {
        lang: "fr",
        answer: "Réponse",
        votes: "Votes",
        yours: "votre réponse",
        thanks: "Merci pour votre réponse.",
        unknown: "Ce sondage n’existe pas.",
        refused: "Ce vote ne peut pas être compté.",
        busy: "Trop de votes à la fois. Réessayez dans une minute.",
        failed: "Cela n’a pas fonctionné. Réessayez plus tard.",
    },
    Words {
        lang: "es",
        answer: "Respuesta",
        votes: "Votos",
        yours: "tu respuesta",
        thanks: "Gracias por tu respuesta.",
        unknown: "Esta encuesta no existe.",
        refused: "Este voto no se puede contar.",
        busy: "Demasiados votos a la vez. Inténtalo de nuevo en un minuto.",
        failed: "No ha funcionado. Inténtalo de nuevo más tarde.",
    },
    Words {
        lang: "he",
        answer: "תשובה",
        votes: "הצבעות",
        yours: "התשובה שלך",
        thanks: "תודה על התשובה.",
        unknown: "אין סקר כזה.",
        refused: "אי אפשר לספור את ההצבעה הזאת.",
        busy: "יותר מדי הצבעות בבת אחת. נסו שוב בעוד דקה.",
        failed: "זה לא הצליח. נסו שוב מאוחר יותר.",
    },
    Words {
        lang: "ar",
        answer: "إجابة",
        votes: "الأصوات",
        yours: "إجابتك",
        thanks: "شكرًا على إجابتك.",
        unknown: "لا يوجد استطلاع كهذا.",
        refused: "لا يمكن احتساب هذا الصوت.",
        busy: "أصوات كثيرة في وقت واحد. حاول مرة أخرى بعد دقيقة.",
        failed: "لم ينجح ذلك. حاول مرة أخرى لاحقًا.",
    },
    Words {
        lang: "ru",
        answer: "Ответ",
        votes: "Голоса",
        yours: "ваш ответ",
        thanks: "Спасибо за ваш ответ.",
        unknown: "Такого опроса нет.",
        refused: "Этот голос нельзя засчитать.",
        busy: "Слишком много голосов сразу. Попробуйте ещё раз через минуту.",
        failed: "Не получилось. Попробуйте ещё раз позже.",
    },
];

/// The language of a code such as `pt-BR`, without region.
fn primary(code: &str) -> String {
    code.split(['-', '_']).next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Which way a language is written, as `dir` names it.
pub(super) fn direction(code: &str) -> &'static str {
    if RIGHT_TO_LEFT.contains(&primary(code).as_str()) { "rtl" } else { "ltr" }
}

impl Words {
    /// English.
    pub(super) fn english() -> &'static Self {
        &ENGLISH
    }

    /// Those of a language, if there are any.
    fn known(code: &str) -> Option<&'static Self> {
        let primary = primary(code);
        let primary = if primary == "iw" { "he" } else { &*primary };
        LANGUAGES.iter().find(|words| words.lang == primary)
    }

    /// Those of a poll's language.
    pub(super) fn of(poll: &Poll) -> &'static Self {
        Self::known(&poll.lang).unwrap_or(Self::english())
    }

    /// Those of the first language of `Accept-Language` that there is, where no poll says one.
    pub(super) fn accepted(accept_language: &str) -> &'static Self {
        let codes = accept_language.split(',').filter_map(|range| range.split(';').next());
        codes.filter_map(Self::known).next().unwrap_or(Self::english())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_is_found_and_the_rest_is_english() {
        for (code, lang, dir) in [
            ("en", "en", "ltr"),
            ("de-AT", "de", "ltr"),
            ("FR", "fr", "ltr"),
            ("es_MX", "es", "ltr"),
            ("he", "he", "rtl"),
            ("iw", "he", "rtl"),
            ("ar-EG", "ar", "rtl"),
            ("ru", "ru", "ltr"),
            ("fa", "en", "rtl"),
            ("ja", "en", "ltr"),
            ("", "en", "ltr"),
        ] {
            let words = Words::known(code).unwrap_or(Words::english());
            assert_eq!((words.lang, direction(code)), (lang, dir), "{code}");
        }
        assert_eq!(Words::accepted("ja, de-CH;q=0.8, en;q=0.5").lang, "de");
        assert_eq!(Words::accepted("*").lang, "en");
    }
}
