//! Reads what a database holds through the configuration: `gatewright verify`.

use gatewright_base::Ambient;
use gatewright_db::{Db, OpenError, Options};
use gatewright_entities::schema;
use gatewright_entities::{DeclarationErrors, Declarations};

use crate::app::files::FileService;
use crate::app::parts;
use crate::{Config, db};

pub use gatewright_entities::schema::Finding;

/// Why the database was not read to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The entities are declared wrongly.
    #[error(transparent)]
    Declarations(#[from] DeclarationErrors),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The files cannot be compared.
    #[error("the files: {0}")]
    Files(Box<dyn std::error::Error + Send + Sync>),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] db::Error),
}

/// Refuses a configuration whose Postgres database answers, and whose encoding is not UTF8. A server on it would not start.
pub async fn check_encoding(config: &Config) -> Result<(), OpenError> {
    let urls = [Some(&config.database.url), config.database.direct_url.as_ref()];
    for url in urls.into_iter().flatten() {
        Db::check_encoding(url.expose(), &Options::default()).await?;
    }
    Ok(())
}

/// Reads every record of the declared entities in batches, and calls `each` for each value that is not of its field's
/// type, and for JSON with a number that is not in canonical form. Returns the number of records. A server may run at
/// the same time. Nothing is changed. Files are compared with their store too.
pub async fn verify(config: &Config, mut each: impl FnMut(Finding)) -> Result<u64, VerifyError> {
    let declarations = Declarations::check(&config.declared())?;
    let mut config = config.clone();
    config.database.create_file = false;
    let db = parts::open(&config).await?;
    let rows = schema::verify(&db, &declarations, &mut each).await;
    let files = files(&config, &db, &declarations, each).await;
    db.close().await;
    files?;
    Ok(rows?)
}

async fn files(
    config: &Config,
    db: &Db,
    declarations: &Declarations,
    mut each: impl FnMut(Finding),
) -> Result<(), VerifyError> {
    let table = "gatewright_files";
    // Before the first start there is none.
    if !config.has_files() || db::schema::describe(db, table).await?.is_none() {
        return Ok(());
    }
    let files =
        FileService::open(config, db, &Ambient::system()).await.map_err(|error| VerifyError::Files(error.into()))?;
    let tables: Vec<String> = declarations.tables().map(str::to_owned).collect();
    let each = |id, reason: &str| {
        each(Finding { table: table.to_owned(), id, column: "id".to_owned(), reason: reason.to_owned() });
    };
    files.verify(&tables, each).await.map_err(VerifyError::Files)
}
