//! Every write of the store is ended somewhere here.

use notify_server::store::Operation;

use super::{calls, sending, servers, singles, starts, webhooks};

#[test]
fn every_write_is_ended_before_and_after_its_commit() {
    let mut tested = [
        calls::operations(),
        sending::operations(),
        starts::operations(),
        webhooks::operations(),
        servers::operations(),
        singles::operations(),
    ]
    .concat();
    tested.sort_unstable();
    tested.dedup();
    let mut all: Vec<&str> = Operation::ALL.iter().map(|operation| operation.as_str()).collect();
    all.sort_unstable();
    assert_eq!(tested, all, "left: what is tested here, right: what the store writes");
}
