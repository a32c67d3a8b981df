//! Polls.

use serde::{Deserialize, Serialize};

use crate::json::{Body, Object};
use crate::request::request;
use crate::violations::{Findings, Path, path};
use crate::{AnswerId, DeviceId, NotificationId, Timestamp, percentage};

/// Fewest answers of a poll.
pub const POLL_ANSWERS_MIN: usize = 2;
/// Most answers of a poll.
pub const POLL_ANSWERS_MAX: usize = 100;

/// A poll as it is sent with a notification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatePoll {
    /// The question.
    pub text: String,
    /// `poll_images`, `poll_text` or `poll_text_wide_image`.
    #[cfg_attr(feature = "openapi", schema(value_type = PollLayout))]
    pub layout_id: String,
    /// Image shown with the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    /// Possible answers.
    pub answers: Vec<CreateAnswer>,
}

/// A possible answer of a [`CreatePoll`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateAnswer {
    /// Answer text; required by `poll_text` and `poll_text_wide_image`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Answer image; required by `poll_images` and `poll_text_wide_image`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
}

/// Layout of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PollLayout {
    /// Answers are images.
    PollImages,
    /// Answers are texts.
    PollText,
    /// Answers are texts with wide images.
    PollTextWideImage,
}

impl PollLayout {
    /// Every layout.
    pub const ALL: [Self; 3] = [Self::PollImages, Self::PollText, Self::PollTextWideImage];

    /// The word on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PollImages => "poll_images",
            Self::PollText => "poll_text",
            Self::PollTextWideImage => "poll_text_wide_image",
        }
    }

    /// The layout of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.as_str() == word)
    }

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

/// A poll that holds every rule: the validated form of [`CreatePoll`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPoll {
    /// The question, not empty.
    pub text: String,
    /// Layout.
    pub layout_id: PollLayout,
    /// Image shown with the question.
    pub image_url: Option<String>,
    /// At least two, each with what the layout asks for.
    pub answers: Vec<NewAnswer>,
}

/// An answer of a [`NewPoll`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnswer {
    /// Text; may be empty with `poll_images` alone.
    pub text: String,
    /// Image url.
    pub image_url: Option<String>,
}

/// A poll with its answer counts, as `GET /v1/polls/:id` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Poll {
    /// Id, that of its notification.
    pub id: NotificationId,
    /// The question.
    pub text: String,
    /// Url to view the poll from a browser.
    pub url: String,
    /// Image, present if one exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    /// Layout.
    pub layout_id: PollLayout,
    /// Language code.
    pub lang: String,
    /// Creation.
    pub created_at: Timestamp,
    /// Answers in the order they were given.
    pub answers: Vec<PollAnswer>,
}

impl Poll {
    /// Fills in each answer's share of all clicks.
    #[must_use]
    pub fn with_percentages(mut self) -> Self {
        let all = self.answers.iter().map(|answer| answer.clicks).sum();
        for answer in &mut self.answers {
            answer.percentage = percentage(answer.clicks, all);
        }
        self
    }
}

/// An answer with its count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PollAnswer {
    /// Id.
    pub id: AnswerId,
    /// Text.
    pub text: String,
    /// Image url; may be empty.
    pub image_url: String,
    /// Share of all clicks in percent, two decimals; 0 when there are none.
    pub percentage: f64,
    /// How often it was chosen.
    pub clicks: u64,
}

/// Body of `POST /v1/polls/:id/answers/:answer_id`; may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AnswerPoll {
    /// Which device answers; one answer per device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
}

/// Who answers a poll: the validated form of [`AnswerPoll`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollVote {
    /// The device, when one is named.
    pub device_id: Option<DeviceId>,
}

// Building polls in code.

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

// Reads and checks polls and answers to them.

request!(AnswerPoll => PollVote, Body::Optional, read_vote, check_vote);

fn read_vote(object: &mut Object<'_, '_>) -> AnswerPoll {
    AnswerPoll { device_id: object.string("device_id") }
}

fn check_vote(request: AnswerPoll, _now: Timestamp, findings: &mut Findings) -> Option<PollVote> {
    let AnswerPoll { device_id } = request;
    let device_id = device_id.as_deref();
    Some(PollVote { device_id: findings.optional_id(&path("device_id"), device_id, DeviceId::new) })
}

pub(crate) fn read_poll(object: &mut Object<'_, '_>) -> CreatePoll {
    CreatePoll {
        text: object.required_string("text"),
        layout_id: object.required_string("layout_id"),
        image_url: object.string("image_url"),
        answers: object.objects("answers", POLL_ANSWERS_MAX, read_answer).unwrap_or_default(),
    }
}

fn read_answer(object: &mut Object<'_, '_>) -> CreateAnswer {
    CreateAnswer { text: object.string("text"), image_url: object.string("image_url") }
}

pub(crate) fn check_poll(
    at: &Path<'_>,
    poll: CreatePoll,
    findings: &mut Findings,
) -> Option<NewPoll> {
    let text = findings.required(&at.field("text"), poll.text);
    let layout_path = at.field("layout_id");
    let layout = findings.word(&layout_path, &poll.layout_id, &PollLayout::ALL, PollLayout::as_str);
    let image_url = findings.http_url(&at.field("image_url"), poll.image_url);
    let answers_path = at.field("answers");
    if poll.answers.len() < POLL_ANSWERS_MIN {
        let what = format_args!("must hold at least {POLL_ANSWERS_MIN} answers");
        findings.broken(&answers_path, what);
    }
    findings.at_most(&answers_path, poll.answers.len(), POLL_ANSWERS_MAX, "answers");
    let mut answers = Vec::with_capacity(poll.answers.len());
    for (place, answer) in poll.answers.into_iter().enumerate() {
        answers.push(check_answer(&answers_path.index(place), answer, layout, findings));
    }
    Some(NewPoll { text, layout_id: layout?, image_url, answers })
}

fn check_answer(
    at: &Path<'_>,
    answer: CreateAnswer,
    layout: Option<PollLayout>,
    findings: &mut Findings,
) -> NewAnswer {
    let text = findings.text(&at.field("text"), answer.text);
    let image_url = findings.http_url(&at.field("image_url"), answer.image_url);
    if let Some(layout) = layout {
        let what = format_args!("is required for layout {}", layout.as_str());
        if text.is_none() && layout.needs_text() {
            findings.broken(&at.field("text"), what);
        }
        if image_url.is_none() && layout.needs_image() {
            findings.broken(&at.field("image_url"), what);
        }
    }
    NewAnswer { text: text.unwrap_or_default(), image_url }
}
