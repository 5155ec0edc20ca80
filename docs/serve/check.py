#!/usr/bin/env python3
"""Checks pages at a neardup server. It needs only Python's standard library.

    python3 check.py http://127.0.0.1:7490 pages.jsonl [TOKEN]

Each line of the file is an object with "url" and "html" or "text". The program prints the URLs of the pages to keep: all
pages except duplicates. Keep unchanged pages, because the answer to an earlier try or run may have been lost. Keep skipped
pages, because they were not compared.
"""

import base64
import http.client
import json
import sys
import time
import urllib.parse


class Failure(RuntimeError):
    """An error that the server reports."""

    def __init__(self, answer):
        error = answer.get("error") or {"message": "the answer has no verdict: %.200r" % answer}
        line = "line %d: " % error["line"] if "line" in error else ""
        super().__init__(line + error["message"])
        self.may_pass = error.get("code") in ("busy", "closed", "timeout")


def failure(code, message):
    return Failure({"error": {"code": code, "message": message}})


class Neardup:
    """A connection to a server, for one thread."""

    def __init__(self, address, token=None, retry_for=30.0, max_body=16 << 20):
        url = urllib.parse.urlsplit(address)
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self.connection = kind(url.hostname, url.port, timeout=60)
        self.headers = {"Authorization": "Bearer " + token} if token else {}
        self.retry_for, self.max_body = retry_for, max_body  # the server skips pages above 16 MiB
        self._call("GET", "/v1/stats", None, {})

    def check_page(self, key, body, content_type):
        """Returns the verdict on a page with a URL, its bytes and its Content-Type. A page over max_body is not sent."""
        if len(body) > self.max_body:
            return {"key": key, "verdict": "skipped", "reason": "too large: %d bytes, limit %d" % (len(body), self.max_body)}
        return self.check([{"key": key, "body": base64.b64encode(body).decode(), "contentType": content_type or ""}])[0]

    def check(self, documents):
        """Returns the verdicts on up to 256 documents, in their order. A request has at most 16 MiB, or one larger document."""
        lines = [json.dumps(d).encode() + b"\n" for d in documents]
        verdicts = []
        while len(verdicts) < len(lines):
            document, size = documents[len(verdicts)], len(lines[len(verdicts)])
            if size > 32 << 20:  # the server refuses such a request
                key = document.get("url") or document.get("key") or document.get("id") or ""
                verdicts.append({"key": key, "verdict": "skipped", "reason": "too large: a line of %d bytes" % size})
            else:
                self._retry(lambda: self._check(lines, verdicts))
        return verdicts

    def _check(self, lines, verdicts):
        """Sends the next lines, as many as fit in a request, and appends their verdicts. Verdicts before a failure are valid."""
        part, size = [], 0
        for line in lines[len(verdicts):]:
            size += len(line)
            if part and size > 16 << 20:
                break
            part.append(line)
        end = len(verdicts) + len(part)
        for answer in self._call("POST", "/v1/check", b"".join(part), {"Content-Type": "application/x-ndjson"}):
            if "verdict" not in answer:
                raise Failure(answer)
            verdicts.append(answer)
        if len(verdicts) < end:
            raise failure("closed", "the answer is incomplete")

    def _retry(self, call):
        """Repeats a call until it succeeds, fails with a permanent error, or retry_for is over. If the answer to an earlier try
        was lost, its new pages are now unchanged. Pages need a URL: without a URL, they are duplicates of themselves."""
        begun = time.monotonic()
        while True:
            try:
                return call()
            except (OSError, http.client.HTTPException) as err:
                self.connection.close()
                problem = err
            except Failure as err:
                if not err.may_pass:
                    raise
                problem = err
            if time.monotonic() - begun > self.retry_for:
                raise RuntimeError("no answer: %s" % problem)
            time.sleep(0.2)

    def _call(self, method, path, body, headers):
        """Returns the objects of an answer."""
        self.connection.request(method, path, body, {**self.headers, **headers})
        response = self.connection.getresponse()
        text = response.read()
        media = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media not in ("application/json", "application/x-ndjson"):  # the answer of a proxy
            raise failure("busy" if response.status in (502, 503, 504) else "internal", "HTTP status %d, %s" % (response.status, media))
        answers = [json.loads(line) for line in text.splitlines() if line.strip()]
        if response.status != 200:
            raise Failure(answers[0]) if answers else failure("internal", "HTTP status %d" % response.status)
        return answers


def main():
    address, file, token = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
    index = Neardup(address, token)
    with open(file, encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    for start in range(0, len(documents), 256):
        for verdict in index.check(documents[start:start + 256]):
            if verdict["verdict"] != "duplicate":
                print(verdict["key"])


if __name__ == "__main__":
    main()
