//! Users, attributes and segments.

use anyhow::Result;
use notify_core::{
    Audience, CreateNotification, CreateUserToken, ListNotificationUsers, PatchAttributes,
    PatchUser, PreviewSegment, PutSegment, SegmentName, UserId, UserState,
};
use notify_sandbox::ScriptedResponse;
use notify_tests::{TestServer, android, ios, register};

use super::{id, page};

pub(super) async fn users_and_segments(server: &TestServer) -> Result<()> {
    let client = server.client();
    let ok = ScriptedResponse::ok();
    let (phone, tablet) = (android(901, &ok), ios(902, &ok));
    let (phone_id, tablet_id) = (id(&phone.device_id)?, id(&tablet.device_id)?);
    register(&client, [phone, tablet]).await?;
    let [ada, bob] = ["ada", "bob"].map(|user| UserId::new(user).map_err(anyhow::Error::msg));
    let (ada, bob) = (ada?, bob?);

    let plan = PatchAttributes::default().set("plan", "pro");
    let made = client.users().update(&ada, &PatchUser { attributes: Some(plan) }).await?;
    assert_eq!((made.attributes.len(), made.devices.len()), (1, 0));
    client.devices().log_in(&phone_id, &ada).await?;
    client.devices().log_in(&tablet_id, &bob).await?;
    client.devices().log_out(&tablet_id).await?;
    let own = PatchAttributes::default().set("seats", 3);
    client.devices().update_attributes(&phone_id, &own).await?;
    let token = client.users().create_token(&ada, &CreateUserToken::default()).await?;
    assert!(token.user_token.starts_with("nu_"));
    let secret = client.devices().create_secret(&phone_id).await?;
    assert_eq!(secret.device_id, phone_id);
    assert_eq!(client.users().list(&page(10)).await?.users.len(), 2);
    assert_eq!(client.users().get(&ada).await?.devices[0].device_id, phone_id);

    let name = SegmentName::new("pro").map_err(anyhow::Error::msg)?;
    let audience = Audience::parse_expression("plan = pro and seats >= 2")?;
    let segment = client.segments().put(&name, &PutSegment::new(audience.clone())).await?;
    assert_eq!(client.segments().get(&name).await?, segment);
    assert_eq!(client.segments().list(&page(10)).await?.segments, [segment]);
    let size = client.segments().preview(&PreviewSegment::new(audience)).await?;
    assert_eq!(size.platforms.iter().map(|size| size.devices).sum::<u64>(), 1);

    let to_both = CreateNotification::to_users([ada.as_str(), bob.as_str()], "hello")?;
    let to_both = to_both.audience(Audience::segment("pro"));
    let sent = client.notifications().create(&to_both).await?.id;
    server.completed(&sent).await?;
    let reached = ListNotificationUsers {
        state: Some(UserState::Reached),
        ..ListNotificationUsers::default()
    };
    let reached = client.notifications().users(&sent, &reached).await?;
    let reached: Vec<_> = reached.users.into_iter().map(|user| user.user_id).collect();
    assert_eq!(reached, [Some(ada.clone())]);

    client.segments().delete(&name).await?;
    client.users().delete_keeping_devices(&ada).await?;
    client.users().delete(&bob).await?;
    assert_eq!(client.devices().get(&phone_id).await?.user_id, None);
    client.devices().delete(&phone_id).await?;
    client.devices().delete(&tablet_id).await?;
    Ok(())
}
