//! What the admin port says about the configuration.

use serde::Serialize;

/// The configuration in force and what is wrong with newer ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReport {
    /// Inference of the table in force.
    pub inference: Option<String>,
    /// Generation in force.
    pub generation: Option<i64>,
    /// Epoch in force.
    pub epoch: Option<i64>,
    /// UID of the object in force, empty for a file.
    pub uid: Option<String>,
    /// The last document that was refused, until one is accepted.
    pub refused: Option<Refused>,
    /// What is wrong with the sources themselves (cannot be read, object deleted), until they work again.
    pub source_problems: Vec<String>,
    /// Arms with their endpoints.
    pub arms: Vec<ArmReport>,
    /// Whether the router is going away.
    pub draining: bool,
}

/// A document that was refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused {
    /// Its generation.
    pub generation: i64,
    /// Why.
    pub reason: String,
}

/// An arm in force.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmReport {
    /// Predictor name.
    pub name: String,
    /// Raw weight.
    pub weight: u32,
    /// State as the controller gave it.
    pub state: modelway_api::route_table::ArmState,
    /// Endpoints that take requests.
    pub endpoints: Vec<String>,
}
