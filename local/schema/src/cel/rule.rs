//! One rule: parsed from the schema, compiled and checked against the node it stands on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube::core::cel::cel::Program;
use serde::Deserialize;
use serde_json::Value;

use super::{cost, fields, stack};
use crate::error::FieldErrorKind;
use crate::node::Node;

/// Bounds the parser's work; the longest rules in the wild are a tenth of this.
const MAX_EXPRESSION_BYTES: usize = 16 * 1024;

/// The parser and the interpreter walk chains such as `a.b.c` and `1+1+1` by recursion, a level for each operator.
const MAX_OPERATORS: usize = 600;

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub text: String,
    pub program: Program,
    pub message: Option<String>,
    pub message_program: Option<Program>,
    pub reason: FieldErrorKind,
    pub field_path: Option<String>,
    pub transition: bool,
    pub optional_old_self: bool,
    /// Whether it needs a stack of its own.
    pub deep: bool,
    /// How deep its loops nest.
    pub loops: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    rule: String,
    message: Option<String>,
    message_expression: Option<String>,
    reason: Option<String>,
    field_path: Option<String>,
    optional_old_self: Option<bool>,
}

impl Rule {
    /// Compiles a rule; the error names the keyword and says why. `correlatable` is false where the old value of a
    /// place cannot be found.
    pub(crate) fn parse(written: &Value, node: &Node, correlatable: bool) -> Result<Self, (String, String)> {
        let written: Written = serde_json::from_value(written.clone())
            .map_err(|error| (String::new(), format!("Invalid value: not a validation rule: {error}")))?;
        let texts = [Some(&written.rule), written.message_expression.as_ref()];
        let deep = texts.into_iter().flatten().any(|text| stack::is_deep(text));
        let compiled = stack::run(deep, || Self::compile(written, node, correlatable, deep));
        compiled.unwrap_or_else(|| Err(("rule".to_owned(), "Invalid value: the rule cannot be compiled".to_owned())))
    }

    fn compile(written: Written, node: &Node, correlatable: bool, deep: bool) -> Result<Self, (String, String)> {
        let program = compile("rule", &written.rule)?;
        let optional_old_self = written.optional_old_self.unwrap_or_default();
        fields::check(program.expression(), node, optional_old_self)
            .map_err(|why| ("rule".to_owned(), refused(&written.rule, &why)))?;
        let transition = program.references().has_variable("oldSelf");
        if transition && !correlatable {
            let why = "oldSelf cannot be used on the uncorrelatable portion of the schema";
            return Err(("rule".to_owned(), refused(&written.rule, why)));
        }
        let message_program = match &written.message_expression {
            Some(text) => {
                let program = compile("messageExpression", text)?;
                fields::check(program.expression(), node, optional_old_self)
                    .map_err(|why| ("messageExpression".to_owned(), refused(text, &why)))?;
                Some(program)
            }
            None => None,
        };
        if let Some(path) = &written.field_path {
            check_path(path, node).map_err(|why| ("fieldPath".to_owned(), refused(path, &why)))?;
        }
        Ok(Self {
            reason: reason(written.reason.as_deref())?,
            text: written.rule,
            loops: cost::loops(program.expression()),
            program,
            message: written.message.filter(|text| !text.trim().is_empty()),
            message_program,
            field_path: written.field_path,
            transition,
            optional_old_self,
            deep,
        })
    }
}

fn refused(text: &str, why: &str) -> String {
    let shown: String = text.chars().take(200).collect();
    format!("Invalid value: {shown:?}: compilation failed: ERROR: {why}")
}

fn compile(keyword: &str, text: &str) -> Result<Program, (String, String)> {
    if text.trim().is_empty() {
        return Err((keyword.to_owned(), format!("Required value: {keyword} is not specified")));
    }
    if text.len() > MAX_EXPRESSION_BYTES {
        let message = format!("Too long: may not be more than {MAX_EXPRESSION_BYTES} bytes");
        return Err((keyword.to_owned(), message));
    }
    let operators = stack::operators(text);
    if operators > MAX_OPERATORS {
        let why = format!("the expression has {operators} operators and brackets, the maximum is {MAX_OPERATORS}");
        return Err((keyword.to_owned(), refused(text, &why)));
    }
    // The parser is generated code that has been seen to panic on malformed input; a schema is outside input.
    match catch_unwind(AssertUnwindSafe(|| Program::compile(text))) {
        Ok(Ok(program)) => Ok(program),
        Ok(Err(error)) => Err((keyword.to_owned(), refused(text, &error.to_string()))),
        Err(_) => Err((keyword.to_owned(), refused(text, "not a CEL expression"))),
    }
}

fn reason(word: Option<&str>) -> Result<FieldErrorKind, (String, String)> {
    Ok(match word {
        None | Some("FieldValueInvalid") => FieldErrorKind::Invalid,
        Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
        Some("FieldValueRequired") => FieldErrorKind::Required,
        Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
        Some(other) => {
            let known = r#""FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#;
            return Err(("reason".to_owned(), format!("Unsupported value: {other:?}: supported values: {known}")));
        }
    })
}

/// The steps of a field path such as `.spec.limits['a.b']`.
fn steps(path: &str) -> Option<Vec<&str>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix("['") {
            let (name, tail) = tail.split_once("']")?;
            steps.push(name);
            rest = tail;
        } else {
            let tail = rest.strip_prefix('.')?;
            let end = tail.find(['.', '[']).unwrap_or(tail.len());
            if end == 0 {
                return None;
            }
            steps.push(&tail[..end]);
            rest = &tail[end..];
        }
    }
    Some(steps)
}

fn check_path(path: &str, node: &Node) -> Result<(), String> {
    let steps = steps(path).filter(|steps| !steps.is_empty());
    let mut node = node;
    for step in steps.ok_or_else(|| "must be a path such as .spec.replicas".to_owned())? {
        node = node.field(step).ok_or_else(|| format!("does not refer to a valid field: {step}"))?;
    }
    Ok(())
}

/// The path of an error whose rule names a field below the place of the rule.
pub(super) fn join(at: &str, below: &str) -> String {
    steps(below).unwrap_or_default().into_iter().fold(at.to_owned(), |path, step| {
        if step.contains('.') { crate::path::key(&path, step) } else { crate::path::field(&path, step) }
    })
}
