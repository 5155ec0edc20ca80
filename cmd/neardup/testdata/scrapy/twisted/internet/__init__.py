reactor = object()
