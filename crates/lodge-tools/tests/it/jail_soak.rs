//! Programs that nobody looked at go straight into the jail; a canary outside must not notice. `LODGE_JAIL_PROGRAMS` says how
//! many. Program number N is made from seed + N, so `LODGE_SEED` with that sum and one program replays it alone.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use testkit::Random;

use crate::{bash_programs::program, jail::Place};

/// Some programs wait for ever.
const TIME: Duration = Duration::from_secs(2);
/// How many run at a time, each in a place of its own: those that wait take no processor.
const WORKERS: usize = 8;

#[test]
fn no_program_changes_anything_outside() {
    let programs = std::env::var("LODGE_JAIL_PROGRAMS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(50);
    let (_, seed) = Random::from_env();
    let (next, endless, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let Some(place) = Place::new() else { return };
                let before = place.canary();
                let outside = place.at("outside/.ssh/id_rsa").display().to_string();
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= programs {
                        return;
                    }
                    let seed = seed.wrapping_add(number);
                    let mut random = Random::seeded(seed);
                    let target = *random.pick(&["file", "dir/other", outside.as_str()]);
                    let program = program(&mut random, target);
                    let begun = Instant::now();
                    let (code, output) = place.run(&program, TIME);
                    endless.fetch_add(u64::from(begun.elapsed() > TIME), Relaxed);
                    failed.fetch_add(u64::from(code != 0), Relaxed);
                    assert!(
                        !output.contains("CANARY"),
                        "LODGE_SEED={seed}:\n{program}\n{code}: {output}"
                    );
                    assert_eq!(
                        place.canary(),
                        before,
                        "LODGE_SEED={seed}:\n{program}\n{code}: {output}"
                    );
                }
            });
        }
    });
    println!("LODGE_SEED={seed}: {programs} programs, {failed:?} ended in an error, {endless:?} had to be ended");
}
