use std::process::ExitCode;

use anyhow::Context;
use gatewright::{App, Listeners};
use tokio::sync::mpsc::Sender;

use crate::args::{Common, Serve};
use crate::reloading::Reloading;
use crate::running::PidFile;
use crate::{configuration, files, logging, output};

pub(crate) async fn serve(common: &Common, serve: &Serve) -> anyhow::Result<ExitCode> {
    let (mut config, written) = configuration::for_serving(common, serve)?;
    let log = logging::start(&config);
    files::fit_to_limit(&mut config);
    // One that arrives during a reload has another one follow.
    let (reload, mut reloads) = tokio::sync::mpsc::channel(1);
    let asked_to_stop = stop_signals(reload).context("cannot listen for signals")?;
    let _pid_file = PidFile::take(&config)?;

    let listeners = Listeners::bind(&config).await?;
    // The real addresses: a configured port may be 0.
    config.server.listen = listeners.addresses()?;
    let shown = config.clone();
    let app = App::builder(config).build().await?;
    let mut reloading = Reloading::new((common, serve), (&shown, written), log, app.reloader().listening(&listeners));
    tokio::task::spawn_blocking(move || {
        while let Some(()) = reloads.blocking_recv() {
            reloading.run();
        }
    });
    for address in &shown.server.listen {
        tracing::info!(%address, "listening");
    }
    for line in app.banner() {
        output::line(&line);
    }
    app.serve(listeners, asked_to_stop).await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts to listen for signals at once. The returned future resolves on SIGTERM, on SIGINT and, if the server was started in
/// a terminal that is closed, on SIGHUP, by which the terminal says so. Any other SIGHUP has the configuration read again.
/// SIGUSR1 and SIGUSR2, which would end the process at once, have no effect.
#[cfg(unix)]
fn stop_signals(reload: Sender<()>) -> std::io::Result<impl Future<Output = ()>> {
    use std::io::IsTerminal;
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let (mut first, mut second) = (signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?);
    let in_terminal = std::io::stdin().is_terminal();
    Ok(async move {
        loop {
            let ignored = tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => {
                    if in_terminal && !std::io::stdin().is_terminal() {
                        break;
                    }
                    // A reload that waits already reads the newest file.
                    let _waits = reload.try_send(());
                    continue;
                }
                _ = first.recv() => "SIGUSR1",
                _ = second.recv() => "SIGUSR2",
            };
            tracing::info!(signal = ignored, "this signal has no effect; SIGTERM stops the server");
        }
        tracing::info!("stopping: finishing requests in progress");
    })
}

#[cfg(not(unix))]
fn stop_signals(_: Sender<()>) -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _interrupted = tokio::signal::ctrl_c().await;
        tracing::info!("stopping: finishing requests in progress");
    })
}
