//! Building polls in code.

use super::{CreateAnswer, CreatePoll, PollLayout};

impl CreatePoll {
    /// A poll whose answers are texts.
    ///
    /// ```
    /// use notify_core::CreatePoll;
    ///
    /// let poll = CreatePoll::text("Coming tonight?", ["yes", "no"]);
    /// assert_eq!(poll.answers.len(), 2);
    /// ```
    #[must_use]
    pub fn text<A: Into<String>>(
        question: impl Into<String>,
        answers: impl IntoIterator<Item = A>,
    ) -> Self {
        let answers = answers.into_iter();
        let answers = answers.map(|text| CreateAnswer { text: Some(text.into()), image_url: None });
        Self::with_answers(PollLayout::PollText, question.into(), answers.collect())
    }

    /// A poll whose answers are images, by url.
    #[must_use]
    pub fn images<A: Into<String>>(
        question: impl Into<String>,
        answers: impl IntoIterator<Item = A>,
    ) -> Self {
        let answers = answers.into_iter();
        let answers = answers.map(|url| CreateAnswer { text: None, image_url: Some(url.into()) });
        Self::with_answers(PollLayout::PollImages, question.into(), answers.collect())
    }

    /// A poll whose answers are texts with wide images, as pairs of text and url.
    #[must_use]
    pub fn wide_images<T: Into<String>, U: Into<String>>(
        question: impl Into<String>,
        answers: impl IntoIterator<Item = (T, U)>,
    ) -> Self {
        let answers = answers.into_iter().map(|(text, url)| CreateAnswer {
            text: Some(text.into()),
            image_url: Some(url.into()),
        });
        Self::with_answers(PollLayout::PollTextWideImage, question.into(), answers.collect())
    }

    fn with_answers(layout: PollLayout, text: String, answers: Vec<CreateAnswer>) -> Self {
        Self { text, layout_id: layout.as_str().to_owned(), image_url: None, answers }
    }
}
