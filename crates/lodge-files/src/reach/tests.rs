use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;

use super::*;

fn files(roots: Vec<Root>) -> Files {
    let reach = Reach {
        roots,
        ..Reach::default()
    };
    reach.files()
}

fn setup() -> (tempfile::TempDir, Files, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    (dir, files(vec![Root::whole(&root)]), root)
}

fn read(files: &Files, path: &Path) -> Result<String> {
    let mut text = String::new();
    files.readable(path, 1 << 20)?.read_to_string(&mut text)?;
    Ok(text)
}

fn write(files: &Files, path: &Path, data: &str, how: How) -> Result<()> {
    files.write(
        path,
        &Write {
            data: data.as_bytes(),
            how,
            create_only: false,
            if_match: None,
        },
    )
}

const REPLACE: How = How::Truncate(0);

/// Tells another thread to stop, also when a test fails.
struct Stops<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn nothing_outside_the_roots_can_be_reached() {
    let (dir, files, root) = setup();
    std::os::unix::fs::symlink(dir.path().join("secret"), root.join("absolute")).unwrap();
    std::os::unix::fs::symlink("../secret", root.join("relative")).unwrap();
    std::os::unix::fs::symlink("..", root.join("up")).unwrap();
    for path in ["absolute", "relative", "up/secret", "../secret"] {
        let path = root.join(path);
        assert_eq!(read(&files, &path), Err(FileError::Denied), "{path:?}");
        assert_eq!(write(&files, &path, "x", REPLACE), Err(FileError::Denied), "{path:?}");
        assert_eq!(files.copy(&path, &root.join("copy"), false), Err(FileError::Denied));
        assert_eq!(files.list(&path, 10).unwrap_err(), FileError::Denied);
    }
    assert_eq!(read(&files, Path::new("/etc/passwd")), Err(FileError::Denied));
    assert_eq!(files.delete(&root, true), Err(FileError::Denied));
    assert_eq!(files.mkdir(&root.join("up/new")), Err(FileError::Denied));
    assert_eq!(std::fs::read_to_string(dir.path().join("secret")).unwrap(), "secret");
    // Removing a link removes the link.
    files.delete(&root.join("relative"), false).unwrap();
    assert!(dir.path().join("secret").exists());
}

#[test]
fn a_link_that_is_swapped_all_the_time_never_leads_out() {
    let (dir, files, root) = setup();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "secret").unwrap();
    std::fs::create_dir(root.join("real")).unwrap();
    std::fs::write(root.join("real/file"), "mine").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = Stops(&stop);
        scope.spawn(|| {
            let (a, b) = (root.join("swap"), root.join("next"));
            for turn in 0.. {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let target = if turn % 2 == 0 { Path::new("real") } else { &outside };
                std::os::unix::fs::symlink(target, &b).unwrap();
                std::fs::rename(&b, &a).unwrap();
            }
        });
        let file = root.join("swap/file");
        for _ in 0..2000 {
            if let Ok(text) = read(&files, &file) {
                assert_eq!(text, "mine");
            }
            let _ = write(&files, &file, "mine", REPLACE);
            let _ = files.delete(&root.join("swap/none"), true);
        }
    });
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "secret");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn pipes_devices_and_processes_are_not_touched() {
    let (_dir, _, root) = setup();
    let files = files(vec![Root::whole("/")]);
    let pipe = root.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    // Neither waits for the other end.
    assert_eq!(read(&files, &pipe), Err(FileError::NotAFile));
    assert_eq!(write(&files, &pipe, "x", REPLACE), Err(FileError::NotAFile));
    for device in ["/dev/zero", "/dev/tty", "/dev/null"] {
        assert_eq!(read(&files, Path::new(device)), Err(FileError::NotAFile), "{device}");
    }
    for process in ["/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/1/cmdline"] {
        let seen = read(&files, Path::new(process));
        assert!(
            matches!(seen, Err(FileError::Denied | FileError::Forbidden)),
            "{process}: {seen:?}"
        );
    }
    assert_eq!(files.list(Path::new("/proc"), 100_000), Err(FileError::Denied));
}

#[test]
fn files_are_written_in_every_way() {
    let (_dir, files, root) = setup();
    let file = root.join("file");
    let check = |before: Option<&str>, how: How, after: &str| {
        match before {
            Some(before) => std::fs::write(&file, before).unwrap(),
            None => drop(std::fs::remove_file(&file)),
        }
        write(&files, &file, "X", how).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), after, "{before:?} {how:?}");
    };
    for how in [
        How::Truncate(0),
        How::Truncate(9),
        How::Append(0),
        How::Append(9),
        How::Insert(0),
        How::Insert(9),
    ] {
        check(None, how, "X");
    }
    check(Some("abcdef"), How::Truncate(0), "X");
    check(Some("abcdef"), How::Truncate(2), "abX");
    check(Some("abcdef"), How::Truncate(100), "abcdefX");
    check(Some("abcdef"), How::Append(0), "abcdefX");
    check(Some("abcdef"), How::Append(2), "abcdXef");
    check(Some("abcdef"), How::Append(100), "Xabcdef");
    check(Some("abcdef"), How::Insert(0), "Xabcdef");
    check(Some("abcdef"), How::Insert(3), "abcXdef");
    check(Some("abcdef"), How::Insert(100), "abcdefX");
    assert_eq!(
        write(&files, &root.join("no/file"), "x", REPLACE),
        Err(FileError::NoParent)
    );
    assert_eq!(
        write(&files, &root.join("file/child"), "x", REPLACE),
        Err(FileError::NoParent)
    );
    std::fs::create_dir(root.join("dir")).unwrap();
    assert_eq!(write(&files, &root.join("dir"), "x", REPLACE), Err(FileError::NotAFile));
    // Nothing unfinished is left.
    assert_eq!(files.list(&root, 10).unwrap().len(), 2);
}

#[test]
fn a_client_that_knows_an_old_state_does_not_write() {
    let (_dir, files, root) = setup();
    let file = root.join("file");
    let tag = || etag(&files.facts(&file, true).unwrap().stat);
    let put = |data: &str, create_only: bool, if_match: Option<&str>| {
        let how = REPLACE;
        files.write(
            &file,
            &Write {
                data: data.as_bytes(),
                how,
                create_only,
                if_match,
            },
        )
    };
    assert_eq!(put("x", false, Some("any")), Err(FileError::Changed));
    put("one", true, None).unwrap();
    assert_eq!(put("two", true, None), Err(FileError::Exists));
    let first = tag();
    put("two", false, Some(&first)).unwrap();
    assert_eq!(put("six", false, Some(&first)), Err(FileError::Changed));
    // However fast files of the same length follow each other, none is taken for another.
    let mut seen = std::collections::HashSet::new();
    for _ in 0..200 {
        put("two", false, None).unwrap();
        assert!(seen.insert(tag()));
    }
}

#[test]
fn writers_beside_each_other_lose_nothing() {
    let (_dir, files, root) = setup();
    let (log, count) = (root.join("log"), root.join("count"));
    std::fs::write(&count, "0").unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (files, log, count) = (&files, &log, &count);
            scope.spawn(move || {
                for line in 0..50 {
                    write(files, log, &format!("{writer}-{line}\n"), How::Append(0)).unwrap();
                    loop {
                        let tag = etag(&files.facts(count, true).unwrap().stat);
                        let now: u32 = std::fs::read_to_string(count).unwrap().parse().unwrap();
                        let next = (now + 1).to_string();
                        let write = Write {
                            data: next.as_bytes(),
                            how: REPLACE,
                            create_only: false,
                            if_match: Some(&tag),
                        };
                        match files.write(count, &write) {
                            Ok(()) => break,
                            Err(FileError::Changed) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 200);
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "200");
}

#[test]
fn what_is_written_keeps_its_permissions_and_its_links() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_dir, files, root) = setup();
    let script = root.join("script");
    std::fs::write(&script, "old").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o751)).unwrap();
    std::os::unix::fs::symlink("script", root.join("link")).unwrap();
    write(&files, &root.join("link"), "new", REPLACE).unwrap();
    assert_eq!(std::fs::read_to_string(&script).unwrap(), "new");
    assert_eq!(std::fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o751);
    assert!(std::fs::symlink_metadata(root.join("link")).unwrap().is_symlink());
    assert_eq!(files.facts(&root.join("link"), true).unwrap().path, script);
    assert_eq!(files.facts(&root.join("link"), false).unwrap().kind, "symlink");
}

#[test]
fn directories_are_made_listed_moved_and_removed() {
    let (_dir, files, root) = setup();
    let names = |path: &Path| -> Vec<String> {
        let entries = files.list(path, 100).unwrap();
        let spell = |entry: &tree::Entry| format!("{}{}", entry.name.display(), if entry.is_dir { "/" } else { "" });
        entries.iter().map(spell).collect()
    };
    files.mkdir(&root.join("a/b")).unwrap();
    files.mkdir(&root.join("a/b")).unwrap();
    std::fs::write(root.join("a/file"), "x").unwrap();
    std::os::unix::fs::symlink("a", root.join("link")).unwrap();
    assert_eq!(files.mkdir(&root.join("a/file")), Err(FileError::ExistsAsFile));
    assert_eq!(files.mkdir(&root.join("a/file/c")), Err(FileError::ExistsAsFile));
    assert_eq!(names(&root.join("a")), ["b/", "file"]);
    assert_eq!(names(&root), ["a/", "link/"]);
    assert_eq!(files.list(&root.join("a/file"), 9), Err(FileError::NotADirectory));
    assert_eq!(files.list(&root.join("none"), 9), Err(FileError::NotFound));
    assert_eq!(files.list(&root, 1), Err(FileError::TooLarge));
    assert_eq!(files.delete(&root.join("a"), false), Err(FileError::NotEmpty));
    assert_eq!(files.delete(&root.join("none"), true), Err(FileError::NotFound));
    let (file, copy) = (root.join("a/file"), root.join("a/copy"));
    files.copy(&file, &copy, true).unwrap();
    assert_eq!(files.copy(&file, &copy, true), Err(FileError::Exists));
    assert_eq!(files.rename(&file, &copy, true), Err(FileError::Exists));
    assert_eq!(files.rename(&root.join("none"), &copy, false), Err(FileError::NotFound));
    assert_eq!(files.copy(&root.join("none"), &copy, false), Err(FileError::NotFound));
    assert_eq!(
        files.copy(&file, &root.join("no/copy"), false),
        Err(FileError::NoParent)
    );
    files.rename(&file, &copy, false).unwrap();
    assert_eq!(names(&root.join("a")), ["b/", "copy"]);
    // What holds the source, or is held by it, is no place for it.
    assert_eq!(
        files.copy(&root.join("a"), &root.join("a/b/c"), false),
        Err(FileError::IntoItself)
    );
    assert_eq!(
        files.rename(&root.join("a/b"), &root.join("a"), false),
        Err(FileError::IntoItself)
    );
    // Onto itself nothing happens.
    files.copy(&copy, &copy, false).unwrap();
    files.rename(&copy, &copy, false).unwrap();
    std::fs::hard_link(&copy, &file).unwrap();
    files.rename(&copy, &file, false).unwrap();
    assert_eq!(names(&root.join("a")), ["b/", "file"]);
    files.delete(&root.join("a"), true).unwrap();
    assert_eq!(names(&root), ["link"]);
}

#[test]
fn trees_are_copied_and_take_the_place_of_what_was_there() {
    let (dir, files, root) = setup();
    for path in ["one/deep/er", "two/old"] {
        std::fs::create_dir_all(root.join(path)).unwrap();
    }
    std::fs::write(root.join("one/deep/file"), "x").unwrap();
    std::fs::write(root.join("file"), "y").unwrap();
    std::os::unix::fs::symlink(dir.path().join("secret"), root.join("one/out")).unwrap();
    files.copy(&root.join("one"), &root.join("two"), false).unwrap();
    assert_eq!(std::fs::read_to_string(root.join("two/deep/file")).unwrap(), "x");
    assert!(root.join("two/deep/er").is_dir() && !root.join("two/old").exists());
    // A link is copied as one; what it leads to is not.
    assert_eq!(
        std::fs::read_link(root.join("two/out")).unwrap(),
        dir.path().join("secret")
    );
    files.copy(&root.join("file"), &root.join("two"), false).unwrap();
    assert_eq!(std::fs::read_to_string(root.join("two")).unwrap(), "y");
    files.rename(&root.join("one"), &root.join("two"), false).unwrap();
    assert!(root.join("two/deep/file").exists() && !root.join("one").exists());
    files.rename(&root.join("file"), &root.join("two"), false).unwrap();
    assert_eq!(std::fs::read_to_string(root.join("two")).unwrap(), "y");
    assert_eq!(files.list(&root, 9).unwrap().len(), 1);
}

#[test]
fn things_move_to_another_file_system() {
    let (_dir, _, root) = setup();
    let Ok(far) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let far = far.path().to_owned();
    let files = files(vec![Root::whole(&root), Root::whole(&far)]);
    std::fs::create_dir(root.join("dir")).unwrap();
    std::fs::write(root.join("dir/file"), "x").unwrap();
    std::os::unix::fs::symlink("file", root.join("dir/link")).unwrap();
    files.rename(&root.join("dir"), &far.join("dir"), true).unwrap();
    assert_eq!(std::fs::read_to_string(far.join("dir/link")).unwrap(), "x");
    std::fs::write(root.join("file"), "y").unwrap();
    assert_eq!(
        files.rename(&root.join("file"), &far.join("dir/file"), true),
        Err(FileError::Exists)
    );
    files.rename(&root.join("file"), &far.join("dir/file"), false).unwrap();
    assert_eq!(std::fs::read_to_string(far.join("dir/file")).unwrap(), "y");
    files.rename(&far.join("dir/link"), &root.join("link"), true).unwrap();
    assert_eq!(std::fs::read_link(root.join("link")).unwrap(), Path::new("file"));
    assert_eq!(files.list(&root, 9).unwrap().len(), 1);
}

#[test]
fn names_may_be_bytes_and_trees_deep() {
    let (_dir, files, root) = setup();
    let strange = root.join(OsString::from_vec(b"caf\xe9".to_vec()));
    write(&files, &strange, "x", REPLACE).unwrap();
    assert_eq!(files.list(&root, 9).unwrap()[0].name, strange.file_name().unwrap());
    files.delete(&strange, false).unwrap();
    let long = root.join("n".repeat(256));
    assert_eq!(write(&files, &long, "x", REPLACE), Err(FileError::NameTooLong));
    assert_eq!(read(&files, &long), Err(FileError::NameTooLong));
    let deep = root.join("d/".repeat(1500));
    files.mkdir(&deep).unwrap();
    write(&files, &deep.join("file"), "x", REPLACE).unwrap();
    files.copy(&root.join("d"), &root.join("e"), false).unwrap();
    assert!(root.join("e").join("d/".repeat(1499)).join("file").exists());
    files.delete(&root.join("d"), true).unwrap();
    files.delete(&root.join("e"), true).unwrap();
    assert_eq!(files.list(&root, 9).unwrap(), []);
}

#[test]
fn a_grant_is_for_what_it_names_and_no_more() {
    let (dir, _, root) = setup();
    let dir = dir.path().canonicalize().unwrap();
    std::fs::write(dir.join("other"), "other").unwrap();
    let grant = |path: &Path, write| {
        files(vec![Root {
            path: path.to_owned(),
            read: true,
            write,
            exact: true,
            project: false,
        }])
    };
    let secret = dir.join("secret");
    let files = grant(&secret, false);
    assert_eq!(read(&files, &secret).unwrap(), "secret");
    assert_eq!(read(&files, &dir.join("other")), Err(FileError::Denied));
    assert_eq!(write(&files, &secret, "x", REPLACE), Err(FileError::Denied));
    let files = grant(&secret, true);
    write(&files, &secret, "new", REPLACE).unwrap();
    assert_eq!(write(&files, &dir.join("other"), "x", REPLACE), Err(FileError::Denied));
    // Putting a link in its place achieves nothing.
    files.delete(&secret, false).unwrap();
    std::os::unix::fs::symlink("other", &secret).unwrap();
    assert_eq!(read(&files, &secret), Err(FileError::Denied));
    let files = grant(&root, true);
    write(&files, &root.join("in"), "x", REPLACE).unwrap();
    std::fs::rename(&root, dir.join("moved")).unwrap();
    std::os::unix::fs::symlink(&dir, &root).unwrap();
    assert_eq!(read(&files, &root.join("other")), Err(FileError::Denied));
}

#[test]
fn only_files_of_a_bearable_size_are_read() {
    let (_dir, files, root) = setup();
    let file = root.join("file");
    std::fs::write(&file, "two").unwrap();
    assert_eq!(files.readable(&file, 1).err(), Some(FileError::TooLarge));
    assert_eq!(read(&files, &root), Err(FileError::NotAFile));
    assert_eq!(read(&files, &file.join("child")), Err(FileError::NotFound));
    for (bytes, is_text) in [
        (&b""[..], true),
        ("ä".as_bytes(), true),
        (b"\xc3", false),
        (b"a\xffb", false),
    ] {
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(files.pieces(&file, 10).unwrap().is_text, is_text, "{bytes:?}");
    }
}

#[test]
fn a_directory_that_holds_a_home_is_no_project() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let home = root.join("home/person");
    let (work, link) = (home.join("work"), root.join("link"));
    std::fs::create_dir_all(&work).unwrap();
    std::os::unix::fs::symlink("/", &link).unwrap();
    for (directory, expected) in [
        (work.as_path(), true),
        (&root.join("elsewhere"), true),
        (&home, false),
        (&root.join("home"), false),
        (&root, false),
        (&link, false),
        (Path::new("/"), false),
    ] {
        let reach = Reach {
            roots: vec![Root::project(directory)],
            homes: vec![home.clone()],
            ..Reach::default()
        };
        let files = reach.files();
        let inside = directory.join("file");
        assert_eq!(files.allows(&inside, false), expected, "{directory:?}");
        assert_eq!(files.is_only_granted(&inside), !expected, "{directory:?}");
    }
}
