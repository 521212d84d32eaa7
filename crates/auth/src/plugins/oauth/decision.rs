//! What becomes of an identity that comes back from a provider: one pure function from facts to a decision.

use gatewright_base::UserId;

/// What the flow was started for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    /// To sign in.
    SignIn,
    /// To link the identity to this user's account.
    Link(UserId),
}

/// What is known when the provider has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// Whose the identity is, if it is linked.
    pub(super) linked_to: Option<UserId>,
    /// What the provider says of an address.
    pub(super) email: Email,
    /// The account with that address, if there is one.
    pub(super) account: Option<Account>,
    /// Who the browser is signed in as.
    pub(super) caller: Caller,
}

/// The address of an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Email {
    /// The provider gave none, or one that is none.
    Absent,
    /// The provider does not vouch for it.
    Unverified,
    /// The provider vouches for it.
    Verified,
}

/// An account with the identity's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) id: UserId,
    /// Whether somebody can sign in to it with a password.
    pub(super) has_password: bool,
}

/// Who the browser that came back is signed in as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Caller {
    Nobody,
    /// Somebody who owes a second factor.
    Pending,
    User(UserId),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Sign this user in.
    SignIn(UserId),
    /// The provider has proven the mailbox of this account without a password: link the identity to it, and sign its user
    /// in.
    Bind(UserId),
    /// Create a user without a password, linked, whose mailbox the provider has proven or not.
    Create { proven: bool },
    /// Link the identity to the caller's account.
    Link,
    /// The identity is the caller's already.
    AlreadyLinked,
    /// Do nothing.
    Refuse(Refusal),
}

/// Why nothing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The identity has no address that an account could be made with.
    NoEmail,
    /// The address has an account with a password, which only its owner may link.
    PasswordAccount,
    /// The address has an account, and the provider does not vouch for it.
    Unverified,
    /// A link needs somebody signed in.
    NoSession,
    /// Somebody who signed in in full.
    SecondFactorOwed,
    /// The very user who asked for it.
    OtherUser,
    /// The identity is linked to another account.
    BoundToAnother,
}

/// Decides.
pub(super) fn decide(intent: &Intent, facts: &Facts) -> Decision {
    match intent {
        Intent::SignIn => sign_in(facts),
        Intent::Link(user) => link(user, facts),
    }
}

fn sign_in(facts: &Facts) -> Decision {
    if let Some(user) = &facts.linked_to {
        return Decision::SignIn(user.clone());
    }
    match (facts.email, &facts.account) {
        (Email::Absent, _) => Decision::Refuse(Refusal::NoEmail),
        (Email::Verified, Some(account)) if account.has_password => Decision::Refuse(Refusal::PasswordAccount),
        (Email::Verified, Some(account)) => Decision::Bind(account.id.clone()),
        (Email::Unverified, Some(_)) => Decision::Refuse(Refusal::Unverified),
        (email, None) => Decision::Create { proven: email == Email::Verified },
    }
}

fn link(user: &UserId, facts: &Facts) -> Decision {
    match &facts.caller {
        Caller::Nobody => return Decision::Refuse(Refusal::NoSession),
        Caller::Pending => return Decision::Refuse(Refusal::SecondFactorOwed),
        Caller::User(caller) if caller != user => return Decision::Refuse(Refusal::OtherUser),
        Caller::User(_) => {}
    }
    match &facts.linked_to {
        None => Decision::Link,
        Some(owner) if owner == user => Decision::AlreadyLinked,
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
            Self::SecondFactorOwed => "two_factor_required",
            Self::OtherUser => "another_user",
            Self::BoundToAnother => "linked_elsewhere",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> UserId {
        UserId::parse(text).unwrap()
    }

    fn account(has_password: bool) -> Account {
        Account { id: id("holder"), has_password }
    }

    fn facts(linked_to: Option<&str>, email: Email, account: Option<Account>, caller: Caller) -> Facts {
        Facts { linked_to: linked_to.map(id), email, account, caller }
    }

    #[test]
    fn every_row_of_the_sign_in_table() {
        use Decision::{Bind, Create, Refuse, SignIn};
        use Email::{Absent, Unverified, Verified};
        let rows = [
            // A link wins, whatever the address.
            (Some("owner"), Verified, Some(account(true)), SignIn(id("owner"))),
            (Some("owner"), Verified, Some(account(false)), SignIn(id("owner"))),
            (Some("owner"), Verified, None, SignIn(id("owner"))),
            (Some("owner"), Unverified, Some(account(true)), SignIn(id("owner"))),
            (Some("owner"), Unverified, None, SignIn(id("owner"))),
            (Some("owner"), Absent, None, SignIn(id("owner"))),
            // A verified address with an account: by password none, without one its own.
            (None, Verified, Some(account(true)), Refuse(Refusal::PasswordAccount)),
            (None, Verified, Some(account(false)), Bind(id("holder"))),
            // An unverified address binds to nothing.
            (None, Unverified, Some(account(true)), Refuse(Refusal::Unverified)),
            (None, Unverified, Some(account(false)), Refuse(Refusal::Unverified)),
            // Nobody has it: a new account.
            (None, Verified, None, Create { proven: true }),
            (None, Unverified, None, Create { proven: false }),
            // No address, no account.
            (None, Absent, None, Refuse(Refusal::NoEmail)),
        ];
        for (linked_to, email, account, expected) in rows {
            // Who the browser was signed in as before does not matter to a sign-in.
            for caller in [Caller::Nobody, Caller::Pending, Caller::User(id("someone"))] {
                let facts = facts(linked_to, email, account.clone(), caller);
                assert_eq!(decide(&Intent::SignIn, &facts), expected, "{facts:?}");
            }
        }
    }

    #[test]
    fn every_row_of_the_link_flow() {
        use Decision::{AlreadyLinked, Link, Refuse};
        let rows = [
            (Caller::Nobody, None, Refuse(Refusal::NoSession)),
            (Caller::Nobody, Some("me"), Refuse(Refusal::NoSession)),
            (Caller::Pending, None, Refuse(Refusal::SecondFactorOwed)),
            (Caller::User(id("someone")), None, Refuse(Refusal::OtherUser)),
            (Caller::User(id("someone")), Some("someone"), Refuse(Refusal::OtherUser)),
            (Caller::User(id("me")), Some("someone"), Refuse(Refusal::BoundToAnother)),
            (Caller::User(id("me")), Some("me"), AlreadyLinked),
            (Caller::User(id("me")), None, Link),
        ];
        for (caller, linked_to, expected) in rows {
            // Addresses do not matter: linking a password account with the same address is what this flow is for.
            for email in [Email::Absent, Email::Unverified, Email::Verified] {
                for account in [None, Some(account(true)), Some(account(false))] {
                    let facts = facts(linked_to, email, account, caller.clone());
                    assert_eq!(decide(&Intent::Link(id("me")), &facts), expected, "{facts:?}");
                }
            }
        }
    }
}
