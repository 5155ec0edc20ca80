# Checks a page over the limit of the client, over the limit of the server, and over no limit. Then
# it checks pages that are too large for one request together, and one that is too large alone.
import sys
from check import Neardup

index = Neardup(*sys.argv[1:], retry_for=0)
body = b"words " * 3083333 + b".."
for index.max_body in 1 << 20, 1 << 30:
    verdict = index.check_page("large", body, "text/plain")
    print(verdict["verdict"], verdict["reason"])
print(index.check_page("small", b"words of a small page", "text/plain")["verdict"])
pages = [{"key": "page %d" % n, "text": "page %d" % n + " " * (12 << 20)} for n in range(3)]
pages.insert(1, {"key": "huge", "text": " " * (33 << 20)})
print(*[verdict["key"] + " " + verdict["verdict"] for verdict in index.check(pages)])
