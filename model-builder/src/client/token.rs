//! Authorisation: basic, or bearer tokens fetched from the registry's token server and renewed before they expire.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method, header};
use reqwest::{RequestBuilder, Url};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::challenge::Challenge;
use super::{ANSWER, ClientError, expect, read_bounded};
use crate::auth::Credential;

/// Lifetime of a token that does not say (the specification's default).
const DEFAULT_LIFETIME: u64 = 60;
const MAX_ANSWER: usize = 1 << 20;

/// Knows what the registry wants to see.
pub(super) struct Authorizer {
    credential: Option<Credential>,
    scopes: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    challenge: Option<Challenge>,
    header: Option<HeaderValue>,
    renew_at: Option<Instant>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl Authorizer {
    pub(super) fn new(credential: Option<Credential>, scopes: Vec<String>) -> Self {
        Self { credential, scopes, state: Mutex::new(State::default()) }
    }

    /// The header to send now; renews a token that is about to expire.
    pub(super) async fn header(&self, http: &reqwest::Client, base: &Url) -> Result<Option<HeaderValue>, ClientError> {
        let mut state = self.state.lock().await;
        if state.renew_at.is_some_and(|time| Instant::now() >= time) {
            self.renew(http, base, &mut state).await?;
        }
        Ok(state.header.clone())
    }

    /// Takes in a 401 answer. True when there is now something (else) to show.
    pub(super) async fn learn(
        &self,
        http: &reqwest::Client,
        base: &Url,
        headers: &HeaderMap,
    ) -> Result<bool, ClientError> {
        let values = headers.get_all(header::WWW_AUTHENTICATE);
        let mut challenges: Vec<Challenge> =
            values.iter().filter_map(|value| Challenge::parse(value.to_str().ok()?)).collect();
        challenges.sort_by_key(|challenge| matches!(challenge, Challenge::Basic));
        let Some(challenge) = challenges.into_iter().next() else { return Ok(false) };
        let mut state = self.state.lock().await;
        state.challenge = Some(challenge);
        self.renew(http, base, &mut state).await
    }

    async fn renew(&self, http: &reqwest::Client, base: &Url, state: &mut State) -> Result<bool, ClientError> {
        match (&state.challenge, &self.credential) {
            (Some(Challenge::Basic), Some(Credential::Basic { username, password })) => {
                let first = state.header.is_none();
                state.header = Some(basic(username, password)?);
                Ok(first)
            }
            (Some(Challenge::Bearer { .. }), Some(Credential::Bearer(token))) => {
                let first = state.header.is_none();
                state.header = Some(bearer(token)?);
                Ok(first)
            }
            (Some(Challenge::Bearer { realm, service, scope }), credential) => {
                let request =
                    self.request(http, base, realm, service.as_deref(), scope.as_deref(), credential.as_ref())?;
                let answer = fetch(request, realm).await?;
                let token = answer.token.or(answer.access_token).unwrap_or_default();
                let lifetime = Duration::from_secs(answer.expires_in.unwrap_or(DEFAULT_LIFETIME));
                state.renew_at = Some(Instant::now() + lifetime.mul_f64(0.75));
                state.header = Some(bearer(&token)?);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn request(
        &self,
        http: &reqwest::Client,
        base: &Url,
        realm: &str,
        service: Option<&str>,
        scope: Option<&str>,
        credential: Option<&Credential>,
    ) -> Result<RequestBuilder, ClientError> {
        let mut url = base.join(realm).map_err(|error| ClientError::Protocol(format!("bad token realm: {error}")))?;
        if base.scheme() == "https" && url.scheme() != "https" {
            return Err(ClientError::Protocol(format!(
                "the registry sends credentials to {realm}, which is not https"
            )));
        }
        let extra = scope.filter(|scope| !self.scopes.iter().any(|own| own == scope));
        {
            let mut pairs = url.query_pairs_mut();
            pairs.extend_pairs(service.map(|service| ("service", service)));
            pairs.extend_pairs(self.scopes.iter().map(String::as_str).chain(extra).map(|scope| ("scope", scope)));
            if let Some(Credential::Identity(token)) = credential {
                let fields = [("grant_type", "refresh_token"), ("client_id", "modelway"), ("refresh_token", token)];
                pairs.extend_pairs(fields);
            }
        }
        match credential {
            Some(Credential::Identity(_)) => {
                let form = url.query().unwrap_or_default().to_owned();
                url.set_query(None);
                let request = http.post(url).body(form);
                Ok(request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded"))
            }
            Some(Credential::Basic { username, password }) => {
                Ok(http.get(url).header(header::AUTHORIZATION, basic(username, password)?))
            }
            Some(Credential::Bearer(_)) | None => Ok(http.get(url)),
        }
    }
}

async fn fetch(request: RequestBuilder, realm: &str) -> Result<TokenAnswer, ClientError> {
    let url = Url::parse(realm).map_err(|error| ClientError::Protocol(format!("bad token realm: {error}")))?;
    let silent = |_| ClientError::Silent { method: "GET".to_owned(), url: realm.to_owned() };
    let response = tokio::time::timeout(ANSWER, request.send()).await.map_err(silent)?;
    let response = response.map_err(|source| ClientError::transport(&Method::GET, &url, source))?;
    let response = expect(&Method::GET, &url, response, &[http::StatusCode::OK]).await?;
    let bytes = read_bounded(response, MAX_ANSWER).await?;
    // The content is a secret: the parser's message must not repeat it.
    serde_json::from_slice(&bytes)
        .map_err(|_| ClientError::Protocol("the token server's answer is not JSON".to_owned()))
}

fn basic(username: &str, password: &str) -> Result<HeaderValue, ClientError> {
    secret(&format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
}

fn bearer(token: &str) -> Result<HeaderValue, ClientError> {
    secret(&format!("Bearer {token}"))
}

fn secret(text: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| ClientError::Setup("registry credentials hold characters that HTTP does not allow".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
