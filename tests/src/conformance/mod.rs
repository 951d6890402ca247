//! What any API server must do that Modelway runs on: each case is one function over a client and a namespace of its
//! own, so that the embedded API and a real one are judged by the same text.

#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

mod applies;
mod apply_corners;
mod builtins;
mod definitions;
mod deletion;
mod lists;
pub mod manifests;
mod namespaces;
mod objects;
mod owners;
mod patches;
mod promises;
mod support;
mod watches;

use futures::future::BoxFuture;
use kube::Client;

pub use support::Api;

/// One case: panics when the server does otherwise.
pub type Case = fn(Client, String) -> BoxFuture<'static, ()>;

macro_rules! cases {
    ($($module:ident: $($name:ident),+ $(,)?;)+) => {
        /// All cases by name. Each wants an empty namespace whose name is given to it.
        pub const CASES: &[(&str, Case)] = &[
            $($((
                concat!(stringify!($module), "::", stringify!($name)),
                |client, namespace| Box::pin(async move { $module::$name(&Api::new(client, namespace)).await }),
            )),+),+
        ];
    };
}

cases! {
    objects:
        create_fills_what_the_server_owns,
        create_twice_already_exists,
        names_are_checked,
        generated_names_get_a_suffix,
        missing_objects_and_paths_are_not_found,
        stale_replace_conflicts,
        replace_without_revision_wins,
        replace_does_not_create,
        server_metadata_cannot_be_changed,
        unchanged_writes_keep_the_revision,
        dry_run_writes_nothing,
        bodies_are_judged,
        unknown_fields_are_warned_about_or_refused,
        bad_labels_are_invalid,
        metadata_types_are_checked,
        large_bodies_are_refused;
    lists:
        label_selectors_pick,
        field_selectors_pick,
        pages_show_one_moment,
        cluster_wide_lists_span_namespaces,
        tables_have_columns_and_rows,
        partial_metadata_has_no_data;
    watches:
        replays_from_a_revision,
        starts_with_existing_objects,
        streaming_list_ends_with_a_bookmark,
        leaving_a_selector_is_a_delete,
        deleted_events_carry_the_deletion_revision,
        too_old_revisions_are_gone,
        timeouts_end_the_watch,
        controllers_can_follow;
    patches:
        merge_patch_sets_and_removes,
        json_patch_tests_before_it_writes,
        strategic_patch_merges_lists_by_key,
        unknown_patch_types_are_refused,
        patched_revision_is_a_precondition,
        concurrent_patches_all_count;
    applies:
        apply_creates_and_tracks_fields,
        two_managers_share_an_object,
        conflicts_name_manager_and_field,
        force_takes_fields_over,
        dropped_fields_are_removed,
        keyed_lists_merge,
        apply_wants_a_manager,
        repeated_apply_writes_nothing,
        parts_are_owned_apart;
    apply_corners:
        nested_maps_merge_key_by_key,
        shared_fields_stay_until_the_last_owner_leaves,
        ownership_moves_by_sharing_first,
        a_manager_that_leaves_altogether_is_forgotten,
        updates_take_fields_and_applies_conflict_with_them,
        one_name_that_applies_and_updates_is_two_managers,
        empty_maps_are_owned_and_take_nothing_away,
        keyed_elements_are_owned_one_by_one,
        elements_that_are_named_twice_are_refused,
        atomic_lists_and_maps_have_one_owner,
        finalizers_and_owners_merge_across_managers,
        status_managers_share_conditions,
        applied_revisions_are_preconditions,
        applied_dry_runs_write_nothing,
        fields_that_no_schema_knows_are_not_applied,
        force_belongs_to_applies,
        managed_fields_are_not_applied_and_can_be_reset,
        kubectl_moves_from_the_client_to_the_server,
        times_change_with_what_is_owned,
        nulls_in_applies;
    deletion:
        preconditions_guard_a_delete,
        finalizers_hold_an_object,
        terminating_objects_take_no_new_finalizers,
        unscheduled_pods_go_at_once,
        running_pods_wait_for_their_node,
        collections_are_deleted_by_selector,
        evictions_delete;
    owners:
        background_deletes_dependents,
        foreground_waits_for_dependents,
        orphan_releases_dependents,
        one_of_two_owners_is_enough,
        foreign_uid_is_no_owner;
    namespaces:
        creating_in_a_missing_namespace_is_not_found,
        deletion_empties_a_namespace,
        terminating_namespaces_take_nothing_new;
    builtins:
        immutable_config_maps_stay,
        secrets_fold_string_data,
        deployments_have_defaults_generation_and_scale,
        status_and_spec_are_written_apart,
        jobs_select_their_own_pods,
        pods_are_bound_once;
    definitions:
        a_kind_is_served_once_established,
        schemas_default_prune_and_validate,
        rules_are_enforced,
        generation_counts_specs,
        scale_follows_the_paths,
        versions_share_objects,
        taken_names_are_not_accepted,
        deletion_removes_the_objects,
        bad_schemas_are_refused;
    promises:
        watches_resume_where_a_bookmark_left_them,
        continue_tokens_are_judged,
        lists_may_be_bound_to_a_revision,
        initial_events_want_a_matching_rule,
        generations_count_specs_of_built_in_kinds,
        defaults_that_come_back_are_no_new_generation,
        finalizers_are_checked_and_go_in_any_order,
        every_write_can_be_tried_dry,
        unknown_and_double_fields_are_warned_about,
        strict_patches_are_refused_as_patches,
        deletes_are_bound_to_a_revision_too,
        patched_uids_are_preconditions,
        replaced_services_keep_their_addresses,
        budgets_refuse_evictions,
        pods_with_odd_volumes_and_amounts_are_refused,
        namespaces_have_a_default_account,
        strategic_directives_are_obeyed,
        roles_are_kept_under_any_name,
        odd_job_policies_are_refused;
    manifests:
        good_manifests_are_taken,
        bad_manifests_say_what_is_wrong;
}
