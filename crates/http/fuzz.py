"""What the fuzzer has to know besides the document."""

import re
import uuid

import schemathesis

LONGEST_WAIT_MS = 1000
PLAIN = re.compile(r"[!#-+\--:<-\[\]-~]{1,64}")


@schemathesis.hook
def map_headers(ctx, headers):
    """Gives most requests a key of their own.

    A fuzzer's texts are short and come again and again, and a key that comes again with another request is refused before the
    request is looked at. What cannot be a key stays as it is, and so does every fourth: that it is refused is to be seen too.
    """
    key = headers.get("Idempotency-Key") if headers else None
    fresh = uuid.uuid4()
    if isinstance(key, str) and PLAIN.fullmatch(key) and fresh.int % 4:
        headers["Idempotency-Key"] = str(fresh)
    return headers


@schemathesis.hook
def map_query(ctx, query):
    """Bounds how long a request waits: less than the fuzzer does."""
    return bounded(query)


@schemathesis.hook
def map_body(ctx, body):
    """Bounds how long a request waits: less than the fuzzer does."""
    return bounded(body)


def bounded(parameters):
    wait = parameters.get("wait_ms") if isinstance(parameters, dict) else None
    try:
        is_long = wait is not None and not isinstance(wait, bool) and int(wait) > LONGEST_WAIT_MS
    except (TypeError, ValueError):
        is_long = False
    return {**parameters, "wait_ms": LONGEST_WAIT_MS} if is_long else parameters
