//! Messages of `api.storage.DB`, as Morphling's clients speak it.

/// A metric by name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// What a client measured.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SaveResultRequest {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub trial_name: String,
    #[prost(message, repeated, tag = "4")]
    pub results: Vec<KeyValue>,
}

/// It is kept.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SaveResultReply {}

/// Which trial.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetResultRequest {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub trial_name: String,
}

/// What is kept of it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetResultReply {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub trial_name: String,
    #[prost(message, repeated, tag = "4")]
    pub results: Vec<KeyValue>,
}
