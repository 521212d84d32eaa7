/// Whether to act on an account that a stranger may have registered.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Insist {
    /// Acts on an account whose address nobody has confirmed; anybody may have registered it
    #[arg(long)]
    pub(crate) unverified: bool,
}
