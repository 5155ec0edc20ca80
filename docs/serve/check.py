#!/usr/bin/env python3
"""Checks pages at a neardup server, with Python's standard library alone.

    python3 check.py http://127.0.0.1:7490 pages.jsonl [TOKEN]

Each line of the file is an object with "key" and "html" or "text". What is new or changed is printed.
"""

import http.client
import json
import sys
import time
import urllib.parse


class Neardup:
    """A connection to a server; for one thread."""

    def __init__(self, address, token=None, retry_for=30.0, max_body=16 << 20):
        url = urllib.parse.urlsplit(address)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self.connection = kind(url.hostname, url.port, timeout=60)
        self.headers = {"Authorization": "Bearer " + token} if token else {}
        self.retry_for, self.max_body = retry_for, max_body  # the server's -document-size-limit is 16 MiB by default
        status, answer = self._call("GET", "/v1/stats", None, {})
        if status != 200:
            raise RuntimeError(answer["error"])

    def check_page(self, key, body, content_type):
        """The verdict on a page: its URL, its bytes and its Content-Type. One over max_body is not sent."""
        if len(body) > self.max_body:
            return {"key": key, "verdict": "skipped", "reason": "too large: %d bytes, limit %d" % (len(body), self.max_body)}
        path = "/v1/check?" + urllib.parse.urlencode({"key": key})
        return self._safely(path, body, {"Content-Type": content_type or ""})[0]

    def check(self, documents):
        """The verdicts on up to 256 documents, in their order."""
        lines = [json.dumps(d).encode() + b"\n" for d in documents]
        verdicts = []
        while len(verdicts) < len(lines):
            rest = lines[len(verdicts):]
            got = self._safely("/v1/check", b"".join(rest), {"Content-Type": "application/x-ndjson"})
            verdicts += [v for v in got if "verdict" in v]
            if got and "error" in got[-1]:
                if got[-1]["code"] not in ("busy", "closed", "timeout"):
                    raise RuntimeError(got[-1]["error"])
                time.sleep(0.2)
        return verdicts

    def _safely(self, path, body, headers):
        """Tries again what failed on its way; Neardup-Since tells the server so, and no page is lost."""
        headers, begun, known = dict(headers), time.monotonic(), self.next_id
        while True:
            try:
                status, answer = self._call("POST", path, body, headers)
                if status == 200:
                    return answer if isinstance(answer, list) else [answer]
                if status not in (408, 503):
                    raise RuntimeError(answer["error"])
                problem = answer["error"]
            except (OSError, http.client.HTTPException) as err:
                self.connection.close()
                problem = err
            if time.monotonic() - begun > self.retry_for:
                raise RuntimeError("no answer: %s" % problem)
            headers["Neardup-Since"] = known
            time.sleep(0.2)

    def _call(self, method, path, body, headers):
        self.connection.request(method, path, body, {**self.headers, **headers})
        response = self.connection.getresponse()
        text = response.read()
        self.next_id = response.headers.get("Neardup-Next-Id") or getattr(self, "next_id", "0")
        if response.headers.get("Content-Type") == "application/x-ndjson":
            return response.status, [json.loads(line) for line in text.splitlines()]
        return response.status, json.loads(text)


def main():
    address, file, token = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
    index = Neardup(address, token)
    with open(file, encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    for start in range(0, len(documents), 256):
        for verdict in index.check(documents[start:start + 256]):
            if verdict["verdict"] in ("new", "changed"):
                print(verdict["key"])


if __name__ == "__main__":
    main()
