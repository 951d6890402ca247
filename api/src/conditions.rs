//! Conditions as Kubernetes has them: one per type, the transition time moves only with the status.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::Reason;

/// Longest message that a condition carries; Kubernetes allows 32 KiB, a person reads less.
pub const MESSAGE_MAX: usize = 2_048;

/// Summary condition of every kind.
pub const READY: &str = "Ready";
/// Every predictor has a finished model version.
pub const MODEL_READY: &str = "ModelReady";
/// Every predictor and the router have their replicas.
pub const REPLICAS_READY: &str = "ReplicasReady";
/// The route table says what the spec says.
pub const ROUTES_READY: &str = "RoutesReady";
/// Work is going on.
pub const PROGRESSING: &str = "Progressing";
/// Nothing goes on by itself, somebody has to change something.
pub const STALLED: &str = "Stalled";
/// The spec of a published version was changed.
pub const SPEC_CHANGED: &str = "SpecChanged";

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    True,
    False,
    Unknown,
}

impl State {
    /// The word as it appears in `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for State {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Sets one condition. Its transition time changes only when its status does; other types are untouched.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    state: State,
    reason: Reason,
    message: impl AsRef<str>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let position = conditions.iter().position(|condition| condition.type_ == type_);
    let since = position
        .map(|at| &conditions[at])
        .filter(|old| old.status == state.as_str())
        .map_or_else(|| Time(whole_second(now)), |old| old.last_transition_time.clone());
    let condition = Condition {
        last_transition_time: since,
        message: shortened(message.as_ref(), MESSAGE_MAX),
        observed_generation: generation,
        reason: reason.as_str().to_owned(),
        status: state.as_str().to_owned(),
        type_: type_.to_owned(),
    };
    match position {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Removes a condition that no longer means anything.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

/// The condition of that type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is there and `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// Kubernetes writes times in whole seconds; more would never compare equal after a round trip.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// `text` cut at a character before `max` bytes, with an ellipsis.
pub fn shortened(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max.saturating_sub(3);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut list = Vec::new();
        set(&mut list, READY, State::False, Reason::PredictorStarting, "a", Some(1), at(10));
        set(&mut list, READY, State::False, Reason::PredictorNotReady, "b", Some(2), at(20));
        assert_eq!(list[0].last_transition_time.0, at(10));
        assert_eq!(list[0].reason, "PredictorNotReady");
        set(&mut list, READY, State::True, Reason::Ready, "", Some(2), at(30));
        assert_eq!(list[0].last_transition_time.0, at(30));
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let text = shortened(&"ä".repeat(3_000), MESSAGE_MAX);
        assert!(text.len() <= MESSAGE_MAX && text.ends_with("..."));
    }
}
