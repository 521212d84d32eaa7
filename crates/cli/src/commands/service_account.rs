//! `gatewright service-account …`: identities of programs.

use std::process::ExitCode;

use anyhow::anyhow;
use gatewright::Config;
use gatewright::auth::service_accounts::{ServiceAccount, ServiceAccountError, ServiceAccounts};
use gatewright_base::time;
use serde_json::{Value, json};

use super::user::{named, shown, warn_of_unknown};
use crate::args::Common;
use crate::{configuration, output};

pub(crate) async fn create(common: &Common, name: &str, roles: Option<Vec<String>>) -> anyhow::Result<ExitCode> {
    let config = configuration::for_creation(common)?;
    configuration::note_new_file(&config);
    let roles = named(&roles.unwrap_or_default());
    warn_of_unknown(&config, &roles);
    let account = open(&config).await?.create(name, roles).await.map_err(|error| explain(error, name))?;
    output::line(&format!("created {} ({}) with {}", account.name, account.id, shown(&account.roles)));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn list(common: &Common, json: bool) -> anyhow::Result<ExitCode> {
    let accounts = manage(common).await?.list().await?;
    if json {
        let items: Vec<_> = accounts.iter().map(object).collect();
        output::line(&json!({ "items": items, "total": items.len() }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for account in &accounts {
        let state = if account.disabled { "disabled" } else { "enabled" };
        output::line(&format!("{}  {}  {}  {state}", account.id, account.name, shown(&account.roles)));
    }
    output::line(&output::count(accounts.len(), "service account", "service accounts"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn disable(common: &Common, name: &str) -> anyhow::Result<ExitCode> {
    let accounts = manage(common).await?;
    let account = find(&accounts, name).await?;
    accounts.disable(&account.id).await?;
    output::line(&format!("{} is disabled; its tokens are refused", account.name));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn enable(common: &Common, name: &str) -> anyhow::Result<ExitCode> {
    let accounts = manage(common).await?;
    let account = find(&accounts, name).await?;
    accounts.enable(&account.id).await?;
    output::line(&format!("{} is enabled; its tokens work again, except those that were revoked", account.name));
    Ok(ExitCode::SUCCESS)
}

/// The account called `name`.
pub(super) async fn find(accounts: &ServiceAccounts, name: &str) -> anyhow::Result<ServiceAccount> {
    accounts.find(name).await.map_err(|error| explain(error, name))
}

async fn manage(common: &Common) -> anyhow::Result<ServiceAccounts> {
    open(&configuration::for_management(common)?).await
}

async fn open(config: &Config) -> anyhow::Result<ServiceAccounts> {
    gatewright::management(config).await?.service_accounts().ok_or_else(switched_off)
}

/// The error if the plugin is off.
pub(super) fn switched_off() -> anyhow::Error {
    anyhow!("`auth.plugins` is without \"tokens\", so there are no API tokens and no service accounts; add it")
}

fn object(account: &ServiceAccount) -> Value {
    json!({
        "id": account.id,
        "name": account.name,
        "roles": account.roles,
        "disabled": account.disabled,
        "createdAt": time::format(account.created_at),
    })
}

pub(super) fn explain(error: ServiceAccountError, name: &str) -> anyhow::Error {
    match error {
        ServiceAccountError::NotFound => {
            anyhow!("there is no service account {name}; `gatewright service-account list` shows the service accounts")
        }
        ServiceAccountError::NameTaken => anyhow!(
            "there is a service account {name} already; `gatewright token issue --service` gives it another token"
        ),
        other => other.into(),
    }
}
