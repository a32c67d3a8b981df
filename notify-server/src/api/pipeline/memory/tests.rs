//! The bounds of bodies and answers.

use crate::api::pipeline::memory::*;

const BODY_BYTES_MAX: usize = 1_048_576;

fn client(last: u8) -> Owner {
    Owner::Client(IpAddr::from([1, 1, 1, last]))
}

/// Bodies of that size that an owner gets in, at most so many.
fn filled(bodies: &Bodies, owner: Owner, bytes: usize) -> Vec<Room> {
    let mut rooms = Vec::new();
    while let Ok(mut room) = bodies.enter(owner, bytes as u64) {
        room.take(bytes).unwrap();
        rooms.push(room);
    }
    rooms
}

#[test]
fn one_client_leaves_room_for_others_and_strangers_for_those_with_a_key() {
    let bodies = Bodies::new(BODY_BYTES_MAX);
    let first = filled(&bodies, client(1), 65_536);
    assert_eq!(first.len() * 65_536, STRANGERS_BODIES.of_owner);
    let others: Vec<_> = (2..=65).map(|last| filled(&bodies, client(last), 65_536)).collect();
    let all: usize = first.len() + others.iter().map(Vec::len).sum::<usize>();
    assert_eq!(all * 65_536, STRANGERS_BODIES.all);
    assert_eq!(filled(&bodies, Owner::Admin, 65_536).len() * 65_536, KEYS_BODIES.of_owner);
    drop(first);
    assert!(bodies.enter(client(66), 65_536).is_ok(), "room is given back");
}

#[test]
fn a_declared_length_is_refused_before_it_is_read_and_takes_nothing() {
    let bodies = Bodies::new(BODY_BYTES_MAX);
    let declared: Vec<_> =
        (0..1_000).map(|_| bodies.enter(client(1), BODY_BYTES_MAX as u64)).collect();
    assert!(declared.iter().all(Result::is_ok), "nothing is read yet");
    let _full = filled(&bodies, client(1), BODY_BYTES_MAX);
    assert!(matches!(bodies.enter(client(1), 1), Err(ApiError::Busy)));
}

#[test]
fn a_body_without_a_length_is_refused_where_the_room_ends() {
    let bodies = Bodies::new(BODY_BYTES_MAX);
    let mut room = bodies.enter(client(1), 0).unwrap();
    room.take(STRANGERS_BODIES.of_owner).unwrap();
    assert!(matches!(room.take(1), Err(ApiError::Busy)));
}

#[test]
fn one_body_of_the_largest_size_has_room_in_any_case() {
    let bodies = Bodies::new(1 << 30);
    let mut room = bodies.enter(Owner::Admin, 1 << 30).unwrap();
    room.take(1 << 30).unwrap();
}

#[test]
fn messengers_webhooks_have_room_whatever_votes_and_pages_hold() {
    let bodies = Bodies::new(BODY_BYTES_MAX);
    let _strangers: Vec<_> = (1..=65).map(|last| filled(&bodies, client(last), 65_536)).collect();
    assert!(bodies.enter(client(66), 65_536).is_err());
    let messenger = Owner::Messenger(IpAddr::from([1, 1, 1, 1]));
    let of_one = filled(&bodies, messenger, 65_536);
    assert_eq!(of_one.len() * 65_536, WEBHOOK_BODIES.of_owner);
    assert!(bodies.enter(Owner::ChatApp(AppNo(1)), 65_536).is_ok());
}

async fn read(answers: &Answers, owner: Owner, bytes: usize) -> Result<Room, ApiError> {
    let mut room = answers.enter_read(owner).await?;
    room.fit(bytes)?;
    Ok(room)
}

fn key(number: u128) -> Owner {
    Owner::Key(KeyId(uuid::Uuid::from_u128(number)))
}

#[tokio::test(start_paused = true)]
async fn reads_wait_for_the_unread_answers_of_their_key_alone() {
    let answers = Answers::new();
    let mut held = Vec::new();
    while let Ok(room) = read(&answers, key(1), MIB).await {
        held.push(room);
    }
    assert_eq!(held.len() * MIB, KEYS_ANSWERS.of_owner);
    let before = tokio::time::Instant::now();
    assert!(read(&answers, key(2), MIB).await.is_ok());
    assert!(read(&answers, Owner::Admin, MIB).await.is_ok());
    assert!(matches!(answers.enter_change(key(1)), Err(ApiError::Busy)), "at once");
    assert_eq!(before.elapsed(), Duration::ZERO, "nobody else waits");
    assert!(matches!(answers.enter_read(key(1)).await, Err(ApiError::Busy)));
    assert_eq!(before.elapsed(), ROOM_WAIT);
    let freeing = async {
        tokio::task::yield_now().await;
        held.pop();
    };
    let (room, ()) = tokio::join!(read(&answers, key(1), MIB), freeing);
    assert!(room.is_ok(), "it waited for an answer that was read");
    assert!(before.elapsed() < ROOM_WAIT + LOOK_EVERY);
}

#[tokio::test]
async fn a_read_that_is_larger_than_the_room_that_is_left_is_refused() {
    let answers = Answers::new();
    let mut rooms = Vec::new();
    for _ in 0..KEYS_ANSWERS.of_owner / READ_BYTES {
        rooms.push(answers.enter_read(key(1)).await.unwrap());
    }
    assert!(matches!(rooms[0].fit(4 * MIB), Err(ApiError::Busy)));
    assert_eq!(answers.keys.held().all, KEYS_ANSWERS.of_owner, "the bound holds");
    rooms.truncate(2);
    assert!(rooms[0].fit(4 * MIB).is_ok());
}

#[tokio::test]
async fn an_answer_takes_its_size_and_a_finished_change_is_never_refused() {
    let answers = Answers::new();
    let mut rooms = Vec::new();
    for _ in 0..200 {
        rooms.push(read(&answers, key(1), 2_000).await.unwrap());
    }
    assert_eq!(answers.keys.held().all, 400_000);
    let mut change = answers.enter_change(key(1)).unwrap();
    change.fit(KEYS_ANSWERS.all).unwrap();
    drop((rooms, change));
    assert_eq!(answers.keys.held().all, 0);
}

#[tokio::test]
async fn a_strangers_read_is_refused_where_the_room_of_its_address_ends_and_no_change_is() {
    let answers = Answers::new();
    let mut held = Vec::new();
    while let Ok(room) = read(&answers, client(1), 131_072).await {
        held.push(room);
    }
    assert_eq!(held.len() * 131_072, STRANGERS_ANSWERS.of_owner);
    assert!(read(&answers, client(1), 0).await.is_ok(), "what all answers share is no memory");
    assert!(read(&answers, client(2), 131_072).await.is_ok());
    let mut subscription = answers.enter_change(client(1)).unwrap();
    assert!(subscription.fit(500).is_ok(), "it is made, and its secret is in the answer");
}
