mod clients;
mod deliveries;
mod insist;
mod jobs;
mod keys;
mod parsers;
mod tenants;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use gatewright::entities::Action;

pub(crate) use clients::ClientCommand;
pub(crate) use deliveries::{MailCommand, OutboxCommand};
pub(crate) use insist::Insist;
pub(crate) use jobs::{FunctionCommand, JobCommand};
pub(crate) use keys::KeyCommand;
pub(crate) use tenants::{Member, TenantCommand};

/// A whole backend from one file: accounts, entities with REST endpoints, live event streams.
#[derive(Parser)]
#[command(name = "gatewright", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, clap::Args)]
pub(crate) struct Common {
    /// The configuration file [default: gatewright.toml in this folder, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The database, such as `sqlite://FILE`; overrides the configuration
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Runs the server
    ///
    /// Prints `listening on http://ADDR`, then the URLs of the enabled parts, and in dev mode a curl command to copy.
    /// To stop it, send SIGINT or SIGTERM: it finishes the requests in progress.
    Serve(Serve),
    /// Writes a commented gatewright.toml with two example entities and new secrets
    ///
    /// It never overwrites a file.
    Init {
        /// The folder to write it to
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Checks the configuration and every entity, and prints errors with file, line and column
    ///
    /// Warns about entities that are open to everybody, entities without owner and rules, permissions that no role has,
    /// plugins with which nobody can sign in, and consumers of an event that the server does not emit.
    Check {
        /// Checks the configuration of `serve --dev`: its example if there is no configuration file
        #[arg(long)]
        dev: bool,
    },
    /// Updates the tables of the database to match the configuration
    ///
    /// Refuses a change that would lose data, and names the table and the column. Creates a missing SQLite file, except
    /// with --plan.
    Migrate {
        /// Prints the changes as SQL instead; exit status 3 if there are any
        #[arg(long)]
        plan: bool,
    },
    /// Copies a SQLite database, with its files, to a file; a server may be running
    ///
    /// Of a server with files in a folder, the copy is a tar of the database and the files. Otherwise it is the database.
    Backup {
        /// The file to write; must not exist
        file: PathBuf,
        /// Includes files that are in a bucket; files in a folder are always included
        #[arg(long)]
        files: bool,
    },
    /// Replaces the SQLite database with a backup; stop the server first
    ///
    /// The previous database is kept under another name.
    Restore {
        /// A file that `backup` wrote
        file: PathBuf,
        /// Replaces an existing database, and keeps it under another name
        #[arg(long)]
        replace: bool,
    },
    /// Copies a SQLite project into an empty Postgres database and compares both; stop the server first
    Promote {
        /// The Postgres database
        #[arg(long, value_name = "URL", env = "GATEWRIGHT_PROMOTE_TO", hide_env_values = true)]
        to: String,
        /// Does not copy this table or column, which the configuration does not declare; may be repeated
        #[arg(long, value_name = "TABLE[.COLUMN]")]
        leave: Vec<String>,
    },
    /// Reads every record of the declared entities, and names values that the configuration does not describe
    ///
    /// Names table, column and id of each value that is not of its field's type, and of JSON with a number that is not in
    /// canonical form. It changes nothing, and a server may be running. Exit status 1 if there are such values.
    ///
    /// With --json: `{"items":[{"table","id","column","reason"}],"total","records"}`.
    Verify {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Checks a running deployment from outside, and reports problems
    ///
    /// With --config or --database it also reads the database: its encoding, and whether the running servers have equal
    /// settings. Exit status 1 if there is a problem.
    Doctor {
        /// The URL of the deployment, such as `https://example.com`
        url: String,
        /// A PEM file with your own certificate authority, to trust besides those of the system
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
    },
    /// Has the running server read its configuration again
    ///
    /// The level of the log, limits, roles, templates of mails, allowed origins and TLS certificates change without a restart.
    /// Prints what changed and what needs a restart. A configuration with an error changes nothing, with exit status 1. The
    /// server is found by `server.pid_file`, on SQLite also by the lock file of the database.
    Reload,
    /// Prints the completion script of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Prints the manual page, or writes the pages of all commands to a folder
    Man {
        /// The folder
        dir: Option<PathBuf>,
    },
    /// Prints the OpenAPI document of the whole HTTP surface
    ///
    /// Needs neither database nor secrets.
    Openapi {
        /// Prints the document of `serve --dev`, with its example if there is no configuration file
        #[arg(long)]
        dev: bool,
    },
    /// Prints the declared entities as types for a client
    ///
    /// Needs neither database nor secrets. Fails if the configuration declares neither entities nor profile fields.
    Types {
        /// The language
        #[arg(long, value_enum, default_value_t = Language::Ts)]
        lang: Language,
        /// Prints the module `gatewright` for functions instead, as a declaration file
        #[arg(long)]
        functions: bool,
        /// Prints the types of `serve --dev`, with its example if there is no configuration file
        #[arg(long)]
        dev: bool,
    },
    /// Writes the generated pages of the handbook
    #[command(hide = true)]
    Reference {
        /// The folder that they are in
        dir: PathBuf,
    },
    /// Prints a new random secret
    Secret,
    /// Manages accounts
    #[command(subcommand)]
    User(UserCommand),
    /// Manages the members of tenants
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Manages service accounts: identities of programs, which authenticate by API token only
    #[command(subcommand)]
    ServiceAccount(ServiceAccountCommand),
    /// Manages API tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Manages the clients of the OAuth authorization server
    #[command(subcommand)]
    Client(ClientCommand),
    /// Manages the keys that sign JWTs
    #[command(subcommand)]
    Key(KeyCommand),
    /// Explains whether a caller may do something with a record: exit status 0 if allowed, 1 if denied
    ///
    /// Prints each check and each rule with its terms and values. Exit status 2 if there is no decision.
    Explain(Explain),
    /// Shows the rows of the outbox, and retries deliveries
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Shows pending and failed mails, and retries or discards them
    #[command(subcommand)]
    Mail(MailCommand),
    /// Shows jobs and their runs, and runs one now
    #[command(subcommand)]
    Job(JobCommand),
    /// Shows functions
    #[command(subcommand)]
    Function(FunctionCommand),
}

/// A language of clients.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Language {
    /// TypeScript, for `@gatewright/client`
    Ts,
}

#[derive(Clone, clap::Args)]
pub(crate) struct Serve {
    /// Runs without HTTPS, a mail server and fixed secrets. Without a configuration it serves an example
    #[arg(long)]
    pub(crate) dev: bool,
    /// Allows dev mode with an address or a public URL that other computers can reach; anybody who can reach it can sign in
    /// as any user
    #[arg(long)]
    pub(crate) allow_public_dev: bool,
    /// The address to listen on; overrides the configuration
    #[arg(long, value_name = "ADDR", value_parser = parsers::address)]
    pub(crate) listen: Option<SocketAddr>,
}

#[derive(clap::Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) caller: ExplainCaller,
    /// The action; for create, the stored record is checked
    pub(crate) operation: Operation,
    /// The record, such as `tasks/0197…`; without an id, only the access to the entity is checked
    #[arg(value_name = "TABLE/ID")]
    pub(crate) record: String,
    /// The tenant of the request
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Uses the configuration of `serve --dev`: its example if there is no configuration file
    #[arg(long)]
    pub(crate) dev: bool,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ExplainCaller {
    /// The account of the caller
    #[arg(long = "as", value_name = "EMAIL")]
    pub(crate) email: Option<String>,
    /// The service account of the caller, with a token of all scopes
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// A caller without credentials
    #[arg(long)]
    pub(crate) anonymous: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Operation {
    Read,
    Create,
    Update,
    Delete,
}

impl From<Operation> for Action {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Read => Self::Read,
            Operation::Create => Self::Create,
            Operation::Update => Self::Update,
            Operation::Delete => Self::Delete,
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum ServiceAccountCommand {
    /// Creates a service account
    Create {
        /// The service account's name
        name: String,
        /// Its roles; default: none
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        roles: Option<Vec<String>>,
    },
    /// Lists service accounts by name
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Disables a service account: its tokens are refused
    Disable {
        /// The service account's name
        name: String,
    },
    /// Enables a disabled service account: its tokens are accepted again
    Enable {
        /// The service account's name
        name: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Issues a token and prints it; it cannot be shown again
    Issue {
        #[command(flatten)]
        owner: TokenOwner,
        /// The name in lists
        #[arg(long)]
        name: String,
        /// The scopes, such as `posts:read,comments:*`; without scopes, every route that needs a scope refuses the
        /// token
        #[arg(long, value_name = "A:B,…", value_delimiter = ',')]
        scopes: Vec<String>,
        /// The lifetime in seconds; 0: the token does not expire
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        ttl: i64,
        #[command(flatten)]
        insist: Insist,
    },
    /// Lists the tokens that are not revoked, newest first
    ///
    /// With --json: `{"items":[…],"total"}`.
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Revokes a token; it is refused from the next request
    Revoke {
        /// The token's id, as `token list` prints it
        #[arg(value_parser = parsers::id)]
        id: String,
    },
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct TokenOwner {
    /// The account that owns it
    #[arg(long, value_name = "EMAIL")]
    pub(crate) user: Option<String>,
    /// The service account that owns it
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Creates an account; asks for the password
    Create {
        /// The account's address
        email: String,
        /// Roles instead of the default roles
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        roles: Option<Vec<String>>,
        /// Also gives the role of `[admin]`
        #[arg(long)]
        admin: bool,
        /// Reads the password from standard input
        #[arg(long)]
        password_stdin: bool,
        /// Uses the configuration of `serve --dev`: its example if there is no configuration file
        #[arg(long)]
        dev: bool,
    },
    /// Lists accounts by email
    ///
    /// With --json: `{"items":[{"id","email","roles","emailVerified","secondFactor","lastSignInAt","createdAt","disabledAt",
    /// "tenants"}],"total"}`, tenants as `{"id","roles"}`; a disabled account has `"disabled":true`,
    /// one whose password hash cannot be used `"unknownHash":true`.
    List {
        /// The maximum number to print, up to 500
        #[arg(long, default_value_t = 50, value_name = "N", allow_negative_numbers = true)]
        limit: i64,
        /// The number to skip
        #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true)]
        offset: i64,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Replaces an account's roles
    ///
    /// They apply from its next request. A role that is in neither `[roles]` nor `auth.default_roles` causes a warning:
    /// it permits nothing.
    SetRoles {
        /// The account's address
        email: String,
        /// The new roles; "" for none
        #[arg(value_name = "A,B", value_delimiter = ',', required = true)]
        roles: Vec<String>,
        #[command(flatten)]
        insist: Insist,
    },
    /// Replaces an account's password and ends its sessions; asks for the password
    ///
    /// With --unverified, also removes everything else that a stranger may have added: passkeys, the second factor, API
    /// tokens, linked providers and connected programs.
    SetPassword {
        /// The account's address
        email: String,
        /// Reads the password from standard input
        #[arg(long)]
        password_stdin: bool,
        #[command(flatten)]
        insist: Insist,
    },
    /// Removes the second factor and the backup codes of an account
    ///
    /// Its sessions stay valid.
    #[command(name = "disable-2fa")]
    DisableTwoFactor {
        /// The account's address
        email: String,
    },
    /// Ends all sessions and JSON web tokens of an account
    Logout {
        /// The account's address
        email: String,
    },
    /// Invites an address by mail: to register, or to accept with its existing account
    ///
    /// Needs `[email]`. In dev mode it prints the link.
    Invite {
        /// The address to invite
        email: String,
        /// Roles of the account instead of the default roles
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        roles: Option<Vec<String>>,
        /// The tenant that the account joins
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// Where accepting the invitation leads: a path, or an address that `auth.redirect_urls` or `server.app_url` allows
        #[arg(long, value_name = "URL")]
        next: Option<String>,
    },
    /// Disables an account: ends its sessions, and refuses sign-ins and API tokens until it is enabled
    ///
    /// Its sessions, JSON web tokens and connected programs end, and mailed links stop working. A sign-in returns the
    /// same error as for a wrong password; the audit log has the reason.
    Disable {
        /// The account's address
        email: String,
    },
    /// Enables a disabled account
    ///
    /// API tokens work again. Sessions and JSON web tokens do not.
    Enable {
        /// The account's address
        email: String,
    },
    /// Deletes an account with its sessions, API tokens and links; asks for confirmation
    ///
    /// Also removes the user, JSON web tokens, the second factor, provider links and mailed links. Records that it owns
    /// follow `auth.on_account_delete`; a relation to the user follows its `on_delete`. If that is `restrict` and such
    /// records exist, the command fails and nothing is deleted. `audit_log` keeps the id, without email and client
    /// addresses.
    Delete {
        /// The account's address
        email: String,
        /// Does not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}
