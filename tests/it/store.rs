//! The conformance suite of the `Store` trait: what every implementation must do.
//!
//! Each test is a function of a fresh database. [`every_test!`] lists all tests; a backend runs them with one line.

mod access;
mod append;
mod archive;
mod audit;
mod batch;
mod complete;
mod copy;
mod damage;
mod documented;
mod edit;
mod facts;
mod fairness;
mod fences;
mod forget;
mod fork;
mod hammer;
mod hands;
mod inbox;
mod lease;
mod legs;
mod lineage;
pub(crate) mod lineage_scripts;
mod long_run;
mod notes;
mod operate;
mod pending;
mod pieces;
mod pins;
mod planted;
mod postgres;
mod project;
mod protocol;
mod proxy_traffic;
mod queue;
mod reading;
mod recall;
mod recall_postgres;
mod recount;
mod same_window;
mod schedule;
mod schema;
mod seals;
mod sessions;
mod settings;
mod settle;
mod spending;
mod sqlite;
mod steps;
mod upgrades;
mod vectors;
mod verify;
mod versions;
mod views;
pub(crate) mod withdrawals;

use recapd_core::domain::{agent::AgentId, time::Timestamp, work::Lease};
use recapd_store::verify::{AgentReport, Invariant};

use crate::support::{
    backend::{Backend, SqliteBackend},
    conversation::{agent, append as append_request, claim, turns},
};

/// Passes all tests, by area, to `$run`.
macro_rules! every_test {
    ($run:ident!($($backend:tt)*)) => {
        $run! { ($($backend)*)
            append: messages_become_exchanges, a_client_id_is_taken_once, duplicates_change_nothing, another_spelling_is_the_same_message,
                a_replay_keeps_each_message_of_an_id_once,
                a_line_copied_from_another_session_is_known,
                an_empty_append_creates_the_agent, late_messages_continue_behind_the_boundary,
                evictions_are_recorded, low_water_evicts_in_steps, the_newest_turn_stays_even_over_budget,
                zero_disables, the_result_does_not_depend_on_batching, an_eviction_wakes_the_queue, a_batch_has_enough_tokens,
                a_replay_ages_by_the_messages, concurrent_appends_all_count,
                a_key_belongs_to_one_request, a_key_is_kept_for_a_time_only;
            archive: a_history_comes_back_as_it_was, a_history_comes_back_in_chunks, steps_come_back_in_chunks,
                pins_come_back_in_chunks, legs_of_changing_settings_come_back, a_history_restored_in_pieces_gets_its_head_later,
                a_contradicting_history_changes_nothing, a_fork_without_a_record_is_refused,
            a_fork_comes_back_as_it_began, records_come_in_chunks;
            audit: events_are_kept_and_read_newest_first, the_oldest_of_each_kind_go,
                a_deleted_agent_leaves_its_events;
            sessions: a_silence_begins_a_session, an_end_begins_a_session, an_end_and_a_silence_begin_one_session,
                an_end_makes_what_is_pending_urgent, a_session_starts_with_its_first_live_exchange,
                a_cleared_session_starts_behind_its_preamble;
            settings: a_patch_changes_what_it_names, a_patch_before_the_first_message_makes_the_agent, settings_override_the_rules_of_an_append,
                a_raised_budget_brings_pending_exchanges_back, a_raised_budget_brings_back_no_more_than_fits,
                returned_exchanges_leave_at_a_later_time, returned_exchanges_are_not_summarised,
                cleared_exchanges_do_not_come_back,
                a_child_brings_back_only_exchanges_that_it_has, a_rewind_keeps_returned_exchanges,
                an_overflow_is_refused_whole, a_refused_append_takes_no_step, an_overflow_ends_the_session_once,
                an_overflow_is_judged_message_by_message, a_preset_decides_what_is_not_set,
                a_ceiling_in_messages_is_kept, a_child_inherits_all_settings,
                budgets_may_change_at_any_time, budgets_may_change_in_any_life;
            recount: a_change_of_model_recounts_what_is_not_covered, a_recount_enforces_the_budget,
                a_crash_between_two_steps_loses_nothing, changes_during_a_recount_are_respected,
                an_update_in_progress_reads_again, parent_and_child_count_independently,
                after_a_recount_the_window_is_as_in_a_life_with_that_model, calibrations_are_kept;
            batch: a_question_waits_without_a_lease, the_same_state_is_asked_about_once,
                an_urgent_row_is_not_deferred, only_urgency_ends_the_wait, a_lost_lease_defers_nothing,
                a_question_can_be_withdrawn, forgotten_text_is_not_sent, an_operator_ends_the_wait, an_unused_answer_is_accounted_for,
                the_time_of_the_question_counts, an_answer_ends_a_pause, a_batch_takes_the_oldest_within_limits, a_question_from_the_future_waits_no_longer, outdated_questions_are_withdrawn,
                one_caller_looks_at_a_batch, a_clock_set_back_delays_no_look, a_batch_moves_only_from_its_present_state, only_the_holder_moves_a_batch,
                an_answer_is_journalled_and_wakes,
                a_late_answer_is_dropped_and_accounted_for, a_batch_closes_once, ended_batches_are_pruned, batches_are_counted;
            queue: an_enqueue_makes_one_row_and_counts_wakes, an_enqueue_never_shortens_a_backoff,
                an_enqueue_never_shortens_a_lease, an_enqueue_only_raises_urgency, an_enqueue_for_an_unknown_agent_is_refused, claims_go_by_due_time,
                a_low_row_is_not_starved, the_next_due_time_is_known, each_row_is_claimed_once, a_failure_backs_off, a_failure_is_recorded,
                a_parked_row_waits_for_an_operator, an_eviction_revives_at_most_once_in_ten_minutes,
                after_a_third_crash_there_is_one_more_try, the_reconciler_makes_missing_rows_once,
                a_parked_row_is_probed_after_a_while, a_row_parked_by_crashes_comes_back_soon_once,
                an_expired_lease_of_a_live_holder_is_no_crash, an_ended_lease_still_in_its_row_is_given_back, a_wake_during_the_last_attempt_is_served,
                the_reconciler_makes_all_that_are_missing_in_steps;
            fairness: a_flood_of_one_project_holds_nobody_up, two_floods_share_the_claims,
                a_low_row_of_a_project_is_not_starved, a_row_keeps_its_place, failures_and_waits_keep_the_place,
                a_rearmed_row_stands_behind_the_others, rows_made_together_stand_behind_each_other,
                a_crowd_delays_a_row_only_up_to_a_limit, rows_that_do_not_compete_delay_no_others;
            long_run: a_long_exchange_is_kept_in_legs, an_update_has_the_request_of_a_leg, a_rewind_goes_back_into_a_leg,
                a_fork_continues_within_a_leg, a_leg_is_forgotten_alone, an_exchange_from_before_legs_is_cut_from_its_next_round;
            lease: an_expired_lease_is_an_ordinary_claim, a_renewal_returns_the_leases_still_held,
                a_release_counts_no_attempt, leases_of_an_earlier_run_are_reclaimed, a_clock_set_back_delays_nothing, tokens_are_never_used_again,
                the_last_write_does_not_win, a_dead_holder_does_not_block_its_agent;
            protocol: the_protocol_holds;
            fences: a_lost_lease_is_fenced, an_old_version_is_fenced, a_moved_watermark_is_fenced,
                a_boundary_moved_back_is_fenced, set_aside_exchanges_are_fenced, a_replayed_completion_is_fenced,
                more_than_ten_thousand_tokens_are_refused, wrong_coverage_is_refused, items_retire_once;
            complete: parking_resets_the_crashes, an_update_moves_everything_at_once, old_and_new_exchanges_may_share_an_item, a_partial_batch_rearms, a_rest_waits_for_more, a_rest_of_few_tokens_waits_for_more,
                a_rest_of_enough_tokens_is_due,
                an_urgent_wake_during_work_is_served_at_once, a_wake_during_work_is_not_lost,
                ageing_writes_a_version_over_nothing, ageing_is_written_while_the_rest_waits, items_leave_the_document, provisional_items_are_condensed_again, replaced_items_cover_no_more,
                a_parked_update_is_applied, exchanges_evicted_during_the_last_attempt_get_another, material_is_limited, material_includes_gaps,
                an_unknown_agent_has_no_material, answers_are_journalled;
            settle: nothing_pending_settles, set_aside_exchanges_settle, live_exchanges_do_not_settle,
                a_wake_before_the_settlement_is_not_lost;
            recall: messages_are_found_by_words, of_many_words_the_rarest_count, unindexed_messages_are_found_too,
                accents_make_no_difference,
                a_search_is_filtered,
                each_message_is_indexed_once, set_aside_messages_are_not_found,
                a_fork_finds_what_it_inherited_and_nothing_later, an_exchange_is_read_as_it_was,
                a_long_exchange_is_read_in_parts, an_exchange_is_read_without_what_hosts_add,
                messages_too_many_to_search_are_counted;
            vectors: exchanges_are_found_by_their_embeddings, a_claim_is_one_daemons, another_model_begins_anew,
                a_fork_finds_inherited_embeddings_and_nothing_later, set_aside_exchanges_are_not_found_by_embeddings,
                forgotten_messages_have_no_embedding;
            forget: forgotten_text_leaves_no_trace, the_rest_is_summarised_again,
                a_tombstone_keeps_its_place_and_its_time, one_message_is_forgotten_by_itself,
                messages_that_a_fork_does_not_share_stay, forgetting_twice_is_forgetting_once, labels_of_marks_are_forgotten,
                refused_rows_are_forgotten, an_agent_with_only_refused_rows_can_be_deleted,
                unknown_messages_cannot_be_forgotten, an_update_in_progress_does_not_bring_it_back, no_operator_action_brings_forgotten_text_back,
                the_same_message_sent_again_stays_forgotten, an_agent_is_deleted_with_all_that_is_known_of_it,
                a_recount_in_progress_does_not_count_it, any_life_can_be_forgotten_in_parts;
            pieces: a_failure_between_two_steps_leaves_nothing_undone, totals_follow_in_steps, a_fork_inherits_outdated_totals,
                a_large_recount_ends_as_in_a_life_with_that_model, an_agent_being_deleted_is_hidden, many_earlier_texts_go_first,
                steps_end_as_one_does;
            reading: an_agent_is_read_back, agents_come_in_pages, exchanges_are_read_by_range,
                exchanges_are_found_along_the_history_by_tokens, no_more_bytes_are_read_than_asked_for, the_preamble_of_a_later_session_is_read_by_its_place,
                an_exchange_too_big_for_a_page_comes_in_parts, a_context_is_built_from_limited_bytes,
                messages_come_back_verbatim, an_unreadable_message_is_shown_without_content,
                a_summary_names_what_is_pending, pending_exchanges_too_many_to_list_are_counted,
                impossible_data_is_named, a_database_answers, the_last_words_of_speakers_are_read,
                synthetic_messages_are_never_stored;
            steps: a_step_changes_its_summary_once, a_step_drops_withdrawn_items_at_once,
                a_fork_shows_the_document_it_began_with, a_pruned_version_is_replaced;
            spending: a_postponed_update_counts_no_attempt, a_paused_update_says_why_until_it_is_claimed,
                an_update_waiting_for_a_provider_is_resumed, a_refused_update_is_resumed_with_another_key,
                every_cost_counts_as_spent, questions_in_batches_count_as_spent,
                a_question_of_an_earlier_version_is_a_call, questions_older_than_any_batch_do_not_count,
                a_withdrawn_question_ends_a_pause, provisional_items_are_woken_once;
            schedule: a_slot_is_taken_once, a_slot_that_is_not_done_is_taken_again, aged_documents_are_enqueued,
                another_zone_ages_anew, ageing_follows_the_replay, a_parked_row_ages_if_no_model_is_needed,
                a_row_that_cannot_age_is_tried_once_in_ten_minutes,
                old_rows_are_pruned, versions_of_all_agents_are_pruned, the_latest_slot_is_kept, a_sample_counts_everything,
                a_sample_of_very_many_agents_is_an_estimate;
            legs: the_legs_of_an_exchange_are_read, legs_are_inherited_and_set_aside;
            lineage: a_clear_closes_the_session, a_session_that_may_be_resumed_is_not_urgent, a_later_preamble_is_never_summarised, a_clear_of_nothing_leaves_nothing,
                a_rewind_sets_later_exchanges_aside, the_exchange_with_the_mark_stays_whole,
                a_mark_in_the_preamble_leads_to_the_beginning, marks_are_found_by_name_or_the_newest,
                an_unknown_mark_is_refused_when_it_must_be_there, a_rewind_withdraws_items_about_set_aside_exchanges,
                returned_exchanges_are_in_the_window_again, a_rewind_voids_the_lease, a_rewind_keeps_the_budget,
                steps_in_a_batch_are_steps;
            pins: a_pin_outlives_its_exchange_and_a_clear, important_messages_hold_for_their_session,
                a_rewind_to_before_a_message_withdraws_its_pin, a_fork_inherits_pins_and_changes_only_its_own,
                a_pin_that_does_not_fit_is_refused, forgotten_messages_take_no_place_among_the_pins, unknown_messages_cannot_be_pinned,
                the_oldest_important_ones_are_left_out_first, pins_of_missing_messages_are_found;
            notes: a_note_is_written_read_and_deleted, a_change_replaces_the_version_that_it_names, an_agent_has_so_many_notes,
                a_rewind_brings_back_the_versions_before, a_fork_inherits_notes_and_changes_only_its_own,
                a_forgotten_version_takes_its_note_along, notes_come_back_from_a_journal, notes_without_messages_are_found;
            inbox: inserted_rows_wait_in_order, a_row_is_taken_once, an_append_that_fails_leaves_its_rows,
                refused_rows_are_set_aside, inserts_over_a_limit_are_refused_at_once, a_listener_hears_an_insert,
                the_ingestor_appends_what_it_can, a_thousand_rows_keep_their_order, ingestors_share_an_inbox,
                a_speaker_has_a_short_name, an_impossible_time_holds_nobody_up, a_later_row_waits_for_the_earlier_ones_of_its_agent,
                deleting_an_agent_deletes_its_waiting_rows, an_agent_that_fails_holds_nobody_up;
            pending: pending_exchanges_are_shown, a_digest_is_that_of_the_summary, only_pending_exchanges_are_shown,
                exchanges_of_a_held_document_are_not_shown;
            views: views_show_where_messages_stand, views_show_the_effects_of_lineage, views_can_only_be_read,
                half_an_emoji_is_read_as_it_was_sent;
            access: a_token_is_kept_until_it_is_revoked, a_token_remembers_its_last_use, the_number_of_tokens_is_limited,
                a_token_reaches_agents_by_name_and_by_project;
            operate: a_row_shows_its_state_and_what_it_waits_for, the_queue_comes_in_pages,
                an_operator_hastens_waiting_rows, a_cancelled_update_waits_for_an_operator, an_agent_is_paused_until_it_is_resumed,
                one_agents_row_is_claimed_and_no_other, a_resumed_row_gets_no_priority, while_the_queue_is_paused_nothing_is_claimed, the_longest_waiting_agents_come_first, runs_are_listed_newest_first_and_summed_up,
                a_run_that_had_to_wait_is_postponed;
            proxy_traffic: reports_are_added_up_once;
            project: agents_join_and_leave_projects, a_project_reads_the_items_of_its_agents,
                a_stamp_changes_with_every_change_of_a_project, a_project_of_many_agents_shows_the_last_active_ones;
            lineage_scripts: a_replay_ends_where_living_ended;
            fork: inherited_items_stay, a_child_knows_of_earlier_evictions, a_child_begins_where_its_parent_stands, a_fork_before_the_first_word_shares_nothing,
                a_child_needs_a_parent_and_a_new_name, parent_and_child_rewind_independently,
                marks_before_the_watermark_stay_with_the_parent, ancestors_are_walked_once,
                nothing_later_in_the_parent_reaches_the_child, a_child_keeps_the_exchange_that_it_continues,
                a_rewind_keeps_the_exchange_that_it_goes_back_to,
                a_clear_in_the_child_hides_the_parent,
                a_later_clear_or_rewind_of_the_parent_leaves_the_child_alone;
            same_window: memory_and_database_decide_the_same_boundary;
            versions: versions_are_listed_and_read, a_rollback_restores_the_earlier_document,
                a_rollback_brings_back_replaced_and_dropped_items, a_rollback_omits_set_aside_exchanges,
                a_rollback_brings_nothing_forgotten_back, a_rollback_to_an_unknown_version_changes_nothing, an_update_in_progress_comes_too_late,
                a_rebuild_makes_everything_again, a_rebuild_can_be_asked_for_twice_and_given_up,
                a_rebuild_mends_emptied_tables, a_rebuild_of_nothing_needs_no_work,
                a_rebuild_keeps_inherited_items, a_rewind_during_a_rebuild_ends_the_hold;
            edit: items_are_listed, a_new_text_makes_a_new_item, an_edited_item_is_never_condensed_again,
                a_pin_keeps_an_item_in_the_document, impossible_edits_are_refused,
                an_update_in_progress_is_fenced_by_an_edit;
            facts: facts_come_and_go_with_an_update, a_rollback_restores_the_facts_that_held, a_rewind_withdraws_facts,
                a_rebuild_begins_without_facts, a_child_has_its_parents_facts, forgetting_a_source_withdraws_its_facts,
                an_operator_changes_facts, facts_can_only_be_read_by_sql, false_facts_are_found;
            hands: an_operator_may_act_at_any_time;
            damage: every_damage_is_named;
            seals: unsealed_rows_are_sealed_later, a_forgotten_message_leaves_no_salt, any_life_without_seals_is_sealed,
                tokens_are_counted_again, concurrent_writes_are_no_damage;
            verify: everything_together_verifies_clean, an_unknown_agent_cannot_be_verified,
                lost_messages_are_found, torn_exchanges_are_found, a_window_that_does_not_fit_is_found,
                exchanges_in_two_states_are_found, a_document_over_its_ceiling_is_found,
                a_broken_chain_of_versions_is_found, falsified_items_are_found;
            withdrawals: items_count_no_more_before_their_rows_say_so, whoever_changes_items_writes_those_rows_first,
                a_plan_overtaken_by_appends_is_made_again, the_next_daemon_finishes_it;
        }
    };
}

macro_rules! on {
    (($backend:ident, $fresh:path) $($area:ident: $($test:ident),+;)+) => {
        mod $backend {
            $(mod $area {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
                async fn $test() {
                    let db = $fresh().await;
                    super::super::super::$area::$test(&db).await;
                })+
            })+
        }
    };
}

mod run {
    every_test!(on!(on_sqlite, crate::support::backend::SqliteBackend::fresh));
    every_test!(on!(on_postgres, crate::support::backend::PostgresBackend::fresh));

    // Tests of code that treats the table of messages specially.
    on! { (on_partitions, crate::support::backend::PostgresBackend::partitioned)
        append: a_client_id_is_taken_once, duplicates_change_nothing, evictions_are_recorded,
            low_water_evicts_in_steps, concurrent_appends_all_count;
        archive: a_history_comes_back_as_it_was;
        reading: messages_come_back_verbatim;
        verify: everything_together_verifies_clean;
    }
}

/// An agent of which this many exchanges have left the window; the next one fills it.
async fn with_pending(db: &dyn Backend, name: &str, pending: i64) -> AgentId {
    let agent = agent(name);
    let outcome = db.store().append(append_request(&agent, turns(1..=pending + 1))).await.unwrap();
    assert_eq!(outcome.first_exchange, pending + 1);
    agent
}

async fn the_lease(db: &dyn Backend, now: Timestamp) -> Lease {
    let leases = db.store().claim(claim("daemon", 10, now)).await.unwrap();
    let [lease] = leases.try_into().unwrap();
    lease
}

/// Verifies an agent, and asserts that nothing is wrong with it.
pub(crate) async fn clean(db: &dyn Backend, agent: &AgentId) -> AgentReport {
    let report = db.store().verify(agent).await.unwrap();
    assert_eq!(report.breaches, []);
    let unsealed = report.unseen.iter().filter(|unseen| unseen.invariant != Invariant::WindowFits);
    assert_eq!(unsealed.count(), 0, "{:?}", report.unseen);
    report
}
