//! Whether this process may write, asked at the last moment before each write.

use tokio::{sync::watch, time::Instant};

/// What this process is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lead {
    /// There is no election: it is the only one.
    Always,
    /// The leader, until that time unless the lease is renewed.
    Until(Instant),
    /// Somebody else leads, or nobody.
    Standby,
}

impl Lead {
    /// Whether writes may begin now.
    pub fn may_write(self, now: Instant) -> bool {
        match self {
            Self::Always => true,
            Self::Until(until) => until > now,
            Self::Standby => false,
        }
    }
}

/// A view of the election. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Lead>);

/// This process does not lead.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("this process does not lead; the leader does the work")]
pub struct NotLeading;

impl Leadership {
    /// Without an election.
    pub fn always() -> Self {
        Self(watch::channel(Lead::Always).1)
    }

    /// With an election, which tells through the sender.
    pub fn elected() -> (watch::Sender<Lead>, Self) {
        let (sender, receiver) = watch::channel(Lead::Standby);
        (sender, Self(receiver))
    }

    /// The end of the time in which a write may be under way; `None` when there is none.
    pub fn permit(&self, now: Instant) -> Result<Option<Instant>, NotLeading> {
        match *self.0.borrow() {
            Lead::Always => Ok(None),
            Lead::Until(until) if until > now => Ok(Some(until)),
            Lead::Until(_) | Lead::Standby => Err(NotLeading),
        }
    }

    /// Waits until this process leads.
    pub async fn leading(&mut self) {
        loop {
            if self.0.borrow_and_update().may_write(Instant::now()) {
                return;
            }
            self.change().await;
        }
    }

    /// Waits until this process no longer leads.
    pub async fn lost(&mut self) {
        loop {
            let lead = *self.0.borrow_and_update();
            match lead {
                Lead::Always => std::future::pending().await,
                Lead::Until(until) if until > Instant::now() => {
                    // The time may run out without a word from the election.
                    _ = tokio::time::timeout_at(until, self.change()).await;
                }
                Lead::Until(_) | Lead::Standby => return,
            }
        }
    }

    async fn change(&mut self) {
        if self.0.changed().await.is_err() {
            // The election has ended: what it said last holds.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_end_before_the_lease_does() {
        let (sender, mut leadership) = Leadership::elected();
        assert_eq!(leadership.permit(Instant::now()), Err(NotLeading));
        let until = Instant::now() + Duration::from_secs(10);
        sender.send_replace(Lead::Until(until));
        leadership.leading().await;
        assert_eq!(leadership.permit(Instant::now()), Ok(Some(until)));
        leadership.lost().await;
        assert_eq!(leadership.permit(Instant::now()), Err(NotLeading));
        assert!(Instant::now() >= until);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_no_loss() {
        let (sender, mut leadership) = Leadership::elected();
        sender.send_replace(Lead::Until(Instant::now() + Duration::from_secs(1)));
        let mut other = leadership.clone();
        let lost = tokio::spawn(async move { other.lost().await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        sender.send_replace(Lead::Until(Instant::now() + Duration::from_secs(10)));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!lost.is_finished());
        leadership.leading().await;
        sender.send_replace(Lead::Standby);
        lost.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_election_it_leads_for_ever() {
        let mut leadership = Leadership::always();
        leadership.leading().await;
        assert_eq!(leadership.permit(Instant::now()), Ok(None));
        assert!(tokio::time::timeout(Duration::from_hours(1), leadership.lost()).await.is_err());
    }
}
