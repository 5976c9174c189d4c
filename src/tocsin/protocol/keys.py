"""Keys and revocations: documents that services read to know whose tokens are good, and the calls
by which a revocation spreads.

Key sets are those of RFC 7517, and a provider's configuration is that of OpenID Connect Discovery:
both may say much more than is read here.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from tocsin.protocol.fields import about


class KeySet(Struct, frozen=True):
    """A JSON Web Key Set: public keys, each with a `kid`. `tocsin_subject` and `tocsin_scopes` of
    a key say what it may sign; without them, anything."""

    keys: Annotated[list[dict[str, Any]], about("JSON Web Keys, private ones never")]


class ProviderConfiguration(Struct, frozen=True):
    """What is read of a provider's `/.well-known/openid-configuration`."""

    issuer: Annotated[str, about("must be the `iss` of its tokens")]
    jwks_uri: Annotated[str, about("where its public keys are")]


class Revoked(Struct, frozen=True, omit_defaults=True):
    """What is no longer taken, however good its signature."""

    key_ids: Annotated[list[str], about("`kid`: every token that the key signed")] = []
    subjects: Annotated[list[str], about("`sub`: every token of theirs")] = []
    token_ids: Annotated[list[str], about("`jti`: that one token")] = []


class RevocationChange(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Revoke some, take others again."""

    revoke: Revoked = Revoked()
    restore: Revoked = Revoked()
