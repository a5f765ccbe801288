from .client import MemoryServiceClient as MemoryServiceClient
from .service import memory_service as memory_service

__all__: list[str]
