//! Requests in, verbs out: one handler for all resources of all kinds.

use std::sync::Arc;

use axum::extract::{Request as HttpRequest, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};

use crate::body;
use crate::kinds::ResourceKind;
use crate::path::Target;
use crate::query::Parameters;
use crate::server::ApiServer;
use crate::status::ApiError;
use crate::view::View;
use crate::write::delete::DeleteOptions;
use crate::write::patch::Patch;
use crate::write::{self, Part, Request, Written};
use crate::{Core, builtin, discovery, logs, meta, read, versions, watch};

/// All paths of the API.
pub fn router(server: ApiServer) -> axum::Router {
    axum::Router::new().fallback(handle).with_state(server)
}

async fn handle(State(server): State<ApiServer>, request: HttpRequest) -> Response {
    Box::pin(answer(&server, request)).await.unwrap_or_else(IntoResponse::into_response)
}

/// One request with its target resolved.
struct Call<'a> {
    core: &'a Arc<Core>,
    kind: Arc<ResourceKind>,
    target: Target,
    parameters: Parameters,
    parts: Parts,
    body: axum::body::Body,
}

async fn answer(server: &ApiServer, request: HttpRequest) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let kinds = server.core.kinds();
    let (path, query) = (parts.uri.path(), parts.uri.query());
    if let Some(response) = discovery::answer(&parts.method, path, &parts.headers, query, kinds.as_slice()) {
        return Ok(response);
    }
    let target = Target::parse(path).ok_or_else(ApiError::path_not_found)?;
    let kind = kinds.find(&target.group, &target.version, &target.plural).cloned();
    let kind = kind.ok_or_else(ApiError::path_not_found)?;
    if target.namespace.is_some() && !kind.namespaced {
        return Err(ApiError::path_not_found());
    }
    let parameters = Parameters::of(&parts.uri)?;
    let call = Call { core: &server.core, kind, target, parameters, parts, body };
    match (call.target.name.clone(), call.target.subresource.clone()) {
        (None, _) => call.collection().await,
        (Some(name), None) => call.object(&name, Part::Main).await,
        (Some(name), Some(subresource)) => call.subresource(&name, &subresource).await,
    }
}

impl Call<'_> {
    async fn collection(self) -> Result<Response, ApiError> {
        match self.parts.method {
            Method::GET => self.list().await,
            Method::POST => self.create().await,
            Method::DELETE => self.delete_collection().await,
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    async fn object(self, name: &str, part: Part) -> Result<Response, ApiError> {
        if self.kind.namespaced && self.target.namespace.is_none() {
            return Err(ApiError::path_not_found());
        }
        match self.parts.method {
            Method::GET => self.get(name),
            Method::PUT => {
                let (mut request, view) = (self.request(part)?, self.view()?);
                let (value, duplicates) = body::decode_strictly(&self.parts.headers, &body::read(self.body).await?)?;
                request.duplicates = duplicates;
                let written = write::update::replace(self.core, &request, name, value).await?;
                Ok(written_response(&request.kind, view, written))
            }
            Method::PATCH => {
                let (request, view) = (self.request(part)?, self.view()?);
                let patch = decode_patch(&self.parts, self.body).await?;
                let written = write::patch::patch(self.core, &request, name, patch).await?;
                Ok(written_response(&request.kind, view, written))
            }
            Method::DELETE if part == Part::Main => self.delete(name).await,
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    async fn subresource(self, name: &str, subresource: &str) -> Result<Response, ApiError> {
        match (subresource, self.kind.kind.as_str()) {
            ("status", _) if self.kind.status_subresource => self.object(name, Part::Status).await,
            ("scale", _) if self.kind.scale.is_some() => self.scale(name).await,
            ("log", "Pod") => self.log(name).await,
            ("binding", "Pod") => self.bind(name).await,
            ("eviction", "Pod") => self.evict(name).await,
            _ => Err(ApiError::path_not_found()),
        }
    }

    fn request(&self, part: Part) -> Result<Request, ApiError> {
        Ok(Request {
            kind: self.kind.clone(),
            namespace: self.target.namespace.clone().unwrap_or_default(),
            part,
            parameters: self.parameters.write(&self.parts.headers)?,
            now: meta::now(),
            duplicates: Vec::new(),
        })
    }

    fn view(&self) -> Result<View, ApiError> {
        View::of(&self.parts.headers, &self.parameters)
    }

    fn get(&self, name: &str) -> Result<Response, ApiError> {
        let request = self.request(Part::Main)?;
        let object = self.core.store.get(&request.key(name));
        let object = object.ok_or_else(|| ApiError::not_found(&self.kind, name))?;
        if self.view()? == View::Whole && object.api_version == self.kind.api_version() {
            return Ok(json_bytes(StatusCode::OK, object.body.clone().into()));
        }
        Ok(json_response(StatusCode::OK, &self.view()?.one(&self.kind, versions::shown(&object, &self.kind))))
    }

    async fn list(self) -> Result<Response, ApiError> {
        let (parameters, view) = (self.parameters.list()?, self.view()?);
        if parameters.watch {
            return Ok(watch::watch(self.core, self.kind, self.target.namespace, parameters, view));
        }
        let list = read::list(self.core, &self.kind, self.target.namespace.as_deref(), &parameters).await?;
        Ok(json_bytes(StatusCode::OK, view.list(&self.kind, &list.metadata, &list.objects).into()))
    }

    async fn create(self) -> Result<Response, ApiError> {
        if self.kind.namespaced && self.target.namespace.is_none() {
            return Err(ApiError::method_not_allowed());
        }
        let (mut request, view) = (self.request(Part::Main)?, self.view()?);
        let (value, duplicates) = body::decode_strictly(&self.parts.headers, &body::read(self.body).await?)?;
        request.duplicates = duplicates;
        let written = write::create::create(self.core, &request, value).await?;
        Ok(written_response(&request.kind, view, written))
    }

    async fn delete(self, name: &str) -> Result<Response, ApiError> {
        let request = self.request(Part::Main)?;
        let options = delete_options(&self.parts, self.body, &self.parameters).await?;
        let value = write::delete::delete(self.core, &request, name, &options).await?;
        Ok(json_response(StatusCode::OK, &value))
    }

    async fn delete_collection(self) -> Result<Response, ApiError> {
        let (request, list) = (self.request(Part::Main)?, self.parameters.list()?);
        let namespace = self.target.namespace.as_deref();
        let options = delete_options(&self.parts, self.body, &self.parameters).await?;
        let objects =
            write::delete::delete_collection(self.core, &request, namespace, &list.selector, &options).await?;
        let metadata = json!({"resourceVersion": self.core.store.revision().to_string()});
        Ok(json_bytes(StatusCode::OK, View::Whole.list(&self.kind, &metadata, &objects).into()))
    }

    async fn scale(self, name: &str) -> Result<Response, ApiError> {
        let request = self.request(Part::Main)?;
        let scale = match self.parts.method {
            Method::GET => write::scale::get(self.core, &request, name)?,
            Method::PUT => {
                let value = body::decode(&self.parts.headers, &body::read(self.body).await?)?;
                write::scale::replace(self.core, &request, name, &value).await?
            }
            Method::PATCH => {
                let patch = decode_patch(&self.parts, self.body).await?;
                write::scale::patch(self.core, &request, name, &patch).await?
            }
            _ => return Err(ApiError::method_not_allowed()),
        };
        Ok(json_response(StatusCode::OK, &scale))
    }

    async fn log(self, name: &str) -> Result<Response, ApiError> {
        if self.parts.method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        let request = self.request(Part::Main)?;
        let object = self.core.store.get(&request.key(name)).ok_or_else(|| ApiError::not_found(&self.kind, name))?;
        logs::answer(&versions::shown(&object, &self.kind), &self.parameters, self.core.logs.get()).await
    }

    /// Gives a pod its node.
    async fn bind(self, name: &str) -> Result<Response, ApiError> {
        if self.parts.method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        let request = self.request(Part::Main)?;
        let binding = body::decode(&self.parts.headers, &body::read(self.body).await?)?;
        let patch = json!({"spec": {"nodeName": binding["target"]["name"]}});
        write::patch::patch(self.core, &request, name, Patch::Merge(patch)).await?;
        Ok(json_response(StatusCode::CREATED, &plain_success()))
    }

    /// Deletes a pod as its eviction asks for.
    async fn evict(self, name: &str) -> Result<Response, ApiError> {
        if self.parts.method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        let request = self.request(Part::Main)?;
        let eviction = body::decode(&self.parts.headers, &body::read(self.body).await?)?;
        let options = eviction.get("deleteOptions").filter(|options| !options.is_null()).cloned();
        let options = DeleteOptions::read(options, &self.parameters)?;
        write::evict::evict(self.core, &request, name, &options).await?;
        Ok(json_response(StatusCode::CREATED, &plain_success()))
    }
}

async fn decode_patch(parts: &Parts, body: axum::body::Body) -> Result<Patch, ApiError> {
    let bytes = body::read(body).await?;
    Patch::decode(body::content_type(&parts.headers), &bytes)
}

async fn delete_options(
    parts: &Parts,
    body: axum::body::Body,
    parameters: &Parameters,
) -> Result<DeleteOptions, ApiError> {
    let bytes = body::read(body).await?;
    let value = if bytes.is_empty() { None } else { Some(body::decode(&parts.headers, &bytes)?) };
    DeleteOptions::read(value, parameters)
}

fn plain_success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

fn written_response(kind: &ResourceKind, view: View, written: Written) -> Response {
    let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = json_response(code, &view.one(kind, written.value));
    let inert = builtin::is_inert(&kind.group, &kind.kind)
        .then(|| format!("{} objects are kept, and have no effect on this server", kind.kind));
    for warning in written.warnings.into_iter().chain(inert) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

fn json_response(code: StatusCode, value: &Value) -> Response {
    json_bytes(code, value.to_string().into())
}

fn json_bytes(code: StatusCode, body: axum::body::Body) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
