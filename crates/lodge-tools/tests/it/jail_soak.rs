//! Programs that nobody looked at go straight into the jail; a canary outside must not notice. `LODGE_JAIL_PROGRAMS` says how
//! many, `LODGE_SEED` replays a run.

use std::time::Duration;

use testkit::Random;

use crate::{bash_programs::program, jail::Place};

const TIME: Duration = Duration::from_secs(2);

#[test]
fn no_program_changes_anything_outside() {
    let Some(place) = Place::new() else { return };
    let programs = std::env::var("LODGE_JAIL_PROGRAMS")
        .ok()
        .and_then(|text| text.parse().ok());
    let (mut random, seed) = Random::from_env();
    let before = place.canary();
    let outside = place.at("outside/.ssh/id_rsa").display().to_string();
    for number in 0..programs.unwrap_or(50) {
        let target = *random.pick(&["file", "dir/other", outside.as_str()]);
        let program = program(&mut random, target);
        let (code, output) = place.run(&program, TIME);
        assert!(
            !output.contains("CANARY"),
            "LODGE_SEED={seed}, program {number}:\n{program}\n{code}: {output}"
        );
        assert_eq!(
            place.canary(),
            before,
            "LODGE_SEED={seed}, program {number}:\n{program}\n{code}: {output}"
        );
    }
}
