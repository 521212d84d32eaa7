//! `gatewright tenant …`: who belongs to which tenant.

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use gatewright::auth::AccountError;
use gatewright::auth::users::UserStoreError;
use gatewright::{Tenants, TenantsError};

use crate::args::Common;
use crate::{configuration, output};

pub(crate) async fn add_member(common: &Common, tenant: &str, email: &str) -> anyhow::Result<ExitCode> {
    let added = open(common).await?.add_member(tenant, email).await.map_err(|error| explain(error, email))?;
    output::line(&if added {
        format!("{email} is a member of {tenant}")
    } else {
        format!("{email} was a member of {tenant} already")
    });
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn remove_member(common: &Common, tenant: &str, email: &str) -> anyhow::Result<ExitCode> {
    let removed = open(common).await?.remove_member(tenant, email).await.map_err(|error| explain(error, email))?;
    if !removed {
        return Err(anyhow!("{email} is no member of {tenant}; `gatewright tenant list {tenant}` shows who is"));
    }
    output::line(&format!("{email} is no member of {tenant} any more"));
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
        let (member, email) = (&found.member, found.email.as_deref().unwrap_or("-"));
        output::line(&format!("{}  {}  {}  {email}", member.tenant, member.kind.as_str(), member.id));
    }
    output::line(&format!("{} members", members.len()));
    Ok(ExitCode::SUCCESS)
}

async fn open(common: &Common) -> anyhow::Result<Tenants> {
    Ok(gatewright::tenants(&configuration::for_management(common)?).await?)
}

fn explain(error: TenantsError, email: &str) -> anyhow::Error {
    match error {
        TenantsError::Account(AccountError::Users(UserStoreError::NotFound)) => {
            anyhow!("there is no account {email}; `gatewright user list` shows those that are there")
        }
        TenantsError::Account(AccountError::Email(error)) => anyhow!("{email}: {error}"),
        other => other.into(),
    }
}
