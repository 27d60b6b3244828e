"""gRPC over HTTP/2 on asyncio's protocols: the transport of the ext_proc port."""
