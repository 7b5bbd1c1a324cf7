//! Logs that anybody may have written: whatever is in them, they open, and what is appended then is there.

use lodge_log::Store;
use proptest::prelude::*;

use crate::support::{TestHome, event_saying, id};

const SAMPLES: &[&str] = &[
    "{\"type\":\"session.start\",\"data\":{\"sessionId\":\"s\",\"version\":1,\"producer\":\"lodge\",\"copilotVersion\":\"1\",\"startTime\":\"2026-01-01T00:00:00Z\"},\"id\":\"00000000-0000-4000-8000-000000000001\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"parentId\":null}\n{\"type\":\"user.message\",\"data\":{\"content\":\"hi\"},\"id\":\"00000000-0000-4000-8000-000000000002\",\"timestamp\":\"2026-01-01T00:00:01.000Z\",\"parentId\":\"00000000-0000-4000-8000-000000000001\"}\n",
    "{\"type\":\"assistant.message\",\"data\":{\"messageId\":\"m\",\"content\":\"x\"},\"id\":\"00000000-0000-4000-8000-000000000003\",\"timestamp\":\"2026-01-01T00:00:02.000Z\",\"parentId\":\"00000000-0000-4000-8000-000000000002\"}\n",
    "{\"type\":\"unknown.kind\",\"data\":null,\"id\":\"\"}\n\0\0\0\0\n{}\n",
];

proptest! {
    #![proptest_config(testkit::fuzz::config())]
    #[test]
    fn no_log_does_harm(bytes in testkit::fuzz::bytes(SAMPLES)) {
        let t = TestHome::new();
        t.plant("s", &bytes);
        let mut opened = t.store().open("s").unwrap();
        let before = opened.log.count();
        opened.log.append(&event_saying(7, "new")).unwrap();
        drop(opened);
        prop_assert_eq!(t.ids("s").last().copied(), Some(id(7)));
        let opened = t.store().open("s").unwrap();
        prop_assert_eq!(opened.log.count(), before + 1);
    }
}
