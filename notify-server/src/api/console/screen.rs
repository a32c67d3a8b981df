//! The routes of pages and forms for operators who are signed in.

use std::future::Future;

use warp::reply::Response;

use super::form::Form;
use super::visit::Visit;
use super::{session, sign_in};
use crate::api::error::ApiError;
use crate::api::router::{Endpoint, get_raw, post_raw};

/// A page that an operator reads. An image, frame or other part of a page cannot be one: the address of an image
/// in a feed must not run the checks of the doctor.
pub(super) fn screen<Fut>(path: &'static str, show: fn(Visit) -> Fut) -> Endpoint
where
    Fut: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    get_raw(path, move |ctx| async move {
        if session::is_part_of_page(ctx.headers()) {
            return Err(ApiError::NotFound);
        }
        match session::of_caller(&ctx) {
            Some(session) => show(Visit { ctx, session }).await,
            None => Ok(sign_in::without_session(&ctx)),
        }
    })
}

/// A form that an operator submits. Forms of other sites are refused. A form of an earlier session is shown
/// again, and nothing is done.
pub(super) fn action<Fut>(path: &'static str, run: fn(Visit, Form) -> Fut) -> Endpoint
where
    Fut: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    post_raw(path, move |ctx| async move {
        session::check_same_origin(&ctx)?;
        let Some(session) = session::of_caller(&ctx) else {
            return Ok(sign_in::expired_form(&ctx));
        };
        let form = Form::parse(&ctx.body.bytes)?;
        if !session.owns(&form) {
            return sign_in::form_of_earlier_session(Visit { ctx, session }, &form).await;
        }
        run(Visit { ctx, session }, form).await
    })
}
