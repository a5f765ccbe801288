"""Ways to break webhooks: who comes in, and where they go."""

from __future__ import annotations

from typing import Final

from .change import never, when, with_part
from .mutation import Mutation

SIGNATURES = "unit/hooks/test_signatures.py::"
WEBHOOK = "unit/hooks/test_webhook.py::"
SENT = "integration/test_webhooks.py::"

HOOK_MUTATIONS: Final = (
    Mutation(
        "a secret that is missing is taken for one",
        "a secret that is missing, such as a variable that is not set, lets nobody in",
        never,
        (f"{SIGNATURES}test_a_secret_that_is_missing_or_none_is_refused_and_not_shown",),
    ),
    Mutation(
        "anybody comes in",
        "only what was signed with the secret comes in",
        never,
        (f"{SIGNATURES}test_what_the_secret_has_not_signed_is_refused",),
    ),
    Mutation(
        "what was kept for a year comes in",
        "what somebody has kept does not come in later",
        never,
        (f"{SIGNATURES}test_what_was_sent_at_another_time_is_refused",),
    ),
    Mutation(
        "a webhook reaches private addresses",
        "a webhook reaches public addresses only",
        with_part("if self.allow_private else public_transport()", ""),
        (f"{WEBHOOK}test_its_client_reaches_public_addresses_only",),
    ),
    Mutation(
        "a receiver hears of other tenants",
        "a receiver hears of its own tenant only",
        when("kind not in self.on"),
        (f"{WEBHOOK}test_another_tenants_runs_are_not_told",),
    ),
    Mutation(
        "a redirect is a yes",
        "only 2xx is a yes",
        with_part("300", "400"),
        (f"{SENT}test_one_that_fails_gets_the_same_again_and_a_redirect_is_not_followed",),
        quick=False,
    ),
)
