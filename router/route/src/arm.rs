//! Forward, hold or fail over: what happens to a request whose arm is known.

use std::time::Duration;

use modelway_api::route_table::ArmState;

use crate::split::{ArmIndex, Order};

/// How long a request waits for an arm that should have endpoints: the gap of a rolling update is shorter, and a client
/// waits that long without giving up.
pub const ACTIVE_HOLD: Duration = Duration::from_secs(5);

/// An arm at this moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ArmNow {
    /// What the controller says.
    pub state: ArmState,
    /// Whether an endpoint could take a request.
    pub ready: bool,
}

impl ArmNow {
    /// Whether the arm should have endpoints and has none.
    pub fn lacks_endpoints(self) -> bool {
        self.state == ArmState::Active && !self.ready
    }
}

/// How a request stands that may have to wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waiting {
    /// Since it came.
    pub in_all: Duration,
    /// Since its arm was [`ArmNow::lacks_endpoints`] without a break: an arm that becomes active shows its endpoints a
    /// moment later, and a request that has waited long for it must not leave it in that moment.
    pub lacking: Duration,
    /// Whether it may be sent when the arm can answer; else others that came before it go first.
    pub turn: bool,
}

/// What to do now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    /// Send it to this arm.
    Forward(ArmIndex),
    /// The assigned arm cannot answer: send it to this one, and count it against the assigned one.
    FailOver(ArmIndex),
    /// Wait until something changes, or until it has waited this long in all.
    Hold(Duration),
    /// Nothing can answer.
    Refuse(Refusal),
}

/// Why nothing can answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// Every arm has weight 0.
    NoWeight,
    /// The arm never became ready within the hold limit.
    HoldExpired,
    /// The arm answers, and the turn of the request did not come within the hold limit.
    TurnExpired,
    /// Neither the arm nor one to fail over to has an endpoint.
    NoEndpoint,
}

/// Decides from the arms' states and how the request stands; `max_age` bounds the wait in all.
pub fn decide(order: &Order, now: impl Fn(ArmIndex) -> ArmNow, waiting: Waiting, max_age: Duration) -> Decision {
    let Some(assigned) = order.first() else {
        return Decision::Refuse(Refusal::NoWeight);
    };
    let arm = now(assigned);
    let fail_over = || {
        let mut others = order.arms()[1..].iter().copied();
        let next = others.find(|other| now(*other).ready && now(*other).state != ArmState::Broken);
        next.map_or(Decision::Refuse(Refusal::NoEndpoint), Decision::FailOver)
    };
    let limit = match arm.state {
        ArmState::Broken => return fail_over(),
        _ if arm.ready && waiting.turn => return Decision::Forward(assigned),
        ArmState::Active if !arm.ready => max_age.min((waiting.in_all + ACTIVE_HOLD).saturating_sub(waiting.lacking)),
        ArmState::Active | ArmState::Starting | ArmState::Asleep => max_age,
    };
    if waiting.in_all < limit {
        return Decision::Hold(limit);
    }
    match (arm.state, fail_over()) {
        _ if arm.ready => Decision::Refuse(Refusal::TurnExpired),
        (ArmState::Starting | ArmState::Asleep, Decision::Refuse(_)) => Decision::Refuse(Refusal::HoldExpired),
        (_, decision) => decision,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_AGE: Duration = Duration::from_mins(1);

    fn waited(seconds: u64, lacking: u64, turn: bool) -> Waiting {
        Waiting { in_all: Duration::from_secs(seconds), lacking: Duration::from_secs(lacking), turn }
    }

    fn order() -> Order {
        let splitter = crate::split::Splitter::new(&crate::RouteKey::new([0; 16]), "");
        splitter.order(b"unit", [("a", 1_000_000), ("b", 1)].into_iter())
    }

    fn decided(first: (ArmState, bool), second: (ArmState, bool), waiting: Waiting) -> Decision {
        let order = order();
        let arms = [first, second].map(|(state, ready)| ArmNow { state, ready });
        let now = |arm: ArmIndex| arms[order.arms().iter().position(|known| *known == arm).expect("an arm")];
        decide(&order, now, waiting, MAX_AGE)
    }

    fn with(first: (ArmState, bool), second: (ArmState, bool), seconds: u64) -> Decision {
        decided(first, second, waited(seconds, seconds, true))
    }

    #[test]
    fn follows_the_states() {
        use ArmState::{Active, Asleep, Broken, Starting};
        let [first, second] = [order().arms()[0], order().arms()[1]];
        assert_eq!(with((Active, true), (Active, true), 0), Decision::Forward(first));
        assert_eq!(with((Asleep, true), (Active, true), 0), Decision::Forward(first));
        assert_eq!(with((Active, false), (Active, true), 4), Decision::Hold(ACTIVE_HOLD));
        assert_eq!(with((Active, false), (Active, true), 5), Decision::FailOver(second));
        assert_eq!(with((Active, false), (Active, false), 5), Decision::Refuse(Refusal::NoEndpoint));
        assert_eq!(with((Starting, false), (Active, true), 59), Decision::Hold(MAX_AGE));
        assert_eq!(with((Starting, false), (Active, true), 60), Decision::FailOver(second));
        assert_eq!(with((Asleep, false), (Active, false), 60), Decision::Refuse(Refusal::HoldExpired));
        assert_eq!(with((Broken, true), (Active, true), 0), Decision::FailOver(second));
        assert_eq!(with((Broken, true), (Broken, true), 0), Decision::Refuse(Refusal::NoEndpoint));
    }

    #[test]
    fn an_arm_that_has_just_become_active_keeps_the_requests_that_waited_for_it() {
        use ArmState::Active;
        let [other, lacking] = [(Active, true), (Active, false)];
        let until = Duration::from_secs(40) + ACTIVE_HOLD;
        assert_eq!(decided(lacking, other, waited(40, 0, true)), Decision::Hold(until));
        assert_eq!(decided(lacking, other, waited(44, 4, true)), Decision::Hold(until));
        assert_eq!(decided(lacking, other, waited(45, 5, true)), Decision::FailOver(order().arms()[1]));
        assert_eq!(decided(lacking, other, waited(58, 1, true)), Decision::Hold(MAX_AGE), "the age limit stands");
        assert_eq!(decided(lacking, other, waited(60, 2, true)), Decision::FailOver(order().arms()[1]));
    }

    #[test]
    fn a_request_whose_turn_has_not_come_waits_for_its_arm_alone() {
        let ready = (ArmState::Active, true);
        assert_eq!(decided(ready, ready, waited(0, 0, false)), Decision::Hold(MAX_AGE));
        assert_eq!(decided(ready, ready, waited(60, 0, false)), Decision::Refuse(Refusal::TurnExpired));
        assert_eq!(decided(ready, ready, waited(60, 0, true)), Decision::Forward(order().arms()[0]));
    }

    #[test]
    fn a_rule_never_fails_over_and_no_weight_is_refused() {
        let broken = |_| ArmNow { state: ArmState::Broken, ready: true };
        let only = Order::only(order().arms()[0]);
        let waiting = waited(0, 0, true);
        assert_eq!(decide(&only, broken, waiting, MAX_AGE), Decision::Refuse(Refusal::NoEndpoint));
        let splitter = crate::split::Splitter::new(&crate::RouteKey::new([0; 16]), "");
        let none = splitter.order(b"unit", [("a", 0)].into_iter());
        assert_eq!(decide(&none, broken, waiting, MAX_AGE), Decision::Refuse(Refusal::NoWeight));
    }
}
