import sys, types
from scrapy.exceptions import DropItem
from scrapy_pipeline import NeardupPipeline
p = NeardupPipeline.from_crawler(types.SimpleNamespace(settings={"NEARDUP_URL": sys.argv[1], "NEARDUP_TOKEN": sys.argv[2]}))
p.open_spider(None)
text = "<p>the ferry leaves the harbour at nine in the morning and comes back late on each day of the week but one"
for url, html in [("a", text), ("b", text + "<br>"), ("a", text), ("a", "<p>closed for the winter"), ("c", "<br>")]:
    item = {"url": url, "html": html}
    try:
        assert p.process_item(item, None).result is item
        print("kept", url)
    except DropItem as dropped:
        print("dropped", dropped)
p.index.check = None  # a call fails
print("kept", p.process_item({"url": "d", "html": text}, None).result["url"])
p.close_spider(None)
