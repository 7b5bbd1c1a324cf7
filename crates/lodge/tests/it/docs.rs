//! The pages about installing, running and reaching a host name commands that exist.

use testkit::{Home, workspace};

#[test]
fn every_command_in_the_pages_is_one() {
    let home = Home::new();
    let mut checked = 0;
    for page in ["install.md", "service.md", "remote.md"] {
        let text = std::fs::read_to_string(workspace().join("docs").join(page)).unwrap();
        let blocks = text
            .split("```sh\n")
            .skip(1)
            .filter_map(|rest| rest.split("```").next());
        for line in blocks.flat_map(str::lines) {
            let line = line.split(" #").next().unwrap_or_default().trim();
            let Some(command) = line.strip_prefix("lodge ") else {
                continue;
            };
            // What comes after two dashes is for the host, which has its options without a command.
            let (own, host) = command.split_once(" -- ").unwrap_or((command, ""));
            for part in [own, host].into_iter().filter(|part| !part.is_empty()) {
                let done = home.run(part.split_whitespace().chain(["--help"]));
                assert!(done.status.success(), "{page}: lodge {part}: {done:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 15, "{checked}");
}
