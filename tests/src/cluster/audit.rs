//! What service accounts asked of the API server, from its audit log.

use serde_json::Value;

use super::{Cluster, Error};

/// One kind of request that was answered.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Request {
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    pub verb: String,
    /// Empty for the core group.
    pub group: String,
    /// With its subresource: `deployments/scale`.
    pub resource: String,
    pub namespace: String,
    /// Empty for lists and most creations.
    pub name: String,
    pub code: i64,
}

impl Cluster {
    /// Every request of a service account so far, without repetitions; paths that are no resource are left out.
    pub fn requests(&self, namespace: &str, account: &str) -> Result<Vec<Request>, Error> {
        let path = self.state_dir().join("log/audit.log");
        let text = std::fs::read_to_string(&path).map_err(|source| Error::State { path, source })?;
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let mut requests: Vec<Request> =
            text.lines().filter_map(request).filter(|request| request.user == user).collect();
        requests.sort();
        requests.dedup();
        Ok(requests)
    }
}

/// One line of the log; `None` for what it may also hold, such as a line that is being written.
fn request(line: &str) -> Option<Request> {
    let event: Value = serde_json::from_str(line).ok()?;
    let object = event.get("objectRef")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = match object["subresource"].as_str() {
        Some(part) => format!("{}/{part}", text(&object["resource"])),
        None => text(&object["resource"]),
    };
    Some(Request {
        user: text(&event["user"]["username"]),
        verb: text(&event["verb"]),
        group: text(&object["apiGroup"]),
        resource,
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        code: event["responseStatus"]["code"].as_i64().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_request_with_its_subresource() {
        let line = r#"{"verb":"patch","user":{"username":"system:serviceaccount:a:b"},"objectRef":{"resource":"models",
            "namespace":"n","name":"m","apiGroup":"model.kubedl.io","subresource":"status"},"responseStatus":{"code":200}}"#;
        let request = request(line).unwrap();
        assert_eq!((request.resource.as_str(), request.group.as_str()), ("models/status", "model.kubedl.io"));
        assert_eq!((request.verb.as_str(), request.name.as_str(), request.code), ("patch", "m", 200));
    }

    #[test]
    fn half_a_line_and_paths_without_objects_are_left_out() {
        assert_eq!(request(r#"{"verb":"get","requestURI":"/version"}"#), None);
        assert_eq!(request(r#"{"verb":"ge"#), None);
    }
}
