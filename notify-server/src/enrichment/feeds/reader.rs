//! Fetches and parses feeds. A blocking thread parses one feed at a time, so that feeds use at most
//! one core and never block the threads that serve the API.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify_core::{FeedCheck, FeedCheckItem, FeedStatus};
use tokio::sync::Semaphore;

use super::fetch::{Body, FETCH_TIMEOUT, FeedClient, FeedResponse, FetchError, Head};
use super::{ParsedFeed, Source, parse};
use crate::outbound::Outbound;
use crate::store::{AppNo, Validators};

/// Most feeds that are parsed at once. Each takes up to 5 MiB, plus its text and items.
const PARSERS_MAX: usize = 1;
/// Longest wait until a feed is parsed, including the wait for the parser. After the timeout the
/// thread continues, but its work is bounded.
const PARSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest check of a feed: less than the 30 s that clients wait for a response.
pub(crate) const CHECK_TIMEOUT: Duration =
    Duration::from_secs(FETCH_TIMEOUT.as_secs() + PARSE_TIMEOUT.as_secs());
/// Most concurrent checks.
const CHECKS_MAX: usize = 4;
/// Most items in the result of a check.
const ITEMS_SHOWN_MAX: usize = 20;

/// A feed that was fetched.
#[derive(Debug)]
pub(crate) enum FetchedFeed {
    /// The feed has not changed.
    Unchanged(Head),
    /// The feed has changed, or was fetched for the first time.
    Changed {
        /// The headers of its response.
        head: Head,
        /// The validators for the next request.
        validators: Validators,
        /// The parsed feed.
        feed: ParsedFeed,
    },
}

/// Fetches and parses feeds.
pub(crate) struct FeedReader {
    client: FeedClient,
    pub(super) parsers: Arc<Semaphore>,
    checks: Semaphore,
    /// The applications that check a feed at the moment.
    checking_apps: Mutex<HashSet<AppNo>>,
}

/// The permit of an application to check a feed; released on drop.
struct AppPermit<'r> {
    reader: &'r FeedReader,
    app: AppNo,
}

impl<'r> AppPermit<'r> {
    /// `None` while the application has another check.
    fn try_acquire(reader: &'r FeedReader, app: AppNo) -> Option<Self> {
        let is_first = reader.checking_apps().insert(app);
        is_first.then_some(Self { reader, app })
    }
}

impl Drop for AppPermit<'_> {
    fn drop(&mut self) {
        self.reader.checking_apps().remove(&self.app);
    }
}

impl FeedReader {
    pub(crate) fn new(guard: Outbound) -> Self {
        Self::with_timeout(guard, FETCH_TIMEOUT)
    }

    pub(crate) fn with_timeout(guard: Outbound, timeout: Duration) -> Self {
        Self {
            client: FeedClient::new(guard, timeout),
            parsers: Arc::new(Semaphore::new(PARSERS_MAX)),
            checks: Semaphore::new(CHECKS_MAX),
            checking_apps: Mutex::default(),
        }
    }

    fn checking_apps(&self) -> MutexGuard<'_, HashSet<AppNo>> {
        self.checking_apps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches and parses a feed. `validators` come from the response to the previous fetch.
    pub(crate) async fn read(
        &self,
        url: &str,
        validators: &Validators,
    ) -> Result<FetchedFeed, FetchError> {
        match self.client.get(url, validators).await? {
            // A 304 is wrong here: the request had no validator that could match.
            FeedResponse::Unchanged(_) if *validators == Validators::default() => {
                Err(FetchError::Status { status: 304, retry_after_ms: None })
            }
            FeedResponse::Unchanged(head) => Ok(FetchedFeed::Unchanged(head)),
            FeedResponse::Changed(body) => {
                let (head, validators) = (body.head.clone(), body.validators.clone());
                let feed = self.parse(body).await?;
                Ok(FetchedFeed::Changed { head, validators, feed })
            }
        }
    }

    /// Fetches and parses the feed at a url, and describes the result without storing anything.
    /// `None` if the application already has a check running, or too many checks run. Takes at most
    /// [`CHECK_TIMEOUT`].
    pub(crate) async fn check(&self, app: AppNo, url: &str) -> Option<FeedCheck> {
        let _app_permit = AppPermit::try_acquire(self, app)?;
        let _check_permit = self.checks.try_acquire().ok()?;
        let fetched = self.read(url, &Validators::default()).await;
        Some(match fetched {
            Ok(FetchedFeed::Changed { head, feed, .. }) => check_result(&head, feed),
            // Does not occur: `read` returns an error for a 304 without validators.
            Ok(FetchedFeed::Unchanged(_)) => {
                failed_check(FetchError::Status { status: 304, retry_after_ms: None })
            }
            Err(error) => failed_check(error),
        })
    }

    /// Parses a feed on a blocking thread, after the feeds that wait for the parser already.
    async fn parse(&self, body: Body) -> Result<ParsedFeed, FetchError> {
        let parsers = Arc::clone(&self.parsers);
        let parsed_in_turn = async {
            let Ok(permit) = parsers.acquire_owned().await else {
                return Err(FetchError::NotAttempted);
            };
            let parser_thread = tokio::task::spawn_blocking(move || {
                // The thread holds the permit: after a timeout the caller is gone, but the thread
                // still parses.
                let _permit = permit;
                let bytes = body.plain()?;
                let source = Source { bytes: &bytes, charset: body.charset(), url: &body.url };
                Ok(parse(&source)?)
            });
            parser_thread.await.unwrap_or_else(|_| {
                // The panic message, which the log has already, names the line of code. The content
                // of the feed must not be logged.
                tracing::error!("a feed could not be parsed: the parser panicked");
                Err(FetchError::NotAttempted)
            })
        };
        let result = tokio::time::timeout(PARSE_TIMEOUT, parsed_in_turn).await;
        result.unwrap_or(Err(FetchError::NotAttempted))
    }
}

/// The result of a check of a feed that could be parsed.
fn check_result(head: &Head, feed: ParsedFeed) -> FeedCheck {
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
    let missing_problem = |missing: usize, what: &str| {
        (missing > 0).then(|| format!("{missing} of {count} items have no {what}"))
    };
    problems.extend(missing_problem(
        feed.items.iter().filter(|item| item.image_url.is_none()).count(),
        "image",
    ));
    problems.extend(missing_problem(
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

/// The result of a check of a feed that could not be fetched or parsed.
fn failed_check(error: FetchError) -> FeedCheck {
    let problems = vec![error.to_string()];
    FeedCheck { status: FeedStatus::Failing, count: 0, items: Vec::new(), problems }
}
