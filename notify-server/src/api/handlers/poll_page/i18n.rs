//! The texts of the page by language, with English as fallback.

use std::sync::LazyLock;

use notify_core::{Languages, Poll};

/// The texts of one language. Numbers follow a colon, so that no plural forms are needed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Strings {
    /// Language code.
    pub(super) lang: &'static str,
    /// The name of an answer without text. The number of the answer follows.
    pub(super) answer: &'static str,
    /// The label of the number of votes. The number follows.
    pub(super) votes: &'static str,
    /// Marks the visitor's answer.
    pub(super) yours: &'static str,
    /// The thanks after the vote.
    pub(super) thanks: &'static str,
    /// The error of an unknown poll.
    pub(super) unknown: &'static str,
    /// The error of an invalid vote.
    pub(super) refused: &'static str,
    /// The error of too many votes.
    pub(super) busy: &'static str,
    /// The error of a failing server.
    pub(super) failed: &'static str,
}

/// Languages written from right to left.
static RIGHT_TO_LEFT: LazyLock<Languages> =
    LazyLock::new(|| Languages::new(&["ar", "dv", "fa", "he", "ps", "sd", "ur", "yi"]));

const ENGLISH: Strings = Strings {
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

static LANGUAGES: [Strings; 7] = [
    ENGLISH,
    Strings {
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
    Strings {
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
    Strings {
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
    Strings {
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
    Strings {
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
    Strings {
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

/// The direction of a language, as a value of `dir`.
pub(super) fn direction(code: &str) -> &'static str {
    if RIGHT_TO_LEFT.find(code).is_some() { "rtl" } else { "ltr" }
}

impl Strings {
    /// English.
    pub(super) fn english() -> &'static Self {
        &ENGLISH
    }

    /// The texts of a language, if there are any.
    fn in_language(code: &str) -> Option<&'static Self> {
        static TAGS: LazyLock<Languages> =
            LazyLock::new(|| Languages::new(&LANGUAGES.each_ref().map(|strings| strings.lang)));
        TAGS.find(code).map(|found| &LANGUAGES[found])
    }

    /// The texts in a poll's language.
    pub(super) fn of(poll: &Poll) -> &'static Self {
        Self::in_language(&poll.lang).unwrap_or(Self::english())
    }

    /// The texts in the first known language of `Accept-Language`.
    pub(super) fn for_accept_language(accept_language: &str) -> &'static Self {
        let codes = accept_language.split(',').filter_map(|range| range.split(';').next());
        codes.filter_map(Self::in_language).next().unwrap_or(Self::english())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_language_and_falls_back_to_english() {
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
            ("deu", "de", "ltr"),
            ("ji", "en", "rtl"),
            ("", "en", "ltr"),
        ] {
            let strings = Strings::in_language(code).unwrap_or(Strings::english());
            assert_eq!((strings.lang, direction(code)), (lang, dir), "{code}");
        }
        assert_eq!(Strings::for_accept_language("ja, de-CH;q=0.8, en;q=0.5").lang, "de");
        assert_eq!(Strings::for_accept_language("*").lang, "en");
    }
}
