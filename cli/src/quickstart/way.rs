//! How requests come to the Inference: straight to its URL, or through the API server of a cluster.

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use http::{Request, StatusCode};
use http_body_util::BodyExt;

/// For one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// For one attempt to reach the URL from here.
const CONNECT: Duration = Duration::from_secs(2);
/// For all: the nodes of a cluster learn of a Service's new pods one after the other, on busy ones seconds later.
const REACH: Duration = Duration::from_secs(6);
const BETWEEN: Duration = Duration::from_millis(100);

/// A way to one Inference.
#[derive(Clone)]
pub enum Way {
    Direct { http: reqwest::Client, url: String },
    ApiServer { client: kube::Client, path: String },
}

/// What came back.
pub struct Reply {
    pub status: StatusCode,
    /// Value of `x-modelway-model`.
    pub model: Option<String>,
    pub body: Vec<u8>,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct { url, .. } => f.write_str(url),
            Self::ApiServer { path, .. } => write!(f, "{path} of the API server"),
        }
    }
}

impl Way {
    /// Straight to `endpoint` when it can be reached from here, else through the API server's proxy of the Service.
    pub async fn find(client: &kube::Client, namespace: &str, inference: &str, endpoint: &str) -> anyhow::Result<Self> {
        let tail = format!("v2/models/{inference}/infer");
        let address = endpoint.strip_prefix("http://").unwrap_or(endpoint);
        if is_reachable(address, REACH).await {
            let http = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().tcp_nodelay(true).build()?;
            return Ok(Self::Direct { http, url: format!("{endpoint}/{tail}") });
        }
        let path = format!("/api/v1/namespaces/{namespace}/services/{inference}:http/proxy/{tail}");
        Ok(Self::ApiServer { client: client.clone(), path })
    }

    /// Its name in the document.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Direct { .. } => "direct",
            Self::ApiServer { .. } => "apiServer",
        }
    }

    /// One request of a user, to the last byte of its answer.
    pub async fn post(&self, user: &str, body: Vec<u8>) -> anyhow::Result<Reply> {
        let model = |headers: &http::HeaderMap| {
            headers.get("x-modelway-model").and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        match self {
            Self::Direct { http, url } => {
                let request = http.post(url).header("content-type", "application/json").header("x-user-id", user);
                let response = request.body(body).send().await?;
                let (status, model) = (response.status(), model(response.headers()));
                Ok(Reply { status, model, body: response.bytes().await?.to_vec() })
            }
            Self::ApiServer { client, path } => {
                let request = Request::post(path)
                    .header("content-type", "application/json")
                    .header("x-user-id", user)
                    .body(kube::client::Body::from(body))?;
                let exchange = async {
                    let response = client.send(request).await?;
                    let (status, model) = (response.status(), model(response.headers()));
                    let body = response.into_body().collect().await.context("the answer broke off")?.to_bytes();
                    anyhow::Ok(Reply { status, model, body: body.to_vec() })
                };
                tokio::time::timeout(TIMEOUT, exchange).await.context("no answer in time")?
            }
        }
    }
}

/// Whether anybody takes a connection there within this time.
async fn is_reachable(address: &str, patience: Duration) -> bool {
    let attempts = async {
        loop {
            if let Ok(Ok(_)) = tokio::time::timeout(CONNECT, tokio::net::TcpStream::connect(address)).await {
                return;
            }
            tokio::time::sleep(BETWEEN).await;
        }
    };
    tokio::time::timeout(patience, attempts).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_is_known_a_little_later_is_reachable() {
        let reserved = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let later = tokio::spawn(async move {
            tokio::time::sleep(BETWEEN * 3).await;
            let listener = tokio::net::TcpListener::bind(reserved).await.unwrap();
            listener.accept().await.unwrap();
        });
        assert!(is_reachable(&reserved.to_string(), REACH).await);
        later.await.unwrap();
    }

    #[tokio::test]
    async fn nobody_at_home_is_found_out() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(!is_reachable(&free.to_string(), BETWEEN * 3).await);
    }
}
