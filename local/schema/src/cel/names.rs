//! Field names as CEL identifiers (the escaping of Kubernetes).

/// Words of the CEL grammar that cannot be identifiers.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The identifier of a declared field.
pub(super) fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn escapes_as_kubernetes_documents() {
        assert_eq!(escape("namespace"), "__namespace__");
        assert_eq!(escape("foo-bar.baz/x"), "foo__dash__bar__dot__baz__slash__x");
        assert_eq!(escape("redact__d"), "redact__underscores__d");
        assert_eq!(escape("x_y"), "x_y");
        assert_eq!(escape("int"), "int");
    }
}
