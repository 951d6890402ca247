//! Who leads, by a Lease: what was seen and the local clock in, the next step out.
//!
//! Clocks of different machines are never compared. A candidate measures with its own clock how long a claim has stayed
//! unchanged; a leader stops on its own clock well before anybody else may take the lease.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// A claim of somebody else is believed no longer than that, whatever it says.
const LEASE_MAX: Duration = Duration::from_mins(5);

/// How long claims hold and how often they are renewed.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Others leave an unchanged claim alone for that long.
    pub lease: Duration,
    /// The leader stops when it could not renew for that long. Less than `lease`, by what a write may be under way.
    pub renew: Duration,
    /// Time between two tries.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

/// What a Lease says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Claim {
    /// Who leads; empty when nobody does.
    pub holder: String,
    pub lease_seconds: i32,
    pub acquired: Option<Timestamp>,
    pub renewed: Option<Timestamp>,
    /// How often the holder has changed.
    pub transitions: i32,
}

/// A claim as the API server has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    pub claim: Claim,
    /// The version that a write must be made for.
    pub version: String,
}

/// What to do next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Nothing before that time.
    Wait(Instant),
    /// Read the Lease.
    Read,
    /// Write the claim over that version; create the Lease when there is none.
    Write { claim: Claim, version: Option<String> },
}

/// Why a call brought nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// Somebody else wrote first.
    Conflict,
    /// No answer, or one that says nothing about the Lease.
    Unknown,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Wait(Instant),
    Read,
    Write,
}

/// One candidate.
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    timing: Timing,
    /// What the Lease said last, and when that was new by the local clock. `None` when there is no Lease.
    seen: Option<(Record, Instant)>,
    /// Since when a Lease that was there is missing: whoever held it may not know yet.
    missing_since: Option<Instant>,
    /// Whether a write over the version seen last may succeed, as far as is known.
    is_current: bool,
    /// A create was sent and never answered. It names no version, so it may still arrive when the Lease is deleted
    /// once more, whoever has led in between.
    may_be_created_late: bool,
    next: Next,
    leading_until: Option<Instant>,
}

impl Election {
    /// A candidate that has seen nothing yet. Identities must differ between candidates.
    pub fn new(identity: impl Into<String>, timing: Timing) -> Self {
        Self {
            identity: identity.into(),
            timing,
            seen: None,
            missing_since: None,
            is_current: false,
            may_be_created_late: false,
            next: Next::Read,
            leading_until: None,
        }
    }

    /// What to do now.
    pub fn step(&self, now: Instant, wall: Timestamp) -> Step {
        match self.next {
            Next::Wait(until) if until > now => Step::Wait(until),
            // A leader knows the version that it wrote last and need not read it again.
            Next::Wait(_) if !self.is_mine() || self.is_doubtful(now) || !self.is_current => Step::Read,
            Next::Wait(_) | Next::Write => Step::Write {
                claim: self.claim(wall),
                version: self.seen.as_ref().map(|(record, _)| record.version.clone()),
            },
            Next::Read => Step::Read,
        }
    }

    /// Takes in what a read found. `jitter` in 0..1 keeps candidates from reading in step.
    pub fn read(&mut self, now: Instant, found: Result<Option<Record>, Failure>, jitter: f64) {
        let Ok(found) = found else {
            self.next = Next::Wait(now + self.pause(jitter));
            return;
        };
        self.see(found, now);
        if !self.is_mine() {
            self.leading_until = None;
        }
        self.next = match self.free_at(now) {
            Some(free) if free > now => Next::Wait(free.min(now + self.pause(jitter))),
            _ => Next::Write,
        };
    }

    /// Takes in the answer to a write that was sent at `sent`.
    pub fn wrote(&mut self, sent: Instant, now: Instant, answer: Result<Record, Failure>, jitter: f64) {
        self.next = Next::Wait(now + self.pause(jitter));
        match answer {
            Ok(record) => {
                self.see(Some(record), now);
                // Counted from before the write: others count from after it.
                self.leading_until = self.is_mine().then(|| sent + self.timing.renew);
            }
            Err(Failure::Unknown) if self.seen.is_none() => {
                self.may_be_created_late = true;
                self.is_current = false;
            }
            // A leader must know at once who won; until then its time runs on.
            Err(Failure::Conflict) if self.is_leading(now) => self.next = Next::Read,
            Err(Failure::Unknown) if self.is_leading(now) => self.next = Next::Wait(now + self.pause(jitter) / 4),
            Err(Failure::Conflict | Failure::Unknown) => self.is_current = false,
        }
    }

    /// The claim that gives the lease up, when this candidate holds it.
    pub fn release(&mut self, wall: Timestamp) -> Option<Step> {
        self.leading_until = None;
        let (record, _) = self.seen.as_ref().filter(|(record, _)| record.claim.holder == self.identity)?;
        let claim = Claim {
            holder: String::new(),
            lease_seconds: 1,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: record.claim.transitions,
        };
        Some(Step::Write { claim, version: Some(record.version.clone()) })
    }

    /// Until when this candidate may act as the leader, by its own clock.
    pub fn leading_until(&self) -> Option<Instant> {
        self.leading_until
    }

    /// Who held the lease when it was last seen; empty for nobody.
    pub fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |(record, _)| record.claim.holder.as_str())
    }

    fn is_leading(&self, now: Instant) -> bool {
        self.leading_until.is_some_and(|until| until > now)
    }

    fn is_mine(&self) -> bool {
        self.holder() == self.identity
    }

    /// Whether a claim of its own says nothing: it may have come late, while somebody else leads and does not know yet.
    fn is_doubtful(&self, now: Instant) -> bool {
        self.may_be_created_late && !self.is_leading(now)
    }

    fn see(&mut self, found: Option<Record>, now: Instant) {
        self.is_current = true;
        self.missing_since = match (&found, &self.seen) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(now),
            (None, None) => self.missing_since,
        };
        self.seen = found.map(|record| {
            let since = match &self.seen {
                Some((before, since)) if before.claim == record.claim => *since,
                _ => now,
            };
            (record, since)
        });
    }

    /// When the lease may be taken; `None` when it may be now.
    fn free_at(&self, now: Instant) -> Option<Instant> {
        let Some((record, since)) = &self.seen else {
            return self.missing_since.map(|since| since + self.timing.lease);
        };
        let claim = &record.claim;
        if claim.holder.is_empty() || (self.is_mine() && !self.is_doubtful(now)) {
            return None;
        }
        let said = Duration::from_secs(u64::try_from(claim.lease_seconds).unwrap_or(0));
        Some(*since + said.clamp(self.timing.lease, LEASE_MAX.max(self.timing.lease)))
    }

    fn claim(&self, wall: Timestamp) -> Claim {
        let before = self.seen.as_ref().map(|(record, _)| &record.claim);
        let kept = before.filter(|claim| claim.holder == self.identity);
        let transitions = before.map_or(0, |claim| claim.transitions.saturating_add(1));
        Claim {
            holder: self.identity.clone(),
            lease_seconds: i32::try_from(self.timing.lease.as_secs()).unwrap_or(i32::MAX).max(1),
            acquired: kept.map_or(Some(wall), |claim| claim.acquired),
            renewed: Some(wall),
            transitions: kept.map_or(transitions, |claim| claim.transitions),
        }
    }

    /// The time between two tries, up to a tenth longer.
    fn pause(&self, jitter: f64) -> Duration {
        self.timing.retry.mul_f64(1.0 + 0.1 * jitter.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests;
