//! What every backend promises, one check a promise, each on an empty store. A backend lists none
//! of them: `store_contract!` does, and makes a test of each.

#![allow(missing_docs, reason = "the name of a check is its promise")]
#![allow(clippy::unwrap_used, reason = "checks fail by panicking")]

pub mod apps;
pub mod breakers;
pub mod campaigns;
pub mod dead;
pub mod deliveries;
pub mod delivery;
pub mod devices;
pub mod engagement;
pub mod everything;
pub mod feeds;
pub mod given;
pub mod idempotency;
pub mod inbound;
pub mod messages;
pub mod named;
pub mod notifications;
pub mod pages;
pub mod polls;
pub mod resuming;
pub mod retries;
pub mod servers;
pub mod statistics;
pub mod tags;
pub mod tokens;
pub mod upkeep;
pub mod web;
pub mod webhooks;

use async_trait::async_trait;

use crate::store::{SharedStore, StoreError};

/// A backend under test: opens its storage, again and again with what was kept before.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Opens it.
    async fn open(&self) -> SharedStore;
}

/// The rule that was broken, with its path.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Refused(violations)) => violations.into_vec().join("; "),
        other => panic!("expected a refusal, not {other:?}"),
    }
}

/// Whether nothing was found.
pub(crate) fn is_unknown<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotFound))
}

/// Makes a test of every check, each on storage of its own.
#[macro_export]
macro_rules! store_contract {
    ($backend:expr) => {
        $crate::store_contract! { @store $backend,
            apps: the_first_application_is_made_once, keys_that_were_not_shown_are_added_to,
                an_application_reads_back_as_it_was_made,
                a_change_leaves_what_it_does_not_name, applications_are_listed_oldest_first_in_pages,
                a_key_opens_its_application_until_it_is_revoked, keys_of_another_application_stay,
                admin_keys_open_no_application, the_last_use_of_a_key_never_goes_back,
                a_deleted_application_is_unknown_and_leaves_others_alone,
                providers_are_kept_sealed_and_tell_versions_apart, what_was_forgotten_is_not_sealed,
                listeners_hear_of_a_change_before_its_caller;
            tokens: a_token_gives_way_to_one_that_was_signed_for_it,
                one_of_many_that_sign_at_once_is_kept, a_token_is_frozen_until_the_latest_end,
                tokens_of_keys_that_nobody_uses_go;
            devices: a_device_reads_back_as_it_was_registered, registering_again_replaces_every_field,
                an_unchanged_registration_keeps_everything_but_its_time,
                a_token_moves_to_the_device_that_registers_it,
                a_token_belongs_to_one_device_whatever_its_platform,
                a_change_of_platform_keeps_tags_and_creation, devices_of_others_are_unknown,
                devices_are_listed_in_pages_by_platform_and_tag,
                a_page_of_devices_ends_by_its_bytes_and_the_next_goes_on,
                a_cursor_of_another_listing_is_refused,
                a_subscription_keeps_its_id_or_moves_to_the_one_given,
                an_id_of_another_platform_is_refused_for_a_subscription,
                an_erased_device_is_gone_with_its_tags, an_erase_takes_the_id_out_of_stored_requests,
                an_id_is_never_given_twice;
            tags: setting_tags_leaves_the_others, a_device_has_so_many_tags_and_no_more,
                a_tag_is_removed_once,
                tags_are_listed_by_name_with_their_devices, tags_of_others_are_unknown;
            statistics: devices_are_counted_by_platform_and_state,
                a_period_counts_its_edges_to_the_millisecond, a_change_of_state_moves_the_count,
                counts_are_those_of_the_devices_whatever_happened_to_them;
            notifications: a_notification_reads_back_as_it_was_accepted,
                an_id_is_used_once_within_an_application, a_campaign_must_be_active,
                a_report_is_listed_and_never_due, notifications_are_listed_newest_first,
                a_listing_tells_what_each_would, a_listing_counts_every_dispatch,
                the_most_frequent_failures_of_each_are_listed,
                a_page_of_large_requests_ends_early,
                one_that_has_not_begun_is_canceled_at_once, what_is_over_cannot_be_canceled,
                a_canceled_dispatch_ends_its_retries_and_counts_the_rest;
            delivery: what_is_due_is_started_oldest_first_within_the_limit,
                of_one_instant_what_was_accepted_first_goes_first,
                the_audience_is_fixed_when_a_notification_becomes_due,
                every_platform_of_the_target_has_its_dispatch,
                named_ids_are_resolved_and_the_unknown_counted,
                the_page_of_one_device_is_opened_with_its_start,
                no_page_is_opened_where_it_would_not_be_the_only_one, a_slice_bounds_the_rows_it_reads,
                a_tag_is_read_over_its_own_devices, a_moved_token_names_where_it_was;
            named: ids_of_any_platform_are_sent_to_where_their_devices_are,
                ids_of_any_platform_are_sent_to_in_their_zones,
                a_notification_that_names_nobody_says_so;
            pages: a_cursor_moves_once,
                a_page_without_anybody_to_send_to_is_finished_at_once,
                a_checkpoint_counts_and_the_last_one_ends_everything,
                a_checkpoint_that_lost_its_page_stores_nothing,
                a_checkpoint_that_was_stored_is_stored_once,
                outcomes_stay_with_their_devices, failures_are_counted_by_reason,
                a_tag_removed_meanwhile_shifts_nothing;
            dead: a_dead_address_disables_the_device_that_still_has_it,
                a_device_that_has_another_host_by_now_is_spared,
                a_later_registration_spares_a_device, a_later_subscription_spares_a_device, addresses_that_look_dead_en_masse_stay_enabled,
                addresses_that_look_dead_now_and_then_are_disabled, an_address_that_moved_is_kept;
            deliveries: deliveries_are_listed_with_what_is_tried_again_and_what_waits,
                a_listing_of_many_pages_leaves_nothing_out,
                an_erased_device_leaves_its_delivery_without_an_id,
                a_listing_of_deliveries_is_its_notifications_alone,
                facts_tell_how_far_a_notification_has_come_with_a_device,
                facts_tell_whether_a_device_is_named_and_tagged,
                a_device_that_was_none_to_send_to_is_passed_over,
                an_audience_is_counted_as_it_is_now;
            retries: a_retry_is_claimed_when_it_is_due_by_one,
                a_claim_that_ran_out_is_claimed_again, a_claimer_leaves_what_it_has_in_hand, a_claim_whose_answer_was_lost_is_made_again, a_retry_that_is_settled_ends_the_dispatch,
                a_retry_that_failed_again_waits_anew, a_retry_that_is_put_off_stays_as_it_was, an_erased_device_ends_its_retries,
                a_settled_retry_is_left_as_it_is, lanes_are_those_with_something_due,
                a_newer_notification_of_the_same_key_overtakes,
                a_retry_of_what_was_canceled_meanwhile_ends;
            servers: servers_are_counted_while_they_live, a_page_is_its_servers_while_that_lives,
                retries_of_a_server_that_left_are_free_at_once,
                a_scan_is_seen_by_all_until_it_is_done, canceled_dispatches_are_told_from_others;
            breakers: every_status_reads_back_as_published,
                a_publisher_that_missed_a_record_gets_it_instead,
                one_of_many_concurrent_publishers_succeeds,
                records_are_read_in_order_after_the_last_one,
                an_administrator_closes_every_breaker,
                records_end_with_their_application_and_with_time;
            campaigns: a_campaign_reads_back_with_its_feeds_by_id,
                a_feed_that_is_not_there_is_refused_with_its_path,
                one_campaign_is_the_default, a_default_is_neither_disabled_nor_deleted,
                a_campaign_that_a_notification_names_is_not_deleted,
                campaigns_are_found_by_part_of_their_name, disabled_campaigns_enrich_nothing,
                campaigns_of_others_are_unknown;
            feeds: a_url_is_one_feed, a_long_url_is_one_feed_too,
                an_application_has_so_many_feeds,
                a_feed_that_is_not_fetched_any_more_is_due_again_when_it_is_made_again,
                a_feed_in_use_is_not_deleted, feeds_are_listed_newest_first,
                a_feed_is_due_when_it_is_made_and_claimed_by_one,
                of_feeds_due_at_once_the_oldest_is_claimed_first,
                a_claim_that_ran_out_is_due_again_and_its_end_counts_for_nothing,
                items_stay_while_a_feed_fails, the_same_items_again_change_nothing,
                a_feed_moves_unless_its_new_url_is_taken, feeds_of_a_suspended_application_wait,
                a_campaign_shows_the_newest_items_of_its_feeds;
            polls: a_poll_reads_back_with_its_answers_in_order, a_device_answers_once,
                what_a_vote_names_must_exist, a_visitor_of_the_page_answers_once,
                visitors_at_once_count_once_each,
                the_page_goes_with_its_application_and_its_notification;
            inbound: someone_who_writes_is_registered_once,
                an_id_that_is_brought_takes_nothing_from_anybody,
                the_last_message_counts_and_is_written_once_a_minute,
                an_address_takes_its_last_message_along, a_newer_message_revives_and_an_older_does_not,
                who_leaves_is_disabled_until_they_return, a_press_counts_once_per_device,
                presses_at_once_count_once_per_device, what_is_unknown_is_passed_over;
            engagement: an_event_counts_once, an_unknown_name_ignores_that_event_alone,
                names_are_looked_up_within_the_application, events_at_once_count_once,
                a_day_counts_what_was_recorded_on_it,
                what_a_day_counted_outlives_what_it_counted;
            idempotency: an_answer_is_replayed_and_nothing_happens_again,
                a_key_is_not_used_with_another_body, a_refusal_is_not_kept,
                a_key_counts_for_one_path_and_application, an_answer_is_forgotten_after_a_day;
            upkeep: outcomes_go_and_counts_stay, what_has_not_ended_or_not_long_ago_stays,
                a_notification_goes_with_all_that_hangs_on_it, events_go_and_do_not_count_again,
                answers_go_though_nobody_asks_again, a_step_of_deleting_is_bounded,
                queues_tell_what_waits, the_newest_ios_devices_tell_how_they_were_registered,
                storage_waits_for_the_disk, a_doubt_of_the_clock_is_kept_until_it_is_confirmed;
            webhooks: a_webhook_reads_back_as_it_was_made_and_changed,
                the_oldest_webhook_is_served_first,
                an_application_has_so_many_webhooks, nothing_is_kept_where_nobody_listens,
                what_happens_is_told_with_what_it_is_about, an_end_is_told_by_what_it_came_to,
                a_dead_device_is_told_once, an_erased_device_is_in_no_message;
            messages: a_message_is_tried_by_one_until_it_is_over,
                a_message_that_waits_is_redelivered_at_once, what_failed_since_is_recovered,
                a_webhook_is_judged_as_it_stands_when_an_attempt_ends,
                a_disabled_webhook_ends_what_waits_and_begins_anew,
                what_waits_for_a_webhook_is_bounded_and_the_rest_is_counted,
                a_stream_goes_on_where_it_was_and_says_where_it_cannot;
            web: access_is_kept_until_it_is_cleared, a_browser_is_the_device_whose_secret_it_shows,
                an_address_alone_proves_nothing, a_secret_goes_with_its_device,
                a_web_address_is_verified_by_the_first_message_it_takes,
                anonymous_devices_expire_before_their_first_message;
        }
        $crate::store_contract! { @backend $backend,
            resuming: what_was_written_is_there_after_reopening,
                an_adopted_page_knows_what_is_settled, a_claimed_retry_is_free_after_a_restart,
                an_answer_is_replayed_after_reopening, a_number_is_given_once,
                a_held_registration_is_written_at_the_end,
                a_closed_store_refuses;
        }
    };
    (@store $backend:expr, $($file:ident: $($check:ident),*;)*) => {
        $(mod $file {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                let backend = $backend;
                let store = $crate::store::contract::Backend::open(&backend).await;
                $crate::store::contract::$file::$check(&*store).await;
                store.close().await;
            })*
        })*
    };
    (@backend $backend:expr, $($file:ident: $($check:ident),*;)*) => {
        $(mod $file {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                $crate::store::contract::$file::$check(&$backend).await;
            })*
        })*
    };
}
