//! Polls.

use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use serde_json::json;

use crate::field::{HttpUrl, Id, InMessage, List, Model, ModelFields, NameOf, Nested, Visible};
use crate::json::BodyPresence;
use crate::request::{model, request};
#[cfg(feature = "openapi")]
use crate::schema::{Together, given_text};
use crate::violations::{Path, Validator};
use crate::wire_enum::wire_enum;
use crate::{AnswerId, DeviceId, NotificationId, Timestamp, is_blank, percentage};

/// Fewest answers of a poll.
pub const POLL_ANSWERS_MIN: usize = 2;
/// Most answers of a poll.
pub const POLL_ANSWERS_MAX: usize = 100;

model! {
    /// A poll to send with a notification.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CreatePoll with CreatePollFields {
        /// The question.
        pub text: String as Visible,
        /// `poll_images`, `poll_text` or `poll_text_wide_image`.
        pub layout_id: String as NameOf<PollLayout>,
        /// Url of the image shown with the question.
        pub image_url: Option<String> as InMessage<HttpUrl>,
        /// 2 to 100 answers to choose from.
        pub answers: Vec<CreateAnswer>
            as List<Nested<CreateAnswer>, POLL_ANSWERS_MIN, POLL_ANSWERS_MAX>,
    }
}

model! {
    /// An answer of a [`CreatePoll`].
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CreateAnswer with CreateAnswerFields {
        /// Text; required by `poll_text` and `poll_text_wide_image`.
        pub text: Option<String> as Visible,
        /// Url of an image; required by `poll_images` and `poll_text_wide_image`.
        pub image_url: Option<String> as InMessage<HttpUrl>,
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
    pub struct AnswerPoll => #[derive(Debug, Clone, PartialEq, Eq)] pub PollVote {
        /// Id of the device that answers; one answer counts per device. An answer without it is anonymous.
        pub device_id: Option<String> as Id<DeviceId> => Option<DeviceId>,
    }
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

impl Model for CreatePoll {
    type Valid = NewPoll;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<NewPoll> {
        let fields = self.check_fields(at, validator);
        if let Ok(layout) = self.layout_id.parse() {
            for (index, answer) in self.answers.iter().enumerate() {
                answer.check_layout(layout, &at.field("answers").index(index), validator);
            }
        }
        let CreatePollFields { text, layout_id, image_url, answers } = fields?;
        Some(NewPoll { text, layout_id, image_url, answers })
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        let variant = |layout: PollLayout| {
            let needed = [("text", layout.needs_text()), ("image_url", layout.needs_image())];
            let needed = needed.into_iter().filter(|(_, is_needed)| *is_needed);
            let needed: Vec<&str> = needed.map(|(name, _)| name).collect();
            let properties: serde_json::Map<_, _> =
                needed.iter().map(|name| ((*name).to_owned(), given_text())).collect();
            json!({ "properties": {
                "layout_id": { "const": layout.as_str() },
                "answers": { "items": { "required": needed, "properties": properties } },
            } })
        };
        Together {
            about: "In the layout `poll_text`, each answer has `text`; in `poll_images`, `image_url`; in \
                `poll_text_wide_image`, both.",
            keywords: json!({ "anyOf": PollLayout::ALL.map(variant) }),
        }
    }
}

impl Model for CreateAnswer {
    type Valid = NewAnswer;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<NewAnswer> {
        let CreateAnswerFields { text, image_url } = self.check_fields(at, validator)?;
        Some(NewAnswer { text: text.unwrap_or_default(), image_url })
    }
}

impl CreateAnswer {
    /// Checks that the answer has what the layout of its poll needs.
    fn check_layout(&self, layout: PollLayout, at: &Path<'_>, validator: &mut Validator) {
        let lacks = |text: &Option<String>| text.as_deref().is_none_or(is_blank);
        let what = format_args!("is required for layout {layout}");
        if layout.needs_text() && lacks(&self.text) {
            validator.violation(&at.field("text"), what);
        }
        if layout.needs_image() && lacks(&self.image_url) {
            validator.violation(&at.field("image_url"), what);
        }
    }
}
