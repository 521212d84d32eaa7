use std::{env, fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

/// Where Debian keeps server programs that are not on an ordinary user's `PATH`.
const MORE_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The full path of an installed program: from `PATH`, the system folders beside it, or the newest version under
/// Debian's `/usr/lib/postgresql/*/bin`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(MORE_FOLDERS.iter().map(PathBuf::from))
        .chain(postgres_folders())
        .map(|folder| folder.join(name))
        .find(is_program)
}

/// Whether this process runs as root, which Postgres refuses and `apt-get` needs.
pub fn is_superuser() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn is_program(file: &PathBuf) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn postgres_folders() -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_name_and_a_folder_or_a_stranger_is_not() {
        assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find_program("no-such-program-here"), None);
        assert_eq!(find_program(""), None);
    }
}
