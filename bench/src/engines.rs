use gatewright_servers::PrivatePostgres;

/// Runs `measure` with a database URL and the engine's name: on a new SQLite file and, if Postgres is installed, on a
/// private Postgres server. Prints the returned lines after both runs.
pub(crate) async fn on_both<F>(measure: F) -> anyhow::Result<()>
where
    F: AsyncFn(&str, &str) -> anyhow::Result<Vec<String>>,
{
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite://{}", folder.path().join("bench.db").display());
    let mut report = measure(&file, "SQLite").await?;
    match PrivatePostgres::start_durable() {
        Err(missing) => report.push(format!("Postgres: left out, {missing}")),
        Ok(server) => report.extend(measure(&server.url(), "Postgres").await?),
    }
    println!("\n{}", report.join("\n"));
    Ok(())
}
