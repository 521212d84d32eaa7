use metrics::{Key, Label, Recorder};

use super::{METADATA, Metrics};
use crate::jobs::Jobs;

const RUNS: &str = "gatewright_job_runs_total";
const SUCCESS: &str = "gatewright_job_last_success_timestamp_seconds";

impl Metrics {
    /// Updates the numbers of jobs. Runs are those of this server, the last success is that of all.
    pub(crate) async fn observe_jobs(&self, jobs: &Jobs) {
        let recorder = &self.0.recorder;
        recorder.describe_counter(
            RUNS.into(),
            None,
            "Runs of jobs by their outcome, and due times that were skipped".into(),
        );
        for (job, counts) in jobs.counts() {
            for (outcome, count) in counts.all() {
                let labels = vec![Label::new("job", job.clone()), Label::new("outcome", outcome)];
                recorder.register_counter(&Key::from_parts(RUNS, labels), &METADATA).absolute(count);
            }
        }
        if !self.0.jobs.is_due() {
            return;
        }
        match jobs.successes().await {
            Err(error) => tracing::debug!(%error, "the jobs cannot be read"),
            Ok(successes) => {
                recorder.describe_gauge(
                    SUCCESS.into(),
                    None,
                    "When a job last succeeded, in seconds since 1970".into(),
                );
                for job in jobs.counts().keys() {
                    let seconds = successes.get(job).map_or(0, |at| at.as_second());
                    let key = Key::from_parts(SUCCESS, vec![Label::new("job", job.clone())]);
                    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 have fewer than 52 bits")]
                    recorder.register_gauge(&key, &METADATA).set(seconds as f64);
                }
            }
        }
    }
}
