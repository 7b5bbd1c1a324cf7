//! The vocabulary claims nothing that Lodge does not say.

use std::{fs, path::Path};

use lodge_events::{EventType, TYPES};

/// Types that Lodge reads, because logs of the Copilot CLI have them, and never writes, with the reason.
const ONLY_READ: [(&str, &str); 1] = [(
    "session.schedule_rearmed",
    "the model cannot pace schedules here, but a log that comes from elsewhere may say when one runs next",
)];

/// The text of all sources but those of the vocabulary itself.
fn sources(dir: &Path, into: &mut String) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "tests" && name != "lodge-events" && name != "testkit" {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_type_of_the_vocabulary_is_built_somewhere() {
    let mut text = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut text);
    let built = |name: &str| {
        [" {", "::default()"]
            .iter()
            .any(|how| text.contains(&format!("{name}{how}")))
    };
    for info in TYPES {
        let name = format!("{:?}", EventType::from_name(info.name).unwrap());
        let only_read = ONLY_READ.iter().any(|(known, _)| *known == info.name);
        assert_ne!(
            built(&name),
            only_read,
            "{} is claimed, and no source makes one",
            info.name
        );
    }
}
