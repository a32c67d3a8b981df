"""Tests of a small shop that sends through Notify, against a Notify server for tests.

Run it with `python3 -m unittest` in this folder. It needs the command `notify-server` in the PATH, or its path in
NOTIFY_SERVER, and nothing else.
"""

import json
import os
import subprocess
import unittest
import urllib.parse
import urllib.request


def call(method, url, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers or {}, method=method)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer)


class Shop:
    """The code under test: it tells a customer about an order."""

    def __init__(self, notify_url, api_key):
        self.notify_url = notify_url
        self.headers = {"X-API-Key": api_key, "Content-Type": "application/json"}

    def ship(self, phone, order):
        notification = {"text": f"Order {order} has shipped", "device_ids": [phone], "title": "Shop"}
        return call("POST", f"{self.notify_url}/v1/notifications", notification, self.headers)


class NotifyServer:
    """A Notify server with an empty database, and fake providers that it sends to."""

    def __enter__(self):
        program = os.environ.get("NOTIFY_SERVER", "notify-server")
        command = [program, "sandbox", "--with-server", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        # The first line has the urls and the keys.
        started = json.loads(self.process.stdout.readline())
        self.url, self.api_key = started["url"], started["api_key"]
        self.control_url = started["control_url"]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=20)

    def android(self, device_id):
        device = {
            "device_id": device_id,
            "platform": "android",
            "sdk_type": "android_push",
            "push_token": f"token-of-{device_id}",
        }
        call("POST", f"{self.url}/v1/devices", device, {"X-API-Key": self.api_key})

    def delivered_to(self, device_id):
        """Waits until the server has sent everything that is due."""
        query = urllib.parse.urlencode({"device_id": device_id})
        return call("GET", f"{self.control_url}/delivered?{query}")["messages"]

    def fail_next(self, device_id, failure, times):
        failure = {"device_id": device_id, "failure": failure, "times": times}
        call("POST", f"{self.control_url}/failures", failure)

    def advance(self, seconds):
        call("POST", f"{self.control_url}/advance", {"seconds": seconds})


class ShopTest(unittest.TestCase):
    def setUp(self):
        self.notify = self.enterContext(NotifyServer())
        self.notify.android("phone-1")
        self.shop = Shop(self.notify.url, self.notify.api_key)

    def texts(self):
        return [message["text"] for message in self.notify.delivered_to("phone-1")]

    def test_the_customer_is_told(self):
        self.shop.ship("phone-1", 4711)
        self.assertEqual(self.texts(), ["Order 4711 has shipped"])

    def test_the_customer_is_told_after_an_outage_of_the_provider(self):
        self.notify.fail_next("phone-1", "unavailable", times=2)
        self.shop.ship("phone-1", 4712)
        self.assertEqual(self.texts(), [])
        self.notify.advance(seconds=600)
        self.assertEqual(self.texts(), ["Order 4712 has shipped"])


if __name__ == "__main__":
    unittest.main()
