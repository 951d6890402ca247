//! Requests of the protocols that models are served with.

use serde_json::{Value, json};

use super::body::{Metadata, Payload, Table, Template, TensorOptions, infer_requests};
use super::{LoadError, Target, fetch};

/// What an `OpenAI` request asks for.
#[derive(Clone, Debug)]
pub struct Completion {
    pub model: String,
    /// May have placeholders.
    pub prompt: String,
    pub max_tokens: u64,
    pub stream: bool,
}

/// Bodies and path of `OpenAI` requests. A path that ends in neither endpoint gets the chat's.
pub fn openai(target: &Target, completion: &Completion, table: Option<&Table>) -> Result<(Target, Payload), LoadError> {
    let path = target.path.trim_end_matches('/');
    let path = match path {
        "" => "/v1/chat/completions".to_owned(),
        whole if whole.ends_with("/completions") => whole.to_owned(),
        base => format!("{base}/chat/completions"),
    };
    let mut body = json!({"model": completion.model, "max_tokens": completion.max_tokens, "stream": completion.stream});
    if completion.stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    if path.ends_with("/chat/completions") {
        body["messages"] = json!([{"role": "user", "content": completion.prompt}]);
    } else {
        body["prompt"] = Value::from(completion.prompt.as_str());
    }
    let template = Template::parse_within_json(body.to_string().as_bytes(), table).map_err(LoadError::Input)?;
    Ok((target.with_path(&path), Payload::Template(template)))
}

/// Path of the Open Inference Protocol's inference endpoint, of a model's URL with or without `/infer`.
pub fn inference_target(target: &Target) -> Target {
    let path = target.path.trim_end_matches('/');
    target.with_path(&format!("{}/infer", path.strip_suffix("/infer").unwrap_or(path)))
}

/// Random tensors of the types and shapes that the server tells of its model.
pub fn inference_bodies(target: &Target, options: &TensorOptions) -> Result<Payload, LoadError> {
    let infer = inference_target(target);
    let model = target.with_path(infer.path.trim_end_matches("/infer"));
    let wanted = "metadata of a model of the Open Inference Protocol";
    let metadata: Metadata = serde_json::from_slice(&fetch::get(&model, wanted)?)
        .map_err(|error| LoadError::Refused { target: model.to_string(), answer: error.to_string(), wanted })?;
    Payload::several(infer_requests(&metadata, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion() -> Completion {
        Completion { model: "m".to_owned(), prompt: "say {{text}}".to_owned(), max_tokens: 5, stream: true }
    }

    #[test]
    fn prompts_from_a_table_stay_inside_their_string() {
        let table = Table::csv("text\n\"a \"\"quote\"\" \\ and\nline\"\n").unwrap();
        let (target, payload) = openai(&Target::parse("http://a").unwrap(), &completion(), Some(&table)).unwrap();
        assert_eq!(target.path, "/v1/chat/completions");
        let mut body = Vec::new();
        payload.fill(0, 1, Some(&table), &mut body);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["messages"][0]["content"], "say a \"quote\" \\ and\nline");
        assert_eq!(body["stream_options"]["include_usage"], true);
    }

    #[test]
    fn paths_are_completed() {
        let path = |url: &str| {
            let table = Table::csv("text\nx\n").unwrap();
            openai(&Target::parse(url).unwrap(), &completion(), Some(&table)).unwrap().0.path
        };
        assert_eq!(path("http://a/v1/"), "/v1/chat/completions");
        assert_eq!(path("http://a/v1/completions"), "/v1/completions");
        let infer = |url: &str| inference_target(&Target::parse(url).unwrap()).path;
        assert_eq!(infer("http://a/v2/models/m"), "/v2/models/m/infer");
        assert_eq!(infer("http://a/v2/models/m/infer"), "/v2/models/m/infer");
    }
}
