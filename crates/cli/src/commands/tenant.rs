//! `gatewright tenant …`: the members of tenants.

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use gatewright::auth::AccountError;
use gatewright::auth::users::UserStoreError;
use gatewright::{MemberName, Tenants, TenantsError};

use super::{service_account, user};
use crate::args::{Common, Insist, Member};
use crate::{configuration, output};

pub(crate) async fn add_member(
    common: &Common,
    tenant: &str,
    member: &Member,
    roles: Option<&[String]>,
    insist: Insist,
) -> anyhow::Result<ExitCode> {
    let (name, shown) = named(member);
    let name = match name {
        MemberName::User(email) if insist.unverified => MemberName::UnverifiedUser(email),
        name => name,
    };
    let tenants = open(common).await?;
    if let Some(roles) = roles {
        let roles = roles.iter().map(|role| role.trim()).collect();
        tenants.put_member(tenant, name, &roles).await.map_err(|error| explain(error, shown))?;
        let roles: Vec<_> = roles.iter().collect();
        output::line(&format!("{shown} is a member of {tenant} with the roles {}", roles.join(", ")));
        return Ok(ExitCode::SUCCESS);
    }
    let added = tenants.add_member(tenant, name).await.map_err(|error| explain(error, shown))?;
    output::line(&if added {
        format!("{shown} is a member of {tenant}")
    } else {
        format!("{shown} was a member of {tenant} already")
    });
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn remove_member(common: &Common, tenant: &str, member: &Member) -> anyhow::Result<ExitCode> {
    let (name, shown) = named(member);
    let removed = open(common).await?.remove_member(tenant, name).await.map_err(|error| explain(error, shown))?;
    if !removed {
        return Err(anyhow!(
            "{shown} is not a member of {tenant}; `gatewright tenant list {tenant}` shows the members"
        ));
    }
    output::line(&format!("{shown} is no longer a member of {tenant}"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn list(common: &Common, tenant: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
    let members = open(common).await?.list(tenant).await?;
    if json {
        let listing = serde_json::json!({ "items": members, "total": members.len() });
        output::line(&serde_json::to_string(&listing).context("cannot write JSON")?);
        return Ok(ExitCode::SUCCESS);
    }
    for found in &members {
        let (member, name) = (&found.member, found.email.as_deref().or(found.name.as_deref()).unwrap_or("-"));
        let roles: Vec<&str> = member.roles.iter().collect();
        let roles = if roles.is_empty() { "-".to_owned() } else { roles.join(",") };
        output::line(&format!("{}  {}  {}  {roles}  {name}", member.tenant, member.kind.as_str(), member.id));
    }
    output::line(&output::count(members.len(), "member", "members"));
    Ok(ExitCode::SUCCESS)
}

async fn open(common: &Common) -> anyhow::Result<Tenants> {
    Ok(gatewright::tenants(&configuration::for_management(common)?).await?)
}

/// The member that the arguments name, and its name for messages. The arguments have either a service or an email.
fn named(member: &Member) -> (MemberName<'_>, &str) {
    match (&member.service, &member.email) {
        (Some(name), _) => (MemberName::Service(name), name),
        (None, email) => {
            let email = email.as_deref().unwrap_or_default();
            (MemberName::User(email), email)
        }
    }
}

fn explain(error: TenantsError, shown: &str) -> anyhow::Error {
    match error {
        TenantsError::Account(AccountError::Users(UserStoreError::NotFound)) => {
            anyhow!("there is no account {shown}; `gatewright user list` shows the accounts")
        }
        TenantsError::Account(error @ AccountError::Unverified(_)) => user::unverified(&error),
        TenantsError::Account(AccountError::Email(error)) => {
            anyhow!("{shown}: {error}; a service account is named with --service")
        }
        TenantsError::ServiceAccount(error) => service_account::explain(error, shown),
        TenantsError::NoServiceAccounts => service_account::switched_off(),
        other => other.into(),
    }
}
