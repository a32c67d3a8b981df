//! The limits of bodies and responses.

use crate::api::pipeline::memory::*;

const BODY_BYTES_MAX: usize = 1_048_576;

fn client(last: u8) -> Owner {
    Owner::Client(IpAddr::from([1, 1, 1, last]))
}

/// Reserves bodies of that size until the owner is refused.
fn fill(bodies: &BodyMemory, owner: Owner, bytes: usize) -> Vec<MemoryPermit> {
    let mut permits = Vec::new();
    while let Ok(mut permit) = bodies.admit(owner, bytes as u64) {
        permit.grow(bytes).unwrap();
        permits.push(permit);
    }
    permits
}

#[test]
fn one_client_leaves_memory_for_others_and_anonymous_clients_leave_memory_for_keys() {
    let bodies = BodyMemory::new(BODY_BYTES_MAX);
    let first = fill(&bodies, client(1), 65_536);
    assert_eq!(first.len() * 65_536, ANONYMOUS_BODIES.per_owner);
    let others: Vec<_> = (2..=65).map(|last| fill(&bodies, client(last), 65_536)).collect();
    let all: usize = first.len() + others.iter().map(Vec::len).sum::<usize>();
    assert_eq!(all * 65_536, ANONYMOUS_BODIES.total);
    assert_eq!(fill(&bodies, Owner::Admin, 65_536).len() * 65_536, KEY_BODIES.per_owner);
    drop(first);
    assert!(bodies.admit(client(66), 65_536).is_ok(), "memory is released");
}

#[test]
fn a_declared_length_is_checked_before_reading_and_reserves_nothing() {
    let bodies = BodyMemory::new(BODY_BYTES_MAX);
    let declared: Vec<_> =
        (0..1_000).map(|_| bodies.admit(client(1), BODY_BYTES_MAX as u64)).collect();
    assert!(declared.iter().all(Result::is_ok), "nothing has been read yet");
    let _full = fill(&bodies, client(1), BODY_BYTES_MAX);
    assert!(matches!(bodies.admit(client(1), 1), Err(ApiError::Busy)));
}

#[test]
fn a_body_without_a_length_is_refused_at_the_limit() {
    let bodies = BodyMemory::new(BODY_BYTES_MAX);
    let mut permit = bodies.admit(client(1), 0).unwrap();
    permit.grow(ANONYMOUS_BODIES.per_owner).unwrap();
    assert!(matches!(permit.grow(1), Err(ApiError::Busy)));
}

#[test]
fn one_body_of_the_largest_size_always_fits() {
    let bodies = BodyMemory::new(1 << 30);
    let mut permit = bodies.admit(Owner::Admin, 1 << 30).unwrap();
    permit.grow(1 << 30).unwrap();
}

#[test]
fn messenger_webhooks_do_not_share_memory_with_votes_and_browsers() {
    let bodies = BodyMemory::new(BODY_BYTES_MAX);
    let _anonymous: Vec<_> = (1..=65).map(|last| fill(&bodies, client(last), 65_536)).collect();
    assert!(bodies.admit(client(66), 65_536).is_err());
    let messenger = Owner::Messenger(IpAddr::from([1, 1, 1, 1]));
    let permits = fill(&bodies, messenger, 65_536);
    assert_eq!(permits.len() * 65_536, WEBHOOK_BODIES.per_owner);
    assert!(bodies.admit(Owner::TelegramWebhook(AppNo(1)), 65_536).is_ok());
}

async fn read(
    responses: &ResponseMemory,
    owner: Owner,
    bytes: usize,
) -> Result<MemoryPermit, ApiError> {
    let mut permit = responses.reserve_read(owner).await?;
    permit.resize(bytes)?;
    Ok(permit)
}

fn key(number: u128) -> Owner {
    Owner::Key(KeyId(uuid::Uuid::from_u128(number)))
}

#[tokio::test(start_paused = true)]
async fn reads_wait_only_for_unread_responses_of_their_own_key() {
    let responses = ResponseMemory::new();
    let mut held = Vec::new();
    while let Ok(permit) = read(&responses, key(1), MIB).await {
        held.push(permit);
    }
    assert_eq!(held.len() * MIB, KEY_RESPONSES.per_owner);
    let before = tokio::time::Instant::now();
    assert!(read(&responses, key(2), MIB).await.is_ok());
    assert!(read(&responses, Owner::Admin, MIB).await.is_ok());
    assert!(matches!(responses.reserve_write(key(1)), Err(ApiError::Busy)), "at once");
    assert_eq!(before.elapsed(), Duration::ZERO, "no other key waits");
    assert!(matches!(responses.reserve_read(key(1)).await, Err(ApiError::Busy)));
    assert_eq!(before.elapsed(), READ_WAIT);
    let freeing = async {
        tokio::task::yield_now().await;
        held.pop();
    };
    let (permit, ()) = tokio::join!(read(&responses, key(1), MIB), freeing);
    assert!(permit.is_ok(), "it waited until a response was read");
    assert!(before.elapsed() < READ_WAIT + CHECK_INTERVAL);
}

#[tokio::test]
async fn a_read_larger_than_the_remaining_memory_is_refused() {
    let responses = ResponseMemory::new();
    let mut permits = Vec::new();
    for _ in 0..KEY_RESPONSES.per_owner / READ_BYTES {
        permits.push(responses.reserve_read(key(1)).await.unwrap());
    }
    assert!(matches!(permits[0].resize(4 * MIB), Err(ApiError::Busy)));
    assert_eq!(responses.keys.usage().total, KEY_RESPONSES.per_owner, "the limit holds");
    permits.truncate(2);
    assert!(permits[0].resize(4 * MIB).is_ok());
}

#[tokio::test]
async fn a_response_reserves_its_size_and_a_completed_write_is_never_refused() {
    let responses = ResponseMemory::new();
    let mut permits = Vec::new();
    for _ in 0..200 {
        permits.push(read(&responses, key(1), 2_000).await.unwrap());
    }
    assert_eq!(responses.keys.usage().total, 400_000);
    let mut write = responses.reserve_write(key(1)).unwrap();
    write.resize(KEY_RESPONSES.total).unwrap();
    drop((permits, write));
    assert_eq!(responses.keys.usage().total, 0);
}

#[tokio::test]
async fn an_anonymous_read_is_refused_at_the_limit_of_its_address_and_a_write_is_not() {
    let responses = ResponseMemory::new();
    let mut held = Vec::new();
    while let Ok(permit) = read(&responses, client(1), 131_072).await {
        held.push(permit);
    }
    assert_eq!(held.len() * 131_072, ANONYMOUS_RESPONSES.per_owner);
    assert!(read(&responses, client(1), 0).await.is_ok(), "shared bodies take no memory");
    assert!(read(&responses, client(2), 131_072).await.is_ok());
    let mut subscription = responses.reserve_write(client(1)).unwrap();
    assert!(subscription.resize(500).is_ok(), "it is complete, and its secret is in the response");
}
