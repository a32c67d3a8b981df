//! The names of the store's writes, for the fail points around their commits.

/// Declares the writes, each with its name.
macro_rules! operations {
    ($($name:ident = $text:literal,)*) => {
        /// A write of the store. Each is a method of [`crate::store::Store`], except
        /// `ResumeErasing`, which finishes interrupted erasures when the store is opened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Operation {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Operation {
            /// All writes. The crash tests kill the process before and after the commit of each
            /// write.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name of the write, and of its fail point.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

operations! {
    AcceptNotification = "accept_notification",
    AddAdminKey = "add_admin_key",
    AddKey = "add_key",
    AnswerPoll = "answer_poll",
    AnswerPublicPoll = "answer_public_poll",
    Bootstrap = "bootstrap",
    CancelNotification = "cancel_notification",
    ChangeApp = "change_app",
    ChangeAttributes = "change_attributes",
    ChangeUser = "change_user",
    ChangeWebhook = "change_webhook",
    Check = "check",
    Checkpoint = "checkpoint",
    ClaimFeeds = "claim_feeds",
    ClaimMessages = "claim_messages",
    ClaimRetries = "claim_retries",
    ClearWebAccess = "clear_web_access",
    ConfirmClock = "confirm_clock",
    CorrectOffsets = "correct_offsets",
    CreateApp = "create_app",
    CreateCampaign = "create_campaign",
    CreateFeed = "create_feed",
    CreateSession = "create_session",
    CreateUser = "create_user",
    CreateWebhook = "create_webhook",
    DeleteApp = "delete_app",
    DeleteCampaign = "delete_campaign",
    DeleteDevice = "delete_device",
    DeleteExpired = "delete_expired",
    DeleteFeed = "delete_feed",
    DeleteProvider = "delete_provider",
    DeleteSegment = "delete_segment",
    DeleteUser = "delete_user",
    DeleteWebhook = "delete_webhook",
    EndSession = "end_session",
    FinishFeed = "finish_feed",
    FinishPages = "finish_pages",
    FreezeProviderToken = "freeze_provider_token",
    GiveDeviceSecret = "give_device_secret",
    GrantAttempts = "grant_attempts",
    Heartbeat = "heartbeat",
    KeepClock = "keep_clock",
    KeepEvents = "keep_events",
    KeepPreview = "keep_preview",
    KeepProviderToken = "keep_provider_token",
    KeysShown = "keys_shown",
    Leave = "leave",
    LogIn = "log_in",
    LogOut = "log_out",
    OpenPage = "open_page",
    PauseNotification = "pause_notification",
    PublishBreaker = "publish_breaker",
    PutProvider = "put_provider",
    PutSegment = "put_segment",
    Reclaim = "reclaim",
    RecordEvents = "record_events",
    RecordIntent = "record_intent",
    RecordReport = "record_report",
    RecoverMessages = "recover_messages",
    RedeliverMessage = "redeliver_message",
    RegisterAppDevice = "register_app_device",
    RegisterDevice = "register_device",
    ReleaseMessages = "release_messages",
    ReleaseProvider = "release_provider",
    RemoveErasedIds = "remove_erased_ids",
    RemoveTag = "remove_tag",
    RenameAdminKey = "rename_admin_key",
    ReplaceCampaign = "replace_campaign",
    ReplaceUnshownKeys = "replace_unshown_keys",
    ResumeErasing = "resume_erasing",
    ResumeNotification = "resume_notification",
    RevokeAdminKey = "revoke_admin_key",
    RevokeKey = "revoke_key",
    RotateKey = "rotate_key",
    RotateWebhook = "rotate_webhook",
    SetCampaignStatus = "set_campaign_status",
    SetTags = "set_tags",
    SetWebAccess = "set_web_access",
    SettleMessage = "settle_message",
    SettleRetries = "settle_retries",
    Start = "start",
    Storage = "storage",
    SubscribeBrowser = "subscribe_browser",
    SubscribeDevice = "subscribe_device",
    TakeInbound = "take_inbound",
    TestWebhook = "test_webhook",
    TouchKeys = "touch_keys",
    TrimEvents = "trim_events",
}
