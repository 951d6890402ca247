//! `x-kubernetes-validations`: rules in CEL, compiled once and evaluated over one place of an object.

mod cost;
mod fields;
mod functions;
mod names;
mod rule;
mod stack;
mod value;

use std::sync::Arc;

use kube::core::cel::cel::objects::OptionalValue;
use kube::core::cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

use crate::error::{FieldError, FieldErrorKind};
use crate::node::{Node, Type};
use crate::path;
use crate::validate::message;

pub(crate) use rule::Rule;

/// Appends the errors of the node's own rules.
pub(crate) fn evaluate(node: &Node, value: &Value, old: Option<&Value>, at: &str, errors: &mut Vec<FieldError>) {
    if node.rules.is_empty() || value.is_null() {
        return;
    }
    let deep = node.rules.iter().any(|rule| rule.deep);
    match stack::run(deep, || broken_rules(node, value, old, at)) {
        Some(found) => errors.extend(found),
        None => errors.push(FieldError {
            path: path::shown(at),
            kind: FieldErrorKind::Invalid,
            message: "Invalid value: its validation rules cannot be evaluated".to_owned(),
        }),
    }
}

fn broken_rules(node: &Node, value: &Value, old: Option<&Value>, at: &str) -> Vec<FieldError> {
    let unchanged = old == Some(value);
    let mut errors = Vec::new();
    functions::with(|context| {
        let mut scope = context.new_inner_scope();
        scope.add_variable_from_value("self", value::convert(node, value));
        let old = old.filter(|old| !old.is_null()).map(|old| value::convert(node, old));
        for rule in &node.rules {
            let ratcheted = unchanged && !rule.transition;
            if ratcheted || (rule.transition && !rule.optional_old_self && old.is_none()) {
                continue;
            }
            if cost::too_high(rule.loops, value) {
                let text = format!("call cost exceeds limit for rule: {}", rule.text);
                errors.push(failure(node.kind, at, &text));
                continue;
            }
            bind_old(&mut scope, rule, old.as_ref());
            match broken(rule, &scope) {
                Ok(None) => {}
                Ok(Some(message)) => errors.push(error(value, rule, at, &message)),
                Err(text) => errors.push(failure(node.kind, at, &text)),
            }
        }
    });
    errors
}

fn bind_old(scope: &mut Context<'_>, rule: &Rule, old: Option<&CelValue>) {
    let bound = match (rule.optional_old_self, old) {
        (true, Some(old)) => CelValue::Opaque(Arc::new(OptionalValue::of(old.clone()))),
        (true, None) => CelValue::Opaque(Arc::new(OptionalValue::none())),
        (false, Some(old)) => old.clone(),
        (false, None) => return,
    };
    scope.add_variable_from_value("oldSelf", bound);
}

/// The message when the rule does not hold; an error when it cannot be evaluated.
fn broken(rule: &Rule, scope: &Context<'_>) -> Result<Option<String>, String> {
    match rule.program.execute(scope) {
        Ok(CelValue::Bool(true)) => Ok(None),
        Ok(CelValue::Bool(false)) => Ok(Some(wording(rule, scope))),
        Ok(_) => Err(format!("rule must evaluate to true or false: {}", rule.text)),
        Err(failure) => {
            let named = rule.message.as_deref().unwrap_or(&rule.text);
            Err(format!("{} evaluating rule: {}", reason(&failure), named.trim()))
        }
    }
}

fn reason(failure: &ExecutionError) -> String {
    match failure {
        ExecutionError::NoSuchKey(name) => format!("no such key: {name}"),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => format!("index out of bounds: {index}"),
        // The other texts can hold the whole object.
        other => other.to_string().chars().take(200).collect(),
    }
}

fn wording(rule: &Rule, scope: &Context<'_>) -> String {
    let computed = rule.message_program.as_ref().and_then(|program| program.execute(scope).ok());
    match computed {
        Some(CelValue::String(text)) if !text.trim().is_empty() && !text.contains('\n') => text.trim().to_owned(),
        _ => fixed_message(rule),
    }
}

fn fixed_message(rule: &Rule) -> String {
    rule.message.clone().unwrap_or_else(|| format!("failed rule: {}", rule.text))
}

/// A rule that does not hold; objects and lists are not shown.
fn error(value: &Value, rule: &Rule, at: &str, text: &str) -> FieldError {
    let shown = match value {
        Value::Object(_) | Value::Array(_) => String::new(),
        scalar => format!(": {}", message::shown(scalar)),
    };
    let message = match rule.reason {
        FieldErrorKind::Required => format!("Required value: {text}"),
        FieldErrorKind::Forbidden => format!("Forbidden: {text}"),
        FieldErrorKind::Duplicate => format!("Duplicate value{shown}"),
        _ => format!("Invalid value{shown}: {text}"),
    };
    let path = match &rule.field_path {
        Some(below) => rule::join(at, below),
        None => path::shown(at),
    };
    FieldError { path, kind: rule.reason, message }
}

/// A rule that cannot be evaluated.
fn failure(kind: Type, at: &str, text: &str) -> FieldError {
    let message = format!("Invalid value: \"{}\": {text}", kind.word());
    FieldError { path: path::shown(at), kind: FieldErrorKind::Invalid, message }
}
