//! Sets of field paths, as a tree.

use std::collections::BTreeMap;

use super::element::Element;
use crate::node::Node;

/// A set of paths below one place. A set without members anywhere is empty and has no children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Whether this place itself is in the set.
    pub(super) member: bool,
    pub(super) children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub(super) fn put(&mut self, element: Element, child: Self) {
        if !child.is_empty() {
            self.children.insert(element, child);
        }
    }

    pub(super) fn insert(&mut self, path: &[Element]) {
        let mut set = self;
        for element in path {
            set = set.children.entry(element.clone()).or_default();
        }
        set.member = true;
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.member |= other.member;
        for (element, child) in &other.children {
            let both = union.children.get(element).map_or_else(|| child.clone(), |own| own.union(child));
            union.put(element.clone(), both);
        }
        union
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self { member: self.member && other.member, children: BTreeMap::new() };
        for (element, child) in &self.children {
            if let Some(others) = other.children.get(element) {
                both.put(element.clone(), child.intersection(others));
            }
        }
        both
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        let mut rest = Self { member: self.member && !other.member, children: BTreeMap::new() };
        for (element, child) in &self.children {
            let left = other.children.get(element).map_or_else(|| child.clone(), |others| child.difference(others));
            rest.put(element.clone(), left);
        }
        rest
    }

    /// The set with the declared fields above its paths: a struct's field goes when all that is in it goes.
    pub(super) fn with_named_fields(&self, node: &Node) -> Self {
        let mut named = Self { member: self.member, children: BTreeMap::new() };
        for (element, child) in &self.children {
            let (below, declared) = match element {
                Element::Field(name) => (node.field_or_anything(name), node.declares(name)),
                Element::Key(_) | Element::Value(_) | Element::Index(_) => (node.element(), false),
            };
            let mut child = child.with_named_fields(below);
            child.member |= declared;
            named.put(element.clone(), child);
        }
        named
    }

    /// The set without what every object has and nobody owns.
    pub(super) fn without_identity(mut self) -> Self {
        const METADATA: [&str; 9] = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let mut identity = Self::default();
        for name in ["apiVersion", "kind", "metadata"] {
            identity.insert(&[Element::Field(name.to_owned())]);
        }
        for name in METADATA {
            identity.insert(&[Element::Field("metadata".to_owned()), Element::Field(name.to_owned())]);
        }
        self = self.difference(&identity);
        self.member = false;
        self
    }

    /// Every path in the set, as conflicts show it.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, at: &str, paths: &mut Vec<String>) {
        if self.member {
            paths.push(at.to_owned());
        }
        for (element, child) in &self.children {
            child.collect(&format!("{at}{element}"), paths);
        }
    }
}
