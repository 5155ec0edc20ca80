from concurrent.futures import ThreadPoolExecutor
class ThreadPool:
    def __init__(self, least, most):
        self.most = most
    def start(self):
        self.executor = ThreadPoolExecutor(self.most)
    def stop(self):
        self.executor.shutdown()
