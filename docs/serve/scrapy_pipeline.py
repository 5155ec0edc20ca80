"""Drops items whose pages are near-duplicates of a page that one of the crawlers has kept.

Put check.py and this file into the directory of settings.py, and set in settings.py:

    ITEM_PIPELINES = {"scrapy_pipeline.NeardupPipeline": 100}
    NEARDUP_URL = "http://127.0.0.1:7490"

Items have "url" and "html".
"""

import logging

from check import Neardup
from scrapy.exceptions import DropItem
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool
from twisted.internet import reactor

logger = logging.getLogger(__name__)


class NeardupPipeline:
    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler.settings["NEARDUP_URL"], crawler.settings.get("NEARDUP_TOKEN"))

    def __init__(self, url, token):
        self.url, self.token = url, token
        self.threads = ThreadPool(1, 1)  # a connection is for one thread

    def open_spider(self, spider):
        self.index = Neardup(self.url, self.token)
        self.threads.start()

    def close_spider(self, spider):
        self.threads.stop()

    def process_item(self, item, spider):
        checked = deferToThreadPool(reactor, self.threads, self.index.check, [{"url": item["url"], "html": item["html"]}])
        return checked.addCallbacks(lambda verdicts: self.decide(item, verdicts[0]), lambda failure: self.keep(item, failure))

    def keep(self, item, failure):
        """Keeps an item without a verdict, for example if the server does not answer. A duplicate can be dropped later."""
        logger.warning("%s is kept without a verdict: %s", item["url"], failure.value)
        return item

    def decide(self, item, verdict):
        """Drops duplicates only. Unchanged pages may not be saved yet after a crash, and skipped pages were not compared."""
        if verdict["verdict"] == "duplicate":
            raise DropItem("duplicate: %s" % verdict["of"]["key"])
        return item
