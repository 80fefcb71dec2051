"""Makes channels, and the metadata that goes with every request."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, cast

import grpc
import grpc.aio

from .._version import __version__
from .endpoint import TLS, Endpoint, resolve_token

log = logging.getLogger("callgate")

# What a read gives at the end of a stream. The stubs do not know it.
EOF: Any = cast(Any, grpc.aio).EOF

# The largest frame of the contract; limits proper are agreed on each stream.
MESSAGE_BYTES_MAX = 5_242_864

_OPTIONS: tuple[tuple[str, object], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Our own loops decide when to try again; grpc's would hide losses from them.
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A sidecar is next door; a proxy from the environment is for the internet.
    ("grpc.enable_http_proxy", 0),
    # Finds a half-open connection where a stream has no ping of its own.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


@dataclass(frozen=True, slots=True)
class Dialer:
    """What is needed to open a channel, as often as it takes."""

    endpoint: Endpoint
    token: str | None
    tls: TLS | None

    def open(self) -> grpc.aio.Channel:
        """A new channel with connections of its own. On the wire's loop only."""
        if self.endpoint.secure:
            tls = self.tls or TLS()
            credentials = grpc.ssl_channel_credentials(tls.root_certificates, tls.private_key, tls.certificate_chain)
            return grpc.aio.secure_channel(self.endpoint.target, credentials, options=_OPTIONS)
        options = _OPTIONS
        if self.endpoint.target.startswith("unix:"):
            # A path is no authority, and some servers refuse what is none.
            options = (*options, ("grpc.default_authority", "localhost"))
        return grpc.aio.insecure_channel(self.endpoint.target, options=options)

    def shared(self) -> SharedChannel:
        """A channel for everything that needs no connection of its own."""
        return SharedChannel(self)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Who is calling. The token is read here, so a renewed file is used at once."""
        entries = [("callgate-client", f"callgate-python/{__version__}")]
        token = resolve_token(self.token)
        if token:
            entries.append(("authorization", f"Bearer {token}"))
        return tuple(entries)


class SharedChannel:
    """One channel for many rpcs, opened with the first of them. On the wire's loop only."""

    def __init__(self, dialer: Dialer) -> None:
        self.dialer = dialer
        self._channel: grpc.aio.Channel | None = None

    def get(self) -> grpc.aio.Channel:
        """The channel. grpc connects it anew by itself after a loss."""
        if self._channel is None:
            self._channel = self.dialer.open()
        return self._channel

    async def close(self) -> None:
        """Closes it, and with it every rpc that still runs."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
