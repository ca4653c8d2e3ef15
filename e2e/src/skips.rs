//! Records of skipped tests.
//!
//! A test that lacks a tool (kubectl, kube-controller-manager, a real API server) is skipped and passes. It leaves a record
//! next to the binaries of its profile, so that it is not mistaken for a test that ran. When the test runs, it removes the
//! record. The program `skipped` lists the records.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

const DIRECTORY: &str = "skipped-tests";

/// Records that a test was skipped because a tool is missing, or that it ran.
///
/// `test` is `<program>::<test>`. An error while writing the record is printed to standard error and fails no test.
pub fn note(test: &str, lacking: Option<&str>) {
    let written = directory().and_then(|directory| write(&directory, test, lacking));
    if let Err(error) = written {
        eprintln!("cannot note whether {test} was skipped: {error}");
    }
}

fn write(directory: &Path, test: &str, lacking: Option<&str>) -> io::Result<()> {
    let record = directory.join(test.replace("::", "--"));
    match lacking {
        Some(why) => {
            fs::create_dir_all(directory)?;
            fs::write(record, why)
        }
        None => match fs::remove_file(record) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    }
}

fn directory() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let beside = crate::process::beside(&program).ok_or_else(|| io::Error::other("this program is in no directory"))?;
    Ok(beside.join(DIRECTORY))
}

/// The tests whose last run was skipped, by the tool that they lack.
pub fn all() -> io::Result<BTreeMap<String, Vec<String>>> {
    read(&directory()?)
}

fn read(directory: &Path) -> io::Result<BTreeMap<String, Vec<String>>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let mut skipped: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().replace("--", "::");
        skipped.entry(fs::read_to_string(entry.path())?).or_default().push(name);
    }
    for tests in skipped.values_mut() {
        tests.sort();
    }
    Ok(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_listed_until_it_runs() {
        let target = crate::cluster::Directory::new("skips").unwrap();
        let directory = target.path().join(DIRECTORY);
        assert!(read(&directory).unwrap().is_empty());
        write(&directory, "deploy::kubectl_renders_the_same", Some("kubectl is not on the PATH")).unwrap();
        write(&directory, "job::undo", Some("kubectl is not on the PATH")).unwrap();
        write(&directory, "job::fast", None).unwrap();
        let tests = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let lacking = |names| BTreeMap::from([("kubectl is not on the PATH".to_owned(), tests(names))]);
        assert_eq!(read(&directory).unwrap(), lacking(&["deploy::kubectl_renders_the_same", "job::undo"]));
        write(&directory, "job::undo", None).unwrap();
        assert_eq!(read(&directory).unwrap(), lacking(&["deploy::kubectl_renders_the_same"]));
    }
}
