//! Query parameters of requests, read with Kubernetes' rules.

use std::collections::HashMap;

use axum::extract::Query;
use http::{HeaderMap, Uri, header};

use crate::selector::Selector;
use crate::status::ApiError;

/// The raw parameters of one request.
#[derive(Clone, Debug, Default)]
pub struct Parameters(HashMap<String, String>);

/// What unknown fields lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The parameters of writes.
#[derive(Clone, Debug)]
pub struct WriteParameters {
    pub manager: String,
    /// The manager was named by the request, not guessed.
    pub manager_given: bool,
    pub dry_run: bool,
    pub force: bool,
    pub field_validation: FieldValidation,
}

/// The parameters of lists and watches.
#[derive(Clone, Debug)]
pub struct ListParameters {
    pub selector: Selector,
    pub limit: Option<usize>,
    pub continue_token: Option<String>,
    pub resource_version: Option<u64>,
    pub exact: bool,
    pub watch: bool,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
}

impl Parameters {
    pub fn of(uri: &Uri) -> Result<Self, ApiError> {
        let pairs: Query<Vec<(String, String)>> = Query::try_from_uri(uri)
            .map_err(|error| ApiError::bad_request(format!("cannot read the query parameters: {error}")))?;
        Ok(Self(pairs.0.into_iter().collect()))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    pub fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.0.get(name).map(String::as_str) {
            None => Ok(None),
            Some("true" | "1" | "True" | "TRUE" | "t" | "T" | "") => Ok(Some(true)),
            Some("false" | "0" | "False" | "FALSE" | "f" | "F") => Ok(Some(false)),
            Some(other) => Err(ApiError::bad_request(format!("{name}: \"{other}\" is not a boolean"))),
        }
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let parse = |text: &str| {
            text.parse().map_err(|_| {
                ApiError::bad_request(format!("{name}: Invalid value: \"{text}\": must be a non-negative integer"))
            })
        };
        self.text(name).map(parse).transpose()
    }

    pub fn write(&self, headers: &HeaderMap) -> Result<WriteParameters, ApiError> {
        let manager = self.text("fieldManager");
        if manager.is_some_and(|manager| manager.len() > 128) {
            return Err(ApiError::bad_request("fieldManager: Too long: may not be more than 128 bytes"));
        }
        Ok(WriteParameters {
            manager: manager.map_or_else(|| agent(headers), str::to_owned),
            manager_given: manager.is_some(),
            dry_run: self.dry_run()?,
            force: self.flag("force")?.unwrap_or(false),
            field_validation: self.field_validation()?,
        })
    }

    pub fn dry_run(&self) -> Result<bool, ApiError> {
        match self.text("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                Err(ApiError::bad_request(format!("dryRun: Unsupported value: \"{other}\": supported values: \"All\"")))
            }
        }
    }

    fn field_validation(&self) -> Result<FieldValidation, ApiError> {
        match self.text("fieldValidation") {
            None | Some("Warn") => Ok(FieldValidation::Warn),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some(other) => Err(ApiError::bad_request(format!(
                "fieldValidation: Unsupported value: \"{other}\": supported values: \"Ignore\", \"Strict\", \"Warn\""
            ))),
        }
    }

    pub fn list(&self) -> Result<ListParameters, ApiError> {
        let limit = self.number("limit")?.filter(|limit| *limit > 0);
        let matching = self.text("resourceVersionMatch");
        let parameters = ListParameters {
            selector: Selector::parse(self.text("labelSelector"), self.text("fieldSelector"))?,
            limit: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            continue_token: self.text("continue").map(str::to_owned),
            resource_version: self.number("resourceVersion")?,
            exact: matching == Some("Exact"),
            watch: self.flag("watch")?.unwrap_or(false),
            bookmarks: self.flag("allowWatchBookmarks")?.unwrap_or(false),
            send_initial_events: self.flag("sendInitialEvents")?,
            timeout_seconds: self.number("timeoutSeconds")?,
        };
        parameters.check(matching)?;
        Ok(parameters)
    }
}

impl ListParameters {
    fn check(&self, matching: Option<&str>) -> Result<(), ApiError> {
        let known = matches!(matching, None | Some("Exact" | "NotOlderThan"));
        if !known {
            return Err(ApiError::bad_request(
                "resourceVersionMatch: Unsupported value: supported values: \"Exact\", \"NotOlderThan\"",
            ));
        }
        if self.send_initial_events.is_some() && !self.watch {
            return Err(ApiError::bad_request("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"));
        }
        if self.send_initial_events.is_some() && matching != Some("NotOlderThan") {
            return Err(ApiError::bad_request(
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if self.continue_token.is_some() && self.resource_version.is_some_and(|revision| revision != 0) {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        if matching.is_some() && self.resource_version.is_none() && !self.watch {
            return Err(ApiError::bad_request(
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if self.exact && self.resource_version.unwrap_or_default() == 0 {
            return Err(ApiError::bad_request(
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
        Ok(())
    }
}

/// The manager of a request that names none: the first word of its user agent.
fn agent(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = agent.split('/').next().unwrap_or_default();
    let name: String = name.chars().take(128).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(query: &str) -> Parameters {
        Parameters::of(&format!("/x?{query}").parse().unwrap()).unwrap()
    }

    #[test]
    fn escapes_are_decoded_and_nonsense_is_named() {
        let list = parameters("fieldSelector=metadata.name%3Da&limit=500").list().unwrap();
        assert_eq!(list.limit, Some(500));
        assert!(!list.selector.is_empty());
        assert!(parameters("limit=x").list().unwrap_err().message.contains("limit"));
        assert!(parameters("sendInitialEvents=true&watch=1").list().is_err());
        assert!(parameters("dryRun=Some").dry_run().is_err());
    }
}
