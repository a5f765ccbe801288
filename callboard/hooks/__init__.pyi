from .errors import (
    WebhookAddressError as WebhookAddressError,
    WebhookError as WebhookError,
    WebhookFailedError as WebhookFailedError,
    WebhookGoneError as WebhookGoneError,
    WebhookSignatureError as WebhookSignatureError,
)
from .incoming import incoming_webhook as incoming_webhook
from .outgoing import webhook as webhook
from .secrets import new_secret as new_secret

__all__: list[str]
