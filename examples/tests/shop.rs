//! The tests of the shop in `src/lib.rs`. Each runs a Notify server of its own.

use std::time::Duration;

use notify_client::notify_core::{DeviceId, UserId};
use notify_examples::Shop;
use notify_testing::{Failure, TestServer, assert_delivered, assert_not_delivered};

struct Test {
    notify: TestServer,
    shop: Shop,
    ada: UserId,
    phone: DeviceId,
}

/// A shop whose customer Ada has signed in on a phone.
async fn signed_in() -> Test {
    let notify = TestServer::start().await;
    let shop = Shop::new(notify.client().clone());
    let ada = UserId::new("ada").expect("an id");
    let phone = notify.register_android("phone-1").await;
    shop.signed_in(&ada, &phone).await.expect("the log-in is accepted");
    Test { notify, shop, ada, phone }
}

#[tokio::test]
async fn the_customer_is_told_and_reminded_before_the_order_arrives() {
    let Test { notify, shop, ada, phone } = signed_in().await;
    let tomorrow = notify.now().plus_ms(24 * 3_600_000);
    shop.shipped(&ada, 4711, tomorrow).await.unwrap();
    let url = "https://shop.example.com/orders/4711";
    assert_delivered!(notify, to: phone, text: "Order 4711 has shipped", title: "Shop", url: url);
    assert_not_delivered!(notify, to: phone, text: "Order 4711 arrives in two hours");
    notify.advance(Duration::from_hours(22)).await;
    assert_delivered!(notify, to: phone, text: "Order 4711 arrives in two hours", url: url);
    notify.stop().await;
}

#[tokio::test]
async fn who_signed_out_is_not_reminded() {
    let Test { notify, shop, ada, phone } = signed_in().await;
    let tomorrow = notify.now().plus_ms(24 * 3_600_000);
    shop.shipped(&ada, 4712, tomorrow).await.unwrap();
    assert_delivered!(notify, to: phone, text: "Order 4712 has shipped");
    shop.signed_out(&phone).await.unwrap();
    notify.advance(Duration::from_hours(24)).await;
    assert_not_delivered!(notify, to: phone, text: "Order 4712 arrives in two hours");
    notify.stop().await;
}

#[tokio::test]
async fn an_outage_of_the_provider_delays_the_message() {
    let Test { notify, shop, ada, phone } = signed_in().await;
    notify.fail_next(&phone, Failure::Unavailable, 3).await;
    let next_week = notify.now().plus_ms(7 * 24 * 3_600_000);
    shop.shipped(&ada, 4713, next_week).await.unwrap();
    assert_not_delivered!(notify, to: phone);
    notify.advance(Duration::from_mins(10)).await;
    assert_delivered!(notify, to: phone, text: "Order 4713 has shipped");
    notify.stop().await;
}
