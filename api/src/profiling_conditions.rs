//! Conditions of experiments and trials: a list in the order of their lives, whose last is the state.

use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Reason,
    conditions::{MESSAGE_MAX, READY, State, shortened, whole_second},
    schemas,
};

/// The object is known.
pub const CREATED: &str = "Created";
/// It waits for its service.
pub const PENDING: &str = "Pending";
/// It is at work.
pub const RUNNING: &str = "Running";
/// It ended well.
pub const SUCCEEDED: &str = "Succeeded";
/// It ended otherwise.
pub const FAILED: &str = "Failed";
/// Somebody ended it.
pub const KILLED: &str = "Killed";

/// The order of a life; the summary comes first, so that the last one is the state.
const ORDER: [&str; 7] = [READY, CREATED, PENDING, RUNNING, SUCCEEDED, FAILED, KILLED];

/// One condition of an experiment or a trial.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfilingCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    #[schemars(length(max = 64))]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[schemars(length(max = 16))]
    pub status: String,
    /// One stable word for the cause.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub reason: String,
    /// The cause for people, and what to do.
    #[serde(default)]
    #[schemars(length(max = 2048))]
    pub message: String,
    /// When anything of it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::time")]
    pub last_update_time: Option<String>,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::time")]
    pub last_transition_time: Option<String>,
}

/// Sets one condition at its place; times move only when something does.
pub fn set(
    list: &mut Vec<ProfilingCondition>,
    type_: &str,
    state: State,
    reason: Reason,
    message: &str,
    now: Timestamp,
) {
    let time = Some(whole_second(now).to_string());
    let (status, reason) = (state.as_str().to_owned(), reason.as_str().to_owned());
    let message = shortened(message, MESSAGE_MAX);
    let before = list.iter().find(|condition| condition.type_ == type_);
    if before.is_some_and(|before| (&before.status, &before.reason, &before.message) == (&status, &reason, &message)) {
        return;
    }
    let same = before.filter(|before| before.status == status);
    let last_transition_time = same.map_or_else(|| time.clone(), |same| same.last_transition_time.clone());
    let condition = ProfilingCondition {
        type_: type_.to_owned(),
        status,
        reason,
        message,
        last_update_time: time,
        last_transition_time,
    };
    list.retain(|condition| condition.type_ != type_);
    list.push(condition);
    list.sort_by_key(|condition| ORDER.iter().position(|type_| *type_ == condition.type_));
}

/// Whether the condition of that type is there and `True`.
pub fn is_true(list: &[ProfilingCondition], type_: &str) -> bool {
    list.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Whether the life is over.
pub fn is_over(list: &[ProfilingCondition]) -> bool {
    [SUCCEEDED, FAILED, KILLED].iter().any(|type_| is_true(list, type_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_condition_is_the_state_whatever_the_order_of_writing() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut list = Vec::new();
        set(&mut list, CREATED, State::True, Reason::Settled, "", at(1));
        set(&mut list, RUNNING, State::True, Reason::Updating, "", at(2));
        set(&mut list, SUCCEEDED, State::True, Reason::Settled, "", at(3));
        set(&mut list, READY, State::True, Reason::Settled, "", at(3));
        set(&mut list, RUNNING, State::False, Reason::Settled, "", at(3));
        let types: Vec<&str> = list.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, [READY, CREATED, RUNNING, SUCCEEDED]);
        assert!(is_over(&list));
    }

    #[test]
    fn times_move_with_what_they_are_of() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut list = Vec::new();
        set(&mut list, PENDING, State::True, Reason::Updating, "a", at(1));
        set(&mut list, PENDING, State::True, Reason::Updating, "a", at(2));
        assert_eq!(list[0].last_update_time, Some(at(1).to_string()));
        set(&mut list, PENDING, State::True, Reason::Updating, "b", at(3));
        assert_eq!(list[0].last_update_time, Some(at(3).to_string()));
        assert_eq!(list[0].last_transition_time, Some(at(1).to_string()));
    }
}
