//! Connections that leave HTTP (WebSocket): bytes pass both ways until one side ends.

use std::time::Duration;

use http::header::UPGRADE;
use http::request::Parts;
use http::{HeaderValue, Version};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::headers::wants_upgrade;
use crate::upstream::Connections;

/// How long the two sides may take to hand over their connections.
const HANDOVER: Duration = Duration::from_secs(10);

/// A client's wish for another protocol.
pub struct Upgrade {
    /// The protocols it names.
    pub protocol: HeaderValue,
    client: OnUpgrade,
}

impl Upgrade {
    /// Takes the wish out of a request, if there is one. A change to HTTP/2 in clear is not offered.
    pub fn take(parts: &mut Parts) -> Option<Self> {
        let client = parts.extensions.remove::<OnUpgrade>()?;
        if parts.version != Version::HTTP_11 || !wants_upgrade(&parts.headers) {
            return None;
        }
        let protocol = parts.headers.get(UPGRADE)?.clone();
        (!protocol.as_bytes().eq_ignore_ascii_case(b"h2c")).then_some(Self { protocol, client })
    }
}

/// Joins both sides in a task of its own; `held` is dropped at the end.
pub fn spawn<H: Send + 'static>(connections: &Connections, upgrade: Upgrade, upstream: Option<OnUpgrade>, held: H) {
    let kill = connections.kill.clone();
    connections.tasks.spawn(async move {
        let _held = held;
        let Some(upstream) = upstream else { return };
        let both = async { tokio::try_join!(upgrade.client, upstream) };
        let (client, upstream) = match tokio::time::timeout(HANDOVER, both).await {
            Ok(Ok(both)) => both,
            Ok(Err(error)) => return tracing::debug!(%error, "protocol change failed"),
            Err(_) => return tracing::debug!("protocol change did not come about"),
        };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {}
            () = kill.cancelled() => {}
        }
    });
}
