//! Tenants: their members, and the members' roles.
//!
//! A tenant is only its id: it exists if it has members or records. [`SqlMemberships`] stores members and names in a
//! SQLite or Postgres database. A program with its own teams implements [`TenantStore`], through which accounts manage
//! their tenants.
//!
//! One pure function, [`permits`], decides who may make which change. The store calls it inside the transaction of the
//! change, which locks the tenant's row, so that two changes of one tenant never overlap and the last owner stays.

mod authority;
mod events;
mod joining;
mod member;
mod roles;
mod sql;
mod steps;
mod store;
mod tenants;

pub use authority::{ADMIN, Change, MEMBER, OWNER, permits};
pub use events::{MemberEvent, MemberEventSink};
pub use member::{Member, MemberKind};
pub use sql::{MembershipsInitError, SqlMemberships, USER_MEMBERS};
pub use steps::{COMPONENT, INVITATION_STEPS, INVITATIONS, STEPS};
pub use store::{Changed, Joined, NewTenant, TenantMember, TenantOfUser, TenantStore, TenantStoreError, TenantsWithin};
pub use tenants::TenantSummary;
