//! Objects that are made once for a trial, and never changed.

use modelway_api::{Reason, labels, trial::TrialFailure};
use serde_json::Value;

use super::ended::{Ended, Trouble};
use crate::{
    context::Context,
    json as read,
    manifest::{REFUSED_AGAIN_AFTER, annotate},
    plan::{Action, Plan},
    refusal,
    world::{Key, Kind},
};

/// Whether it is on its way out: it was made for an earlier Trial of that name.
fn is_leaving(live: &Value, trial: &Value) -> bool {
    let mut owners = read::items(live, "/metadata/ownerReferences");
    let is_earlier =
        |owner: &Value| owner["kind"] == Kind::Trial.as_str() && owner["name"] == trial["metadata"]["name"];
    read::is_deleted(live) || owners.any(is_earlier)
}

/// Plans to create an object that is not there. What the API server refuses for good ends the trial.
pub fn create_once(plan: &mut Plan, cx: &Context, trial: &Value, mut desired: Value) -> Result<Option<Trouble>, Ended> {
    let applied = read::hash(&desired);
    annotate(&mut desired, labels::APPLIED, &applied);
    let key = Key::of(&desired).expect("a planned manifest has kind and name");
    if let Some(live) = cx.world.object(&key) {
        if read::is_controlled_by(live, read::uid(trial)) {
            return Ok(None);
        }
        let message = format!("{key} exists and belongs to somebody else: delete it, or rename the Trial");
        if is_leaving(live, trial) {
            return Ok(Some(Trouble::of(Reason::NameTaken, message)));
        }
        return Err(Ended::new(TrialFailure::Infrastructure, Reason::NameTaken, message));
    }
    let Some(rejection) = cx.world.rejection(&key).filter(|rejection| rejection.applied == applied) else {
        plan.push(Action::Create(desired));
        return Ok(None);
    };
    let reason = refusal::reason(&rejection.message);
    let message = format!("{key} was refused: {}{}", rejection.message, refusal::advice(reason));
    if !rejection.may_pass {
        return Err(Ended::new(TrialFailure::Unschedulable, reason, message));
    }
    match cx.left(rejection.at, REFUSED_AGAIN_AFTER) {
        Some(left) => plan.look_again(left),
        None => plan.push(Action::Create(desired)),
    }
    Ok(Some(Trouble::of(reason, message)))
}
