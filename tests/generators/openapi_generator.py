"""Sends a notification with the client of openapi-generator, and reads what is hard to read with it."""

import os

import openapi_client as notify

configuration = notify.Configuration(
    host=os.environ["NOTIFY_URL"], api_key={"api_key": os.environ["NOTIFY_API_KEY"]}
)
with notify.ApiClient(configuration) as client:
    notifications = notify.NotificationsApi(client)
    target = notify.CreateNotification(
        text="From openapi-generator",
        platforms=[notify.Platform.ANDROID],
        audience=notify.Audience(
            var_not=notify.Audience(attribute="plan", var_is=notify.AttributeValue("free"))
        ),
    )
    created = notifications.create_notification(target, idempotency_key="order-1044-shipped")
    record = notifications.get_notification(created.id)
    assert record.paused is None and record.audience is not None, record

    devices = notify.DevicesApi(client)
    assert devices.get_device("phone").user_id is None
    listed = devices.list_devices(platform=notify.Platform.ANDROID).devices
    assert [device.device_id for device in listed] == ["phone"], listed

    campaigns = notify.CampaignsApi(client)
    button = notify.TemplateButton(
        type=notify.ButtonKind.URL, title="Track", url="https://shop.example/7"
    )
    feature = notify.Feature(
        notify.FeatureActionButton(position=1, type="action_button", data=button)
    )
    template = notify.Template(
        name="Orders",
        layout_id=notify.CampaignLayout.CONTENT_WITH_TWO,
        settings=notify.TemplateSettings(),
        features=[feature],
    )
    campaign = campaigns.get_campaign(campaigns.create_campaign(template).id)
    read = campaign.template.features[0].actual_instance
    assert isinstance(read, notify.CampaignFeatureActionButton), read
    assert read.data.title == "Track", read

    try:
        notifications.create_notification(notify.CreateNotification(text="Hello"))
        raise AssertionError("a notification without a target was accepted")
    except notify.ApiException as error:
        assert error.status == 400 and isinstance(error.data, notify.ErrorBody), error
