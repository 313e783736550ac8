"""Fixtures for tests of data sets: a local server and an empty cache, so that no test uses the network."""

from __future__ import annotations

import io
import tarfile
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from crowdwise import datasets
from crowdwise.datasets import download
from crowdwise.datasets.download import RemoteFile


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache folder, and no CROWDWISE_DATA."""
    monkeypatch.delenv("CROWDWISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "PAUSE", 0.0)
    return tmp_path / "cache" / "crowdwise" / "data"


class Server:
    """Serves `files` by path. `cut`: bytes after which the connection ends once. `fails`: how often it returns 503."""

    def __init__(self):
        self.files, self.cut, self.fails, self.redirects = {}, {}, {}, {}
        self.requests = []  # (path, Range header)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.respond(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def respond(self, request):
        path, range_header = request.path, request.headers.get("Range")
        self.requests.append((path, range_header))
        if path in self.redirects:
            request.send_response(302)
            request.send_header("Location", self.redirects[path])
            request.end_headers()
            return
        if self.fails.get(path):
            self.fails[path] -= 1
            request.send_error(503)
            return
        if path not in self.files:
            request.send_error(404)
            return
        start = int(range_header.removeprefix("bytes=").rstrip("-")) if range_header else 0
        if start >= len(self.files[path]) > 0:
            request.send_error(416)
            return
        body = self.files[path][start:]
        request.send_response(206 if range_header else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: self.cut.pop(path, None)])

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def archive():
    """Write files into a zip or tar archive, depending on its suffix."""

    def write(path, files):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path, "w") as zipped:
                for name, body in files.items():
                    zipped.writestr(name, body)
        else:
            with tarfile.open(path, "w:gz") as tar:
                for name, body in files.items():
                    info = tarfile.TarInfo(name)
                    info.size = len(body)
                    tar.addfile(info, io.BytesIO(body))
        return path

    return write


@pytest.fixture
def serve(server, monkeypatch):
    """Serve the files of a folder as the original files of a data set."""

    def put(name, raw):
        entry = datasets._ENTRIES[name]
        files = tuple(RemoteFile(f"{server.url}/{file.name}", saved_as=file.saved_as) for file in entry.files)
        for file in files:
            server.files[f"/{file.name}"] = (raw / file.name).read_bytes()
        monkeypatch.setitem(datasets._ENTRIES, name, replace(entry, files=files))

    return put
