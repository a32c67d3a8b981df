"""Reads and writes what is hard to read with the client of openapi-python-client: objects of several forms,
nulls, and references. The argument is the id of a notification."""

import os
import sys

from notify_client import AuthenticatedClient
from notify_client.api.campaigns import create_campaign, get_campaign
from notify_client.api.devices import get_device, list_devices, update_device_attributes
from notify_client.api.notifications import create_notification, get_notification, preview_notification
from notify_client.models import (
    Audience,
    AudienceField,
    ButtonKind,
    CampaignCreated,
    CampaignFeatureActionButton,
    CampaignFeatureContentFeed,
    CampaignLayout,
    CampaignRecord,
    ContentFeed,
    CreateNotification,
    Device,
    DeviceList,
    ErrorBody,
    FeatureActionButton,
    FeatureActionButtonType,
    FeatureContentFeed,
    FeatureContentFeedType,
    NotificationPreview,
    NotificationRecord,
    PatchAttributes,
    Platform,
    Success,
    Template,
    TemplateButton,
    TemplateFeed,
    TemplateSettings,
)
from notify_client.types import UNSET

client = AuthenticatedClient(
    base_url=os.environ["NOTIFY_URL"],
    token=os.environ["NOTIFY_API_KEY"],
    prefix="",
    auth_header_name="X-API-Key",
)

record = get_notification.sync(sys.argv[1], client=client)
assert isinstance(record, NotificationRecord), record
assert (record.audience, record.paused) == (None, None), record

attributes = PatchAttributes.from_dict({"plan": "pro", "seats": 3, "beta": True, "old": None})
assert update_device_attributes.sync("phone", client=client, body=attributes) == Success(True)
device = get_device.sync("phone", client=client)
assert isinstance(device, Device), device
assert device.user_id is None, device
assert device.attributes and device.attributes.to_dict() == {"plan": "pro", "seats": 3, "beta": True}, device
listed = list_devices.sync(client=client, platform=Platform.ANDROID)
assert isinstance(listed, DeviceList), listed
assert [one.device_id for one in listed.devices] == ["phone"], listed

audience = Audience(
    all_=[
        Audience(attribute="plan", in_=["pro", "max"]),
        Audience(not_=Audience(field=AudienceField.APP_VERSION, below="3.10")),
    ]
)
target = CreateNotification(text="Hello", platforms=[Platform.ANDROID], audience=audience)
preview = preview_notification.sync(client=client, body=target)
assert isinstance(preview, NotificationPreview), preview

button = TemplateButton(type_=ButtonKind.URL, title="Track", url="https://shop.example/7")
feed = TemplateFeed(url="https://shop.example/feed", name="News")
template = Template(
    name="Orders",
    layout_id=CampaignLayout.CONTENT_WITH_TWO,
    settings=TemplateSettings(),
    features=[
        FeatureActionButton(position=1, type_=FeatureActionButtonType.ACTION_BUTTON, data=button),
        FeatureContentFeed(
            position=1, type_=FeatureContentFeedType.CONTENT_FEED, data=ContentFeed(feeds=[feed])
        ),
    ],
)
created = create_campaign.sync(client=client, body=template)
assert isinstance(created, CampaignCreated), created
campaign = get_campaign.sync(created.id, client=client)
assert isinstance(campaign, CampaignRecord), campaign
for feature in campaign.template.features:
    if isinstance(feature, CampaignFeatureActionButton):
        assert (feature.data.title, feature.data.lat) == ("Track", UNSET), feature
    else:
        assert isinstance(feature, CampaignFeatureContentFeed), feature
        assert feature.data.feeds, feature
assert len(campaign.template.features) == 2, campaign

refused = create_notification.sync(client=client, body=CreateNotification(text="Hello"))
assert isinstance(refused, ErrorBody), refused
