//! What an operator is told of a function.

/// One function.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FunctionInfo {
    /// The name of its export.
    pub name: String,
    /// `before`, `on`, `job` or `route`.
    pub kind: &'static str,
    /// The file, as a path within the folder.
    pub file: String,
    /// When it runs: an entity and an action, an event, a schedule with its time zone, or a method and a path.
    pub trigger: String,
}
