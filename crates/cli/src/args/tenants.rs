//! Commands for tenants and their members.

use clap::Subcommand;

use super::Insist;

#[derive(Subcommand)]
pub(crate) enum TenantCommand {
    /// Makes an account a member; a tenant exists as soon as it has one
    ///
    /// Also accepts a service account.
    #[command(override_usage = "gatewright tenant add-member [OPTIONS] <TENANT> <EMAIL|--service <NAME>>")]
    AddMember {
        /// The tenant's id
        tenant: String,
        #[command(flatten)]
        member: Member,
        /// The roles in the tenant, such as `owner` or `admin,editor`; they replace the current roles
        #[arg(long, value_delimiter = ',')]
        roles: Option<Vec<String>>,
        #[command(flatten)]
        insist: Insist,
    },
    /// Ends a membership; open event streams end within a heartbeat
    #[command(override_usage = "gatewright tenant remove-member [OPTIONS] <TENANT> <EMAIL|--service <NAME>>")]
    RemoveMember {
        /// The tenant's id
        tenant: String,
        #[command(flatten)]
        member: Member,
    },
    /// Lists the members of a tenant, or of all tenants
    ///
    /// With --json: `{"items":[{"tenant","kind","id","roles","email"}],"total"}`, with `name` instead of `email` if
    /// `kind` is `service`.
    List {
        /// The tenant's id; default: all tenants
        tenant: Option<String>,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Member {
    /// The account's address
    pub(crate) email: Option<String>,
    /// A service account instead of an account
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
}
