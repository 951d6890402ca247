//! The endpoints behind one Service port, and the choice of one for a new connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::Rng;

/// One endpoint with its open connections.
#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    open: Arc<AtomicUsize>,
}

impl Backend {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, open: Arc::default() }
    }

    /// Counts a connection for as long as the guard lives.
    pub(crate) fn enter(&self) -> OpenGuard {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenGuard(self.open.clone())
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

pub(crate) struct OpenGuard(Arc<AtomicUsize>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The endpoints of one Service port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backends {
    ready: Vec<Backend>,
    /// On their way out, but still answering.
    draining: Vec<Backend>,
}

impl Backends {
    /// The same endpoints keep their counts of open connections.
    pub(crate) fn update(&self, ready: &[SocketAddr], draining: &[SocketAddr]) -> Self {
        let known = |address: &SocketAddr| {
            let all = self.ready.iter().chain(&self.draining);
            all.clone().find(|backend| backend.address == *address).cloned().unwrap_or_else(|| Backend::new(*address))
        };
        Self { ready: ready.iter().map(known).collect(), draining: draining.iter().map(known).collect() }
    }

    /// Two random ready endpoints that were not tried yet, the one with fewer connections; then draining ones.
    pub(crate) fn pick(&self, tried: &[SocketAddr], rng: &mut impl Rng) -> Option<Backend> {
        choose(&self.ready, tried, rng).or_else(|| choose(&self.draining, tried, rng))
    }
}

fn choose(backends: &[Backend], tried: &[SocketAddr], rng: &mut impl Rng) -> Option<Backend> {
    if tried.is_empty() && backends.len() > 1 {
        let first = rng.random_range(0..backends.len());
        let second = (first + rng.random_range(1..backends.len())) % backends.len();
        let (first, second) = (&backends[first], &backends[second]);
        return Some(if second.open() < first.open() { second } else { first }.clone());
    }
    let fresh = backends.iter().filter(|backend| !tried.contains(&backend.address));
    fresh.min_by_key(|backend| backend.open()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn address(n: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, n], 80))
    }

    #[test]
    fn prefers_ready_endpoints_and_falls_back_to_draining_ones() {
        let mut rng = StdRng::seed_from_u64(1);
        let backends = Backends::default().update(&[address(1)], &[address(2)]);
        assert_eq!(backends.pick(&[], &mut rng).unwrap().address, address(1));
        assert_eq!(backends.pick(&[address(1)], &mut rng).unwrap().address, address(2));
        assert!(backends.pick(&[address(1), address(2)], &mut rng).is_none());
        let only_draining = backends.update(&[], &[address(2)]);
        assert_eq!(only_draining.pick(&[], &mut rng).unwrap().address, address(2));
    }

    #[test]
    fn spreads_by_open_connections_and_keeps_counts_over_updates() {
        let mut rng = StdRng::seed_from_u64(2);
        let backends = Backends::default().update(&[address(1), address(2)], &[]);
        let busy = backends.ready[0].enter();
        let _guards: Vec<_> = (0..5).map(|_| backends.ready[0].enter()).collect();
        let updated = backends.update(&[address(1), address(2)], &[]);
        for _ in 0..20 {
            assert_eq!(updated.pick(&[], &mut rng).unwrap().address, address(2));
        }
        drop(busy);
        assert_eq!(updated.ready[0].open(), 5);
    }

    #[test]
    fn load_stays_even() {
        let mut rng = StdRng::seed_from_u64(3);
        let backends = Backends::default().update(&[1, 2, 3, 4].map(address), &[]);
        let guards: Vec<_> = (0..400).map(|_| backends.pick(&[], &mut rng).unwrap().enter()).collect();
        assert_eq!(guards.len(), 400);
        assert!(backends.ready.iter().all(|backend| (95..=105).contains(&backend.open())));
    }
}
