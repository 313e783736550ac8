from tests.helpers.dataset_server import archive, home, serve, server

__all__ = ["archive", "home", "serve", "server"]
