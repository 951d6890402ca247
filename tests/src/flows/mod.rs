//! Flows through all components, each one function over a client: the same on every platform that runs pods.

mod faults;
mod load;
mod profiling;
mod scaling;
mod serve;
mod support;

pub use faults::{
    a_failed_job_is_no_version, a_model_that_cannot_load_leaves_traffic_on_the_old_one, an_empty_output_is_no_version,
    bad_inferences_say_what_is_wrong, names_at_their_limits_work_and_children_that_collide_are_named,
};
pub use load::{Load, Report};
pub use profiling::{
    a_deleted_experiment_leaves_nothing, a_live_predictor_gets_a_better_spec, a_morphling_experiment_runs_as_it_is,
    a_trial_stands_alone, an_experiment_keeps_to_its_time, gpus_are_candidates_with_a_price,
    instance_types_are_candidates_with_a_price,
};
pub use scaling::{
    a_horizontal_pod_autoscaler_keeps_its_number, a_predictor_sleeps_wakes_and_follows_its_load,
    another_scaler_owns_the_number, no_quota_for_waking_is_told_and_loses_nobody,
    no_room_for_waking_is_told_and_loses_nobody, one_that_never_wakes_ends_the_wait,
};
pub use serve::publishes_serves_reweights_and_rolls;
pub use support::{Flow, Images, condition};
