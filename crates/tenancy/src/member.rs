use gatewright_base::{Roles, ServiceId, Subject, TenantId, UserId};

/// One membership.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Member {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind of the account.
    pub kind: MemberKind,
    /// The account's id.
    pub id: String,
    /// Their roles there.
    pub roles: Roles,
}

/// The kind of a member's account. A user and a service account with the same id are two members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberKind {
    /// A person.
    User,
    /// A program.
    Service,
}

impl MemberKind {
    pub(crate) fn of(subject: &Subject) -> Self {
        match subject {
            Subject::User(_) => Self::User,
            Subject::Service(_) => Self::Service,
        }
    }

    /// The kind as text, as in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Service => "service",
        }
    }

    /// The kind for a text of the table.
    pub(crate) fn parse(word: &str) -> Self {
        if word == Self::Service.as_str() { Self::Service } else { Self::User }
    }

    /// The account of this kind with this id; `None` if the id is invalid.
    pub(crate) fn subject(self, id: &str) -> Option<Subject> {
        match self {
            Self::User => UserId::parse(id).ok().map(Subject::User),
            Self::Service => ServiceId::parse(id).ok().map(Subject::Service),
        }
    }
}
