//! One watch per kind, shared by all controllers.

use std::sync::Arc;

use futures::StreamExt;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio_util::sync::CancellationToken;

use crate::hub::{Hub, Watched};

/// Feeds the hub from the watch until the token is cancelled; a broken watch is opened again with backoff.
pub(crate) async fn inform<K: Watched>(hub: Arc<Hub>, token: CancellationToken) {
    let api: Api<K> = Api::all(hub.client.clone());
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    loop {
        let event = tokio::select! {
            () = token.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            Some(Ok(event)) => {
                let listed = matches!(event, watcher::Event::InitDone);
                hub.feed::<K>(event);
                if listed {
                    hub.listed.send_replace(());
                }
            }
            Some(Err(error)) => tracing::warn!(kind = %K::kind(&()), %error, "watch interrupted; it is opened again"),
            None => return,
        }
    }
}
