//! Notifications: accepting, reading back, canceling.

use async_trait::async_trait;
use notify_core::{
    Audience, CampaignRef, Delivery, DeliveryOutcome, DeviceId, NewPoll, Notification,
    NotificationCreated, NotificationId, NotificationPreview, NotificationRecord, Platform, Report,
    Schedule, Target, Timestamp,
};

use super::{AppNo, DeliveryFacts, Done, Once, Page, PageRequest, StoreError};

/// A notification to accept: one row, whatever its audience.
#[derive(Debug, Clone)]
pub struct NewNotification {
    /// Id.
    pub id: NotificationId,
    /// The body as it was sent; what is rendered later is read from it again.
    pub request: String,
    /// Who gets it.
    pub target: Target,
    /// Only devices that have this tag.
    pub tag: Option<String>,
    /// When.
    pub schedule: Schedule,
    /// `ttl_seconds` of B19.
    pub ttl_seconds: u32,
    /// The caller's own key of replacement (B19, B36).
    pub collapse_key: Option<String>,
    /// A campaign that must exist and be active (B17); checked inside the transaction.
    pub campaign: Option<CampaignRef>,
    /// A poll to keep beside it, with the ids of its answers in order (B14).
    pub poll: Option<PollDraft>,
    /// When it came in.
    pub at: Timestamp,
}

impl NewNotification {
    /// A request that was checked, as it came in at that time: its text beside what it says.
    #[must_use]
    pub fn of(
        id: NotificationId,
        (request, checked): (String, Notification),
        poll: Option<PollDraft>,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            request,
            campaign: checked.content.campaign(),
            target: checked.audience.target,
            tag: checked.audience.tag,
            schedule: checked.schedule,
            ttl_seconds: checked.ttl_seconds,
            collapse_key: checked.collapse_key,
            poll,
            at,
        }
    }
}

/// A poll to be stored with its notification.
#[derive(Debug, Clone)]
pub struct PollDraft {
    /// The poll.
    pub poll: NewPoll,
    /// An id for each answer, in order.
    pub answers: Vec<notify_core::AnswerId>,
    /// Secret part of its public address.
    pub public_id: uuid::Uuid,
}

/// A report to record (B18).
#[derive(Debug, Clone)]
pub struct NewReport {
    /// The report.
    pub report: Report,
    /// The body as it was sent.
    pub request: String,
    /// Its poll.
    pub poll: Option<PollDraft>,
    /// When it came in.
    pub at: Timestamp,
}

/// How many devices an audience would reach now on one platform (B37).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Platform.
    pub platform: Platform,
    /// Enabled devices with an address; with a tag, if one is named, set to true.
    pub devices: u64,
    /// Whether all were looked at. Where counting stopped at its bound, it is at least `devices`
    /// for a tag, and at most for a platform.
    pub is_exact: bool,
    /// Named ids that name no device of the platform.
    pub unknown: u64,
    /// Named devices that are disabled, without an address, or without the tag.
    pub excluded: u64,
}

/// How many devices an audience would reach now (B37).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Platform by platform.
    pub platforms: Vec<Reach>,
    /// Ids of devices of any platform that name no device (B64).
    pub unknown: u64,
}

/// Notifications.
#[async_trait]
pub trait NotificationStore {
    /// The answer of an earlier request with this key, if there was one; [`StoreError::KeyReused`]
    /// when its body was another.
    async fn replay(&self, app: AppNo, once: &Once) -> Result<Option<String>, StoreError>;

    /// Accepts a notification: one row and its idempotency record in one transaction, which
    /// also refuses a campaign that is not active and an id in use: looked at before, they could
    /// change meanwhile. One that is due now gets the application's highest device sequence as its
    /// audience, which no clock can shift; the answer tells when it names devices and none is there.
    async fn accept_notification(
        &self,
        app: AppNo,
        notification: NewNotification,
        once: Option<Once>,
    ) -> Result<Done<NotificationCreated>, StoreError>;

    /// Records a report (B18); an id in use is refused with the path `id`.
    async fn record_report(
        &self,
        app: AppNo,
        report: NewReport,
        once: Option<Once>,
    ) -> Result<Done<NotificationCreated>, StoreError>;

    /// Reads a notification with its counts (B20).
    async fn notification(
        &self,
        app: AppNo,
        id: NotificationId,
    ) -> Result<NotificationRecord, StoreError>;

    /// Lists notifications, newest first. A page ends early, with a place to go on from, once its
    /// requests come to some megabytes: `limit` bounds rows, and each carries a whole body.
    async fn list_notifications(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<NotificationRecord>, StoreError>;

    /// Lists what became of a notification device by device, platform by platform in the order of
    /// device keys, with what waits to be tried again and what waits in open pages (B20). What it
    /// reads is bounded whatever the audience: a page may hold fewer rows than asked for, even
    /// none, and yet name a next one.
    async fn list_deliveries(
        &self,
        app: AppNo,
        id: NotificationId,
        outcome: Option<DeliveryOutcome>,
        page: PageRequest,
    ) -> Result<Page<Delivery>, StoreError>;

    /// Reads what is known of one device and one notification (B38).
    async fn delivery_facts(
        &self,
        app: AppNo,
        id: NotificationId,
        device: DeviceId,
    ) -> Result<DeliveryFacts, StoreError>;

    /// How many devices an audience would reach now, platform by platform (B37): from counters
    /// where there is one, else by a bounded scan.
    async fn reach(&self, app: AppNo, audience: Audience) -> Result<Reached, StoreError>;

    /// Answers a preview, which changes nothing but for its idempotency record (B8).
    async fn keep_preview(
        &self,
        app: AppNo,
        preview: NotificationPreview,
        once: Option<Once>,
    ) -> Result<Done<NotificationPreview>, StoreError>;

    /// Cancels what has not been sent yet; refused with the path `id` when nothing is left (B20).
    /// One without dispatches is canceled at once; the rest is counted off by the engine, whose
    /// cursor goes on without sending, so that `targeted` stays an exact sum. Its retries end in
    /// this transaction.
    async fn cancel_notification(
        &self,
        app: AppNo,
        id: NotificationId,
        at: Timestamp,
    ) -> Result<(), StoreError>;
}
