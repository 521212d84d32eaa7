use std::process::ExitCode;

use anyhow::Context;
use gatewright::App;
use tokio::net::TcpListener;

use crate::args::{Common, Serve};
use crate::{configuration, files, logging, output};

pub(crate) async fn serve(common: &Common, serve: &Serve) -> anyhow::Result<ExitCode> {
    let mut config = configuration::for_serving(common, serve)?;
    logging::start(config.server.dev_mode);
    files::fit_to_limit(&mut config);
    let asked_to_stop = stop_signals().context("cannot listen for signals")?;

    let wanted = config.server.listen;
    let cannot = || format!("cannot listen on {wanted}; choose another address with --listen or `server.listen`");
    let listener = TcpListener::bind(wanted).await.with_context(cannot)?;
    // The real address: the configured port may be 0.
    config.server.listen = listener.local_addr()?;
    let app = App::builder(config).build().await?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    for line in app.banner() {
        output::line(&line);
    }
    app.serve(listener, asked_to_stop).await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts to listen for SIGTERM and SIGINT at once. The returned future resolves on either.
#[cfg(unix)]
fn stop_signals() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        tracing::info!("stopping: finishing requests in progress");
    })
}

#[cfg(not(unix))]
fn stop_signals() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _interrupted = tokio::signal::ctrl_c().await;
        tracing::info!("stopping: finishing requests in progress");
    })
}
