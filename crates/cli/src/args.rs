mod deliveries;
mod tenants;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use gatewright::entities::Action;

pub(crate) use deliveries::{MailCommand, OutboxCommand};
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

#[derive(clap::Args)]
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
    /// Prints `listening on http://ADDR`, then the addresses of what is mounted, and in dev mode a curl command to
    /// paste. To stop it, send SIGINT or SIGTERM: it finishes the requests in progress.
    Serve(Serve),
    /// Writes a commented gatewright.toml with two example entities and fresh secrets
    ///
    /// It never overwrites a file.
    Init {
        /// The folder to write it to
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Reads the configuration and every entity and says what is wrong, with file, line and column
    ///
    /// Warns of entities that are open to everybody, of entities with neither owner nor rules, of permissions that no
    /// role holds, of plugins with which nobody can sign in, and of consumers of an event that the server does not
    /// emit.
    Check {
        /// Checks what `serve --dev` runs: its example if there is no configuration file
        #[arg(long)]
        dev: bool,
    },
    /// Updates the database's tables to the configuration
    ///
    /// A change that would lose data is refused, with table and column. A SQLite file that does not exist is created,
    /// except with --plan.
    Migrate {
        /// Prints the changes as SQL instead; exit status 3 if there are any
        #[arg(long)]
        plan: bool,
    },
    /// Copies a SQLite database to a file, while a server runs or not
    Backup {
        /// The file to write; must not exist
        file: PathBuf,
    },
    /// Replaces the SQLite database by a backup; stop the server first
    ///
    /// The former database is kept under another name.
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
    /// Checks a running deployment from outside, and reports problems
    ///
    /// Exit status 1 if there is a problem.
    Doctor {
        /// Its address, such as `https://example.com`
        url: String,
    },
    /// Prints the completion script of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Prints the manual page, or writes those of all commands to a folder
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
    /// Prints a fresh random secret
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
    /// Explains whether a caller may do something with a record: exit status 0 if allowed, 1 if not
    ///
    /// Prints every check and every rule with its terms and values. Exit status 2 if there is no decision.
    Explain(Explain),
    /// Shows the rows of the outbox, and retries deliveries
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Shows pending and failed mails, and retries or discards them
    #[command(subcommand)]
    Mail(MailCommand),
}

/// A language of clients.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Language {
    /// TypeScript, for `@gatewright/client`
    Ts,
}

#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Works without HTTPS, a mail server and fixed secrets. Without a configuration it serves an example
    #[arg(long)]
    pub(crate) dev: bool,
    /// Allows dev mode on an address that other computers can reach; anybody who does can sign in as anybody
    #[arg(long)]
    pub(crate) allow_public_dev: bool,
    /// The address to listen on; overrides the configuration
    #[arg(long, value_name = "ADDR", value_parser = address)]
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
    /// The tenant that the request names
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Explains what `serve --dev` runs: its example if there is no configuration file
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
        /// Its roles; none if left out
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        roles: Option<Vec<String>>,
    },
    /// Lists service accounts by name
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Refuses the tokens of a service account from now on
    Disable {
        /// The service account's name
        name: String,
    },
    /// Accepts the tokens of a service account again
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
        /// What to call it in lists
        #[arg(long)]
        name: String,
        /// Its scopes, such as `posts:read,comments:*`; without any, every route that needs a scope refuses it
        #[arg(long, value_name = "A:B,…", value_delimiter = ',')]
        scopes: Vec<String>,
        /// When it expires; 0 for never
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        ttl: i64,
    },
    /// Lists the tokens that are not revoked, newest first
    ///
    /// With --json: `{"items":[…],"total"}`.
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Revokes a token, from the next request on
    Revoke {
        /// The token's id, as `token list` prints it
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
pub(crate) enum ClientCommand {
    /// Registers a client and prints its identifier and its secret, which cannot be shown again
    ///
    /// With --service it acts as a service account; with --redirect-uri it acts for users who consent.
    Create {
        /// What users see it called
        name: String,
        /// The service account that it acts as, by `client_credentials`
        #[arg(long, value_name = "ACCOUNT", conflicts_with_all = ["redirect_uri", "public"])]
        service: Option<String>,
        /// A redirect URI, for a client that acts for users; may be repeated
        #[arg(long, value_name = "URI", required_unless_present = "service")]
        redirect_uri: Vec<String>,
        /// The scopes that it may request, such as `posts:read,comments:*`
        #[arg(long, value_name = "A:B,…", value_delimiter = ',', required_unless_present = "redirect_uri")]
        scopes: Vec<String>,
        /// Creates no secret, for an application that cannot keep one
        #[arg(long)]
        public: bool,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists registered clients, the oldest first
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes a client and ends every connection and token that it has
    Remove {
        /// The client's id, as `client list` prints it
        id: String,
    },
    /// Lists the programs that a user connected, the newest first
    Connections {
        /// The user's address
        email: String,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Ends a program that a user connected; its tokens stop working at once
    Disconnect {
        /// The user's address
        email: String,
        /// The connection's identifier, as `client connections` prints it
        id: String,
    },
}

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Creates an account; asks for the password
    Create {
        /// The account's address
        email: String,
        /// Roles in place of the default ones
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        roles: Option<Vec<String>>,
        /// Gives the role of `[admin]` as well
        #[arg(long)]
        admin: bool,
        /// Reads the password from standard input
        #[arg(long)]
        password_stdin: bool,
        /// Creates it for what `serve --dev` runs: its example if there is no configuration file
        #[arg(long)]
        dev: bool,
    },
    /// Lists accounts by email
    ///
    /// With --json: `{"items":[{"id","email","roles"}],"total"}`; a disabled account has `"disabled":true`.
    List {
        /// Prints at most this many, up to 500
        #[arg(long, default_value_t = 50, value_name = "N", allow_negative_numbers = true)]
        limit: i64,
        /// Skips this many
        #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true)]
        offset: i64,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Replaces an account's roles
    ///
    /// They apply from its next request on. A role that neither `[roles]` nor `auth.default_roles` names is given with
    /// a warning: it permits nothing.
    SetRoles {
        /// The account's address
        email: String,
        /// The new roles; "" for none
        #[arg(value_name = "A,B", value_delimiter = ',', required = true)]
        roles: Vec<String>,
    },
    /// Replaces an account's password and ends its sessions; asks for the password
    SetPassword {
        /// The account's address
        email: String,
        /// Reads the password from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Removes an account's second factor and backup codes
    ///
    /// Its sessions stay.
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
    /// Invites an address by mail: to register, or to accept with the account that it has
    ///
    /// Needs `[email]`. In dev mode it prints the link.
    Invite {
        /// The address to invite
        email: String,
        /// Roles of the account in place of the default ones
        #[arg(long, value_name = "A,B", value_delimiter = ',')]
        roles: Option<Vec<String>>,
        /// The tenant whose member the account becomes
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
    },
    /// Disables an account: ends sessions, refuses sign-ins and API tokens until it is enabled
    ///
    /// Its sessions, JSON web tokens and connected programs end, and mailed links stop working. Sign-in answers as
    /// for a wrong password; the audit log has the reason.
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
    /// Deletes an account with its sessions, API tokens and links; asks first
    ///
    /// Removes the user, JSON web tokens, the second factor, provider links and mailed links too. Records that it
    /// owns follow `auth.on_account_delete`; a relation to the user follows its `on_delete`. If that is `restrict`
    /// and such records exist, the command fails and nothing is deleted. `audit_log` keeps the id, without email and
    /// client addresses.
    Delete {
        /// The account's address
        email: String,
        /// Does not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

fn address(text: &str) -> Result<SocketAddr, String> {
    gatewright::config::listen_address(text).ok_or_else(|| format!("expected {}", gatewright::config::LISTEN_ADDRESS))
}
