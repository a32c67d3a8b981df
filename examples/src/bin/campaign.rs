//! Creates a campaign with a feature of every type, sends a notification with it, and reads the
//! enrichment as the app on the phone does.

use anyhow::{bail, ensure};
use notify_client::notify_core::{
    Article, CampaignLayout, CampaignRef, CreateNotification, EnrichmentFeatureData,
    EnrichmentQuery, FeatureData, RegisterDevice, StringName, Template, TemplateButton,
    TemplateFeed, Timestamp,
};
use notify_client::{Client, EnrichmentResponse};
use notify_tests::{TestServer, WAIT_MAX};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = TestServer::start().await;
    let notify = Client::builder(server.origin()).api_key(server.api_key()).build()?;

    let campaign = notify.campaigns().create(&daily_news()).await?.id;
    println!("made the campaign {campaign}");

    notify.devices().register(&RegisterDevice::android("pixel-7", "fcm-token-of-pixel-7")).await?;
    let news = CreateNotification::to_devices(["pixel-7"], [], "Three stories for your morning")?
        .campaign(campaign.to_string());
    let notification = notify.notifications().create(&news).await?.id;
    let arrived = server.sandbox().wait_for(1, WAIT_MAX).await;
    ensure!(arrived.len() == 1, "it did not arrive");
    let data = &arrived[0].payload["message"]["data"];
    println!("the phone got the notification with campaign_id {}", data["campaign_id"]);
    ensure!(data["campaign_id"] == campaign.to_string());

    // The app reads campaign_id from the message and requests the content to show with it.
    let query = EnrichmentQuery {
        notification_id: Some(notification.to_string()),
        device_id: Some("pixel-7".into()),
    };
    let answer = notify.enrichments().get(CampaignRef::Id(campaign), &query, None).await?;
    let EnrichmentResponse::Fresh { enrichment, .. } = answer else {
        bail!("nothing was asked for by ETag");
    };
    println!("layout {}:", enrichment.layout_id.as_str());
    for feature in &enrichment.features {
        println!("  {} {}", feature.position, describe(&feature.data));
    }
    ensure!(enrichment.features.len() == 6);
    ensure!(enrichment.strings["recommendations_title"] == "More for you");
    server.stop().await;
    Ok(())
}

fn daily_news() -> Template {
    let feed = TemplateFeed::by_url("https://example.com/news.xml", "Example News");
    let event = TemplateButton {
        kind: "cal".into(),
        start_date: Some(Timestamp(1_798_790_400_000)),
        end_date: Some(Timestamp(1_798_794_000_000)),
        description: Some("New year's concert".into()),
        ..TemplateButton::default()
    };
    Template::new("Daily news", CampaignLayout::ContentWithTwo)
        .string(StringName::RecommendationsTitle, "More for you")
        .feature(1, FeatureData::content_feed([feed]))
        .feature(2, FeatureData::external_content("AR_1"))
        .feature(1, FeatureData::ActionButton(TemplateButton::open("myapp://today")))
        .feature(2, FeatureData::ActionButton(TemplateButton::navigate(52.52, 13.405)))
        .feature(3, FeatureData::ActionButton(event))
        .feature(3, FeatureData::custom_feed([article("one"), article("two")]))
}

fn article(name: &str) -> Article {
    Article {
        url: format!("https://example.com/{name}"),
        title: format!("Story {name}"),
        thumb_url: format!("https://example.com/{name}.jpg"),
        is_external: None,
    }
}

fn describe(data: &EnrichmentFeatureData) -> String {
    match data {
        EnrichmentFeatureData::ContentFeed(feed) => format!("feeds: {} items", feed.items.len()),
        EnrichmentFeatureData::ExternalContent(content) => {
            format!("external content of widget {}", content.ob_widget_id)
        }
        EnrichmentFeatureData::ActionButton(_) => "an action button".into(),
        EnrichmentFeatureData::CustomFeed(feed) => {
            format!("articles: {} and {}", feed.articles[0].title, feed.articles[1].title)
        }
    }
}
