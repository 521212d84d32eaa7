use gatewright_base::Roles;

/// Does everything within the tenant. Every tenant made over HTTP keeps at least one.
pub const OWNER: &str = "owner";
/// Manages the members who are not owners.
pub const ADMIN: &str = "admin";
/// The default role of an invitation.
pub const MEMBER: &str = "member";

/// A change of a tenant's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Look at the members and invitations.
    List,
    /// Invite a user with these roles.
    Invite(&'a Roles),
    /// Withdraw an invitation.
    Withdraw,
    /// Give a member other roles.
    SetRoles {
        /// The roles so far.
        from: &'a Roles,
        /// The roles from now on.
        to: &'a Roles,
    },
    /// Remove a member with these roles.
    Remove(&'a Roles),
    /// End one's own membership.
    Leave,
}

/// Whether a member with the roles `actor` may make this change. Owners and admins manage; only owners may give, change or
/// remove the role `owner`; every member may leave. Another rule keeps the last owner.
pub fn permits(actor: &Roles, change: Change<'_>) -> bool {
    let (owner, admin) = (actor.contains(OWNER), actor.contains(ADMIN));
    let of_owner = match change {
        Change::Leave => return true,
        Change::List | Change::Withdraw => false,
        Change::Invite(roles) | Change::Remove(roles) => roles.contains(OWNER),
        Change::SetRoles { from, to } => from.contains(OWNER) || to.contains(OWNER),
    };
    owner || (admin && !of_owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_manage_all_members_and_admins_all_except_owners() {
        let roles = |names: &[&str]| names.iter().copied().collect::<Roles>();
        let (owner, admin, member) = (roles(&[OWNER]), roles(&[ADMIN]), roles(&[MEMBER]));
        let both = roles(&[MEMBER, OWNER]);
        let set = |from, to| Change::SetRoles { from, to };
        let table = [
            (Change::List, [true, true, false]),
            (Change::Withdraw, [true, true, false]),
            (Change::Leave, [true, true, true]),
            (Change::Invite(&member), [true, true, false]),
            (Change::Invite(&admin), [true, true, false]),
            (Change::Invite(&both), [true, false, false]),
            (Change::Remove(&admin), [true, true, false]),
            (Change::Remove(&owner), [true, false, false]),
            (set(&member, &admin), [true, true, false]),
            (set(&member, &owner), [true, false, false]),
            (set(&owner, &member), [true, false, false]),
            (set(&both, &member), [true, false, false]),
        ];
        for (change, expected) in table {
            let found = [&owner, &admin, &member].map(|actor| permits(actor, change));
            assert_eq!(found, expected, "{change:?}");
        }
        assert!(!permits(&Roles::default(), Change::List));
    }
}
