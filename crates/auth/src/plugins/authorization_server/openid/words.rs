//! The scopes of OpenID Connect, which have no colon on the wire.

use gatewright_base::Scope;

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Word {
    pub(in super::super) on_the_wire: &'static str,
    /// The same among the scopes of grants, consents and tokens. It never changes.
    pub(in super::super) scope: &'static str,
    /// What it allows, as a key of the catalogues of languages.
    pub(in super::super) text: &'static str,
}

pub(in super::super) const OPENID: &str = "openid";
pub(in super::super) const OFFLINE: &str = "offline_access";
/// Their resource, which no entity's permission has with these verbs.
const RESOURCE: &str = "openid";

/// Who the user is.
pub(in super::super) const IDENTITY: Word = Word { on_the_wire: OPENID, scope: "openid:id", text: "consent.openid" };
/// The fields of the profile that the operator has chosen.
pub(in super::super) const PROFILE: Word =
    Word { on_the_wire: "profile", scope: "openid:profile", text: "consent.profile" };
pub(in super::super) const EMAIL: Word = Word { on_the_wire: "email", scope: "openid:email", text: "consent.email" };
/// Access also without a session of the user.
pub(in super::super) const OFFLINE_ACCESS: Word =
    Word { on_the_wire: OFFLINE, scope: "openid:offline", text: "consent.offline" };

pub(in super::super) const ALL: [Word; 4] = [IDENTITY, PROFILE, EMAIL, OFFLINE_ACCESS];

impl Word {
    /// Whether it is one of `scopes`.
    pub(in super::super) fn is_in(self, scopes: &gatewright_base::Scopes) -> bool {
        scopes.iter().any(|scope| scope.as_str() == self.scope)
    }
}

/// Whether a scope says what a program learns about a user, and not what it may do.
pub(in super::super) fn is_identity(scope: &Scope) -> bool {
    scope.resource() == RESOURCE && ALL.iter().any(|word| word.scope == scope.as_str())
}

/// The scope of a word that a client sends. `None`: it is none, or an inner form of one of those of OpenID Connect.
pub fn parse(text: &str) -> Option<Scope> {
    let scope = match ALL.iter().find(|word| word.on_the_wire == text) {
        Some(word) => return word.scope.parse().ok(),
        None => text.parse::<Scope>().ok()?,
    };
    (!is_identity(&scope)).then_some(scope)
}

/// A scope as a client sends it.
pub fn on_the_wire(scope: &Scope) -> &str {
    ALL.iter().find(|word| word.scope == scope.as_str()).map_or(scope.as_str(), |word| word.on_the_wire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_wire_are_scopes_and_their_inner_form_is_none() {
        for word in ALL {
            let scope = parse(word.on_the_wire).expect("a scope");
            assert!(is_identity(&scope) && on_the_wire(&scope) == word.on_the_wire, "{word:?}");
            assert!(parse(word.scope).is_none(), "{word:?}");
        }
        let other = parse("openid:read").expect("a scope of an entity with that name");
        assert!(!is_identity(&other) && on_the_wire(&other) == "openid:read");
        assert!(parse("address").is_none());
    }
}
