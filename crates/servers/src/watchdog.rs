use std::{
    ffi::OsStr,
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::Error;

/// Waits for a word on its standard input. `release` means that the owner cleaned up. The end of the input without it
/// means that the owner died: then the shell ends the process and removes the folder.
const WATCH: &str = r#"
trap '' INT TERM HUP
read -r word
[ "$word" = release ] && exit 0
kill -s "$1" -- "$2"
tries=0
while kill -0 -- "$2" && [ "$tries" -lt 50 ]; do tries=$((tries + 1)); sleep 0.1; done
kill -s KILL -- "$2"
[ -z "$3" ] || rm -rf -- "$3"
"#;

/// Ends a process, and removes a folder, when the owner of the watchdog dies without dropping it.
///
/// Drop is not enough: an interrupted or killed test run drops nothing. The watchdog is a small shell in its own process
/// group, which a signal to the owner's group does not reach.
#[derive(Debug)]
pub struct Watchdog(Child);

impl Watchdog {
    /// Watches over `process` (a negative number is a process group), to be ended by the signal named `signal` and,
    /// five seconds later, by `KILL`.
    pub fn start(process: i64, signal: &str, folder: Option<&Path>) -> Result<Self, Error> {
        Command::new("sh")
            .args(["-c", WATCH, "watchdog", signal, &process.to_string()])
            .arg(folder.map_or(OsStr::new(""), Path::as_os_str))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
            .map_err(Error::during("cannot start `sh`"))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.write_all(b"release\n");
        }
        let _ = self.0.wait();
    }
}

/// Sends the signal named `signal` (`TERM`, `INT`, …) to a process or, if the number is negative, to a group. Returns
/// whether it exists.
pub fn signal(process: i64, signal: &str) -> bool {
    Command::new("sh")
        .args(["-c", r#"kill -s "$1" -- "$2""#, "kill", signal, &process.to_string()])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        process::ExitStatus,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::Folder;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    fn ended(child: &mut Child) -> Option<ExitStatus> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    #[test]
    fn the_process_and_folder_of_a_dead_owner_are_removed() {
        let folder = Folder::create("watchdog").unwrap();
        fs::write(folder.path().join("file"), "x").unwrap();
        let mut child = sleeper();
        let mut watchdog = Watchdog::start(child.id().into(), "TERM", Some(folder.path())).unwrap();
        // The operating system closes a dead owner's pipes like this.
        drop(watchdog.0.stdin.take());
        assert!(ended(&mut child).is_some());
        let _ = watchdog.0.wait();
        assert!(!folder.path().exists());
    }

    #[test]
    fn a_dropped_watchdog_leaves_the_process_alone() {
        let mut child = sleeper();
        drop(Watchdog::start(child.id().into(), "TERM", None).unwrap());
        assert!(child.try_wait().unwrap().is_none());
        assert!(signal(child.id().into(), "TERM"));
        assert!(ended(&mut child).is_some());
    }
}
