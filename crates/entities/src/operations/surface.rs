use crate::plan::Plan;

/// By which of its faces a request reached the service. What an entity keeps from one (`crud`, `mcp`), related records do
/// not bring there either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Surface {
    /// None: the program itself asks, for all that its caller may.
    #[default]
    Program,
    /// The endpoints.
    Rest,
    /// The tools.
    Tools,
}

impl Surface {
    /// The most bytes of JSON in one answer. Records may be a megabyte each, and a page may ask for a thousand. A tool's answer
    /// is built as values twice over, which take many times their text, and is for a reader of far less.
    pub(super) fn most_bytes(self) -> usize {
        match self {
            Self::Program | Self::Rest => 8 * 1024 * 1024,
            Self::Tools => 1024 * 1024,
        }
    }

    /// Whether the entity's records are read here.
    pub(super) fn serves(self, plan: &Plan) -> bool {
        match self {
            Self::Program => true,
            Self::Rest => plan.crud,
            Self::Tools => plan.mcp,
        }
    }
}
