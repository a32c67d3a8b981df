//! Polls.

use serde::{Deserialize, Serialize};

use crate::json::BodyPresence;
use crate::request::{model, request};
use crate::violations::{Path, Validator, path};
use crate::wire_enum::wire_enum;
use crate::{AnswerId, DeviceId, NotificationId, Timestamp, percentage};

/// Fewest answers of a poll.
pub const POLL_ANSWERS_MIN: usize = 2;
/// Most answers of a poll.
pub const POLL_ANSWERS_MAX: usize = 100;

model! {
    /// A poll to send with a notification.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CreatePoll {
        /// The question.
        pub text: String,
        /// `poll_images`, `poll_text` or `poll_text_wide_image`.
        #[cfg_attr(feature = "openapi", schema(value_type = PollLayout))]
        pub layout_id: String,
        /// Url of the image shown with the question.
        pub image_url: Option<String>,
        /// 2 to 100 answers to choose from.
        pub answers: Vec<CreateAnswer> =
            |object| object.list("answers", POLL_ANSWERS_MAX).unwrap_or_default(),
    }
}

model! {
    /// An answer of a [`CreatePoll`].
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CreateAnswer {
        /// Text; required by `poll_text` and `poll_text_wide_image`.
        pub text: Option<String>,
        /// Url of an image; required by `poll_images` and `poll_text_wide_image`.
        pub image_url: Option<String>,
    }
}

wire_enum! {
    /// Layout of a poll.
    pub enum PollLayout {
        /// Answers are images.
        PollImages = "poll_images",
        /// Answers are texts.
        PollText = "poll_text",
        /// Answers are texts with wide images.
        PollTextWideImage = "poll_text_wide_image",
    }
}

impl PollLayout {
    /// Whether each answer needs a text.
    #[must_use]
    pub fn needs_text(self) -> bool {
        matches!(self, Self::PollText | Self::PollTextWideImage)
    }

    /// Whether each answer needs an image.
    #[must_use]
    pub fn needs_image(self) -> bool {
        matches!(self, Self::PollImages | Self::PollTextWideImage)
    }
}

/// The validated form of [`CreatePoll`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPoll {
    /// The question, not empty.
    pub text: String,
    /// Layout.
    pub layout_id: PollLayout,
    /// Url of the image shown with the question.
    pub image_url: Option<String>,
    /// 2 to 100 answers, each with the text and image that the layout needs.
    pub answers: Vec<NewAnswer>,
}

/// The validated form of [`CreateAnswer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnswer {
    /// Text; may be empty with `poll_images` only.
    pub text: String,
    /// Url of an image.
    pub image_url: Option<String>,
}

/// Answer of `GET /v1/polls/:id`: a poll with the counts of its answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Poll {
    /// Id; also the id of its notification.
    pub id: NotificationId,
    /// The question.
    pub text: String,
    /// Url of the poll's page in a browser.
    pub url: String,
    /// Url of the image; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    /// Layout.
    pub layout_id: PollLayout,
    /// Language code.
    pub lang: String,
    /// Time of creation, unix ms.
    pub created_at: Timestamp,
    /// Answers, in the order of the request.
    pub answers: Vec<PollAnswer>,
}

impl Poll {
    /// Sets the percentage of every answer from the clicks.
    #[must_use]
    pub fn with_percentages(mut self) -> Self {
        let all = self.answers.iter().map(|answer| answer.clicks).sum();
        for answer in &mut self.answers {
            answer.percentage = percentage(answer.clicks, all);
        }
        self
    }
}

/// An answer of a [`Poll`] with its count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PollAnswer {
    /// Id.
    pub id: AnswerId,
    /// Text.
    pub text: String,
    /// Url of an image; may be empty.
    pub image_url: String,
    /// Share of all clicks in percent, rounded to two decimals; 0 when there are no clicks.
    pub percentage: f64,
    /// How many times it was chosen.
    pub clicks: u64,
}

model! {
    /// Body of `POST /v1/polls/:id/answers/:answer_id`; may be empty.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct AnswerPoll {
        /// Id of the device that answers; one answer counts per device.
        pub device_id: Option<String>,
    }
}

/// The validated form of [`AnswerPoll`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollVote {
    /// The device that answers; `None` for an anonymous answer.
    pub device_id: Option<DeviceId>,
}

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

    /// A poll whose answers are texts with wide images, given as pairs of text and url.
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

request!(AnswerPoll => PollVote, BodyPresence::Optional);

impl AnswerPoll {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<PollVote> {
        let device_id = self.device_id.as_deref();
        let device_id = validator.optional_id(&path("device_id"), device_id, DeviceId::new);
        Some(PollVote { device_id })
    }
}

impl CreatePoll {
    /// Checks the rules of a poll at the given path.
    pub(crate) fn check(self, at: &Path<'_>, validator: &mut Validator) -> Option<NewPoll> {
        let text = validator.required(&at.field("text"), self.text);
        let layout = validator.one_of(&at.field("layout_id"), &self.layout_id);
        let image_url = validator.wire_http_url(&at.field("image_url"), self.image_url);
        let answers_path = at.field("answers");
        if self.answers.len() < POLL_ANSWERS_MIN {
            let what = format_args!("must hold at least {POLL_ANSWERS_MIN} answers");
            validator.violation(&answers_path, what);
        }
        validator.max_len(&answers_path, self.answers.len(), POLL_ANSWERS_MAX, "answers");
        let mut answers = Vec::with_capacity(self.answers.len());
        for (index, answer) in self.answers.into_iter().enumerate() {
            answers.push(answer.check(&answers_path.index(index), layout, validator));
        }
        Some(NewPoll { text, layout_id: layout?, image_url, answers })
    }
}

impl CreateAnswer {
    fn check(
        self,
        at: &Path<'_>,
        layout: Option<PollLayout>,
        validator: &mut Validator,
    ) -> NewAnswer {
        let text = validator.visible(&at.field("text"), self.text);
        let image_url = validator.wire_http_url(&at.field("image_url"), self.image_url);
        if let Some(layout) = layout {
            let what = format_args!("is required for layout {layout}");
            if text.is_none() && layout.needs_text() {
                validator.violation(&at.field("text"), what);
            }
            if image_url.is_none() && layout.needs_image() {
                validator.violation(&at.field("image_url"), what);
            }
        }
        NewAnswer { text: text.unwrap_or_default(), image_url }
    }
}
