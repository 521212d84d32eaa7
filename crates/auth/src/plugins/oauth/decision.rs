//! Decides what happens with an identity from a provider: one pure function from facts to a decision.

use gatewright_base::UserId;

use crate::email::EmailAddress;
use crate::session::{AnySession, Session};
use crate::users::User;

/// The purpose of the flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    /// To sign in.
    SignIn,
    /// To link the identity to this user's account.
    Link(UserId),
}

/// The facts after the provider has answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'f> {
    /// The account that the identity is linked to, if it is.
    pub(super) linked_to: Option<&'f User>,
    /// The provider's statement about an address.
    pub(super) email: Email<'f>,
    /// The account with that address, if there is one.
    pub(super) account: Option<&'f User>,
    /// The session of the browser, if it has one.
    pub(super) caller: Option<&'f AnySession>,
}

/// The address of an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Email<'f> {
    /// The provider sent no address, or an invalid one.
    Absent,
    /// The provider does not report it as verified.
    Unverified(&'f EmailAddress),
    /// The provider reports it as verified.
    Verified(&'f EmailAddress),
}

/// The decision, with the account that it is about, so that no other can be used. A decision that changes links contains
/// a [`Session`], which a user with a pending second factor does not have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Decision<'f> {
    /// Sign this user in.
    SignIn(&'f User),
    /// The provider has proven the mailbox of this account without a password: link the identity to it, and sign its user
    /// in.
    Bind(&'f User),
    /// Create a user with this address and without a password, linked, whose mailbox the provider has proven or not.
    Create { email: &'f EmailAddress, proven: bool },
    /// Link the identity to the caller's account.
    Link(&'f Session),
    /// The identity is the caller's already.
    AlreadyLinked(&'f Session),
    /// Do nothing.
    Refuse(Refusal),
}

/// Why nothing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The identity has no address for a new account.
    NoEmail,
    /// The address has an account with a password, which only its owner may link.
    PasswordAccount,
    /// The address has an account, and the provider does not report the address as verified.
    Unverified,
    /// Linking needs a session.
    NoSession,
    /// The second factor of the session is pending.
    SecondFactorRequired,
    /// The session belongs to a user other than the one who started the flow.
    OtherUser,
    /// The identity is linked to another account.
    BoundToAnother,
}

/// Decides.
pub(super) fn decide<'f>(intent: &Intent, facts: &Facts<'f>) -> Decision<'f> {
    match intent {
        Intent::SignIn => sign_in(facts),
        Intent::Link(user) => link(user, facts),
    }
}

fn sign_in<'f>(facts: &Facts<'f>) -> Decision<'f> {
    if let Some(user) = facts.linked_to {
        return Decision::SignIn(user);
    }
    match (facts.email, facts.account) {
        (Email::Absent, _) => Decision::Refuse(Refusal::NoEmail),
        (Email::Verified(_), Some(account)) if account.password_set => Decision::Refuse(Refusal::PasswordAccount),
        (Email::Verified(_), Some(account)) => Decision::Bind(account),
        (Email::Unverified(_), Some(_)) => Decision::Refuse(Refusal::Unverified),
        (Email::Verified(email), None) => Decision::Create { email, proven: true },
        (Email::Unverified(email), None) => Decision::Create { email, proven: false },
    }
}

fn link<'f>(user: &UserId, facts: &Facts<'f>) -> Decision<'f> {
    let session = match facts.caller {
        None => return Decision::Refuse(Refusal::NoSession),
        Some(AnySession::Pending(_)) => return Decision::Refuse(Refusal::SecondFactorRequired),
        Some(AnySession::Full(session)) => session,
    };
    if session.user().id != *user {
        return Decision::Refuse(Refusal::OtherUser);
    }
    match facts.linked_to {
        None => Decision::Link(session),
        Some(owner) if owner.id == *user => Decision::AlreadyLinked(session),
        Some(_) => Decision::Refuse(Refusal::BoundToAnother),
    }
}

impl Refusal {
    /// Its word in audit events and as the code of answers.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::NoEmail => "email_missing",
            Self::PasswordAccount => "account_exists",
            Self::Unverified => "email_unverified",
            Self::NoSession => "unauthorized",
            Self::SecondFactorRequired => "two_factor_required",
            Self::OtherUser => "another_user",
            Self::BoundToAnother => "linked_elsewhere",
        }
    }
}

#[cfg(test)]
mod tests {
    use gatewright_base::Roles;

    use super::*;
    use crate::session::testing;

    /// A decision without its references, to be compared with.
    #[derive(Debug, Clone, PartialEq, Eq)]
    enum Done {
        SignIn(String),
        Bind(String),
        Create { proven: bool },
        Link(String),
        AlreadyLinked(String),
        Refuse(Refusal),
    }

    fn done(decision: &Decision<'_>) -> Done {
        let name = |user: &User| user.id.as_str().to_owned();
        match decision {
            Decision::SignIn(user) => Done::SignIn(name(user)),
            Decision::Bind(user) => Done::Bind(name(user)),
            Decision::Create { email, proven } => {
                assert_eq!(email.as_str(), "ann@example.com");
                Done::Create { proven: *proven }
            }
            Decision::Link(session) => Done::Link(name(session.user())),
            Decision::AlreadyLinked(session) => Done::AlreadyLinked(name(session.user())),
            Decision::Refuse(refusal) => Done::Refuse(*refusal),
        }
    }

    fn address() -> EmailAddress {
        EmailAddress::parse("ann@example.com").unwrap()
    }

    fn user(id: &str) -> User {
        User::new(UserId::parse(id).unwrap(), address(), Roles::default())
    }

    fn holder(password_set: bool) -> User {
        User { password_set, ..user("holder") }
    }

    #[test]
    fn every_row_of_the_sign_in_table() {
        use Done::{Bind, Create, Refuse, SignIn};
        let address = address();
        let (absent, unverified, verified) = (Email::Absent, Email::Unverified(&address), Email::Verified(&address));
        let owner = || SignIn("owner".to_owned());
        let rows = [
            // A link has priority over the address.
            (Some("owner"), verified, Some(holder(true)), owner()),
            (Some("owner"), verified, Some(holder(false)), owner()),
            (Some("owner"), verified, None, owner()),
            (Some("owner"), unverified, Some(holder(true)), owner()),
            (Some("owner"), unverified, None, owner()),
            (Some("owner"), absent, None, owner()),
            // A verified address with an account: linked if the account has no password, refused otherwise.
            (None, verified, Some(holder(true)), Refuse(Refusal::PasswordAccount)),
            (None, verified, Some(holder(false)), Bind("holder".to_owned())),
            // An unverified address binds to nothing.
            (None, unverified, Some(holder(true)), Refuse(Refusal::Unverified)),
            (None, unverified, Some(holder(false)), Refuse(Refusal::Unverified)),
            // No account has it: a new account.
            (None, verified, None, Create { proven: true }),
            (None, unverified, None, Create { proven: false }),
            // No address, no account.
            (None, absent, None, Refuse(Refusal::NoEmail)),
        ];
        for (linked_to, email, account, expected) in rows {
            let linked_to = linked_to.map(user);
            // For a sign-in, the browser's earlier session does not matter.
            for caller in [None, Some(testing::pending(user("someone"))), Some(testing::full(user("someone")))] {
                let facts =
                    Facts { linked_to: linked_to.as_ref(), email, account: account.as_ref(), caller: caller.as_ref() };
                assert_eq!(done(&decide(&Intent::SignIn, &facts)), expected, "{facts:?}");
            }
        }
    }

    #[test]
    fn every_row_of_the_link_flow() {
        use Done::{AlreadyLinked, Link, Refuse};
        let address = address();
        let (pending, full) = (|id| Some(testing::pending(user(id))), |id| Some(testing::full(user(id))));
        let rows = [
            (None, None, Refuse(Refusal::NoSession)),
            (None, Some("me"), Refuse(Refusal::NoSession)),
            (pending("me"), None, Refuse(Refusal::SecondFactorRequired)),
            (pending("me"), Some("me"), Refuse(Refusal::SecondFactorRequired)),
            (full("someone"), None, Refuse(Refusal::OtherUser)),
            (full("someone"), Some("someone"), Refuse(Refusal::OtherUser)),
            (full("me"), Some("someone"), Refuse(Refusal::BoundToAnother)),
            (full("me"), Some("me"), AlreadyLinked("me".to_owned())),
            (full("me"), None, Link("me".to_owned())),
        ];
        let intent = Intent::Link(UserId::parse("me").unwrap());
        for (caller, linked_to, expected) in rows {
            let linked_to = linked_to.map(user);
            // Addresses do not matter: this flow is for linking a password account with the same address.
            for email in [Email::Absent, Email::Unverified(&address), Email::Verified(&address)] {
                for account in [None, Some(holder(true)), Some(holder(false))] {
                    let (linked_to, account, caller) = (linked_to.as_ref(), account.as_ref(), caller.as_ref());
                    let facts = Facts { linked_to, email, account, caller };
                    assert_eq!(done(&decide(&intent, &facts)), expected, "{facts:?}");
                }
            }
        }
    }
}
