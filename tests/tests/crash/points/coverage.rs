//! Every write of the store has a crash test here.

use notify_server::store::Operation;

use super::{api_calls, intents, sending, servers, sessions, single_sends, starts, webhooks};

#[test]
fn every_write_has_a_crash_test() {
    let mut tested = [
        api_calls::operations(),
        intents::operations(),
        sending::operations(),
        starts::operations(),
        webhooks::operations(),
        servers::operations(),
        sessions::operations(),
        single_sends::operations(),
    ]
    .concat();
    tested.sort_unstable();
    tested.dedup();
    let mut all: Vec<&str> = Operation::ALL.iter().map(|operation| operation.as_str()).collect();
    all.sort_unstable();
    assert_eq!(tested, all, "left: what is tested here, right: what the store writes");
}
