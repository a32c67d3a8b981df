//! Reads and checks polls and answers to them.

use super::{
    AnswerPoll, CreateAnswer, CreatePoll, NewAnswer, NewPoll, POLL_ANSWERS_MAX, POLL_ANSWERS_MIN,
    PollLayout, PollVote,
};
use crate::{
    DeviceId, Timestamp,
    json::{Body, Object},
    path::{Path, path},
    request::request,
    violations::Findings,
};

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
