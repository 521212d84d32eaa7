//! `gatewright client …`: clients of the OAuth authorization server.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use gatewright::auth::plugins::authorization_server::{
    ClientPurpose, Connection, OAuth2Clients, RegisteredClient, RelyingParty, parse_scope, scope_text,
};
use gatewright::base::{InvalidScope, Scopes, UserId, time};
use serde_json::{Value, json};

use crate::args::Common;
use crate::commands::{service_account, user};
use crate::{configuration, output};

/// The arguments for a new client.
pub(crate) struct New {
    pub(crate) name: String,
    pub(crate) service: Option<String>,
    pub(crate) redirect_uris: Vec<String>,
    pub(crate) relying_party: RelyingParty,
    pub(crate) scopes: Vec<String>,
    pub(crate) public: bool,
}

pub(crate) async fn create(common: &Common, new: New, json: bool) -> anyhow::Result<ExitCode> {
    let config = configuration::for_creation(common)?;
    configuration::note_new_file(&config);
    let auth = gatewright::management(&config).await?;
    let clients = auth.oauth2_clients().ok_or_else(switched_off)?;
    let parsed = |scope: &String| parse_scope(scope).ok_or_else(|| InvalidScope(scope.clone()));
    let scopes = new.scopes.iter().map(parsed).collect::<Result<Scopes, _>>()?;
    let purpose = match &new.service {
        Some(name) => {
            let accounts = auth.service_accounts().ok_or_else(service_account::switched_off)?;
            let account = service_account::find(&accounts, name).await?;
            ClientPurpose::Service { account: account.id, scopes }
        }
        None => ClientPurpose::Users {
            redirect_uris: new.redirect_uris,
            scopes: (!scopes.is_empty()).then_some(scopes),
            confidential: !new.public,
            relying_party: new.relying_party,
        },
    };
    let (client, secret) = clients.create(&new.name, purpose).await?;
    if json {
        let mut shown = object(&client);
        shown["client_secret"] = secret.as_ref().map(|secret| secret.expose().to_owned()).into();
        output::line(&shown.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!("client_id      {}", client.id));
    if let Some(secret) = secret {
        output::line(&format!("client_secret  {}", secret.expose()));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn list(common: &Common, json: bool) -> anyhow::Result<ExitCode> {
    let clients = open(common).await?.list().await?;
    if json {
        let items: Vec<_> = clients.iter().map(object).collect();
        output::line(&json!({ "items": items, "total": items.len() }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for client in &clients {
        let kind = match (&client.service, client.confidential) {
            (Some(_), _) => "acts as a service account",
            (None, true) => "acts for users, with a secret",
            (None, false) => "acts for users, without a secret",
        };
        output::line(&format!("{}  {}  {kind}", client.id, client.name));
    }
    output::line(&output::count(clients.len(), "client", "clients"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn remove(common: &Common, id: &str) -> anyhow::Result<ExitCode> {
    if !open(common).await?.remove(id).await.context("the client was not removed")? {
        bail!("there is no client {id}; `gatewright client list` shows the registered ones");
    }
    output::line(&format!("removed {id}; its connections and tokens have ended"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn connections(common: &Common, email: &str, json: bool) -> anyhow::Result<ExitCode> {
    let (clients, user) = of_user(common, email).await?;
    let connections = clients.connections(&user).await?;
    if json {
        let items: Vec<_> = connections.iter().map(connected).collect();
        output::line(&json!({ "items": items, "total": items.len() }).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    for connection in &connections {
        let tenant = connection.tenant.as_ref().map(|tenant| format!("  in {}", tenant.as_str())).unwrap_or_default();
        output::line(&format!("{}  {}  {}{tenant}", connection.id, connection.name, joined(&connection.scopes)));
    }
    output::line(&output::count(connections.len(), "connection", "connections"));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn disconnect(common: &Common, email: &str, id: &str) -> anyhow::Result<ExitCode> {
    let (clients, user) = of_user(common, email).await?;
    if !clients.disconnect(&user, id).await.context("the program was not disconnected")? {
        bail!("{email} has no connection {id}; `gatewright client connections {email}` shows them");
    }
    output::line(&format!("ended {id}; its tokens stop working at once"));
    Ok(ExitCode::SUCCESS)
}

async fn of_user(common: &Common, email: &str) -> anyhow::Result<(OAuth2Clients, UserId)> {
    let auth = gatewright::management(&configuration::for_management(common)?).await?;
    let user = user::find(&auth.accounts(), email).await?;
    Ok((auth.oauth2_clients().ok_or_else(switched_off)?, user.id))
}

async fn open(common: &Common) -> anyhow::Result<OAuth2Clients> {
    let auth = gatewright::management(&configuration::for_management(common)?).await?;
    auth.oauth2_clients().ok_or_else(switched_off)
}

fn switched_off() -> anyhow::Error {
    anyhow!("the authorization server is off; set `enabled = true` in `[authorization_server]`")
}

fn connected(connection: &Connection) -> Value {
    json!({
        "id": connection.id,
        "client_id": connection.client,
        "client_name": connection.name,
        "host": connection.host,
        "tenant": connection.tenant,
        "scope": joined(&connection.scopes),
        "created_at": time::format(connection.created_at),
        "last_used_at": connection.last_used_at.map(time::format),
    })
}

fn joined(scopes: &Scopes) -> String {
    scopes.iter().map(scope_text).collect::<Vec<_>>().join(" ")
}

/// A client, with the member names of RFC 7591.
fn object(client: &RegisteredClient) -> Value {
    let scopes = client.scopes.as_ref().map(joined);
    json!({
        "client_id": client.id,
        "client_name": client.name,
        "service_account": client.service,
        "token_endpoint_auth_method": if client.confidential { "client_secret_basic" } else { "none" },
        "redirect_uris": client.redirect_uris,
        "scope": scopes,
        "post_logout_redirect_uris": client.relying_party.post_logout_redirect_uris,
        "backchannel_logout_uri": client.relying_party.backchannel_logout_uri,
        "id_token_signed_response_alg": client.relying_party.id_token_signed_response_alg,
    })
}
