//! What Kubernetes has and this server does not: each with the reason and a way round.

use http::Method;

use crate::status::ApiError;

/// A clear answer for a request that is beyond the server's stated limits; `None` for every other request.
pub(crate) fn refusal(method: &Method, segments: &[&str]) -> Option<ApiError> {
    let text = match segments {
        ["api", "v1", "namespaces", _, "pods", _, subresource] => pod(subresource)?,
        ["api", "v1", "namespaces", _, "serviceaccounts", _, "token"] => {
            "tokens of service accounts are not issued here: the kubeconfig of the data folder holds the only token"
        }
        ["apis", "authorization.k8s.io" | "authentication.k8s.io", "v1", _] if *method == Method::POST => {
            "there is no authorisation here: who holds the token of the kubeconfig may do everything"
        }
        _ => return None,
    };
    let mut refusal = ApiError::bad_request(text);
    (refusal.code, refusal.reason) = (http::StatusCode::NOT_IMPLEMENTED, "NotImplemented");
    Some(refusal)
}

fn pod(subresource: &str) -> Option<&'static str> {
    match subresource {
        "exec" | "attach" => Some(
            "exec and attach are not supported: pods are processes of this machine, use its own tools on the process \
             (its pid is in the log of the platform), or `kubectl logs`",
        ),
        "portforward" => Some(
            "port-forward is not supported and not needed: pods listen on loopback addresses of this machine, connect \
             to status.podIP directly",
        ),
        "proxy" => Some("the proxy of pods is not supported: connect to status.podIP directly"),
        "ephemeralcontainers" => Some("debug containers are not supported: pods are processes of this machine"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_say_what_to_do_instead() {
        let path = |text: &'static str| text.split('/').collect::<Vec<_>>();
        for limited in [
            "api/v1/namespaces/n/pods/p/exec",
            "api/v1/namespaces/n/pods/p/portforward",
            "api/v1/namespaces/n/serviceaccounts/default/token",
            "apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        ] {
            assert_eq!(refusal(&Method::POST, &path(limited)).map(|error| error.code.as_u16()), Some(501), "{limited}");
        }
        for served in ["api/v1/namespaces/n/pods/p/log", "api/v1/namespaces/n/pods/exec", "apis/apps/v1"] {
            assert!(refusal(&Method::GET, &path(served)).is_none(), "{served}");
        }
    }
}
