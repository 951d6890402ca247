//! What a write changed, as sets of paths.

use serde_json::{Map, Value};

use super::element::Element;
use super::fields::FieldSet;
use super::view::View;
use crate::node::Node;

/// The paths that differ between two objects.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Changes {
    pub(super) fn between(node: &Node, old: &Value, new: &Value) -> Self {
        let mut changes = Self::default();
        changes.walk(node, Some(old), Some(new), &mut Vec::new());
        Self {
            added: changes.added.without_identity(),
            modified: changes.modified.without_identity(),
            removed: changes.removed.without_identity(),
        }
    }

    /// The paths that have a new value.
    pub(super) fn written(&self) -> FieldSet {
        self.added.union(&self.modified)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    fn walk(&mut self, node: &Node, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<Element>) {
        match (View::of(node, old), View::of(node, new)) {
            (View::Map(old), View::Map(new)) if !(old.is_empty() && new.is_empty()) => {
                self.maps(node, old, new, path);
            }
            (View::Map(old), View::Nothing) if !old.is_empty() => self.maps(node, old, &Map::new(), path),
            (View::Nothing, View::Map(new)) if !new.is_empty() => self.maps(node, &Map::new(), new, path),
            (View::List(old), View::List(new)) if !(old.is_empty() && new.is_empty()) => {
                self.lists(node, &old, &new, path);
            }
            (View::List(old), View::Nothing) if !old.is_empty() => self.lists(node, &old, &[], path),
            (View::Nothing, View::List(new)) if !new.is_empty() => self.lists(node, &[], &new, path),
            _ => {
                if let (Some(old), Some(new)) = (old, new)
                    && old != new
                {
                    self.modified.insert(path);
                    self.other_shape(node, old, new, path);
                }
            }
        }
    }

    /// What was in a map or a list is gone, or new, when the other side is none.
    fn other_shape(&mut self, node: &Node, old: &Value, new: &Value, path: &mut Vec<Element>) {
        let shape = |value| std::mem::discriminant(&View::of(node, Some(value)));
        if shape(old) != shape(new) {
            self.walk(node, Some(old), None, path);
            self.walk(node, None, Some(new), path);
        }
    }

    fn maps(&mut self, node: &Node, old: &Map<String, Value>, new: &Map<String, Value>, path: &mut Vec<Element>) {
        for (name, item) in old {
            let element = Element::Field(name.clone());
            self.item(node.field_or_anything(name), Some(item), new.get(name), element, path);
        }
        for (name, item) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            self.item(node.field_or_anything(name), None, Some(item), Element::Field(name.clone()), path);
        }
    }

    fn lists(&mut self, node: &Node, old: &[(Element, &Value)], new: &[(Element, &Value)], path: &mut Vec<Element>) {
        let before: std::collections::BTreeMap<_, _> = old.iter().map(|(element, item)| (element, *item)).collect();
        let after: std::collections::BTreeMap<_, _> = new.iter().map(|(element, item)| (element, *item)).collect();
        for (element, item) in &before {
            let new = after.get(element).copied();
            self.item(node.element(), Some(item), new, (*element).clone(), path);
        }
        for (element, item) in after.iter().filter(|(element, _)| !before.contains_key(*element)) {
            self.item(node.element(), None, Some(item), (*element).clone(), path);
        }
    }

    fn item(
        &mut self,
        node: &Node,
        old: Option<&Value>,
        new: Option<&Value>,
        element: Element,
        path: &mut Vec<Element>,
    ) {
        path.push(element);
        self.walk(node, old, new, path);
        match (old, new) {
            (None, Some(_)) => self.added.insert(path),
            (Some(_), None) => self.removed.insert(path),
            _ => {}
        }
        path.pop();
    }
}
