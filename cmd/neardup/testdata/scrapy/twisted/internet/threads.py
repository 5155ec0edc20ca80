import types
class Deferred:
    def __init__(self, result, failure=None):
        self.result, self.failure = result, failure
    def addCallbacks(self, f, g):
        return Deferred(g(self.failure) if self.failure else f(self.result))
def deferToThreadPool(reactor, pool, f, *args):
    try:
        return Deferred(pool.executor.submit(f, *args).result())
    except Exception as err:
        return Deferred(None, types.SimpleNamespace(value=err))
