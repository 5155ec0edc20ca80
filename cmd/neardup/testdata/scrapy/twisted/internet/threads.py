class Deferred:
    def __init__(self, result):
        self.result = result
    def addCallback(self, f):
        return Deferred(f(self.result))
def deferToThreadPool(reactor, pool, f, *args):
    return Deferred(pool.executor.submit(f, *args).result())
