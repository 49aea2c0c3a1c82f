//! The store, the same cases on each engine: SQLite in a file, PostgreSQL where
//! one is found.

#![allow(missing_docs, unreachable_pub)]

mod conversations;
mod door;
mod migration;
#[path = "../support/postgres.rs"]
mod postgres;
mod recorder;
mod rounds;
mod shared;
mod tls;
mod turns;
mod watching;

use std::sync::Arc;

use a11_grpc::interaction::store::{Store, open};
use futures::future::BoxFuture;

type Case = (&'static str, fn(Arc<dyn Store>) -> BoxFuture<'static, ()>);

/// Each case is a test of its own on SQLite, and one of a list on PostgreSQL.
macro_rules! cases {
    ($($module:ident: $($name:ident),* ;)*) => {
        mod sqlite {
            $($(
                #[tokio::test]
                async fn $name() {
                    let folder = tempfile::tempdir().expect("a folder");
                    let store = super::open_file(&folder).await;
                    super::$module::$name(store).await;
                }
            )*)*
        }

        const CASES: &[Case] =
            &[$($((stringify!($name), |store| Box::pin($module::$name(store))),)*)*];
    };
}

cases! {
    conversations:
        what_was_appended_is_returned_as_the_bytes_it_came_as,
        the_same_interaction_again_is_the_same_record,
        another_interaction_of_an_id_is_refused,
        what_an_interaction_follows_must_be_in_the_conversation,
        a_page_ends_with_its_count_or_its_bytes,
        forks_are_listed_with_what_follows,
        conversations_are_listed_by_name,
        a_deleted_conversation_is_gone_and_can_begin_anew,
        names_and_ids_of_any_script_are_kept_apart,
        writers_of_one_conversation_get_positions_without_gaps,
        an_export_imports_as_the_same_bytes,
        foreign_lines_are_imported_and_a_bad_one_is_named;
    door:
        what_is_kept_is_read_back_and_the_rest_is_refused_at_the_door,
        the_largest_interaction_is_handed_out_in_every_form,
        forks_are_listed_a_page_at_a_time;
    watching:
        a_watcher_gets_what_is_there_and_then_what_comes,
        a_watch_resumes_and_ends_with_the_conversation;
    rounds:
        a_round_is_held_by_one_until_its_lease_is_over,
        what_had_begun_is_found_by_the_next_holder,
        a_finished_round_stays_as_it_is,
        a_round_goes_with_its_conversation;
    recorder:
        a_turn_asked_for_again_gets_the_same_results_and_runs_nothing,
        a_second_caller_waits_for_the_running_calls,
        a_call_that_was_cut_off_is_unknown_and_an_idempotent_one_runs_again,
        a_call_that_had_ended_before_a_crash_keeps_its_result,
        a_caller_that_leaves_cancels_the_calls_and_every_call_has_a_result,
        a_runner_that_lost_its_lease_records_nothing,
        the_idempotency_key_reaches_the_handler_and_no_nested_call;
}

async fn open_file(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    let path = folder.path().join("store.db");
    open(path.to_str().expect("a path in UTF-8")).await.expect("the store opens")
}

#[tokio::test]
async fn postgres_passes_the_same_cases() {
    let Some(server) = postgres::Server::start() else { return };
    for (name, case) in CASES {
        println!("{name}");
        let store = open(&server.fresh_url(name).await).await.expect("the store opens");
        case(store).await;
    }
}
