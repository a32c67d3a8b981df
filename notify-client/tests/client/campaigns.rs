//! Campaigns, feeds and enrichments: the request of each method and its decoded response.

use notify_client::{EnrichmentResponse, notify_core::*};
use serde_json::json;

use crate::common::{ID, Server, campaign_id, response, success};

fn template() -> Template {
    Template {
        name: "spring".into(),
        layout_id: "content_with_two".into(),
        settings: Some(TemplateSettings { small_view: Some(false), ..Default::default() }),
        features: vec![Feature {
            position: 1,
            data: FeatureData::ActionButton(TemplateButton {
                kind: "url".into(),
                url: Some("shop://sale".into()),
                data: Some(json::JsonObject::new(r#"{"n":1.0}"#).unwrap()),
                ..Default::default()
            }),
        }],
        ..Default::default()
    }
}

fn template_body() -> serde_json::Value {
    json!({
        "name": "spring", "layout_id": "content_with_two", "settings": {"small_view": false},
        "features": [{
            "position": 1, "type": "action_button",
            "data": {"type": "url", "url": "shop://sale", "data": {"n": 1.0}},
        }],
    })
}

fn campaign() -> serde_json::Value {
    json!({ "id": ID, "name": "spring", "status": "active", "is_default": false, "created_at": 5 })
}

#[tokio::test]
async fn campaigns_are_created_replaced_and_deleted() {
    let server = Server::with_body(json!({ "id": ID })).await;
    let created = server.client().campaigns().create(&template()).await.unwrap();
    assert_eq!(created.id, campaign_id());
    server.assert_received("POST /v1/campaigns", Some(template_body())).await;

    let server = Server::with_body(success()).await;
    server.client().campaigns().replace(campaign_id(), &template()).await.unwrap();
    server.assert_received(&format!("PUT /v1/campaigns/{ID}"), Some(template_body())).await;

    let server = Server::with_body(success()).await;
    let campaigns = server.client();
    campaigns.campaigns().set_status(campaign_id(), CampaignStatus::Disabled).await.unwrap();
    let body = json!({ "status": "disabled" });
    server.assert_received(&format!("PUT /v1/campaigns/{ID}/status"), Some(body)).await;

    let server = Server::with_body(success()).await;
    server.client().campaigns().delete(campaign_id()).await.unwrap();
    server.assert_received(&format!("DELETE /v1/campaigns/{ID}"), None).await;
}

#[tokio::test]
async fn campaigns_are_read_and_listed() {
    let server = Server::with_body(json!({ "campaigns": [campaign()] })).await;
    let query = ListCampaigns {
        offset: Some(3),
        limit: Some(2),
        name: Some("50 %".into()),
        status: Some("all".into()),
    };
    let page = server.client().campaigns().list(&query).await.unwrap();
    server.assert_received("GET /v1/campaigns?offset=3&limit=2&name=50+%25&status=all", None).await;
    assert_eq!(serde_json::to_value(&page.campaigns).unwrap(), json!([campaign()]));

    let mut body = campaign();
    body["template"] = json!({
        "name": "spring", "layout_id": "content_with_two",
        "settings": {
            "big_share_button": true, "small_view": false, "build_without_image": true,
            "small_share_button": true, "drag_to_expand": false,
        },
        "strings": [], "is_default": false,
        "features": [{
            "position": 1, "type": "action_button",
            "data": {"type": "url", "url": "shop://sale", "data": {"n": 1.0}},
        }],
    });
    let server = Server::with_body(body.clone()).await;
    let read = server.client().campaigns().get(campaign_id()).await.unwrap();
    server.assert_received(&format!("GET /v1/campaigns/{ID}"), None).await;
    assert_eq!(serde_json::to_value(read).unwrap(), body);
}

#[tokio::test]
async fn feeds_are_created_listed_and_deleted() {
    let server = Server::with_body(json!({ "id": ID })).await;
    let news = CreateFeed { url: "https://example.com/rss".into(), name: "News".into() };
    let created = server.client().feeds().create(&news).await.unwrap();
    assert_eq!(created.id.to_string(), ID);
    let body = json!({ "url": "https://example.com/rss", "name": "News" });
    server.assert_received("POST /v1/feeds", Some(body)).await;

    let feed = json!({
        "id": ID, "name": "News", "url": "https://example.com/rss", "status": "failing",
        "items": 3, "last_fetched_at": 9, "last_error": "timed out", "created_at": 1,
    });
    let server = Server::with_body(json!({ "feeds": [feed], "next_cursor": null })).await;
    let listed = server.client().feeds().list(&PageQuery::default()).await.unwrap();
    server.assert_received("GET /v1/feeds", None).await;
    assert_eq!(serde_json::to_value(listed.feeds).unwrap(), json!([feed]));

    let server = Server::with_body(success()).await;
    server.client().feeds().delete(created.id).await.unwrap();
    server.assert_received(&format!("DELETE /v1/feeds/{ID}"), None).await;
}

#[tokio::test]
async fn enrichments_are_read_once_per_version() {
    let enrichment = json!({
        "campaign_id": ID, "layout_id": "content_with_two",
        "settings": {
            "big_share_button": true, "small_view": true, "build_without_image": true,
            "small_share_button": true, "drag_to_expand": false,
        },
        "strings": {"share_prefix": "Look:"},
        "features": [{
            "position": 1, "type": "content_feed",
            "data": {
                "items": [{
                    "title": "T", "url": "https://e/1", "image_url": null, "published_at": 4,
                    "source": "News", "is_external": false,
                }],
                "view_ext_on_browser": false, "recommendations_title": true,
            },
        }],
    });
    let server = Server::with_responses(vec![
        response(200, enrichment.clone()).insert_header("etag", "\"v1\""),
    ])
    .await;
    let query = EnrichmentQuery {
        notification_id: Some("mine/1".into()),
        device_id: Some("a b/ü".into()),
    };
    let read = server.client().enrichments().get(CampaignRef::Default, &query, None).await.unwrap();
    let line = "GET /v1/enrichments/default?notification_id=mine%2F1&device_id=a+b%2F%C3%BC";
    server.assert_received(line, None).await;
    let EnrichmentResponse::Fresh { enrichment: fresh, etag } = read else {
        panic!("it is fresh: {read:?}");
    };
    assert_eq!(serde_json::to_value(fresh).unwrap(), enrichment);

    let server = Server::with_responses(vec![wiremock::ResponseTemplate::new(304)]).await;
    let query = EnrichmentQuery::default();
    let campaign = CampaignRef::Id(campaign_id());
    let read = server.client().enrichments().get(campaign, &query, etag.as_deref()).await.unwrap();
    assert_eq!(read, EnrichmentResponse::NotModified);
    server.assert_received(&format!("GET /v1/enrichments/{ID}"), None).await;
    assert_eq!(crate::common::header(&server.requests().await[0], "if-none-match"), Some("\"v1\""));
}
