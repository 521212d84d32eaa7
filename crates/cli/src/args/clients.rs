//! Commands for clients of the authorization server.

use clap::Subcommand;

use super::parsers;

#[derive(Subcommand)]
pub(crate) enum ClientCommand {
    /// Registers a client and prints its identifier and its secret, which cannot be shown again
    ///
    /// With --service it acts as a service account; with --redirect-uri it acts for users who consent.
    Create {
        /// The name that users see
        name: String,
        /// The service account that it acts as, with `client_credentials`
        #[arg(long, value_name = "ACCOUNT", conflicts_with_all = ["redirect_uri", "public"])]
        service: Option<String>,
        /// A redirect URI, for a client that acts for users; may be repeated
        #[arg(long, value_name = "URI", required_unless_present = "service")]
        redirect_uri: Vec<String>,
        /// Where the browser may go after a sign-out; may be repeated
        #[arg(long, value_name = "URI", conflicts_with = "service")]
        post_logout_redirect_uri: Vec<String>,
        /// Where it is told that a session of its user has ended
        #[arg(long, value_name = "URL", conflicts_with = "service")]
        backchannel_logout_uri: Option<String>,
        /// How its `id_token`s are signed: ES256 (the default) or RS256
        #[arg(long, value_name = "ALGORITHM", conflicts_with = "service")]
        id_token_algorithm: Option<String>,
        /// The scopes that it may request, such as `openid,posts:read,comments:*`
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
    /// Removes a client and ends all its connections and tokens
    Remove {
        /// The client's id, as `client list` prints it
        #[arg(value_parser = parsers::id)]
        id: String,
    },
    /// Lists the programs connected by a user, the newest first
    Connections {
        /// The user's address
        email: String,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Disconnects a program from a user; its tokens are refused immediately
    Disconnect {
        /// The user's address
        email: String,
        /// The connection's identifier, as `client connections` prints it
        #[arg(value_parser = parsers::id)]
        id: String,
    },
}
