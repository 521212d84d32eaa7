//! The binary `gatewright`: a thin wrapper around the crate of the same name.
//!
//! Each command is one file under `commands`. A failure prints one sentence with the next step to standard error, and
//! the exit status is 1. For bad usage it is 2. `migrate --plan` exits with 3 if changes are pending. `explain` exits
//! with 1 for a refusal and 2 for a failure.

mod args;
mod commands;
mod configuration;
mod failure;
mod files;
mod logging;
mod output;
mod password;
mod reloading;
mod running;

use std::process::ExitCode;

use clap::Parser;
use gatewright::auth::plugins::authorization_server::RelyingParty;
use gatewright_base::Secret;

use args::{
    Args, ClientCommand, Command, FunctionCommand, JobCommand, KeyCommand, MailCommand, OutboxCommand,
    ServiceAccountCommand, TenantCommand, TokenCommand, UserCommand,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(code) => code,
        Err(error) => {
            failure::print(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let Args { common, command } = args;
        match command {
            Command::Serve(serve) => Box::pin(commands::serve(&common, &serve)).await,
            Command::Init { dir } => commands::init(&dir),
            Command::Check { dev } => commands::check(&common, dev).await,
            Command::Migrate { plan } => commands::migrate(&common, plan).await,
            Command::Backup { file, files } => commands::backup::backup(&common, &file, files).await,
            Command::Restore { file, replace } => commands::backup::restore(&common, &file, replace).await,
            Command::Promote { to, leave } => Box::pin(commands::promote(&common, &Secret::new(to), &leave)).await,
            Command::Verify { json } => commands::verify(&common, json).await,
            Command::Doctor { url, ca } => commands::doctor(&common, &url, ca.as_deref()).await,
            Command::Completions { shell } => Ok(commands::completions::completions(shell)),
            Command::Man { dir } => commands::completions::man(dir.as_deref()),
            Command::Openapi { dev } => commands::openapi(&common, dev),
            Command::Types { lang, functions, dev } => commands::types(&common, lang, functions, dev),
            Command::Reload => commands::reload(&common).await,
            Command::Reference { dir } => commands::reference(&dir),
            Command::Secret => Ok(commands::secret()),
            Command::User(command) => user(&common, command).await,
            Command::Tenant(command) => tenant(&common, command).await,
            Command::ServiceAccount(command) => service_account(&common, command).await,
            Command::Token(command) => token(&common, command).await,
            Command::Client(command) => client(&common, command).await,
            Command::Key(KeyCommand::List { json }) => commands::key::list(&common, json).await,
            Command::Key(KeyCommand::Rotate) => commands::key::rotate(&common).await,
            Command::Explain(wanted) => Ok(commands::explain(&common, &wanted).await),
            Command::Outbox(command) => outbox(&common, command).await,
            Command::Mail(command) => mail(&common, command).await,
            Command::Job(command) => job(&common, command).await,
            Command::Function(FunctionCommand::List { json }) => commands::function::list(&common, json),
        }
    })
}

async fn service_account(common: &args::Common, command: ServiceAccountCommand) -> anyhow::Result<ExitCode> {
    use commands::service_account;
    match command {
        ServiceAccountCommand::Create { name, roles } => service_account::create(common, &name, roles).await,
        ServiceAccountCommand::List { json } => service_account::list(common, json).await,
        ServiceAccountCommand::Disable { name } => service_account::disable(common, &name).await,
        ServiceAccountCommand::Enable { name } => service_account::enable(common, &name).await,
    }
}

async fn token(common: &args::Common, command: TokenCommand) -> anyhow::Result<ExitCode> {
    use commands::token;
    match command {
        TokenCommand::Issue { owner, name, scopes, ttl, insist } => {
            token::issue(common, owner, &token::New { name: &name, scopes: &scopes, ttl }, insist).await
        }
        TokenCommand::List { json } => token::list(common, json).await,
        TokenCommand::Revoke { id } => token::revoke(common, &id).await,
    }
}

async fn client(common: &args::Common, command: ClientCommand) -> anyhow::Result<ExitCode> {
    use commands::client;
    match command {
        ClientCommand::Create {
            name,
            service,
            redirect_uri,
            post_logout_redirect_uri,
            backchannel_logout_uri,
            id_token_algorithm,
            scopes,
            public,
            json,
        } => {
            let relying_party = RelyingParty {
                id_token_signed_response_alg: id_token_algorithm,
                post_logout_redirect_uris: post_logout_redirect_uri,
                backchannel_logout_uri,
            };
            let new = client::New { name, service, redirect_uris: redirect_uri, relying_party, scopes, public };
            client::create(common, new, json).await
        }
        ClientCommand::List { json } => client::list(common, json).await,
        ClientCommand::Remove { id } => client::remove(common, &id).await,
        ClientCommand::Connections { email, json } => client::connections(common, &email, json).await,
        ClientCommand::Disconnect { email, id } => client::disconnect(common, &email, &id).await,
    }
}

async fn outbox(common: &args::Common, command: OutboxCommand) -> anyhow::Result<ExitCode> {
    use commands::outbox;
    match command {
        OutboxCommand::List { status, limit, offset, json } => outbox::list(common, status, limit, offset, json).await,
        OutboxCommand::Deliveries { row, json } => outbox::deliveries(common, &row, json).await,
        OutboxCommand::Replay { row, consumer } => outbox::replay(common, &row, consumer.as_deref()).await,
        OutboxCommand::Stats { json } => outbox::stats(common, json).await,
    }
}

async fn job(common: &args::Common, command: JobCommand) -> anyhow::Result<ExitCode> {
    use commands::job;
    match command {
        JobCommand::List { json } => job::list(common, json).await,
        JobCommand::Run { name, no_wait, json } => job::run(common, &name, !no_wait, json).await,
        JobCommand::History { name, limit, json } => job::history(common, &name, limit, json).await,
    }
}

async fn mail(common: &args::Common, command: MailCommand) -> anyhow::Result<ExitCode> {
    use commands::mail;
    match command {
        MailCommand::List { status, to, limit, json } => mail::list(common, status, to, limit, json).await,
        MailCommand::Retry { id } => mail::retry(common, &id).await,
        MailCommand::Discard { id } => mail::discard(common, &id).await,
    }
}

async fn tenant(common: &args::Common, command: TenantCommand) -> anyhow::Result<ExitCode> {
    use commands::tenant;
    match command {
        TenantCommand::AddMember { tenant, member, roles, insist } => {
            tenant::add_member(common, &tenant, &member, roles.as_deref(), insist).await
        }
        TenantCommand::RemoveMember { tenant, member } => tenant::remove_member(common, &tenant, &member).await,
        TenantCommand::List { tenant, json } => tenant::list(common, tenant.as_deref(), json).await,
    }
}

async fn user(common: &args::Common, command: UserCommand) -> anyhow::Result<ExitCode> {
    use commands::user;
    match command {
        UserCommand::Create { email, roles, admin, password_stdin, dev } => {
            let new = user::New { email: &email, roles, admin, dev };
            user::create(common, new, password_stdin).await
        }
        UserCommand::List { limit, offset, json } => user::list(common, limit, offset, json).await,
        UserCommand::SetRoles { email, roles, insist } => user::set_roles(common, &email, roles, insist).await,
        UserCommand::SetPassword { email, password_stdin, insist } => {
            user::set_password(common, &email, password_stdin, insist).await
        }
        UserCommand::DisableTwoFactor { email } => user::disable_two_factor(common, &email).await,
        UserCommand::Logout { email } => user::logout(common, &email).await,
        UserCommand::Invite { email, roles, tenant, next } => user::invite(common, &email, roles, tenant, next).await,
        UserCommand::Disable { email } => user::disable(common, &email).await,
        UserCommand::Enable { email } => user::enable(common, &email).await,
        UserCommand::Delete { email, yes } => user::delete(common, &email, yes).await,
    }
}
