//! Why a spec cannot be turned into a release. Each text says what is wrong, where, and what to do.

use super::MAX_VALUES_BYTES;

/// A spec that the module does not act upon; the running release is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The catalogue has no such version.
    #[error("spec.chartVersion {asked} is not known to this version of the module, use one of {known}")]
    UnknownChartVersion {
        /// What the spec asks for.
        asked: String,
        /// What could be asked for.
        known: String,
    },
    /// The catalogue has the version, but no longer installs it.
    #[error("spec.chartVersion {asked} is too old to be installed, use one of {known}")]
    RetiredChartVersion {
        /// What the spec asks for.
        asked: String,
        /// What could be asked for.
        known: String,
    },
    /// `spec.values` touches what the module owns.
    #[error("spec.values.{path} is set by the module, remove it from spec.values")]
    OwnedValue {
        /// Dotted path of the value.
        path: String,
    },
    /// `spec.values` says something else than a typed field does.
    #[error("spec.values.{path} contradicts {field}, remove one of the two")]
    Contradiction {
        /// The typed field.
        field: &'static str,
        /// Dotted path of the value.
        path: String,
    },
    /// An image from a registry that the operator does not allow.
    #[error("{field} names {named}, but the operator allows only {allowed}, choose one of these")]
    RegistryNotAllowed {
        /// Dotted path in the GpuModule.
        field: String,
        /// The registry or repository.
        named: String,
        /// What could be named.
        allowed: String,
    },
    /// A value that the operator's administrator has locked.
    #[error(
        "spec.values.{path} is locked by the operator, which leaves {open} open, remove it from spec.values"
    )]
    LockedValue {
        /// Dotted path of the value.
        path: String,
        /// What may be set.
        open: String,
    },
    /// A text of several lines, where the chart would take the later ones for something else.
    #[error(
        "spec.values.{path} has a line break, after which the chart would read something else than a text, write it in one line"
    )]
    LineBreak {
        /// Dotted path of the value, or of the map whose key it is.
        path: String,
    },
    /// Text that the chart would run as a template.
    #[error("spec.values puts template text '{{{{' into {path}, which Helm would execute, remove it")]
    TemplateText {
        /// Where the text would end up.
        path: String,
    },
    /// The values would not fit into a release.
    #[error(
        "the merged values have {bytes} bytes, more than the {MAX_VALUES_BYTES} allowed, shorten spec.values"
    )]
    ValuesTooLarge {
        /// Size of the merged values as JSON.
        bytes: usize,
    },
}

impl Refusal {
    /// The reason of condition `Configured`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::UnknownChartVersion { .. } => "UnknownChartVersion",
            Self::RetiredChartVersion { .. } => "RetiredChartVersion",
            Self::OwnedValue { .. } => "OwnedValue",
            Self::Contradiction { .. } => "ContradictingValues",
            Self::RegistryNotAllowed { .. } => "RegistryNotAllowed",
            Self::LockedValue { .. } => "LockedValue",
            Self::LineBreak { .. } => "LineBreak",
            Self::TemplateText { .. } => "TemplateText",
            Self::ValuesTooLarge { .. } => "ValuesTooLarge",
        }
    }
}
