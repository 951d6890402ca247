//! Whether the watched namespaces are on their way out, asked by name: listing namespaces needs rights on all of them.

use std::time::Duration;

use kube::{Api, Client, api::DynamicObject};
use modelway_plan::{Key, Kind};

use crate::{
    informer::{resource, value},
    jitter::jittered,
    store::Store,
    trim,
};

/// Time between two looks at one namespace.
const EVERY: Duration = Duration::from_mins(1);
/// Namespaces that may not be read are asked about that seldom.
const FORBIDDEN: Duration = Duration::from_hours(1);

/// Looks at one namespace for ever.
pub async fn follow(client: Client, namespace: String, store: Store) {
    let api: Api<DynamicObject> = Api::all_with(client, &resource(Kind::Namespace));
    loop {
        let wait = match api.get_metadata_opt(&namespace).await {
            Ok(Some(live)) => {
                let kept = trim::trim(Kind::Namespace, value(Kind::Namespace, &live));
                if let Some(kept) = kept {
                    store.put(kept);
                }
                EVERY
            }
            Ok(None) => {
                store.remove(&Key::new(Kind::Namespace, "", &namespace));
                EVERY
            }
            Err(kube::Error::Api(status)) if status.code == 403 => FORBIDDEN,
            Err(error) => {
                tracing::debug!(namespace, %error, "the namespace cannot be read");
                EVERY
            }
        };
        tokio::time::sleep(jittered(wait)).await;
    }
}
