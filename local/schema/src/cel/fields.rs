//! The check a real API server's type checker makes and the CEL library does not: rules name only known fields.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kube::core::cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, SelectExpr};

use super::{functions, names};
use crate::node::{Node, Type};

/// Names that are types or prefixes of functions.
const KNOWN: [&str; 27] = [
    "base64",
    "bool",
    "bytes",
    "cel",
    "cidr",
    "double",
    "duration",
    "format",
    "google",
    "int",
    "ip",
    "jsonpatch",
    "list",
    "map",
    "math",
    "net",
    "null_type",
    "optional",
    "optional_type",
    "quantity",
    "semver",
    "sets",
    "string",
    "strings",
    "timestamp",
    "type",
    "uint",
];

/// Rules see a resource's name and nothing else of its metadata.
static METADATA: LazyLock<Node> = LazyLock::new(|| {
    let text = || Node { kind: Type::String, ..Node::default() };
    let properties = ["name", "generateName"].into_iter().map(|name| (name.to_owned(), text())).collect();
    Node { kind: Type::Object, properties, ..Node::default() }
});

/// What is known of an expression's value: the node it comes from, or nothing.
type Known<'a> = Option<&'a Node>;
type Scope<'a> = BTreeMap<String, Known<'a>>;

/// Checks every selection in an expression over `self` of this node.
pub(super) fn check(expression: &IdedExpr, node: &Node, optional_old_self: bool) -> Result<(), String> {
    let mut scope = Scope::new();
    scope.insert("self".to_owned(), Some(node));
    scope.insert("oldSelf".to_owned(), if optional_old_self { None } else { Some(node) });
    infer(expression, &scope).map(|_| ())
}

fn infer<'a>(expression: &IdedExpr, scope: &Scope<'a>) -> Result<Known<'a>, String> {
    match &expression.expr {
        Expr::Ident(name) => identifier(name, scope),
        Expr::Select(select) => selection(select, scope),
        Expr::Call(call) => function(call, scope),
        Expr::Comprehension(comprehension) => loops(comprehension, scope),
        Expr::List(list) => {
            for element in &list.elements {
                infer(element, scope)?;
            }
            Ok(None)
        }
        Expr::Map(map) => {
            for entry in &map.entries {
                entries(&entry.expr, scope)?;
            }
            Ok(None)
        }
        Expr::Struct(structure) => {
            for entry in &structure.entries {
                entries(&entry.expr, scope)?;
            }
            Ok(None)
        }
        Expr::Unspecified | Expr::Literal(_) => Ok(None),
    }
}

fn entries(entry: &EntryExpr, scope: &Scope<'_>) -> Result<(), String> {
    match entry {
        EntryExpr::StructField(field) => infer(&field.value, scope).map(|_| ()),
        EntryExpr::MapEntry(entry) => {
            infer(&entry.key, scope)?;
            infer(&entry.value, scope).map(|_| ())
        }
    }
}

fn identifier<'a>(name: &str, scope: &Scope<'a>) -> Result<Known<'a>, String> {
    match scope.get(name) {
        Some(known) => Ok(*known),
        None if KNOWN.contains(&name) || name.starts_with('@') => Ok(None),
        None => Err(format!("undeclared reference to '{name}' (in container '')")),
    }
}

fn selection<'a>(select: &SelectExpr, scope: &Scope<'a>) -> Result<Known<'a>, String> {
    let Some(node) = infer(&select.operand, scope)? else { return Ok(None) };
    step(node, &select.field)
}

fn step<'a>(node: &'a Node, name: &str) -> Result<Known<'a>, String> {
    if node.embedded && name == "metadata" {
        return Ok(Some(&METADATA));
    }
    match node.kind {
        Type::Any | Type::IntOrString => return Ok(None),
        Type::Object => {}
        Type::Array | Type::String | Type::Integer | Type::Number | Type::Boolean => {
            return Err(format!("type '{}' does not support field selection", node.kind.word()));
        }
    }
    if let Some(values) = node.additional.as_deref() {
        return Ok(Some(values));
    }
    match node.properties.iter().find(|(field, _)| names::escape(field) == name) {
        Some((_, child)) => Ok(Some(child)),
        None => Err(format!("undefined field '{name}'")),
    }
}

fn function<'a>(call: &CallExpr, scope: &Scope<'a>) -> Result<Known<'a>, String> {
    if !functions::exists(call) {
        return Err(format!("undeclared reference to '{}' (in container '')", call.func_name));
    }
    let target = call.target.as_deref().map(|target| infer(target, scope)).transpose()?;
    let mut arguments = Vec::with_capacity(call.args.len());
    for argument in &call.args {
        arguments.push(infer(argument, scope)?);
    }
    if call.func_name == "_[_]" {
        let indexed = target.or(arguments.first().copied()).flatten();
        return Ok(indexed.and_then(values));
    }
    Ok(None)
}

/// The node of a list's elements or a map's values.
fn values(node: &Node) -> Known<'_> {
    match node.kind {
        Type::Array => node.items.as_deref(),
        _ => node.additional.as_deref(),
    }
}

fn loops<'a>(comprehension: &ComprehensionExpr, scope: &Scope<'a>) -> Result<Known<'a>, String> {
    let range = infer(&comprehension.iter_range, scope)?;
    infer(&comprehension.accu_init, scope)?;
    let mut inner = scope.clone();
    inner.insert(comprehension.accu_var.clone(), None);
    let element = range.and_then(|node| if node.kind == Type::Array { values(node) } else { None });
    match &comprehension.iter_var2 {
        None => inner.insert(comprehension.iter_var.clone(), element),
        Some(second) => {
            inner.insert(second.clone(), range.and_then(values));
            inner.insert(comprehension.iter_var.clone(), None)
        }
    };
    infer(&comprehension.loop_cond, &inner)?;
    infer(&comprehension.loop_step, &inner)?;
    infer(&comprehension.result, &inner)?;
    Ok(None)
}
