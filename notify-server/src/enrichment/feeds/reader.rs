//! Fetches and parses feeds. Bodies are parsed on a separate thread, one at a time,
//! so that a feed uses at most one core, and none of the API's threads.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify_core::{FeedCheck, FeedCheckItem, FeedStatus};
use tokio::sync::Semaphore;

use super::fetch::{Answer, Body, FETCH_TIMEOUT, FeedClient, FetchError, Head};
use super::{ParsedFeed, Source, parse};
use crate::outbound::Outbound;
use crate::store::{AppNo, Validators};

/// Most feeds parsed at once. Each takes up to 5 MiB, plus its text and items.
const READ_AT_ONCE: usize = 1;
/// Longest wait until a feed is parsed, including the queue; the thread ends by itself, since its work
/// is bounded.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest check of a feed: less than the 30 s that clients wait for a response.
pub(crate) const CHECK_TIMEOUT: Duration =
    Duration::from_secs(FETCH_TIMEOUT.as_secs() + READ_TIMEOUT.as_secs());
/// Most concurrent checks.
const CHECKS_AT_ONCE: usize = 4;
/// Most items in the result of a check.
const ITEMS_SHOWN_MAX: usize = 20;

/// The result of a fetch.
#[derive(Debug)]
pub(crate) enum Read {
    /// The feed has not changed.
    Unchanged(Head),
    /// A feed.
    Changed {
        /// The headers of its response.
        head: Head,
        /// The validators for the next request.
        validators: Validators,
        /// The feed.
        feed: ParsedFeed,
    },
}

/// Fetches and reads feeds.
pub(crate) struct FeedReader {
    client: FeedClient,
    pub(super) reading: Arc<Semaphore>,
    checks: Semaphore,
    checking: Mutex<HashSet<AppNo>>,
}

/// Marks an application as checking a feed; released on drop.
struct Checking<'r>(&'r FeedReader, AppNo);

impl<'r> Checking<'r> {
    fn begin(reader: &'r FeedReader, app: AppNo) -> Option<Self> {
        let is_first = reader.checking().insert(app);
        is_first.then_some(Self(reader, app))
    }
}

impl Drop for Checking<'_> {
    fn drop(&mut self) {
        self.0.checking().remove(&self.1);
    }
}

impl FeedReader {
    pub(crate) fn new(guard: Outbound) -> Self {
        Self::with_timeout(guard, FETCH_TIMEOUT)
    }

    pub(crate) fn with_timeout(guard: Outbound, timeout: Duration) -> Self {
        Self {
            client: FeedClient::new(guard, timeout),
            reading: Arc::new(Semaphore::new(READ_AT_ONCE)),
            checks: Semaphore::new(CHECKS_AT_ONCE),
            checking: Mutex::default(),
        }
    }

    fn checking(&self) -> MutexGuard<'_, HashSet<AppNo>> {
        self.checking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches and reads a feed.
    pub(crate) async fn read(
        &self,
        url: &str,
        validators: &Validators,
    ) -> Result<Read, FetchError> {
        match self.client.get(url, validators).await? {
            // No validator was sent that could match.
            Answer::Unchanged(_) if *validators == Validators::default() => {
                Err(FetchError::Status { status: 304, retry_after_ms: None })
            }
            Answer::Unchanged(head) => Ok(Read::Unchanged(head)),
            Answer::Changed(body) => {
                let (head, validators) = (body.head.clone(), body.validators.clone());
                let feed = self.parse(body).await?;
                Ok(Read::Changed { head, validators, feed })
            }
        }
    }

    /// Checks what a url would bring, without storing anything; `None` while too many other checks run, or
    /// another one for the same application. Takes at most [`CHECK_TIMEOUT`].
    pub(crate) async fn check(&self, app: AppNo, url: &str) -> Option<FeedCheck> {
        let _place = Checking::begin(self, app)?;
        let _turn = self.checks.try_acquire().ok()?;
        let read = self.read(url, &Validators::default()).await;
        Some(match read {
            Ok(Read::Changed { head, feed, .. }) => shown(&head, feed),
            // The request had no validators, so nothing can be unchanged.
            Ok(Read::Unchanged(_)) => {
                failed(FetchError::Status { status: 304, retry_after_ms: None })
            }
            Err(error) => failed(error),
        })
    }

    async fn parse(&self, body: Body) -> Result<ParsedFeed, FetchError> {
        let reading = Arc::clone(&self.reading);
        let parsing = async {
            // Held by the thread, not by the caller that waits for it.
            let Ok(turn) = reading.acquire_owned().await else {
                return Err(FetchError::NotAttempted);
            };
            let parsing = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let bytes = body.plain()?;
                let source = Source { bytes: &bytes, charset: body.charset(), url: &body.url };
                Ok(parse(&source)?)
            });
            parsing.await.unwrap_or_else(|_| {
                // The panic message names the place; the content of a feed must not be logged.
                tracing::error!("a feed could not be read: its reader panicked");
                Err(FetchError::NotAttempted)
            })
        };
        let parsed = tokio::time::timeout(READ_TIMEOUT, parsing).await;
        parsed.unwrap_or(Err(FetchError::NotAttempted))
    }
}

fn shown(head: &Head, feed: ParsedFeed) -> FeedCheck {
    let count = feed.items.len() as u64;
    let mut problems = Vec::new();
    if count == 0 {
        problems.push("holds no item that could be shown".to_owned());
    }
    if feed.is_broken {
        problems.push("is not well-formed; what could be read is shown".to_owned());
    }
    if feed.is_charset_guess {
        problems.push("is not in the charset that it names; one that fits is taken".to_owned());
    }
    if feed.left_out > 0 {
        problems.push(format!("{} items have no title or no link and are left out", feed.left_out));
    }
    if feed.beyond > 0 {
        problems.push(format!("{} items after the first {count} are left out", feed.beyond));
    }
    let without = |missing: usize, what: &str| {
        (missing > 0).then(|| format!("{missing} of {count} items have no {what}"))
    };
    problems.extend(without(
        feed.items.iter().filter(|item| item.image_url.is_none()).count(),
        "image",
    ));
    problems.extend(without(
        feed.items.iter().filter(|item| item.published_at.is_none()).count(),
        "date",
    ));
    if let Some(to) = &head.moved_to {
        problems.push(format!("was moved for good, to {to}"));
    }
    let items = feed.items.into_iter().take(ITEMS_SHOWN_MAX).map(|item| FeedCheckItem {
        title: item.title,
        url: item.url,
        image_url: item.image_url,
        published_at: item.published_at,
    });
    FeedCheck { status: FeedStatus::Ok, count, items: items.collect(), problems }
}

fn failed(error: FetchError) -> FeedCheck {
    let problems = vec![error.to_string()];
    FeedCheck { status: FeedStatus::Failing, count: 0, items: Vec::new(), problems }
}
