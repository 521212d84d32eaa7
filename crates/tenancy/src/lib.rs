//! Tenants: who belongs to which, with which roles.
//!
//! A tenant is no more than its id: it exists where it has members or records. [`SqlMemberships`] keeps members and names
//! in a SQLite or Postgres database. A program with teams of its own implements [`TenantStore`], through which
//! accounts manage their tenants.
//!
//! Who may change what is one pure function, [`permits`]. The store asks it inside the transaction of the change, which
//! holds the tenant's row, so that two changes of one tenant never overlap: the last owner stays.

mod authority;
mod joining;
mod member;
mod roles;
mod sql;
mod steps;
mod store;
mod tenants;

pub use authority::{ADMIN, Change, MEMBER, OWNER, permits};
pub use member::{Member, MemberKind};
pub use sql::{MembershipsInitError, SqlMemberships};
pub use steps::{COMPONENT, INVITATION_STEPS, INVITATIONS, STEPS};
pub use store::{Changed, Joined, NewTenant, TenantMember, TenantOfUser, TenantStore, TenantStoreError, TenantsWithin};
pub use tenants::TenantSummary;
