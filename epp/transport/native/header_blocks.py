"""Header blocks (RFC 7541): decoded with state until the peer gave its up, then from a cache."""

from __future__ import annotations

from hpack import Decoder, HPACKError, OversizedHeaderListError

from epp.transport.native.budgets import HeadCache
from epp.transport.native.frames import ConnectionFault, ErrorCode
from epp.transport.native.request_head import HEADERS_TOO_LARGE, RequestHead, read_request_head

MAX_HEADER_LIST_BYTES = 64 * 1024
_CACHED_BLOCK_BYTES = 1024

Headers = list[tuple[bytes, bytes]]


class HeaderBlocks:
    """Reads the header blocks of one connection.

    We announce a header table of size 0. From the peer's acknowledgement on a block means the same
    whenever and from whomever it comes, so that equal blocks need to be decoded once.
    """

    __slots__ = ("_cache", "_decoder", "_is_stateless")

    def __init__(self, cache: HeadCache) -> None:
        self._decoder = Decoder(MAX_HEADER_LIST_BYTES)
        self._is_stateless = False
        self._cache = cache

    def settings_acknowledged(self) -> None:
        """The peer keeps no table from here on.

        RFC 7541 §4.2 wants a size update at the start of its next block; a peer that never used
        the table and leaves the update out does no harm.
        """
        self._decoder.header_table_size = 0
        self._decoder.max_allowed_table_size = 0
        self._is_stateless = True

    def request(self, block: bytes) -> RequestHead:
        """The block that opens a stream."""
        if self._is_stateless:
            head = self._cache.get(block)
            if head is not None:
                return head
        try:
            head = read_request_head(self._decode(block))
        except OversizedHeaderListError:
            return HEADERS_TOO_LARGE
        if self._is_stateless and len(block) <= _CACHED_BLOCK_BYTES:
            self._cache.put(block, head)
        return head

    def others(self, block: bytes) -> Headers:
        """A block of trailers, or one that nobody will read but the table must see."""
        try:
            return self._decode(block)
        except OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "trailers too large") from error

    def _decode(self, block: bytes) -> Headers:
        try:
            return list(self._decoder.decode(block, raw=True))
        except OversizedHeaderListError as error:
            if self._is_stateless:
                raise
            # The rest of the block was not read, so the table is not the peer's any more.
            reason = "a header list larger than SETTINGS_MAX_HEADER_LIST_SIZE"
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, reason) from error
        except (HPACKError, IndexError) as error:
            reason = "a header block that can't be decoded"
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, reason) from error
