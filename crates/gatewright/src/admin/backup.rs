use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{StreamExt, stream};
use gatewright_auth::tokens::TokenDraft;
use gatewright_db::BackupError;
use gatewright_http::{Problem, Query};
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use serde::Deserialize;
use tokio::io::AsyncReadExt;

use crate::backups::{self, BackupFiles, CreateBackupError};

use super::AdminState;
use super::answer::{noted, unavailable};
use super::gate::{Fresh, Operator};

/// `GET /backup`: the database as of one moment, and its files.
pub(super) fn routes() -> Router<AdminState> {
    Router::new().route("/backup", get(download))
}

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// The parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Whether files in a bucket are included.
    #[serde(default)]
    files: bool,
}

/// It contains password hashes and the secrets of second factors, so the permission to read is not enough.
async fn download(
    State(state): State<AdminState>,
    operator: Operator,
    _: Fresh,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    if !operator.may_write {
        let detail = "a backup holds password hashes; it needs the scope admin:write";
        let problem = Problem::out_of_scope(detail, TokenDraft::ADMIN, "write");
        return Err(problem.with_code("insufficient_scope"));
    }
    let Ok(turn) = state.backups.clone().try_acquire_owned() else {
        return Err(
            Problem::conflict("a backup is being downloaded; try again when it has ended").with_code("backup_running")
        );
    };
    let files = if asked.files { BackupFiles::All } else { BackupFiles::Local };
    let begun = backups::begin(&state.config, files, state.ambient.now()).await.map_err(|error| match error {
        CreateBackupError::Database(error) => refused(error),
        CreateBackupError::Files(error) => unavailable(&*error),
    })?;
    let name = format!("gatewright-{}", state.ambient.now().strftime("%Y%m%dT%H%M%SZ"));
    if let Some(backup) = begun {
        let size = backup.size();
        // The turn ends with the answer.
        let bytes = backup.into_stream().map(move |piece| {
            let _until_the_end = &turn;
            piece
        });
        return Ok(sent(Body::from_stream(bytes), ("application/x-tar", format!("{name}.tar")), size));
    }
    let (file, size) = gatewright_db::backup_unnamed(state.config.database.url.expose()).await.map_err(refused)?;
    let file = tokio::fs::File::from_std(file);
    // The turn ends with the answer.
    let chunks = stream::try_unfold((file, turn), |(mut file, turn)| async move {
        let mut chunk = vec![0; CHUNK];
        let count = file.read(&mut chunk).await?;
        chunk.truncate(count);
        Ok::<_, std::io::Error>((count > 0).then(|| (Bytes::from(chunk), (file, turn))))
    });
    Ok(sent(Body::from_stream(chunks), ("application/vnd.sqlite3", format!("{name}.db")), size))
}

fn sent(body: Body, (content_type, name): (&str, String), size: u64) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type.to_owned()),
        (CONTENT_LENGTH, size.to_string()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    let answer = (StatusCode::OK, headers, body).into_response();
    noted(answer, [("bytes", size.into())])
}

fn refused(error: BackupError) -> Problem {
    match error {
        BackupError::Postgres => {
            let detail = "the database is on Postgres; back it up with pg_dump";
            Problem::conflict(detail).with_code("unsupported")
        }
        error => unavailable(&error),
    }
}
