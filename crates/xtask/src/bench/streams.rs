//! What a delta costs AHP when many sessions stream at once, each to a client of its own.

use anyhow::Result;

use super::{
    ahp::Client,
    measures::{Given, Numbers},
    process,
    watchers::start,
};

/// How many sessions stream.
const SESSIONS: [(&str, usize); 4] = [
    ("ahp_delta_cpu_us_of_1_session", 1),
    ("ahp_delta_cpu_us_of_16_sessions", 16),
    ("ahp_delta_cpu_us_of_64_sessions", 64),
    ("ahp_delta_cpu_us_of_200_sessions", 200),
];
/// Deltas of all of them together.
const DELTAS: usize = 200_000;

/// Processor time of the host per delta.
pub(super) fn measure(given: &Given<'_>) -> Result<Numbers> {
    let house = start(given.program, given.home)?;
    let pid = house.pid();
    let mut numbers = Numbers::new();
    for (name, sessions) in SESSIONS {
        let deltas = given.times(DELTAS) / sessions;
        let mut speakers: Vec<(Client, String)> = Vec::new();
        for n in 0..sessions {
            let mut client = house.connect_as(&format!("speaker-{sessions}-{n}"))?;
            let chat = client.session(&format!("lodge:/stream-{sessions}-{n}"))?;
            speakers.push((client, chat));
        }
        let cpu = process::cpu(pid);
        let speak = |(mut client, chat): (Client, String)| {
            let thread = std::thread::Builder::new().stack_size(256 << 10);
            thread.spawn(move || {
                client.say(&chat, "t", &format!("stream {deltas} chunks"))?;
                client.until_end()
            })
        };
        let speaking: Vec<_> = speakers.into_iter().map(speak).collect::<Result<_, _>>()?;
        for speaker in speaking {
            speaker.join().map_err(|_| anyhow::anyhow!("a client failed"))??;
        }
        let spent = (process::cpu(pid) - cpu).as_secs_f64() * 1e6;
        numbers.push((name, spent / (deltas * sessions) as f64));
    }
    Ok(numbers)
}
