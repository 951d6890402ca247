//! What is wrong with an object or a schema, in Kubernetes' words.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;

/// The sort of a field error; [`FieldErrorKind::reason`] is the word in a `StatusCause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    /// The value breaks a rule.
    Invalid,
    /// A field that must be there is not.
    Required,
    /// The value is not in the enumeration.
    NotSupported,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The value may not be set here.
    Forbidden,
    /// A list element occurs twice.
    Duplicate,
    /// What the value names is not there.
    NotFound,
    /// A string is too long.
    TooLong,
    /// A list or map has too many elements.
    TooMany,
}

impl FieldErrorKind {
    /// The stable word of `StatusCause.reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }
}

/// One broken rule of one field. `Display` is `path: message`, as in Kubernetes' `Status.message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldError {
    /// The field, such as `spec.containers[0].name`; `<nil>` for the whole object.
    pub path: String,
    /// The sort of error.
    pub kind: FieldErrorKind,
    /// The text without the path, such as `Invalid value: 5: must be less than or equal to 3`.
    pub message: String,
}

impl FieldError {
    /// The cause as it goes into `Status.details.causes`.
    pub fn cause(&self) -> StatusCause {
        StatusCause {
            field: Some(self.path.clone()),
            message: Some(self.message.clone()),
            reason: Some(self.kind.reason().to_owned()),
        }
    }
}

/// Why a schema is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct SchemaError {
    /// The place in the schema, such as `properties[spec].items`; empty for the root.
    pub path: String,
    /// What is wrong there and, where not plain, what to write instead.
    pub message: String,
}
