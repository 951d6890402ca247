//! Label selectors. One that cannot be read, or is empty, selects nothing: a controller must not grab every pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

type Labels = BTreeMap<String, String>;

pub(crate) fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    let Ok(selector) = Selector::try_from(selector.clone()) else { return false };
    !selector.selects_all() && selector.matches(labels)
}

/// The Service's selector matches the labels; a Service without selector selects nothing.
pub(crate) fn selects(service: &Service, labels: &Labels) -> bool {
    let Some(selector) = service.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { return false };
    !selector.is_empty() && selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_selector_selects_nothing() {
        let labels = Labels::from([("app".into(), "a".into())]);
        assert!(!matches(&LabelSelector::default(), &labels));
        let equal = LabelSelector { match_labels: Some(labels.clone()), match_expressions: None };
        assert!(matches(&equal, &labels));
        assert!(!matches(&equal, &Labels::new()));
    }
}
