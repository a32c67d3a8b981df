"""Stands between an app and the server, at the free port that it prints. It refuses the first report for now
(429), does not answer the second one, and serves an image."""

import http.client
import itertools
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

UPSTREAM = urlsplit(sys.argv[1]).netloc
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)
reports = itertools.count(1)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/image.png":
            self.reply(200, {"Content-Type": "image/png"}, PIXEL)
        else:
            self.forward()

    def do_POST(self):
        report = next(reports) if self.path.endswith("/events") else None
        if report == 1:
            self.reply(429, {"Retry-After": "1"}, b'{"errors":["too many requests"]}')
        elif report == 2:
            self.connection.close()
        else:
            self.forward()

    def do_PUT(self):
        self.forward()

    do_DELETE = do_PUT

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        upstream = http.client.HTTPConnection(UPSTREAM, timeout=60)
        upstream.request(self.command, self.path, body, dict(self.headers))
        answer = upstream.getresponse()
        kept = ("content-type", "www-authenticate", "retry-after")
        headers = {name: value for name, value in answer.getheaders() if name.lower() in kept}
        self.reply(answer.status, headers, answer.read())

    def reply(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
