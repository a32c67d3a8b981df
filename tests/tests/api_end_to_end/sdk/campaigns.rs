//! Campaigns, feeds, and what a device reads of them.

use anyhow::{Context, Result, bail};
use notify_client::notify_core::json::JsonObject;
use notify_client::{Client, EnrichmentResponse, Error};
use notify_core::{
    Article, CampaignId, CampaignLayout, CampaignRef, CampaignStatus, CheckFeed, CreateFeed,
    EnrichmentQuery, FeatureData, FeedStatus, ListCampaigns, StringName, Template, TemplateButton,
    TemplateFeed, Timestamp,
};
use serde_json::json;

use super::page;

/// A template with a feature of every type, and three kinds of buttons.
fn spring(feed: &TemplateFeed) -> Result<Template> {
    let article = |number: u32| Article {
        url: format!("https://a.example/{number}"),
        title: format!("Article {number}"),
        thumb_url: format!("https://a.example/{number}.png"),
        is_external: (number == 2).then_some(true),
    };
    let event = TemplateButton {
        kind: "cal".into(),
        start_date: Some(Timestamp(1_800_000_000_000)),
        end_date: Some(Timestamp(1_800_000_000_000)),
        description: Some("Opening".into()),
        ..TemplateButton::default()
    };
    let own = TemplateButton {
        kind: "custom".into(),
        title: Some("Go".into()),
        icon: Some("go".into()),
        data: Some(JsonObject::new(r#"{"deep": {"link": [1, 2.50]}}"#)?),
        ..TemplateButton::default()
    };
    let template = Template::new("Spring", CampaignLayout::ContentWithTwo)
        .string(StringName::SharePrefix, "Look:")
        .feature(4, FeatureData::content_feed([feed.clone()]))
        .feature(1, FeatureData::external_content("widget"))
        .feature(1, FeatureData::ActionButton(TemplateButton::navigate(48.2, 16.37)))
        .feature(2, FeatureData::ActionButton(event))
        .feature(3, FeatureData::ActionButton(own))
        .feature(2, FeatureData::custom_feed([article(1), article(2)]));
    Ok(template)
}

pub(super) async fn campaigns_feeds_and_enrichment(client: &Client) -> Result<()> {
    let feed =
        |name: &str| CreateFeed { url: format!("https://{name}.example/rss"), name: name.into() };
    let used = client.feeds().create(&feed("used")).await?.id;
    assert_eq!(client.feeds().create(&feed("used")).await?.id, used, "the same url");
    // The port is closed.
    let nowhere = CheckFeed { url: "http://127.0.0.1:9/".into() };
    let checked = client.feeds().check(&nowhere).await?;
    assert_eq!((checked.status, checked.problems.len()), (FeedStatus::Failing, 1), "{checked:?}");
    let unused = client.feeds().create(&feed("unused")).await?.id;
    client.feeds().delete(unused).await?;
    let mut feeds = client.feeds().all(&page(1));
    let mut names = Vec::new();
    while let Some(feed) = feeds.next().await {
        names.push(feed?.name);
    }
    assert_eq!(
        (names.as_slice(), client.feeds().list(&page(50)).await?.feeds.len()),
        (&["used".to_owned()][..], 1)
    );

    let template = spring(&TemplateFeed::by_id(used))?;
    let id = client.campaigns().create(&template.clone().as_default()).await?.id;
    let still_used = client.feeds().delete(used).await;
    assert!(matches!(still_used, Err(Error::Rejected { status: 400, .. })), "{still_used:?}");
    let record = client.campaigns().get(id).await?;
    assert!(record.campaign.is_default);
    let features = serde_json::to_value(&record.template.features)?;
    assert_eq!(features.as_array().map(Vec::len), Some(6));
    assert_eq!(features[4]["data"]["data"], json!({"deep": {"link": [1, 2.50]}}));

    let by_name = ListCampaigns { name: Some("PRI".into()), ..ListCampaigns::default() };
    assert_eq!(client.campaigns().list(&by_name).await?.campaigns, [record.campaign]);
    enrichment(client, id).await?;

    // The default campaign cannot be disabled; one that is not can, and then deleted.
    let refused = client.campaigns().set_status(id, CampaignStatus::Disabled).await;
    assert!(matches!(refused, Err(Error::Rejected { status: 400, .. })), "{refused:?}");
    client.campaigns().replace(id, &template).await?;
    client.campaigns().set_status(id, CampaignStatus::Disabled).await?;
    assert_eq!(client.campaigns().list(&ListCampaigns::default()).await?.campaigns, []);
    let all = ListCampaigns { status: Some("all".into()), ..ListCampaigns::default() };
    assert_eq!(client.campaigns().list(&all).await?.campaigns.len(), 1);
    client.campaigns().delete(id).await?;
    let deleted = client.campaigns().get(id).await;
    assert!(matches!(deleted, Err(Error::NotFound { .. })), "{deleted:?}");
    Ok(())
}

/// The default campaign as a device asks for it, with `ETag` and 304.
async fn enrichment(client: &Client, id: CampaignId) -> Result<()> {
    let query = EnrichmentQuery::default();
    let ask = async |etag: Option<&str>| {
        client.enrichments().get(CampaignRef::Default, &query, etag).await
    };
    let EnrichmentResponse::Fresh { enrichment, etag } = ask(None).await? else {
        bail!("nothing was known yet");
    };
    assert_eq!(enrichment.campaign_id, id);
    let answer = serde_json::to_value(&*enrichment)?;
    assert_eq!(answer["strings"], json!({"share_prefix": "Look:"}));
    let order: Vec<_> = enrichment.features.iter().map(|feature| feature.position).collect();
    assert_eq!(order, [1, 1, 2, 2, 3, 4]);
    assert_eq!(answer["features"][5]["data"]["items"], json!([]), "it has not been fetched");
    let etag = etag.context("it carries an ETag")?;
    assert_eq!(ask(Some(&etag)).await?, EnrichmentResponse::NotModified);
    assert!(matches!(ask(Some("\"other\"")).await?, EnrichmentResponse::Fresh { .. }));
    Ok(())
}
