"""A small web server on loopback for documents: key sets, and what a provider says of itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Documents:
    """By path; None: the server is away, as far as anybody can tell."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.by_path: dict[str, Any] = {}
        self.asked: list[str] = []
        self.away = False

    def provide(self, issuer: str, keys: bytes) -> None:
        """Be an OpenID Connect provider."""
        self.by_path["/.well-known/openid-configuration"] = {
            "issuer": issuer,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        self.by_path["/keys"] = keys


@contextmanager
def documents() -> Iterator[Documents]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            document = None if served.away else served.by_path.get(self.path)
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(503 if served.away else 404 if document is None else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Documents(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
